//! winit: a turn of the loop is from `new_events` to `about_to_wait`.
//!
//! On Apple platforms this loop is the main run loop, which wedjat observes by itself: no call is needed there.

mod scenario;

use std::time::{Duration, Instant};

use scenario::Scenario;
use wedjat::Heartbeat;
use winit::application::ApplicationHandler;
use winit::event::{StartCause, WindowEvent};
use winit::event_loop::{ActiveEventLoop, ControlFlow, EventLoop};
use winit::window::{Window, WindowId};

struct App {
    heartbeat: Heartbeat,
    scenario: Scenario,
    window: Option<Window>,
    /// The time of the next event.
    due: Instant,
}

impl ApplicationHandler for App {
    // The loop wakes up: there is something to do.
    fn new_events(&mut self, _: &ActiveEventLoop, _: StartCause) {
        self.heartbeat.begin();
    }

    // All events are handled; the loop is about to wait for the next.
    fn about_to_wait(&mut self, active: &ActiveEventLoop) {
        if Instant::now() >= self.due {
            match self.scenario.step(dialog) {
                Some(rest) => self.due = Instant::now() + rest,
                None => active.exit(),
            }
            self.window.iter().for_each(Window::request_redraw);
        }
        active.set_control_flow(ControlFlow::WaitUntil(self.due));
        self.heartbeat.end();
    }

    fn resumed(&mut self, active: &ActiveEventLoop) {
        let window = active.create_window(Window::default_attributes().with_title("wedjat"));
        self.window = Some(window.expect("a window"));
    }

    fn window_event(&mut self, active: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        match event {
            WindowEvent::CloseRequested => active.exit(),
            WindowEvent::RedrawRequested => {
                self.scenario.draw();
                self.scenario.monitor().frame();
            }
            _ => {}
        }
    }
}

/// winit has no dialogs; one of another library keeps the thread until it is closed.
fn dialog(time: Duration) {
    let _pause = wedjat::threads::may_block();
    std::thread::sleep(time);
}

fn main() {
    // On the thread of the event loop.
    let scenario = Scenario::install();
    let mut app = App {
        heartbeat: scenario.monitor().heartbeat(),
        scenario,
        window: None,
        due: Instant::now(),
    };
    let events = EventLoop::new().expect("an event loop");
    events.run_app(&mut app).expect("the loop runs");
    app.scenario.end();
}
