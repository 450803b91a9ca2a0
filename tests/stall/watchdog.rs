//! The real watchdog over a real thread: what it calls, and that it sleeps.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::stall::{DISTURBED, burn, delay, own_tid, undisturbed};
use wedjat::Stall;
use wedjat::trigger::heartbeat::{Heartbeat, HeartbeatState};
use wedjat::trigger::stall::{Reason, StallClass, StallEndInfo, StallInfo, StallOutcome};
use wedjat::trigger::watchdog::{Watchdog, Watcher};

#[derive(Debug, PartialEq)]
enum Call {
    FirstMiss,
    Sample,
    Forget,
    Stalled(StallInfo),
    Ended(StallEndInfo),
    Dropped(Reason),
}

struct Teller(Sender<Call>);

impl Watcher for Teller {
    fn first_miss(&mut self, _at: u64) {
        self.0.send(Call::FirstMiss).unwrap();
    }
    fn sample(&mut self, _at: u64) {
        self.0.send(Call::Sample).unwrap();
    }
    fn forget(&mut self) {
        self.0.send(Call::Forget).unwrap();
    }
    fn stalled(&mut self, info: &StallInfo) {
        self.0.send(Call::Stalled(*info)).unwrap();
    }
    fn ended(&mut self, end: &StallEndInfo) {
        self.0.send(Call::Ended(*end)).unwrap();
    }
    fn dropped(&mut self, reason: Reason) {
        self.0.send(Call::Dropped(reason)).unwrap();
    }
}

fn watch(stall: Stall) -> (Heartbeat, Watchdog, Receiver<Call>) {
    let heartbeat: &'static HeartbeatState = Box::leak(Box::new(HeartbeatState::new()));
    let heart = heartbeat.install();
    let (sender, calls) = channel();
    (
        heart,
        Watchdog::spawn(stall, heartbeat, Teller(sender)).unwrap(),
        calls,
    )
}

/// What was called by the time that the watchdog is gone.
fn calls(watchdog: Watchdog, calls: &Receiver<Call>) -> Vec<Call> {
    drop(watchdog);
    calls.iter().collect()
}

fn stalls(calls: &[Call]) -> Vec<StallInfo> {
    calls
        .iter()
        .filter_map(|call| {
            if let Call::Stalled(info) = call {
                Some(*info)
            } else {
                None
            }
        })
        .collect()
}

/// How long this thread has had no CPU since `before`, and the watchdog at all.
fn starved(before: u64, watchdog: &Watchdog) -> u64 {
    delay(own_tid()) - before + delay(watchdog.thread_id())
}

#[test]
fn a_sleeping_turn_is_a_blocked_stall_and_ends() {
    let play = || {
        let before = delay(own_tid());
        let (heart, watchdog, receiver) = watch(Stall::default());
        heart.turn(|| ());
        let start = Instant::now();
        heart.turn(|| thread::sleep(Duration::from_millis(600)));
        let real = start.elapsed();
        thread::sleep(Duration::from_millis(50));
        let starved = starved(before, &watchdog);
        ((real, calls(watchdog, &receiver)), starved)
    };
    undisturbed(DISTURBED / 5, play, |(real, calls)| {
        assert_eq!(stalls(&calls).len(), 1, "{calls:?}");
        assert_eq!(calls[0], Call::FirstMiss);
        assert!(
            calls.iter().filter(|call| **call == Call::Sample).count() >= 3,
            "{calls:?}"
        );
        let Some(Call::Ended(end)) = calls.last() else {
            panic!("{calls:?}")
        };
        assert_eq!(
            (end.info.class, end.outcome),
            (StallClass::Blocked, StallOutcome::Recovered)
        );
        let lasted = end.info.lasted;
        assert!(
            lasted.abs_diff(real) < Duration::from_millis(60),
            "{lasted:?}, not {real:?}"
        );
    });
}

#[test]
fn a_freeze_right_after_a_long_rest_is_caught_and_the_rest_costs_nothing() {
    let play = || {
        let start = delay(own_tid());
        let (heart, watchdog, receiver) = watch(Stall::default());
        heart.turn(|| ());
        let mut before = 0;
        for _ in 0..10 {
            // Under load it comes to rest later.
            thread::sleep(Duration::from_millis(1_000));
            let now = switches(watchdog.thread_id());
            if now == std::mem::replace(&mut before, now) {
                break;
            }
        }
        thread::sleep(Duration::from_millis(3_000));
        let woken = switches(watchdog.thread_id()) - before;
        heart.turn(|| burn(Duration::from_millis(300)));
        thread::sleep(Duration::from_millis(50));
        let starved = starved(start, &watchdog);
        ((woken, calls(watchdog, &receiver)), starved)
    };
    undisturbed(DISTURBED / 5, play, |(woken, calls)| {
        assert_eq!(woken, 0, "it woke although nothing happened");
        assert_eq!(stalls(&calls).len(), 1, "{calls:?}");
    });
}

/// How often the thread gave up or lost the CPU.
fn switches(tid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
    status
        .lines()
        .filter(|line| line.contains("ctxt_switches"))
        .map(|line| {
            line.split_whitespace()
                .last()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        })
        .sum()
}

#[test]
fn the_watchdog_goes_while_a_stall_lasts() {
    let (heart, watchdog, receiver) = watch(Stall::default());
    heart.turn(|| ());
    heart.begin();
    while !matches!(receiver.recv().unwrap(), Call::Stalled(_)) {}
    let calls = calls(watchdog, &receiver);
    let Some(Call::Ended(end)) = calls.last() else {
        panic!("{calls:?}")
    };
    assert_eq!(end.outcome, StallOutcome::Uninstalled);
}

#[test]
fn an_app_that_never_beats_is_one_launch_stall_where_all_waiting_counts() {
    let stall = Stall::default().timeout(Duration::from_millis(10));
    let (_heart, watchdog, receiver) = watch(stall.launch_waits(true));
    let first = loop {
        if let Call::Stalled(info) = receiver.recv().unwrap() {
            break info;
        }
    };
    thread::sleep(Duration::from_millis(400));
    let calls = calls(watchdog, &receiver);
    assert!(stalls(&calls).is_empty(), "another one: {calls:?}");
    assert!(first.never_beat && first.class == StallClass::Launch);
}

/// A watcher that is kept at the first miss, as by a thread that does not answer or for want of a CPU.
struct Kept(Teller);

impl Watcher for Kept {
    fn first_miss(&mut self, at: u64) {
        self.0.first_miss(at);
        thread::sleep(Duration::from_millis(240));
    }
    fn sample(&mut self, at: u64) {
        self.0.sample(at);
    }
    fn forget(&mut self) {
        self.0.forget();
    }
    fn stalled(&mut self, info: &StallInfo) {
        self.0.stalled(info);
    }
    fn ended(&mut self, end: &StallEndInfo) {
        self.0.ended(end);
    }
    fn dropped(&mut self, reason: Reason) {
        self.0.dropped(reason);
    }
}

/// What is called, by a watcher that is kept, for these turns with a rest of 100 ms after each; and how long the turns took.
fn kept_watcher(turns: &[u64]) -> ((Vec<u64>, Vec<Call>), u64) {
    let before = delay(own_tid());
    let heartbeat: &'static HeartbeatState = Box::leak(Box::new(HeartbeatState::new()));
    let heart = heartbeat.install();
    let (sender, receiver) = channel();
    let watchdog = Watchdog::spawn(Stall::default(), heartbeat, Kept(Teller(sender))).unwrap();
    heart.turn(|| ());
    let turn = |&time: &u64| {
        let start = Instant::now();
        heart.turn(|| thread::sleep(Duration::from_millis(time)));
        let took = start.elapsed().as_millis() as u64;
        thread::sleep(Duration::from_millis(100));
        took
    };
    let took = turns.iter().map(turn).collect();
    let starved = starved(before, &watchdog);
    ((took, calls(watchdog, &receiver)), starved)
}

#[test]
fn a_rest_that_comes_while_the_watcher_is_kept_is_no_part_of_a_stall() {
    let play = || kept_watcher(&[150, 120]);
    undisturbed(DISTURBED / 5, play, |(took, calls)| {
        assert_eq!(stalls(&calls).len(), 0, "{took:?}: {calls:?}");
    });
}

#[test]
fn a_freeze_that_lasts_while_the_watcher_is_kept_is_counted_whole() {
    let play = || kept_watcher(&[600]);
    undisturbed(DISTURBED / 5, play, |(took, calls)| {
        assert_eq!(stalls(&calls).len(), 1, "{calls:?}");
        let Some(Call::Ended(end)) = calls.last() else {
            panic!("{calls:?}")
        };
        let lasted = end.info.lasted.as_millis() as u64;
        assert!(lasted.abs_diff(took[0]) < 60, "{lasted}, not {took:?}");
    });
}
