//! Duration of the launch, and whether a page of the process had to be read from the disk.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::platform::vitals;

/// The time at which the app reported that it is launched. Signal-safe to read.
#[derive(Debug)]
pub(crate) struct Launched {
    /// From the start of the process, nanoseconds, times two, and one for a cold launch; 0 before.
    time: AtomicU64,
}

/// The process' own.
pub(crate) static LAUNCHED: Launched = Launched {
    time: AtomicU64::new(0),
};

impl Launched {
    /// Forgets it.
    pub fn reset(&self) {
        self.time.store(0, Ordering::Relaxed);
    }

    /// The launch is over now; only the first time counts.
    pub fn mark(&self) {
        let Some(time) = vitals::uptime() else {
            return;
        };
        let cold = vitals::major_faults().is_some_and(|faults| faults > 0);
        let packed = (time << 1) | u64::from(cold);
        let first =
            self.time
                .compare_exchange(0, packed.max(2), Ordering::Relaxed, Ordering::Relaxed);
        // A later mark changes nothing.
        let _ = first;
    }

    /// Nanoseconds.
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
