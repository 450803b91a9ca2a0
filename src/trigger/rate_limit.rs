//! Limits on reports: the same stall ever more rarely, and only so many reports, bytes and
//! captures an hour. Pure.

use std::time::Duration;

use super::loss::LossReason;
use crate::report::time::nanos;

settings! {
    /// Limits on how much is recorded of stalls and of too much load. Every later report counts the events held back,
    /// as `back_off` and `quota` in its `loss` section. Each pool of watched threads, and each of them that is in no pool, has
    /// such limits of its own; from the seventeenth on they share one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use wedjat::RateLimit;
    /// let limit = RateLimit::default().same_stalls(1).cooldown(Duration::from_secs(600)).per_hour(10);
    /// ```
    #[derive(Eq)]
    pub struct RateLimit {
        /// Sets how many stalls with the same heaviest stack are all reported: 5 by default, at least 1.
        pub(crate) same_stalls: u32 = 5, count: u32 => count.max(1);
        /// Sets the first cooldown of equal stalls after that: none is reported meanwhile (1 min by default). Each is twice as long
        /// as the one before, up to a day.
        pub(crate) cooldown: Duration = Duration::from_secs(60);
        /// Sets how many reports there may be within an hour (60 by default).
        pub(crate) per_hour: u32 = 60;
        /// Sets how many bytes of reports there may be within an hour (32 MiB by default). Above it no new report begins.
        pub(crate) bytes_per_hour: u64 = 32 << 20;
        /// Sets how many stacks of watched threads may be taken within an hour. The default of 20,000 is 17 minutes
        /// of freezes.
        pub(crate) captures_per_hour: u32 = 20_000;
    }
}

/// Different stalls that are kept in mind; then the one that was not seen for longest is forgotten.
const MAX_STALLS: usize = 64;
const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;

/// Applies a [`RateLimit`] over time. Allocates nothing.
#[derive(Debug, Clone)]
pub struct RateLimiter {
    rate_limit: RateLimit,
    known: [Option<KnownStack>; MAX_STALLS],
    /// The present hour's start, and what it has had.
    hour: u64,
    reports: u32,
    bytes: u64,
    captures: u32,
}

#[derive(Debug, Clone, Copy)]
struct KnownStack {
    key: u64,
    seen: u64,
    reported: u32,
    /// Earliest time at which it is reported again, and the length of the cooldown after that.
    next: u64,
    cooldown: u64,
}

impl RateLimiter {
    /// With nothing reported yet.
    pub fn new(rate_limit: RateLimit) -> RateLimiter {
        RateLimiter {
            rate_limit,
            known: [None; MAX_STALLS],
            hour: 0,
            reports: 0,
            bytes: 0,
            captures: 0,
        }
    }

    /// Another one with the same limits.
    pub fn with_same_limits(&self) -> RateLimiter {
        RateLimiter::new(self.rate_limit)
    }

    /// Decides if the stall with this `key` may be reported at `now` (nanoseconds); if so, it counts as a report. A
    /// stall without a stack has no key.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn passes(&mut self, now: u64, key: Option<u64>) -> Result<(), LossReason> {
        self.begin_hour(now);
        // First: a stall that it refuses has not had its turn.
        if self.reports >= self.rate_limit.per_hour || self.bytes >= self.rate_limit.bytes_per_hour
        {
            return Err(LossReason::Quota);
        }
        if let Some(key) = key
            && !self.is_due(now, key)
        {
            return Err(LossReason::BackOff);
        }
        self.reports = self.reports.saturating_add(1);
        Ok(())
    }

    /// A report of so many bytes is whole.
    pub fn count_written(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns true if a stack may be taken at `now` (nanoseconds).
    pub fn may_capture(&mut self, now: u64) -> bool {
        self.begin_hour(now);
        self.captures < self.rate_limit.captures_per_hour
    }

    /// One was taken.
    pub fn captured(&mut self) {
        self.captures = self.captures.saturating_add(1);
    }

    fn begin_hour(&mut self, now: u64) {
        if now.saturating_sub(self.hour) >= HOUR {
            self.hour = now;
            self.reports = 0;
            self.bytes = 0;
            self.captures = 0;
        }
    }

    fn is_due(&mut self, now: u64, key: u64) -> bool {
        let cooldown = nanos(self.rate_limit.cooldown).min(DAY);
        let place = self
            .known
            .iter()
            .position(|known| known.is_some_and(|known| known.key == key));
        let oldest = || {
            let oldest = self
                .known
                .iter()
                .enumerate()
                .min_by_key(|(_, known)| known.map(|k| k.seen));
            oldest.map_or(0, |(index, _)| index)
        };
        let place = place.unwrap_or_else(oldest);
        let Some(slot) = self.known.get_mut(place) else {
            return true;
        };
        let fresh = KnownStack {
            key,
            seen: now,
            reported: 0,
            next: now,
            cooldown,
        };
        let known = match slot {
            Some(known) if known.key == key => known,
            slot => slot.insert(fresh),
        };
        known.seen = now;
        if now < known.next {
            return false;
        }
        known.reported = known.reported.saturating_add(1);
        if known.reported >= self.rate_limit.same_stalls {
            known.next = now.saturating_add(known.cooldown);
            known.cooldown = known.cooldown.saturating_mul(2).min(DAY);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn the_same_stall_is_reported_ever_more_rarely() {
        let mut limiter = RateLimiter::new(RateLimit::default().per_hour(1_000));
        // One every 10 s for two hours.
        let reported: Vec<u64> = (0..720)
            .map(|n| n * MINUTE / 6)
            .filter(|&now| limiter.passes(now, Some(1)).is_ok())
            .collect();
        let minutes: Vec<u64> = reported.iter().map(|now| now / MINUTE).collect();
        assert_eq!(minutes, [0, 0, 0, 0, 0, 1, 3, 7, 15, 31, 63]);
        assert_eq!(
            limiter.passes(120 * MINUTE, Some(1)),
            Err(LossReason::BackOff)
        );
        assert_eq!(
            limiter.passes(121 * MINUTE, Some(2)),
            Ok(()),
            "another one is not held back"
        );
    }

    #[test]
    fn there_is_a_quota_an_hour() {
        let mut limiter = RateLimiter::new(RateLimit::default().per_hour(3));
        let passed = (0..10)
            .filter(|&n| limiter.passes(n * MINUTE, Some(n)).is_ok())
            .count();
        assert_eq!(passed, 3);
        assert_eq!(
            limiter.passes(11 * MINUTE, Some(99)),
            Err(LossReason::Quota)
        );
        assert_eq!(limiter.passes(70 * MINUTE, Some(100)), Ok(()));
    }

    #[test]
    fn bytes_and_captures_have_quotas_too() {
        let rate_limit = RateLimit::default()
            .bytes_per_hour(1_000)
            .captures_per_hour(2);
        let mut limiter = RateLimiter::new(rate_limit);
        assert_eq!(limiter.passes(0, Some(1)), Ok(()));
        limiter.count_written(600);
        assert_eq!(limiter.passes(MINUTE, Some(2)), Ok(()));
        limiter.count_written(600);
        // The refused stall is not held back an hour later.
        assert_eq!(limiter.passes(59 * MINUTE, Some(3)), Err(LossReason::Quota));
        let taken = (0..5).filter(|_| {
            let may = limiter.may_capture(59 * MINUTE);
            limiter.captured();
            may
        });
        assert_eq!(taken.count(), 2);
        assert!(limiter.may_capture(61 * MINUTE) && limiter.passes(61 * MINUTE, Some(3)).is_ok());
    }

    #[test]
    fn more_stalls_than_there_is_room_for_push_out_the_oldest() {
        let mut limiter = RateLimiter::new(RateLimit::default().same_stalls(1).per_hour(u32::MAX));
        for key in 0..=MAX_STALLS as u64 {
            assert_eq!(limiter.passes(key, Some(key)), Ok(()));
        }
        assert_eq!(
            limiter.passes(100, Some(MAX_STALLS as u64)),
            Err(LossReason::BackOff)
        );
        assert_eq!(limiter.passes(100, Some(0)), Ok(()), "forgotten");
        assert!(limiter.passes(100, None).is_ok() && limiter.passes(100, None).is_ok());
    }
}
