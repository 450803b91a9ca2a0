//! An app that does one thing three calls deep, as its second argument says: freezes, records a live
//! report, or dies in one of three ways. Built in many ways by the script above it.

use std::hint::black_box;
use std::time::{Duration, Instant};
use wedjat::{Crash, Monitor, Stall};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "tikv-jemallocator")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[inline(never)]
fn count_every_price(way: &str, monitor: &Monitor) -> usize {
    match way {
        "stall" => {
            let begin = Instant::now();
            let mut prices = Vec::new();
            // The heap is in use while the stack is taken: the allocator's own frames are left too.
            while begin.elapsed() < Duration::from_millis(700) {
                prices = (0..1000).map(|price| vec![price; 16]).collect();
                black_box(&prices);
            }
            return prices.len();
        }
        "live" => drop(monitor.record("button").expect("a live report")),
        // SAFETY: the fault is meant.
        "segv" => unsafe { black_box(std::ptr::null_mut::<u8>()).write_volatile(1) },
        "abort" => std::process::abort(),
        "panic" => panic!("no prices"),
        other => panic!("unknown way {other}"),
    }
    black_box(way.len())
}

#[inline(never)]
fn reload_catalogue(way: &str, monitor: &Monitor) -> usize {
    black_box(count_every_price(way, monitor)) + 1
}

#[inline(never)]
fn on_tap(way: &str, monitor: &Monitor) -> usize {
    black_box(reload_catalogue(way, monitor)) + 1
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, way] = &arguments[..] else {
        panic!("FOLDER WAY");
    };
    let monitor = Monitor::builder("Builds", "1.0")
        .directory(folder)
        .stall(Stall::default())
        .crash(Crash::default())
        .install()
        .expect("installs");
    let heart = monitor.heartbeat();
    // The launch ends with the first turn; what follows is the app's ordinary life.
    heart.turn(|| ());
    heart.turn(|| black_box(on_tap(way, &monitor)));
    // The next turn closes the stall's report.
    for _ in 0..20 {
        heart.turn(|| ());
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(monitor);
    println!("done");
}
