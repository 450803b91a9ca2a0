//! What an app uses of its monitor while it runs: frames, launch, stacks, counters, callbacks, loads,
//! rate limit; and what it learns of the launch before.
#![cfg(target_os = "linux")]

mod callbacks;
mod images;
mod installed;
mod launches;
mod stacks;
#[path = "../support/mod.rs"]
mod support;
mod vitals;
#[cfg(feature = "tracing")]
mod with_tracing;

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use support::stall::{DISTURBED, is_child, start};
use wedjat::report::Report;
use wedjat::{Monitor, MonitorBuilder, Stats};

const MS: Duration = Duration::from_millis(1);

/// The folder of a test, which parent and child know by the test's name.
fn folder(test: &str) -> PathBuf {
    let parent = if is_child() {
        std::os::unix::process::parent_id()
    } else {
        std::process::id()
    };
    std::env::temp_dir().join(format!("wedjat-api-{parent}-{test}"))
}

fn builder(folder: &Path) -> MonitorBuilder {
    Monitor::builder("Api", "1.2").directory(folder)
}

/// Stalls once, and waits until the counters tell of it.
fn stalls(monitor: &Monitor, is_told: impl Fn(&Stats) -> bool) {
    let heart = monitor.heartbeat();
    heart.turn(|| ());
    heart.turn(|| sleep(600 * MS));
    let begin = Instant::now();
    while !is_told(&monitor.stats()) && begin.elapsed() < Duration::from_secs(10) {
        sleep(10 * MS);
    }
}

/// Plays the child of this test to its end and gives the reports that it left. Where it fails and says
/// that it had no CPU for long, it is played again, a few times.
fn reports(test: &str) -> Vec<Report> {
    let folder = folder(test);
    let starved = |lines: &[String]| {
        let mut told = lines
            .iter()
            .filter_map(|line| line.strip_prefix("starved "));
        told.next().map_or(0, |told| told.parse().unwrap())
    };
    for attempt in 1.. {
        let (good, lines) = start(test).outcome();
        if good {
            break;
        }
        let again = attempt < 8 && starved(&lines) >= DISTURBED;
        assert!(again, "{lines:#?}");
        support::deadline::run_again(test);
        std::fs::remove_dir_all(&folder).unwrap();
    }
    let stored = wedjat::store::reports(&folder).unwrap();
    let reports = stored.iter().map(|stored| stored.read().unwrap().report);
    let reports = reports.collect();
    std::fs::remove_dir_all(&folder).unwrap();
    reports
}
