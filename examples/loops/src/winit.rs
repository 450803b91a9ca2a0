//! winit: a turn of the loop is from `new_events` to `about_to_wait`.
//!
//! On Apple platforms this loop is the main run loop, which wedjat observes by itself: no call is needed there.

mod shared;

use std::time::{Duration, Instant};

use wedjat::{Heartbeat, Monitor};
use winit::application::ApplicationHandler;
use winit::event::{StartCause, WindowEvent};
use winit::event_loop::{ActiveEventLoop, ControlFlow, EventLoop};
use winit::window::{Window, WindowId};

struct App {
    heartbeat: Heartbeat,
    monitor: Monitor,
    window: Option<Window>,
    started: Instant,
    frozen: bool,
}

impl ApplicationHandler for App {
    // The loop wakes up: there is something to do.
    fn new_events(&mut self, _: &ActiveEventLoop, _: StartCause) {
        self.heartbeat.begin();
    }

    // All events are handled; the loop is about to wait for the next.
    fn about_to_wait(&mut self, active: &ActiveEventLoop) {
        if shared::is_to_freeze() && !self.frozen && self.started.elapsed() > Duration::from_secs(1)
        {
            self.frozen = true;
            shared::reload_catalogue();
        }
        if self.started.elapsed() > Duration::from_secs(2) {
            active.exit();
        }
        active.set_control_flow(ControlFlow::wait_duration(Duration::from_millis(50)));
        self.heartbeat.end();
    }

    fn resumed(&mut self, active: &ActiveEventLoop) {
        let window = active.create_window(Window::default_attributes().with_title("wedjat"));
        self.window = Some(window.expect("a window"));
        self.monitor.launched();
    }

    fn window_event(&mut self, active: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        match event {
            WindowEvent::CloseRequested => active.exit(),
            WindowEvent::RedrawRequested => self.monitor.frame(),
            _ => {}
        }
    }
}

fn main() {
    // On the thread of the event loop.
    let monitor = shared::install();
    let mut app = App {
        heartbeat: monitor.heartbeat(),
        monitor,
        window: None,
        started: Instant::now(),
        frozen: false,
    };
    let events = EventLoop::new().expect("an event loop");
    events.run_app(&mut app).expect("the loop runs");
}
