//! The watchdog's own wait for a CPU.

use crate::platform::ThreadGauge;

/// The watchdog's own delay is read at least so often, nanoseconds.
const OWN_PERIOD: u64 = 1_000_000_000;

/// Time for which the watchdog itself was ready but had no CPU. It matters only for an observation that comes late or
/// was woken, and reading it is half the cost of an observation: so it is read then, and once a second to compare with.
pub(super) struct OwnDelay {
    own: ThreadGauge,
    /// True if it was read for the present round of observations.
    is_fresh: bool,
    read: u64,
    last: u64,
    /// The part of it that came before a sleep without a time-out, which is no turn's.
    settled: u64,
}

impl OwnDelay {
    pub fn new(own: ThreadGauge, now: u64) -> OwnDelay {
        OwnDelay {
            is_fresh: false,
            read: now,
            last: own.delay(),
            settled: 0,
            own,
        }
    }

    /// A new round of observations begins.
    pub fn begin_round(&mut self) {
        self.is_fresh = false;
    }

    pub fn at(&mut self, now: u64, due: Option<u64>) -> Option<u64> {
        // Until then at most a millisecond an observation stays unread. One that was woken may be late by any time.
        let late = due.is_none_or(|due| now > due.saturating_add(1_000_000));
        if !self.is_fresh && (late || now.saturating_sub(self.read) >= OWN_PERIOD) {
            (self.read, self.last, self.is_fresh) = (now, self.own.delay(), true);
        }
        Some(self.last.saturating_sub(self.settled))
    }

    /// The watchdog is about to sleep until it is woken.
    pub fn settled(&mut self) {
        let delay = self.own.delay();
        self.settled += delay.saturating_sub(self.last);
        self.last = delay;
    }
}
