//! eframe: a turn is an update of the app. A freeze outside of it is not seen.
//!
//! On Apple platforms its loop is the main run loop, which wedjat observes by itself: no call is needed there.

mod scenario;

use std::time::{Duration, Instant};

use scenario::Scenario;
use wedjat::Heartbeat;

struct App {
    heartbeat: Heartbeat,
    scenario: Scenario,
    /// The time of the next event.
    due: Instant,
}

impl eframe::App for App {
    fn update(&mut self, context: &eframe::egui::Context, _: &mut eframe::Frame) {
        self.heartbeat.begin();
        self.scenario.draw();
        if Instant::now() >= self.due {
            match self.scenario.step(dialog) {
                Some(rest) => self.due = Instant::now() + rest,
                None => context.send_viewport_cmd(eframe::egui::ViewportCommand::Close),
            }
        }
        context.request_repaint_after(self.due.saturating_duration_since(Instant::now()));
        self.heartbeat.end();
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.scenario.end();
    }
}

/// A dialog of another library keeps the thread until it is closed.
fn dialog(time: Duration) {
    let _pause = wedjat::threads::may_block();
    std::thread::sleep(time);
}

fn main() -> eframe::Result {
    // On the thread of the event loop.
    let scenario = Scenario::install();
    let app = App {
        heartbeat: scenario.monitor().heartbeat(),
        scenario,
        due: Instant::now(),
    };
    let options = eframe::NativeOptions::default();
    eframe::run_native("wedjat", options, Box::new(|_| Ok(Box::new(app))))
}
