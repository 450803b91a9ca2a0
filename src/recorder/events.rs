//! What the app learns while it runs: stalls as they come and go, by its own callback and `tracing`, and live counters.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "tracing")]
use crate::trigger::stall::StallOutcome;
use crate::trigger::stall::{StallEndInfo, StallInfo};

/// A stall of a watched thread, as it begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallEvent<'a> {
    /// It is a stall.
    Began(&'a StallInfo),
    /// The stall is over.
    Ended(&'a StallEndInfo),
}

/// The app's callback.
pub(crate) type OnStall = Box<dyn FnMut(&StallEvent<'_>) + Send>;

/// Logs a stall, as it begins or, with the way it ended, when it is over.
#[cfg(feature = "tracing")]
pub(crate) fn log_stall(info: &StallInfo, outcome: Option<StallOutcome>) {
    match outcome {
        None => tracing::warn!(
            target: "wedjat",
            thread = info.thread,
            class = info.class.as_str(),
            lasted_ms = info.lasted.as_millis(),
            turns = info.turns,
            never_beat = info.never_beat,
            "stall"
        ),
        Some(outcome) => tracing::warn!(
            target: "wedjat",
            thread = info.thread,
            class = info.class.as_str(),
            lasted_ms = info.lasted.as_millis(),
            how = outcome.as_str(),
            "stall over"
        ),
    }
}

/// A report is whole.
#[cfg(feature = "tracing")]
pub(crate) fn trace_report(path: &std::path::Path) {
    tracing::info!(target: "wedjat", path = %path.display(), "report");
}

/// Without `tracing`, nothing.
#[cfg(not(feature = "tracing"))]
pub(crate) fn trace_report(_path: &std::path::Path) {}

/// The process' own.
pub(crate) static COUNTERS: Counters = Counters {
    stalls: AtomicU64::new(0),
    stalled_nanos: AtomicU64::new(0),
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
    pub stalled_nanos: AtomicU64,
    pub longest: AtomicU64,
    /// Count of the threads in a stall.
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
            &self.stalled_nanos,
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
        self.stalled_now.fetch_add(1, Ordering::Relaxed);
    }

    /// It is over, after so many nanoseconds.
    pub fn ends(&self, lasted: u64) {
        self.stalled_nanos.fetch_add(lasted, Ordering::Relaxed);
        self.longest.fetch_max(lasted, Ordering::Relaxed);
        // Only the watchdog's thread counts.
        let now = self.stalled_now.load(Ordering::Relaxed);
        (self.stalled_now).store(now.saturating_sub(1), Ordering::Relaxed);
    }

    /// A report of so many bytes is whole.
    pub fn reported(&self, bytes: u64) {
        self.reports.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
