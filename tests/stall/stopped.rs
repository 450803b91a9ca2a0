//! A process that is stopped as a whole, beside load: no stall, however long its threads waited for a CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::support::stall::{Played, burn, count, is_child, start, watch};

const TEST: &str = "stopped::a_process_that_is_stopped_within_turns_beside_load_has_no_stall";
const STOPS: usize = 12;

/// CLOCK_MONOTONIC, milliseconds: the same for both processes.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Turns of 60 ms that wait or compute. Each says when it began and ended.
fn turns() {
    let (heart, watchdog) = watch();
    println!("ready");
    for round in 0..3 * STOPS {
        let time = Duration::from_millis(60);
        let began = now();
        heart.turn(|| {
            println!("begun");
            match round % 2 {
                0 => sleep(time),
                _ => burn(time),
            }
        });
        println!("turn {began} {}", now());
        sleep(Duration::from_millis(120));
    }
    drop(watchdog);
}

/// Stops the child within each third turn, for 400 ms; returns from when to when, and what the child said.
fn stop_within_turns(mut child: Played) -> (Vec<(u64, u64)>, Vec<String>) {
    let (mut stops, mut lines) = (Vec::new(), Vec::new());
    for turn in 1..=3 * STOPS {
        while lines.last().is_none_or(|line| line != "begun") {
            lines.push(child.line());
        }
        lines.pop();
        if turn % 3 == 0 {
            sleep(Duration::from_millis(10 + turn as u64));
            let from = now();
            child.signal(libc::SIGSTOP);
            sleep(Duration::from_millis(400));
            stops.push((from, now()));
            child.signal(libc::SIGCONT);
        }
    }
    lines.extend(child.rest());
    (stops, lines)
}

/// The time that a turn took besides the stops, if the line is about one.
fn time_of_turn(line: &str, stops: &[(u64, u64)]) -> Option<u64> {
    let (began, ended) = line.strip_prefix("turn ")?.split_once(' ')?;
    let (began, ended): (u64, u64) = (began.parse().ok()?, ended.parse().ok()?);
    let within = |&(from, to): &(u64, u64)| to.min(ended).saturating_sub(from.max(began));
    Some((ended - began).saturating_sub(stops.iter().map(within).sum()))
}

#[test]
fn a_process_that_is_stopped_within_turns_beside_load_has_no_stall() {
    if is_child() {
        return turns();
    }
    let over = AtomicBool::new(false);
    let (stops, lines) = std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let child = std::panic::AssertUnwindSafe(start(TEST));
        let outcome = std::panic::catch_unwind(|| stop_within_turns({ child }.0));
        over.store(true, Ordering::Relaxed);
        outcome.expect("the child ends well")
    });
    let times = lines.iter().filter_map(|line| time_of_turn(line, &stops));
    let times: Vec<u64> = times.collect();
    assert_eq!(times.len(), 3 * STOPS);
    // Beside load the thread may really freeze.
    let slow = times.iter().filter(|&&time| time > 200).count();
    assert!(
        count(&lines, "stalled") <= slow,
        "{slow} of {times:?}, {stops:?}: {lines:#?}"
    );
    assert!(count(&lines, "dropped background") > 0, "{lines:#?}");
}
