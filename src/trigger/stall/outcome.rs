//! The outcome of a stall: its length, its kind, and the reasons why others don't count.

use std::time::Duration;

use crate::report::{StallClass, StallOutcome};

words! {
    /// The reason why time was not counted.
    #[non_exhaustive]
    pub enum Reason {
        /// The machine slept.
        Sleep = "sleep",
        /// A debugger held the process or the thread.
        Debugger = "debugger",
        /// The process was stopped or suspended.
        Background = "background",
        /// The watchdog itself had no CPU.
        Late = "late",
        /// A nested run loop waited for events.
        Modal = "modal",
        /// The recorder itself was at work on the watched thread.
        Recorder = "recorder",
    }
}

/// A stall, at the moment when it is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallInfo {
    /// The system's id of the thread that it is about.
    pub thread: u64,
    /// Monotonic clock at its start; at most one time-out late.
    pub start: Duration,
    /// Duration so far, without time that is not counted. It is never longer than the truth.
    pub lasted: Duration,
    /// True if it may have lasted longer: its start was not seen, or some of its time may not count.
    pub at_least: bool,
    /// Its class so far: [`SlowFrames`](StallClass::SlowFrames) never is.
    pub class: StallClass,
    /// Count of turns so far; 1 for one long freeze.
    pub turns: u32,
    /// True if no heartbeat ever came.
    pub never_beat: bool,
    /// CPU time that the thread used since.
    pub cpu: Duration,
    /// Time that it was ready but had no CPU.
    pub delay: Duration,
    /// One strike.
    pub timeout: Duration,
    /// Strikes.
    pub strikes: u32,
}

/// A stall, when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallEndInfo {
    /// The stall as it is known now; `lasted` is its whole duration.
    pub info: StallInfo,
    /// Its outcome.
    pub outcome: StallOutcome,
}
