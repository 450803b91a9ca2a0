//! Which stalls are worth a report: the same one ever more rarely, and only so many an hour. Pure.

use std::time::Duration;

/// How many reports of stalls are written. What is held back is counted in the `loss` section of
/// the next report, as `back_off` and `quota`.
///
/// ```
/// use std::time::Duration;
/// use wedjat::trigger::Restraint;
/// let restraint = Restraint::default().same(1).pause(Duration::from_secs(600)).per_hour(10);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restraint {
    /// So many stalls with the same heaviest stack are all reported, 5.
    pub same: u32,
    /// Then the next is reported after such a pause, 1 min; each pause is twice as long as the one
    /// before, up to a day.
    pub pause: Duration,
    /// So many reports of stalls within an hour, 60.
    pub per_hour: u32,
}

impl Default for Restraint {
    fn default() -> Restraint {
        Restraint {
            same: 5,
            pause: Duration::from_secs(60),
            per_hour: 60,
        }
    }
}

impl Restraint {
    /// Sets how many equal stalls are all reported; at least 1.
    #[must_use]
    pub fn same(mut self, same: u32) -> Restraint {
        self.same = same.max(1);
        self
    }

    /// Sets the first pause between reports of equal stalls after that.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Restraint {
        self.pause = pause;
        self
    }

    /// Sets how many reports of stalls there may be within an hour.
    #[must_use]
    pub fn per_hour(mut self, reports: u32) -> Restraint {
        self.per_hour = reports;
        self
    }
}

/// Different stalls that are kept in mind; then the one that was not seen for longest is forgotten.
const KNOWN: usize = 64;
const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;

/// Applies a [`Restraint`] over time. Allocates nothing.
#[derive(Debug, Clone)]
pub struct Gate {
    restraint: Restraint,
    known: [Option<Known>; KNOWN],
    /// The present hour's start, and its reports.
    hour: u64,
    reports: u32,
    /// Stalls held back for being the same again.
    pub back_off: u64,
    /// Stalls held back for being too many.
    pub quota: u64,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    key: u64,
    seen: u64,
    reported: u32,
    /// Not before this is it reported again, and how long the pause after that is.
    next: u64,
    pause: u64,
}

impl Gate {
    /// With nothing reported yet.
    pub fn new(restraint: Restraint) -> Gate {
        Gate {
            restraint,
            known: [None; KNOWN],
            hour: 0,
            reports: 0,
            back_off: 0,
            quota: 0,
        }
    }

    /// Whether the stall that `key` stands for may be reported at `now` (nanoseconds). `true` counts
    /// as a report, `false` into `back_off` or `quota`. A stall without a stack has no key.
    pub fn passes(&mut self, now: u64, key: Option<u64>) -> bool {
        if let Some(key) = key
            && !self.is_due(now, key)
        {
            self.back_off = self.back_off.saturating_add(1);
            return false;
        }
        if now.saturating_sub(self.hour) >= HOUR {
            (self.hour, self.reports) = (now, 0);
        }
        if self.reports >= self.restraint.per_hour {
            self.quota = self.quota.saturating_add(1);
            return false;
        }
        self.reports = self.reports.saturating_add(1);
        true
    }

    fn is_due(&mut self, now: u64, key: u64) -> bool {
        let pause = u64::try_from(self.restraint.pause.as_nanos())
            .unwrap_or(DAY)
            .min(DAY);
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
        let fresh = Known {
            key,
            seen: now,
            reported: 0,
            next: now,
            pause,
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
        if known.reported >= self.restraint.same {
            known.next = now.saturating_add(known.pause);
            known.pause = known.pause.saturating_mul(2).min(DAY);
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
        let mut gate = Gate::new(Restraint::default().per_hour(1_000));
        // One every 10 s for two hours.
        let reported: Vec<u64> = (0..720)
            .map(|n| n * MINUTE / 6)
            .filter(|&now| gate.passes(now, Some(1)))
            .collect();
        let minutes: Vec<u64> = reported.iter().map(|now| now / MINUTE).collect();
        assert_eq!(minutes, [0, 0, 0, 0, 0, 1, 3, 7, 15, 31, 63]);
        assert_eq!(gate.back_off, 720 - 11);
        assert!(
            gate.passes(121 * MINUTE, Some(2)),
            "another one is not held back"
        );
    }

    #[test]
    fn there_is_a_quota_an_hour() {
        let mut gate = Gate::new(Restraint::default().per_hour(3));
        let passed = (0..10)
            .filter(|&n| gate.passes(n * MINUTE, Some(n)))
            .count();
        assert_eq!((passed, gate.quota), (3, 7));
        assert!(gate.passes(70 * MINUTE, Some(100)));
    }

    #[test]
    fn more_stalls_than_there_is_room_for_push_out_the_oldest() {
        let mut gate = Gate::new(Restraint::default().same(1).per_hour(u32::MAX));
        for key in 0..=KNOWN as u64 {
            assert!(gate.passes(key, Some(key)));
        }
        assert!(!gate.passes(100, Some(KNOWN as u64)));
        assert!(gate.passes(100, Some(0)), "forgotten");
        assert!(gate.passes(100, None) && gate.passes(100, None));
    }
}
