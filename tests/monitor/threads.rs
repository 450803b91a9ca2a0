//! Watched threads of an app whose monitor was installed on another thread than the first, or whose pool is large.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wedjat::{Monitor, Stall, threads, watch_thread};

use crate::child::deadline::symbolicate;
use crate::child::{calls, play, stack};
use crate::outer;

pub const TESTS: [(&str, fn()); 2] = [
    (
        "the_first_thread_may_be_watched_by_its_name_and_is_said_to_be_the_main_one",
        main_thread,
    ),
    (
        "a_pool_all_of_whose_threads_stall_is_counted_whole",
        whole_pool,
    ),
];

pub fn is_played(role: &str, folder: &Path) -> bool {
    match role {
        "threads_main" => {
            let install = || {
                let builder = Monitor::builder("threads test", "1").directory(folder);
                builder.install().unwrap()
            };
            let monitor = std::thread::scope(|scope| scope.spawn(install).join().unwrap());
            let watch = watch_thread("ui", Stall::default()).unwrap();
            watch.heartbeat().turn(|| ());
            watch
                .heartbeat()
                .turn(|| outer(Duration::from_millis(1_000)));
            drop((watch, monitor));
        }
        "threads_pool" => all_stall(folder),
        _ => return false,
    }
    true
}

fn main_thread() {
    let ended = play("threads_main");
    ended.succeeded();
    let report = ended.report();
    let watched = report.event.as_ref().unwrap().watched.as_ref().unwrap();
    assert_eq!(watched.name, "ui");
    let first = &report.threads[0];
    assert_eq!((first.id, first.main), (report.head.pid, true));
    assert!(calls(&stack(&report, 0), &["outer"]), "{first:#?}");
    // No other one is said to be.
    assert_eq!(
        report.threads.iter().filter(|thread| thread.main).count(),
        1
    );
    let shown = symbolicate([OsStr::new("--no-cache"), ended.folder.0.as_os_str()]);
    assert!(
        shown.out.contains(" ui, the main thread\n"),
        "{}",
        shown.out
    );
}

const POOL: u64 = 16;

/// All hang until each is counted as a stall.
fn all_stall(folder: &Path) {
    let builder = Monitor::builder("threads test", "1").directory(folder);
    let monitor = builder.install().unwrap();
    let (start, is_over) = (Barrier::new(POOL as usize), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..POOL {
            scope.spawn(|| {
                threads::enter("pool", Stall::default());
                threads::begin();
                threads::end();
                start.wait();
                threads::begin();
                while !is_over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                threads::end();
            });
        }
        while monitor.stats().stalls < POOL {
            std::thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    while monitor.stats().stalled {
        std::thread::sleep(Duration::from_millis(10));
    }
    let stats = monitor.stats();
    // The stacks of two are kept at once.
    assert_eq!(stats.losses.get("quota"), Some(&(POOL - 2)), "{stats:?}");
}

fn whole_pool() {
    let ended = play("threads_pool");
    ended.succeeded();
    let readings = ended.readings();
    assert_eq!(readings.len(), 2);
    let counts = readings.iter().map(|reading| {
        let event = reading.report.event.as_ref().unwrap();
        let watched = event.watched.as_ref().unwrap();
        [watched.pool, watched.at_rest, watched.stalled].map(Option::unwrap)
    });
    let counts: Vec<[u64; 3]> = counts.collect();
    for [pool, at_rest, stalled] in counts.iter().copied() {
        assert_eq!((pool, at_rest), (POOL, 0), "{counts:?}");
        // On a busy machine some are found a moment later.
        assert!((1..=POOL).contains(&stalled), "{counts:?}");
    }
    let most = counts.iter().map(|[.., stalled]| *stalled).max();
    assert!(most > Some(1), "{counts:?}");
}
