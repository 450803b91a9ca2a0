//! Live counters, as the app reads them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::recorder::COUNTERS;
use crate::trigger::heartbeat::{HEARTBEAT, Registry};
use crate::trigger::loss::LOSSES;
use crate::vitals::FRAMES;

/// Counters of a monitor since it was installed, see [`Monitor::stats`](super::Monitor).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Turns that have ended on the thread that installed the monitor, nested ones included.
    pub turns: u64,
    /// Frames that the app reported by [`Monitor::frame`](super::Monitor::frame).
    pub shown_frames: u64,
    /// Stalls, reported or not. One that still lasts counts.
    pub stalls: u64,
    /// True while a stall of any thread lasts.
    pub stalled: bool,
    /// Sum of the lengths of the stalls that are over.
    pub stalled_time: Duration,
    /// Length of the longest stall that is over.
    pub longest: Duration,
    /// Finished reports of this launch. That of a stall is finished once the thread moves again.
    pub reports: u64,
    /// Bytes of those reports.
    pub bytes: u64,
    /// Stacks taken of watched threads. Those that could not be taken are in `losses` (`unanswered`, `unsent`).
    pub captures: u64,
    /// CPU time of the watchdog's thread.
    pub watchdog: Duration,
    /// Files in the folder that are named as reports but are larger than any report. They are not touched. Counted
    /// soon after `install` and after each report.
    pub oversized: u64,
    /// Beats from a thread other than the heartbeat's own. They are ignored.
    pub stray_beats: u64,
    /// Threads that are watched now besides the one that installed.
    pub watched_threads: u64,
    /// Threads that are not watched because 256 were at the time.
    pub refused_threads: u64,
    /// Counts of events that were not reported, by reason, as in the `loss` section, without zeros.
    pub losses: BTreeMap<&'static str, u64>,
}

impl Stats {
    pub(super) fn now(watchdog: u64) -> Stats {
        let beat = HEARTBEAT.beat();
        let counters = &COUNTERS;
        let time = Duration::from_nanos;
        Stats {
            turns: beat.count().saturating_sub(beat.depth()) / 2,
            shown_frames: FRAMES.count(),
            stalls: counters.stalls.load(Ordering::Relaxed),
            stalled: counters.stalled_now.load(Ordering::Relaxed) != 0,
            stalled_time: time(counters.stalled_nanos.load(Ordering::Relaxed)),
            longest: time(counters.longest.load(Ordering::Relaxed)),
            reports: counters.reports.load(Ordering::Relaxed),
            bytes: counters.bytes.load(Ordering::Relaxed),
            captures: counters.captures.load(Ordering::Relaxed),
            watchdog: time(watchdog),
            oversized: crate::store::OVERSIZED.load(Ordering::Relaxed),
            stray_beats: Registry.strays(),
            watched_threads: Registry.watched(),
            refused_threads: Registry.refused(),
            losses: LOSSES
                .counts()
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect(),
        }
    }
}
