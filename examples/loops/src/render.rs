//! A render thread beside the main one: a turn is a frame. `--freeze` shows it.

mod shared;

use std::thread;
use std::time::Duration;

use wedjat::{Stall, watch_thread};

fn main() {
    let _monitor = shared::install();
    let render = thread::Builder::new().name("render".into());
    let render = render.spawn(render_frames).expect("a thread");
    render.join().expect("the render thread");
}

fn render_frames() {
    // It ends with the thread.
    let watch = watch_thread("render", Stall::default()).expect("a monitor is installed");
    for frame in 0..120 {
        watch.heartbeat().turn(|| draw(frame));
        // Until the next frame is wanted it rests.
        thread::sleep(Duration::from_millis(16));
    }
}

fn draw(frame: u32) {
    if frame == 60 && shared::is_to_freeze() {
        shared::reload_catalogue();
    }
}
