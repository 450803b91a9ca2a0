//! The time by which the watchdog itself is late: its wait for a CPU, and its work.

/// The watchdog's own delay is read at least so often, nanoseconds.
const OWN_PERIOD: u64 = 1_000_000_000;

/// Time for which the watchdog itself was ready but had no CPU, or was at work on a report. It matters only for an
/// observation that comes late or was woken, and reading it is half the cost of an observation: so it is read then, and once
/// a second to compare with.
pub(super) struct OwnDelay<Delay> {
    /// Reads the delay of the watchdog's own thread.
    delay: Delay,
    /// True if it was read for the present round of observations.
    is_fresh: bool,
    read: u64,
    last: u64,
    /// Time for which the watcher kept the watchdog.
    kept: u64,
    /// The part of `last + kept` from before a sleep without a time-out: it belongs to no turn.
    settled: u64,
    /// What the last observation knew.
    known: u64,
}

impl<Delay: Fn() -> u64> OwnDelay<Delay> {
    pub fn new(delay: Delay, now: u64) -> OwnDelay<Delay> {
        let last = delay();
        OwnDelay {
            delay,
            is_fresh: false,
            read: now,
            last,
            kept: 0,
            settled: 0,
            known: last,
        }
    }

    /// A new round of observations begins.
    pub fn begin_round(&mut self) {
        self.is_fresh = false;
    }

    pub fn at(&mut self, now: u64, due: Option<u64>) -> Option<u64> {
        // Between two reads, at most a millisecond of delay per observation goes unnoticed. An observation that follows a
        // wake-up has no due time, so its lateness is unknown.
        let late = due.is_none_or(|due| now > due.saturating_add(1_000_000));
        if !self.is_fresh && (late || now.saturating_sub(self.read) >= OWN_PERIOD) {
            self.read = now;
            self.last = (self.delay)();
            self.is_fresh = true;
        }
        self.known = (self.last + self.kept).saturating_sub(self.settled);
        Some(self.known)
    }

    /// The watcher has kept the watchdog for so long.
    pub fn kept(&mut self, time: u64) {
        self.kept += time;
    }

    /// The watchdog is about to sleep until it is woken.
    pub fn settled(&mut self) {
        self.last = (self.delay)();
        self.settled = (self.last + self.kept).saturating_sub(self.known);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::trigger::heartbeat::Beat;
    use crate::trigger::stall::{Decision, Detector, Observation, Stall};

    const MS: u64 = 1_000_000;

    /// Returns true if a turn of so long is a stall. The watchdog waited for a CPU for `before`, after its last observation and
    /// before it slept, and for `after` once the turn had woken it.
    fn is_stall(turn: u64, before: u64, after: u64) -> bool {
        let delay = Cell::new(7 * MS);
        let mut own = OwnDelay::new(|| delay.get(), 0);
        let look = |now: u64, due: Option<u64>, beat: Beat, own_delay: Option<u64>| Observation {
            now,
            boot: now,
            due: due.unwrap_or(now),
            beat,
            launched: true,
            own_delay,
            ..Observation::default()
        };
        let rest = Beat::NONE.begun().ended();
        let first = look(0, None, rest, Some(delay.get()));
        let mut detector = Detector::resting(&Stall::default(), first);
        let mut due = detector.first().due;
        let mut now = 0;
        while let Some(at) = due {
            now = at;
            own.begin_round();
            let own_delay = own.at(now, due);
            due = detector.observe(&look(now, due, rest, own_delay)).1.due;
        }
        delay.set(delay.get() + before);
        own.settled();
        let begun = now + 10_000 * MS;
        delay.set(delay.get() + after);
        let (mut at, mut found) = (begun + after, false);
        while at < begun + turn {
            own.begin_round();
            let own_delay = own.at(at, due);
            let (decision, next) = detector.observe(&look(at, due, rest.begun(), own_delay));
            found |= matches!(decision, Decision::Stalled(_));
            due = next.due;
            at = due.expect("a turn is observed");
        }
        found
    }

    #[test]
    fn a_wait_from_before_the_turn_is_not_part_of_it() {
        for before in [0, 40, 80, 200, 5_000] {
            assert!(!is_stall(150 * MS, before * MS, 0), "{before}");
            assert!(!is_stall(200 * MS, before * MS, 20 * MS), "{before}");
        }
    }

    #[test]
    fn a_wait_within_the_turn_is_part_of_it() {
        for before in [0, 80] {
            for after in [0, 60, 200] {
                assert!(is_stall(300 * MS, before * MS, after * MS), "{after}");
            }
        }
    }
}
