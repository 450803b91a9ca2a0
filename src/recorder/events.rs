//! Reporting stalls to the app as they come and go: its own callback, and `tracing`.

use crate::trigger::stall::{StallEndInfo, StallInfo};

/// A stall of the watched thread, as it begins and ends.
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

/// Logs it.
#[cfg(feature = "tracing")]
pub(crate) fn trace(event: &StallEvent<'_>) {
    match event {
        StallEvent::Began(info) => tracing::warn!(
            target: "wedjat",
            class = info.class.as_str(),
            lasted_ms = info.lasted.as_millis(),
            turns = info.turns,
            never_beat = info.never_beat,
            "stall"
        ),
        StallEvent::Ended(end) => tracing::warn!(
            target: "wedjat",
            class = end.info.class.as_str(),
            lasted_ms = end.info.lasted.as_millis(),
            how = end.how.as_str(),
            "stall over"
        ),
    }
}

/// Without `tracing`, nothing.
#[cfg(not(feature = "tracing"))]
pub(crate) fn trace(_event: &StallEvent<'_>) {}

/// A report is whole.
#[cfg(feature = "tracing")]
pub(crate) fn trace_report(path: &std::path::Path) {
    tracing::info!(target: "wedjat", path = %path.display(), "report");
}

/// Without `tracing`, nothing.
#[cfg(not(feature = "tracing"))]
pub(crate) fn trace_report(_path: &std::path::Path) {}
