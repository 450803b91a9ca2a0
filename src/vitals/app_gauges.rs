//! The gauges that the app itself reports: its frames as they are shown, and the end of its launch.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::platform::vitals;

/// Frames that are remembered.
const MAX_FRAMES: usize = 256;
const SECOND: u64 = 1_000_000_000;

/// Times at which frames were shown. Lock-free; signal-safe.
#[derive(Debug)]
pub(crate) struct FrameTimes {
    count: AtomicU64,
    times: [AtomicU64; MAX_FRAMES],
}

/// Frames of this process.
pub(crate) static FRAMES: FrameTimes = FrameTimes::new();

impl FrameTimes {
    const fn new() -> FrameTimes {
        FrameTimes {
            count: AtomicU64::new(0),
            times: [const { AtomicU64::new(0) }; MAX_FRAMES],
        }
    }

    /// Forgets all.
    pub fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
    }

    /// Counts a frame that is shown at `now` (monotonic, nanoseconds).
    pub fn record(&self, now: u64) {
        let ticket = self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(slot) = self.times.get(ticket as usize % MAX_FRAMES) {
            slot.store(now, Ordering::Relaxed);
        }
    }

    /// Count of all frames shown.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Frames in the last second; `None` if no frame was ever shown.
    pub fn rate(&self, now: u64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let kept = usize::try_from(count).unwrap_or(MAX_FRAMES).min(MAX_FRAMES);
        let since = now.saturating_sub(SECOND);
        let times = || {
            self.times
                .iter()
                .take(kept)
                .map(|time| time.load(Ordering::Relaxed))
        };
        let recent = times().filter(|&time| time > since).count();
        if recent < MAX_FRAMES {
            return Some(recent as f64);
        }
        // More frames were shown in a second than are remembered.
        let oldest = times().min().unwrap_or(since);
        let time = now.saturating_sub(oldest).max(1);
        Some(recent as f64 / time as f64 * 1e9)
    }
}

/// The time at which the app reported that it is launched. Signal-safe to read.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Nanoseconds since the start of the process, shifted left by one, with 1 for a cold launch; 0 before.
    time: AtomicU64,
}

/// End of this process' launch.
pub(crate) static LAUNCHED: Launched = Launched {
    time: AtomicU64::new(0),
};

impl Launched {
    /// Forgets it.
    pub fn reset(&self) {
        self.time.store(0, Ordering::Relaxed);
    }

    /// Records that the launch is over now. Only the first call counts.
    pub fn set(&self) {
        let Some(time) = vitals::uptime() else {
            return;
        };
        let cold = vitals::major_faults().is_some_and(|faults| faults > 0);
        let packed = (time << 1) | u64::from(cold);
        // A later call changes nothing.
        let _ = self
            .time
            .compare_exchange(0, packed.max(2), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the length of the launch, nanoseconds; `None` before its end.
    pub fn time(&self) -> Option<u64> {
        let packed = self.time.load(Ordering::Relaxed);
        (packed != 0).then_some(packed >> 1)
    }

    /// `cold` if pages had to be read from the disk until then, else `warm`.
    pub fn kind(&self) -> Option<&'static str> {
        let packed = self.time.load(Ordering::Relaxed);
        (packed != 0).then_some(if packed & 1 != 0 { "cold" } else { "warm" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_second() {
        static FRAMES: FrameTimes = FrameTimes::new();
        let mut now = 10 * SECOND;
        assert_eq!(FRAMES.rate(now), None);
        for _ in 0..300 {
            now += SECOND / 60;
            FRAMES.record(now);
        }
        let rate = FRAMES.rate(now).unwrap();
        assert!((59.0..=61.0).contains(&rate), "{rate}");
        assert_eq!(FRAMES.rate(now + 2 * SECOND), Some(0.0));
        for _ in 0..3_000 {
            now += SECOND / 1_000;
            FRAMES.record(now);
        }
        let rate = FRAMES.rate(now).unwrap();
        assert!((990.0..=1_010.0).contains(&rate), "{rate}");
    }
}
