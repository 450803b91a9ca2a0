//! The time for which the watchdog itself is late because it has no CPU.

/// It is read at least so often, nanoseconds.
const PERIOD: u64 = 1_000_000_000;

/// Time for which the watchdog's thread was ready but had no CPU. Reading it is half the cost of an observation: it is read
/// after a wait that ended late or had no time-out, and once a second to compare with.
pub(super) struct SchedulingLag<Delay> {
    /// Reads the delay of the watchdog's own thread.
    delay: Delay,
    read: u64,
    last: u64,
}

impl<Delay: Fn() -> u64> SchedulingLag<Delay> {
    pub fn new(delay: Delay, now: u64) -> SchedulingLag<Delay> {
        let last = delay();
        SchedulingLag {
            delay,
            read: now,
            last,
        }
    }

    /// The watchdog is about to sleep until it is woken: what it waited before is not part of any turn.
    pub fn sleeps(&mut self) {
        self.last = (self.delay)();
    }

    /// Returns the delay since it was last read, after a wait until `due`.
    pub fn since(&mut self, now: u64, due: Option<u64>) -> u64 {
        let is_late = due.is_none_or(|due| now > due.saturating_add(1_000_000));
        if !is_late && now.saturating_sub(self.read) < PERIOD {
            return 0;
        }
        self.read = now;
        let before = std::mem::replace(&mut self.last, (self.delay)());
        self.last.saturating_sub(before)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_wait_from_before_a_sleep_is_none_of_what_follows() {
        let (delay, now) = (Cell::new(7), 5 * PERIOD);
        let mut own = SchedulingLag::new(|| delay.get(), now);
        delay.set(100);
        assert_eq!(own.since(now + 10, Some(now + 10)), 0, "on time");
        own.sleeps();
        delay.set(130);
        assert_eq!(own.since(now + 20, None), 30);
        delay.set(150);
        assert_eq!(own.since(now + 5_000_000, Some(now + 20)), 20);
        delay.set(151);
        assert_eq!(own.since(now + 2 * PERIOD, Some(now + 2 * PERIOD)), 1);
    }
}
