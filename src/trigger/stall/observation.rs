//! The detector's input and output: observations; decisions, and the stalls that they are about.

use std::time::Duration;

use crate::platform::gauge::Waits;
use crate::report::{StallClass, StallOutcome};
use crate::trigger::heartbeat::Beat;

/// The watchdog's view of the process at one moment. Times are nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observation {
    /// Monotonic clock, without sleep.
    pub now: u64,
    /// Monotonic clock including sleep. It is read before `now`, so that it may be behind, but is never ahead.
    pub boot: u64,
    /// Time at which this observation was due.
    pub due: u64,
    /// The watched thread's last beat.
    pub beat: Beat,
    /// CPU time of the watched thread.
    pub cpu: u64,
    /// Time for which the watched thread was ready to run but had no CPU; needed only while it hardly beats.
    pub delay: Option<u64>,
    /// Time for which the watchdog's own thread was ready to run but had no CPU, just before this observation.
    pub lag: u64,
    /// Time of the last beat that woke the watchdog, if there was one.
    pub woke: Option<u64>,
    /// True if the watched thread sleeps in the kernel, false if it runs or is ready to; `None` while that is not read.
    pub sleeps: Option<bool>,
    /// True if a tracer is attached to the watched thread.
    pub traced: bool,
    /// A good reason that keeps the watched thread from working.
    pub held: Held,
    /// Kind of wait that the watched thread is in; needed only before its first beat.
    pub waits: Waits,
    /// True once the app has reported that its launch is over.
    pub launched: bool,
    /// Time of the last ping, 0 before the first; `None` of a thread that reports its turns itself.
    pub pinged: Option<u64>,
}

impl Observation {
    /// Returns true if the thread waits for its next event: in its run loop, in a nested one, or, after the launch, before
    /// its first turn.
    pub(super) fn rests(&self) -> bool {
        self.beat.idle() || self.held == Held::Modal || self.launched && self.beat == Beat::NONE
    }
}

/// A good reason for the watched thread not to beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Held {
    /// None.
    #[default]
    No,
    /// It is stopped, by a signal or by a tracer.
    Stopped,
    /// A nested run loop waits for events.
    Modal,
    /// It has ended.
    Ended,
}

/// The action to take after an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Nothing.
    Nothing,
    /// A first beat was missed: take a stack, in case it becomes a stall.
    FirstMiss {
        /// Time since the start, nanoseconds.
        at: u64,
    },
    /// Take a further stack.
    Sample {
        /// Time since the start, nanoseconds.
        at: u64,
    },
    /// The missed beat came after all: forget the stacks.
    Forget,
    /// It is a stall: take a stack and report.
    Stalled(StallInfo),
    /// The stall is over.
    Ended(StallEndInfo),
    /// The stall does not count, for a good reason: forget the stacks, count the reason.
    Dropped(Reason),
}

/// The time of the next observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Monotonic clock, nanoseconds; `None` if the watchdog waits until it is woken.
    pub due: Option<u64>,
    /// True if the next beat wakes the watchdog.
    pub wake_on_beat: bool,
}

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
    /// Time without a beat that is one strike.
    pub timeout: Duration,
    /// Strikes in a row that are a stall.
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
