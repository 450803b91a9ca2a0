//! The program of `docs/troubleshooting.md`: a run loop of three turns, and what its argument says in the second.
//!
//! `myapp WHAT [FOLDER]`: at its end it prints its counts.

use std::hint::black_box;
use std::time::{Duration, Instant};

use wedjat::{Crash, Monitor, Stall};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let folder = arguments.next().unwrap_or_else(|| "reports".to_owned());
    let monitor = Monitor::builder("myapp", "1.0")
        .directory(&folder)
        .stall(Stall::default())
        .crash(Crash::default())
        .install()
        .inspect_err(|error| println!("no reports: {error}"))
        .ok();
    let Some(monitor) = monitor else { return };
    let heart = monitor.heartbeat();
    for turn in 0..3 {
        {
            let _busy = heart.busy();
            if turn == 1 {
                second_turn(&what, &monitor);
            }
        }
        if turn == 1 && what == "outside" {
            busy_for(700);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{:?}", monitor.stats());
}

fn second_turn(what: &str, monitor: &Monitor) {
    match what {
        "short" => busy_for(200),
        "stall" => parse_everything(),
        "folded" => outer(black_box(1)),
        "crash" => read_null(),
        "record" => println!("{:?}", monitor.record("test")),
        "previous" => println!("{:?}", monitor.previous_launch().map(|launch| launch.how)),
        _ => {}
    }
}

#[inline(never)]
fn busy_for(milliseconds: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(milliseconds) {
        black_box(0);
    }
}

#[inline(never)]
fn parse_everything() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        black_box(0);
    }
}

/// Calls `load_prices` as its last act: the compiler makes it a jump.
#[inline(never)]
fn outer(depth: u64) {
    load_prices(depth + 1);
}

#[inline(never)]
fn load_prices(depth: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(700) {
        black_box(depth);
    }
}

#[inline(never)]
fn read_null() {
    // SAFETY: none; this is the crash that is looked for.
    unsafe { black_box(std::ptr::null::<u8>()).read_volatile() };
}
