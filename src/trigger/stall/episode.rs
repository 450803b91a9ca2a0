//! What the detector remembers of an episode: slow turns that follow each other.

use super::observation::Reason;

/// Slow turns that follow each other without rest.
#[derive(Debug, Clone)]
pub(super) struct Episode {
    /// Time at which all was well: the observation before its first turn.
    pub(super) well_at: u64,
    /// No later than this it had begun; a report has its duration from here.
    pub(super) begun_by: u64,
    /// CPU and delay at its first observation.
    pub(super) cpu: u64,
    pub(super) delay: Option<u64>,
    pub(super) launch: bool,
    pub(super) turns: u32,
    /// Upper bound of the present turn's start.
    pub(super) turn_from: u64,
    /// Set if its first turns may have been quick ones with a rest behind them.
    pub(super) ambiguous: Option<AmbiguousTurn>,
    /// Time at which the last slow turn that is over ended.
    pub(super) slow_end: Option<u64>,
    /// Time of the observation before, if a nested turn had ended just then.
    pub(super) nested: Option<u64>,
    /// Time that was counted when the next observation was planned.
    pub(super) planned: u64,
    /// Time since which the thread is idle between two turns of the episode.
    pub(super) idle: Option<u64>,
    pub(super) counted: u64,
    /// Counted time in which the thread slept in the kernel.
    pub(super) slept: u64,
    pub(super) not_counted: [u64; Reason::ALL.len()],
    pub(super) missed: bool,
    pub(super) stalled: bool,
    pub(super) next_sample: u64,
    /// True if beats wake the watchdog.
    pub(super) beat_wakes: bool,
    /// Time since which the thread rests before its first beat.
    pub(super) resting_since: Option<u64>,
}

/// A turn that followed another with no CPU used between: either both were blocked, or the thread
/// was at rest. What it does later shows which.
#[derive(Debug, Clone, Copy)]
pub(super) struct AmbiguousTurn {
    /// Time that the episode had counted before.
    pub(super) counted_before: u64,
    /// The observations before and after.
    pub(super) observed_before: u64,
    pub(super) observed_after: u64,
    pub(super) cpu: u64,
}

/// Share of the time between two turns that a thread used. One that only works uses all of it, one
/// that only blocks nothing; one that used some of it rested.
pub(super) enum CpuShare {
    Nothing,
    Part,
    All,
}

/// The thread's state since the last observation, before its first beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Launching {
    /// The thread worked; and so it does, by its own word, once there was a beat.
    Works,
    /// It has rested until now, or until its first beat.
    Begins,
    /// It runs just now, and was neither at work nor at rest all the time.
    Unclear,
    /// It rests.
    Rests,
}

impl Episode {
    /// The turn that was observed between these times may have been a quick one.
    pub(super) fn note_ambiguous(&mut self, before: u64, after: u64, cpu: u64) {
        self.ambiguous = Some(AmbiguousTurn {
            counted_before: self.counted,
            observed_before: before,
            observed_after: after,
            cpu,
        });
    }

    pub(super) fn add(&mut self, reason: Reason, time: u64) {
        let sum = &mut self.not_counted[reason as usize];
        *sum = sum.saturating_add(time);
    }
}
