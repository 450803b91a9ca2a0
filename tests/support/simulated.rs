//! A run loop and a watchdog on a fake clock: what the detector sees of a timeline.
#![allow(dead_code, reason = "each test program uses a part")]

use std::time::Duration;

use wedjat::trigger::heartbeat::Beat;
use wedjat::trigger::stall::{
    Decision, Detector, Held, Observation, Reason, Stall, StallEndInfo, StallInfo, StallOutcome,
    Waits,
};

pub const MS: u64 = 1_000_000;

pub fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// What the watched thread does next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// A turn of so long, on the CPU.
    Turn(u64),
    /// A turn of so long that sleeps.
    Blocked(u64),
    /// No event for so long.
    Idle(u64),
    /// On the CPU for so long, unseen: before the first beat.
    Computes(u64),
    /// In the kernel for so long.
    Waits(Waits, u64),
    /// One beat alone: a turn begins, or ends, perhaps within another one.
    Begin,
    End,
    /// The whole process is stopped for so long.
    Stop(u64),
    /// The same beside load: a thread waits for a CPU before it stops and before it works again.
    StopBesideLoad {
        /// From the signal that stops to the one that continues.
        time: u64,
        /// Waits of the watched thread, before and after.
        thread: [u64; 2],
        /// Waits of the watchdog.
        watchdog: [u64; 2],
    },
    /// The app reports that its launch is over.
    Launched,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    pub stalls: Vec<StallInfo>,
    pub ends: Vec<StallEndInfo>,
    pub dropped: Vec<Reason>,
    pub first_misses: u32,
    pub forgotten: u32,
    pub samples: u32,
    pub looks: u64,
    pub rings: u64,
    pub now: u64,
}

/// Random numbers for tests: splitmix64 (Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low)
    }
}

/// The simulated watchdog: wakes late by up to `jitter`.
pub struct Simulation {
    detector: Detector,
    due: Option<u64>,
    wake_on_beat: bool,
    beat: Beat,
    now: u64,
    cpu: u64,
    delay: u64,
    /// The watchdog's waits for a CPU since its last observation.
    lag: u64,
    woke: Option<u64>,
    waits: Waits,
    launched: bool,
    /// Time for which the detector planned the next observation.
    planned: Option<u64>,
    jitter: u64,
    /// The watchdog waits for a CPU for less than this at each wake-up.
    pub starved: u64,
    random: Random,
    pub outcome: Outcome,
}

impl Simulation {
    pub fn new(stall: &Stall, start: u64, jitter: u64, seed: u64) -> Simulation {
        let observation = Observation {
            now: start,
            boot: start,
            due: start,
            ..Observation::default()
        };
        let mut detector = Detector::new(stall, observation);
        let first = detector.first_wait();
        let mut simulation = Simulation {
            detector,
            due: None,
            wake_on_beat: false,
            beat: Beat::NONE,
            now: start,
            cpu: 0,
            delay: 0,
            lag: 0,
            woke: None,
            waits: Waits::Nothing,
            launched: false,
            planned: None,
            jitter,
            starved: 0,
            random: Random(seed),
            outcome: Outcome::default(),
        };
        simulation.plan(first.due, first.wake_on_beat);
        simulation
    }

    /// Past the launch, with a short first turn, and then at rest for long enough that the
    /// watchdog sleeps or not, as `idle` says.
    pub fn launched(stall: &Stall, idle: u64, jitter: u64, seed: u64) -> Simulation {
        let mut simulation = Simulation::new(stall, 1_000_000 * MS, jitter, seed);
        simulation.run(&[Step::Turn(MS), Step::Idle(idle)]);
        simulation
    }

    pub fn run(&mut self, steps: &[Step]) {
        for &step in steps {
            match step {
                Step::Turn(time) => {
                    self.beat(self.beat.begun());
                    self.pass(time, true);
                    self.beat(self.beat.ended());
                }
                Step::Blocked(time) => {
                    self.beat(self.beat.begun());
                    self.pass(time, false);
                    self.beat(self.beat.ended());
                }
                Step::Idle(time) => self.waits(Waits::Event, time),
                Step::Computes(time) => self.pass(time, true),
                Step::Waits(what, time) => self.waits(what, time),
                Step::Begin => self.beat(self.beat.begun()),
                Step::End => self.beat(self.beat.ended()),
                Step::Stop(time) => self.stop(time, 0),
                Step::StopBesideLoad {
                    time,
                    thread,
                    watchdog,
                } => {
                    self.delay += thread[0];
                    self.lag += watchdog[0];
                    self.stop(time, watchdog[1]);
                    self.pass(thread[1], false);
                    // The kernel counts a wait when it is over.
                    self.delay += thread[1];
                }
                Step::Launched => self.launched = true,
            }
        }
    }

    /// Stops; the watchdog then waits for a CPU.
    fn stop(&mut self, time: u64, waits: u64) {
        self.now += time;
        // Each thread runs in order to stop.
        self.cpu += 20_000;
        let due = self.now + waits + 50_000;
        if self.due.is_some_and(|missed| missed < due) {
            self.lag += waits;
            self.due = Some(due);
        }
    }

    fn waits(&mut self, what: Waits, time: u64) {
        self.waits = what;
        self.pass(time, false);
        self.waits = Waits::Nothing;
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    fn plan(&mut self, due: Option<u64>, wake_on_beat: bool) {
        let late = if self.jitter == 0 {
            0
        } else {
            self.random.between(0, self.jitter)
        };
        self.planned = due;
        self.due = due.map(|due| due.max(self.now) + late);
        self.starve();
        self.wake_on_beat = wake_on_beat;
    }

    /// The watchdog waits for a CPU before its next observation.
    fn starve(&mut self) {
        if let (1.., Some(due)) = (self.starved, &mut self.due) {
            let waits = self.random.between(0, self.starved);
            *due += waits;
            self.lag += waits;
        }
    }

    /// The thread beats; it wakes the watchdog where a wake-up was requested, 10 µs later at the watchdog's.
    fn beat(&mut self, beat: Beat) {
        self.beat = beat;
        if self.wake_on_beat {
            self.wake_on_beat = false;
            self.woke = Some(self.now);
            self.outcome.rings += 1;
            let at = self.now + 10_000;
            if self.due.is_none_or(|due| due > at) {
                self.due = Some(at);
                self.starve();
            }
        }
    }

    pub fn pass(&mut self, time: u64, busy: bool) {
        let until = self.now + time;
        while let Some(due) = self.due.filter(|&due| due <= until) {
            self.cpu += if busy { due - self.now } else { 0 };
            self.now = due;
            self.observe(busy);
        }
        self.cpu += if busy { until - self.now } else { 0 };
        self.now = until;
    }

    fn observe(&mut self, busy: bool) {
        self.outcome.looks += 1;
        let is_modal = self.beat.nested() && self.waits == Waits::Event;
        let observation = Observation {
            now: self.now,
            boot: self.now,
            due: self.planned.unwrap_or(self.now).min(self.now),
            beat: self.beat,
            cpu: self.cpu,
            delay: Some(self.delay),
            lag: std::mem::take(&mut self.lag),
            woke: self.woke,
            sleeps: Some(!busy),
            held: if is_modal { Held::Modal } else { Held::No },
            waits: self.waits,
            launched: self.launched,
            ..Observation::default()
        };
        let (decision, next) = self.detector.observe(&observation);
        self.note(decision);
        self.plan(next.due, next.wake_on_beat);
        self.outcome.now = self.now;
    }

    pub fn note(&mut self, decision: Decision) {
        let outcome = &mut self.outcome;
        match decision {
            Decision::Stalled(info) => outcome.stalls.push(info),
            Decision::Ended(end) => outcome.ends.push(end),
            Decision::Dropped(reason) => outcome.dropped.push(reason),
            Decision::FirstMiss { .. } => outcome.first_misses += 1,
            Decision::Sample { .. } => outcome.samples += 1,
            Decision::Forget => outcome.forgotten += 1,
            _ => {}
        }
    }

    /// Every stall began once and ended once.
    pub fn check_pairs(&self) {
        assert_eq!(self.outcome.stalls.len(), self.outcome.ends.len());
        assert!(
            self.outcome
                .ends
                .iter()
                .all(|end| end.outcome == StallOutcome::Recovered)
        );
    }
}
