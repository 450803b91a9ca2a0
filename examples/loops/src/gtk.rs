//! GTK: its loop has no call before and after each turn, so it is watched by ping.
//!
//! A ping is posted to GLib's main context twenty times a second by default; the loop is alive while they come back.

mod shared;

use std::time::Duration;

use gtk4::glib;
use gtk4::prelude::*;

fn main() {
    // On the thread of GTK's main loop.
    let monitor = shared::install();
    let app = gtk4::Application::builder()
        .application_id("org.example.wedjat")
        .flags(gtk4::gio::ApplicationFlags::NON_UNIQUE)
        .build();
    app.connect_activate(|app| {
        let window = gtk4::ApplicationWindow::builder()
            .application(app)
            .title("wedjat");
        window.build().present();
        if shared::is_to_freeze() {
            glib::timeout_add_local_once(Duration::from_secs(1), shared::reload_catalogue);
        }
        let app = app.clone();
        glib::timeout_add_local_once(Duration::from_secs(2), move || app.quit());
    });
    monitor
        .watch_by_ping(|beat| {
            // A source, not `MainContext::invoke`, which may call the beat on this thread. At the priority of
            // input: an idle source may have to wait for a long animation, which is no stall.
            let call = move || {
                beat();
                glib::ControlFlow::Break
            };
            glib::idle_source_new(None, glib::Priority::DEFAULT, call)
                .attach(Some(&glib::MainContext::default()));
        })
        .expect("pings");
    // GTK reads its own arguments; ours is not for it.
    app.run_with_args::<&str>(&[]);
}
