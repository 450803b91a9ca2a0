//! GTK 4: its loop has no call before and after each turn, so it is watched by ping.
//!
//! A ping is posted to GLib's main context; the loop is alive while they come back, from a nested loop too.

mod scenario;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use gtk4::glib;
use gtk4::prelude::*;
use scenario::Scenario;

fn main() {
    // On the thread of GTK's main loop.
    let scenario = Rc::new(RefCell::new(Scenario::install()));
    let app = gtk4::Application::builder()
        .application_id("org.example.wedjat")
        .flags(gtk4::gio::ApplicationFlags::NON_UNIQUE)
        .build();
    let of_app = scenario.clone();
    app.connect_activate(move |app| show(app, &of_app));
    let monitor = scenario.borrow();
    monitor
        .monitor()
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
    drop(monitor);
    // GTK reads its own arguments; ours is not for it.
    app.run_with_args::<&str>(&[]);
    scenario.borrow().end();
}

fn show(app: &gtk4::Application, scenario: &Rc<RefCell<Scenario>>) {
    let area = gtk4::DrawingArea::new();
    let of_area = scenario.clone();
    // A frame within a step of the app is one of its dialog.
    area.set_draw_func(move |_, _, _, _| {
        if let Ok(mut scenario) = of_area.try_borrow_mut() {
            scenario.draw();
        }
    });
    let window = gtk4::ApplicationWindow::builder()
        .application(app)
        .child(&area);
    let window = window.title("wedjat").build();
    window.present();
    step(app.clone(), area, scenario.clone(), Duration::ZERO);
}

/// Takes the next step after this time.
fn step(
    app: gtk4::Application,
    area: gtk4::DrawingArea,
    scenario: Rc<RefCell<Scenario>>,
    rest: Duration,
) {
    glib::timeout_add_local_once(rest, move || {
        let rest = scenario.borrow_mut().step(dialog);
        area.queue_draw();
        match rest {
            Some(rest) => step(app, area, scenario, rest),
            None => app.quit(),
        }
    });
}

/// A nested loop, which waits for its user.
fn dialog(time: Duration) {
    let nested = glib::MainLoop::new(None, false);
    let ends = nested.clone();
    glib::timeout_add_local_once(time, move || ends.quit());
    nested.run();
}
