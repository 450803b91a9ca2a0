//! Live counters of the monitor, since install.

use std::sync::atomic::{AtomicU64, Ordering};

/// The process' own.
pub(crate) static COUNTERS: Counters = Counters {
    stalls: AtomicU64::new(0),
    stalled: AtomicU64::new(0),
    longest: AtomicU64::new(0),
    stalled_now: AtomicU64::new(0),
    reports: AtomicU64::new(0),
    bytes: AtomicU64::new(0),
    captures: AtomicU64::new(0),
};

/// Counts since install.
#[derive(Debug)]
pub(crate) struct Counters {
    pub stalls: AtomicU64,
    /// Nanoseconds.
    pub stalled: AtomicU64,
    pub longest: AtomicU64,
    /// 1 while a stall lasts, else 0.
    pub stalled_now: AtomicU64,
    pub reports: AtomicU64,
    pub bytes: AtomicU64,
    pub captures: AtomicU64,
}

impl Counters {
    /// Forgets all.
    pub fn reset(&self) {
        for counter in [
            &self.stalls,
            &self.stalled,
            &self.longest,
            &self.stalled_now,
            &self.reports,
            &self.bytes,
            &self.captures,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// A stall began.
    pub fn begins(&self) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        self.stalled_now.store(1, Ordering::Relaxed);
    }

    /// It is over, after so many nanoseconds.
    pub fn ends(&self, lasted: u64) {
        self.stalled.fetch_add(lasted, Ordering::Relaxed);
        self.longest.fetch_max(lasted, Ordering::Relaxed);
        self.stalled_now.store(0, Ordering::Relaxed);
    }

    /// A report of so many bytes is whole.
    pub fn reported(&self, bytes: u64) {
        self.reports.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
