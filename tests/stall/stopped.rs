//! A process that is stopped as a whole, beside load: the time of the stop is no stall, and part of none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::support::stall::{Played, burn, count, is_child, start, watch};
use wedjat::stall::StallEvent;
use wedjat::{Monitor, RateLimit, Stall};

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

/// Stops the child within each third of `turns` turns, for 400 ms; returns from when to when it was stopped for certain, and
/// what the child said.
fn stop_within_turns(mut child: Played, turns: usize) -> (Vec<(u64, u64)>, Vec<String>) {
    let (mut stops, mut lines) = (Vec::new(), Vec::new());
    for turn in 1..=turns {
        while lines.last().is_none_or(|line| line != "begun") {
            lines.push(child.line());
        }
        lines.pop();
        if turn % 3 == 0 {
            sleep(Duration::from_millis(10 + turn as u64));
            child.signal(libc::SIGSTOP);
            let from = now();
            sleep(Duration::from_millis(400));
            stops.push((from, now()));
            child.signal(libc::SIGCONT);
        }
    }
    lines.extend(child.rest());
    (stops, lines)
}

/// Plays the child of `test` beside load.
fn beside_load(test: &str, turns: usize) -> (Vec<(u64, u64)>, Vec<String>) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let child = std::panic::AssertUnwindSafe(start(test));
        let outcome = std::panic::catch_unwind(|| stop_within_turns({ child }.0, turns));
        over.store(true, Ordering::Relaxed);
        outcome.expect("the child ends well")
    })
}

/// One turn by the child's clock: when it began, when it ended, and how much of that was no stop.
struct Turn {
    began: u64,
    ended: u64,
    took: u64,
}

impl Turn {
    /// Reads the turn that the line is about, if it is about one.
    fn of(line: &str, stops: &[(u64, u64)]) -> Option<Turn> {
        let (began, ended) = line.strip_prefix("turn ")?.split_once(' ')?;
        let (began, ended): (u64, u64) = (began.parse().ok()?, ended.parse().ok()?);
        let within = |&(from, to): &(u64, u64)| to.min(ended).saturating_sub(from.max(began));
        let took = (ended - began).saturating_sub(stops.iter().map(within).sum());
        Some(Turn { began, ended, took })
    }
}

#[test]
fn a_process_that_is_stopped_within_turns_beside_load_has_no_stall() {
    if is_child() {
        return turns();
    }
    let test = "stopped::a_process_that_is_stopped_within_turns_beside_load_has_no_stall";
    let (stops, lines) = beside_load(test, 3 * STOPS);
    let times = lines.iter().filter_map(|line| Turn::of(line, &stops));
    let times: Vec<u64> = times.map(|turn| turn.took).collect();
    assert_eq!(times.len(), 3 * STOPS);
    // Beside load the thread may really freeze.
    let slow = times.iter().filter(|&&time| time > 200).count();
    assert!(
        count(&lines, "stalled") <= slow,
        "{slow} of {times:?}, {stops:?}: {lines:#?}"
    );
    assert!(count(&lines, "dropped background") > 0, "{lines:#?}");
}

const COMPUTED: usize = 30;

/// Turns that compute: of six, two for 500 ms and four for 30; of each kind one is stopped meanwhile. Says when each turn began and
/// ended, what the stalls were, and how many samples of each report were of a thread that slept in the kernel.
fn computes() {
    let folder = tempfile::tempdir().unwrap();
    let monitor = Monitor::builder("Stopped", "1")
        .directory(folder.path())
        .stall(Stall::default())
        .rate_limit(RateLimit::default().same_stalls(1000))
        .on_stall(|event| {
            if let StallEvent::Ended(end) = event {
                let info = &end.info;
                let (start, lasted) = (info.start.as_millis(), info.lasted.as_millis());
                println!("stall {start} {lasted} {}", info.class.as_str());
            }
        })
        .install()
        .unwrap();
    let heart = monitor.heartbeat();
    heart.turn(|| ());
    println!("ready");
    for round in 0..COMPUTED {
        let began = now();
        heart.turn(|| {
            println!("begun");
            let is_long = matches!(round % 6, 2 | 4);
            burn(Duration::from_millis(if is_long { 500 } else { 30 }));
        });
        println!("turn {began} {}", now());
        sleep(Duration::from_millis(150));
    }
    sleep(Duration::from_millis(300));
    drop(monitor);
    for stored in wedjat::store::reports(folder.path()).unwrap() {
        let report = stored.read().unwrap().report;
        let sleeps = |state: &&&str| matches!(**state, "blocked" | "uninterruptible");
        let states = report.samples.iter().map(|sample| sample.state_word());
        let states: Vec<&str> = states.flatten().collect();
        let slept = states.iter().filter(sleeps).count();
        let ran = states.len() - slept;
        println!("report {} {slept} {ran}", report.class_word().unwrap());
    }
}

/// A stall is at most as long as its turn was without the stops, and a thread that computes is not said to be blocked.
#[test]
fn a_stop_is_no_part_of_a_stall_of_a_thread_that_computes() {
    if is_child() {
        return computes();
    }
    let test = "stopped::a_stop_is_no_part_of_a_stall_of_a_thread_that_computes";
    let (stops, lines) = beside_load(test, COMPUTED);
    let turns = lines.iter().filter_map(|line| Turn::of(line, &stops));
    let turns: Vec<Turn> = turns.collect();
    assert_eq!(turns.len(), COMPUTED);
    let mut stalls = 0;
    for line in &lines {
        let Some(stall) = line.strip_prefix("stall ") else {
            continue;
        };
        stalls += 1;
        let words: Vec<&str> = stall.split(' ').collect();
        let [start, lasted] = [0, 1].map(|word: usize| words[word].parse::<u64>().unwrap());
        // The clocks are read one after the other.
        let is_of = |turn: &&Turn| (turn.began..=turn.ended).contains(&(start + 1));
        let turn = turns.iter().find(is_of).expect(line);
        assert!(
            lasted <= turn.took + 12,
            "{lasted} for {}: {line}: {lines:#?}",
            turn.took
        );
        assert_ne!(words[2], "blocked", "{lines:#?}");
    }
    assert!(stalls >= COMPUTED / 6, "{lines:#?}");
    for line in &lines {
        if let Some(report) = line.strip_prefix("report ") {
            let words: Vec<&str> = report.split(' ').collect();
            let [slept, ran] = [1, 2].map(|word: usize| words[word].parse::<u64>().unwrap());
            assert!(ran > slept && words[0] != "blocked", "{line}: {lines:#?}");
        }
    }
    assert!(count(&lines, "report ") >= COMPUTED / 6, "{lines:#?}");
}
