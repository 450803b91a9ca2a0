//! What watching 1, 8 and 64 threads takes of a core, and what a beat of a pool's thread costs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use wedjat::{Monitor, Stall, threads};

/// Time for which each count of threads is watched.
const WATCHED: Duration = Duration::from_secs(8);

/// The watchdog's share of a core, in percent, while so many threads have 20 turns a second each.
pub fn share(folder: &Path, count: u32) -> f64 {
    let builder = Monitor::builder("Bench", "1").directory(folder);
    let monitor = builder.install().expect("the monitor");
    let is_over = AtomicBool::new(false);
    let mut share = 0.0;
    scope(|scope| {
        for index in 0..count {
            let is_over = &is_over;
            scope.spawn(move || {
                threads::enter("bench", Stall::default());
                sleep(Duration::from_micros(
                    50_000 * u64::from(index) / u64::from(count),
                ));
                while !is_over.load(Relaxed) {
                    threads::begin();
                    std::hint::black_box(index);
                    threads::end();
                    sleep(Duration::from_millis(50));
                }
            });
        }
        sleep(Duration::from_secs(1));
        let (before, start) = (monitor.stats().watchdog, Instant::now());
        sleep(WATCHED);
        let used = monitor.stats().watchdog - before;
        share = used.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0;
        is_over.store(true, Relaxed);
    });
    share
}

/// Time that `begin` and `end` of a pool's thread take together, nanoseconds: the best of some runs.
pub fn pair(folder: &Path) -> f64 {
    const TURNS: u32 = 1_000_000;
    let builder = Monitor::builder("Bench", "1").directory(folder);
    let monitor = builder.install().expect("the monitor");
    let turns = || {
        threads::enter("bench", Stall::default());
        let run = || {
            let start = Instant::now();
            for _ in 0..TURNS {
                threads::begin();
                threads::end();
            }
            start.elapsed().as_secs_f64() / f64::from(TURNS) * 1e9
        };
        (0..20).map(|_| run()).fold(f64::INFINITY, f64::min)
    };
    let pair = scope(|scope| scope.spawn(turns).join().expect("it only beats"));
    drop(monitor);
    pair
}
