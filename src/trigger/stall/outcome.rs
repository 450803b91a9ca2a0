//! The outcome of a stall: its length, its kind, and the reasons why others don't count.

use std::time::Duration;

/// The reason why time was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The machine slept.
    Sleep,
    /// A debugger held the process or the thread.
    Debugger,
    /// The process was stopped or suspended.
    Background,
    /// The watchdog itself had no CPU.
    Late,
    /// A nested run loop waited for events.
    Modal,
    /// The recorder itself was at work on the watched thread.
    Recorder,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 6] = [
        Reason::Sleep,
        Reason::Debugger,
        Reason::Background,
        Reason::Late,
        Reason::Modal,
        Reason::Recorder,
    ];

    /// The word in the `loss` section.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Sleep => "sleep",
            Reason::Debugger => "debugger",
            Reason::Background => "background",
            Reason::Late => "late",
            Reason::Modal => "modal",
            Reason::Recorder => "recorder",
        }
    }
}

/// The kind of a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The launch: no turn has ended yet.
    Launch,
    /// The thread used the CPU.
    Busy,
    /// The thread waited in the kernel: for a lock, a file, a peer.
    Blocked,
    /// The thread was ready to run, but the machine gave it no CPU.
    Starved,
}

impl Class {
    /// The word in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Launch => "launch",
            Class::Busy => "busy",
            Class::Blocked => "blocked",
            Class::Starved => "starved",
        }
    }
}

/// A stall, at the moment when it is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallInfo {
    /// Monotonic clock at its start; to within one time-out.
    pub start: Duration,
    /// Duration so far, without time that is not counted.
    pub lasted: Duration,
    /// Its kind so far.
    pub class: Class,
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
    pub how: How,
}

/// The outcome of a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum How {
    /// The thread beats again.
    Recovered,
    /// The monitor was uninstalled while it lasted.
    Uninstalled,
    /// The thread ended in the middle of it.
    ThreadEnded,
}

impl How {
    /// The word in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            How::Recovered => "recovered",
            How::Uninstalled => "uninstalled",
            How::ThreadEnded => "thread_ended",
        }
    }
}
