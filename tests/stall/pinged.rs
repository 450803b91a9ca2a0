//! The detector over a loop that is pinged, on a fake clock: how late the watchdog itself is makes no stall, and neither do many
//! short turns; a freeze is one.

use crate::support::simulated::{MS, Random, nanos};
use wedjat::Stall;
use wedjat::trigger::heartbeat::Beat;
use wedjat::trigger::stall::{Decision, Detector, Next, Observation};

/// Work of the loop: from when to when, and if it computes.
type Handler = (u64, u64, bool);

/// A loop, and the watchdog that pings it: each 50 ms while the loop works, with a look each 250 ms while it rests.
struct Pinging {
    handlers: Vec<Handler>,
    now: u64,
    detector: Detector,
    next: Next,
    beat: Beat,
    /// Time at which the ping under way is answered.
    answered: u64,
    ping_due: u64,
    last: u64,
    /// The last look.
    looked: u64,
    lag: u64,
    /// The watchdog waits for a CPU for less than this at each wake-up.
    starved: u64,
    random: Random,
    lengths: Vec<u64>,
    looks: u64,
}

/// Time that a loop at rest takes to answer.
const ANSWERS: u64 = 20_000;

impl Pinging {
    fn new(handlers: Vec<Handler>, starved: u64, seed: u64) -> Pinging {
        let first = Observation {
            launched: true,
            ..Observation::default()
        };
        let mut detector = Detector::new(&Stall::default(), first);
        Pinging {
            handlers,
            now: 0,
            next: detector.first_wait(),
            detector,
            beat: Beat::NONE.begun().ended(),
            answered: 0,
            ping_due: 0,
            last: 0,
            looked: 0,
            lag: 0,
            starved,
            random: Random(seed),
            lengths: Vec::new(),
            looks: 0,
        }
    }

    /// Count of the loop's time in handlers between two times, if they compute.
    fn cpu(&self, from: u64, to: u64) -> u64 {
        let within = |&(begin, end, computes): &Handler| {
            u64::from(computes) * end.min(to).saturating_sub(begin.max(from))
        };
        self.handlers.iter().map(within).sum()
    }

    fn has_run(&self, from: u64, to: u64) -> bool {
        let runs = |&(begin, end, _): &Handler| begin <= to && end > from;
        self.handlers.iter().any(runs)
    }

    fn run(&mut self, until: u64) {
        while self.now < until {
            let is_under_way = self.beat.depth() != 0;
            let ping = (!is_under_way).then_some(self.ping_due);
            let answer = (is_under_way && self.next.wake_on_beat).then_some(self.answered + 10_000);
            let wake = [self.next.due, ping, answer].into_iter().flatten().min();
            let waits = match self.starved {
                0 => 0,
                most => self.random.between(0, most),
            };
            let due = wake.unwrap().max(self.now + 1_000);
            self.lag += waits;
            self.now = due + waits;
            self.round(due);
        }
    }

    fn round(&mut self, due: u64) {
        self.looks += 1;
        if self.beat.depth() != 0 && self.answered <= self.now {
            self.beat = self.beat.ended();
        }
        if self.beat.depth() == 0 && self.now >= self.ping_due {
            self.ping();
        }
        let observation = Observation {
            now: self.now,
            boot: self.now,
            due,
            beat: self.beat,
            cpu: self.cpu(0, self.now),
            delay: Some(0),
            lag: std::mem::take(&mut self.lag),
            launched: true,
            pinged: Some(self.last),
            ..Observation::default()
        };
        let (decision, next) = self.detector.observe(&observation);
        self.next = next;
        if let Decision::Ended(end) = decision {
            self.lengths.push(nanos(end.info.lasted) / MS);
        }
    }

    fn ping(&mut self) {
        let now = self.now;
        let looked = std::mem::replace(&mut self.looked, now);
        if !self.has_run(looked, now) {
            self.ping_due = now + 250 * MS;
            return;
        }
        self.last = now;
        self.ping_due = now + 50 * MS;
        self.beat = self.beat.begun();
        let at_work = |&&(begin, end, _): &&Handler| (begin..end).contains(&now);
        let handler = self.handlers.iter().find(at_work);
        self.answered = handler.map_or(now, |&(_, end, _)| end) + ANSWERS;
    }
}

/// Handlers of these lengths, each after so long a rest.
fn handlers(lengths: impl IntoIterator<Item = (u64, u64, bool)>) -> Vec<Handler> {
    let mut now = 1_000 * MS;
    let place = |(rest, length, computes): (u64, u64, bool)| {
        let begin = now + rest;
        now = begin + length;
        (begin, now, computes)
    };
    lengths.into_iter().map(place).collect()
}

fn end(handlers: &[Handler]) -> u64 {
    handlers.last().map_or(0, |&(_, end, _)| end) + 3_000 * MS
}

#[test]
fn a_watchdog_that_waits_for_a_cpu_is_no_stall_of_a_loop_that_rests() {
    let mut random = Random(1);
    for seed in 0..300 {
        let turn = |random: &mut Random| {
            (
                random.between(0, 4_000) * MS,
                random.between(1, 3) * MS,
                true,
            )
        };
        let handlers = handlers((0..50).map(|_| turn(&mut random)));
        let until = end(&handlers);
        let starved = random.between(1, 300) * MS;
        let mut pinging = Pinging::new(handlers, starved, seed);
        pinging.run(until);
        assert_eq!(
            pinging.lengths, [0u64; 0],
            "{seed}: late by up to {starved} ns"
        );
    }
}

#[test]
fn many_short_turns_after_a_rest_are_no_stall() {
    for length in [1, 5, 16, 33, 40] {
        for phase in 0..250 {
            let rest = 2_000 + phase;
            let turns = (0..100).map(|turn| {
                (
                    if turn == 0 { rest * MS } else { 30_000 },
                    length * MS,
                    true,
                )
            });
            let handlers = handlers(turns);
            let until = end(&handlers);
            let mut pinging = Pinging::new(handlers, 0, phase);
            pinging.run(until);
            assert_eq!(pinging.lengths, [0u64; 0], "{length} ms at {phase}");
        }
    }
}

#[test]
fn a_freeze_of_a_pinged_loop_is_one_stall_of_its_length_less_the_time_to_the_next_look() {
    let mut random = Random(3);
    for seed in 0..500 {
        let lengths: Vec<u64> = (0..6).map(|_| random.between(520, 3_000)).collect();
        let computes = seed % 2 == 0;
        let freezes = lengths.iter().flat_map(|&length| {
            let rest = random.between(100, 4_000) * MS;
            [(rest, length * MS, computes), (300 * MS, 2 * MS, true)]
        });
        let handlers = handlers(freezes.collect::<Vec<_>>());
        let until = end(&handlers);
        let mut pinging = Pinging::new(handlers, MS, seed);
        pinging.run(until);
        let found = &pinging.lengths;
        assert_eq!(
            found.len(),
            lengths.len(),
            "{seed}: {found:?}, not {lengths:?}"
        );
        for (found, real) in found.iter().zip(&lengths) {
            assert!(
                (real - 260..=real + 10).contains(found),
                "{found}, not {real}"
            );
        }
    }
}

/// Short turns without a rest between them and then a freeze: the stall is the freeze, not what was worked before.
#[test]
fn a_stall_is_never_longer_than_its_turn() {
    let mut random = Random(4);
    for seed in 0..500 {
        let length = random.between(520, 1_500);
        let short = random.between(1, 40);
        let turns = (0..=random.between(1, 20)).map(|turn| {
            let rest = if turn == 0 { 2_000 + seed } else { 0 };
            (rest * MS, short * MS, true)
        });
        let freeze = (0, length * MS, seed % 2 == 0);
        let handlers = handlers(turns.chain([freeze]));
        let until = end(&handlers);
        let mut pinging = Pinging::new(handlers, 0, seed);
        pinging.run(until);
        let [found] = pinging.lengths[..] else {
            panic!("{seed}: {:?}, not {length}", pinging.lengths);
        };
        assert!(found <= length + 10, "{seed}: {found}, not {length}");
    }
}

#[test]
fn short_turns_before_one_below_the_threshold_are_no_stall() {
    for phase in 0..250 {
        let turns = (0..24).map(|turn| {
            let rest = if turn == 0 { 2_000 + phase } else { 0 };
            (rest * MS, 10 * MS, true)
        });
        let handlers = handlers(turns.chain([(0, 160 * MS, true)]));
        let until = end(&handlers);
        let mut pinging = Pinging::new(handlers, 0, phase);
        pinging.run(until);
        assert_eq!(pinging.lengths, [0u64; 0], "{phase}");
    }
}

#[test]
fn freezes_that_follow_each_other_are_one_stall() {
    for computes in [true, false] {
        for phase in 0..50 {
            let first = (2_000 + phase) * MS;
            let turns = (0..10).map(|turn| (if turn == 0 { first } else { 0 }, 120 * MS, computes));
            let handlers = handlers(turns);
            let until = end(&handlers);
            let mut pinging = Pinging::new(handlers, 0, phase);
            pinging.run(until);
            assert_eq!(
                pinging.lengths.len(),
                1,
                "{computes} at {phase}: {:?}",
                pinging.lengths
            );
        }
    }
}

#[test]
fn a_loop_that_has_an_event_now_and_then_costs_a_ping_an_event() {
    let handlers = handlers((0..100).map(|_| (1_237 * MS, MS, true)));
    let until = end(&handlers);
    let mut pinging = Pinging::new(handlers, 0, 0);
    pinging.run(until);
    let budget = until / (250 * MS) + 100 * 2 + 4;
    assert!(
        pinging.looks <= budget,
        "{} looks of {budget}",
        pinging.looks
    );
}
