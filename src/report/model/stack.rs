//! Threads and samples.

use super::event::word;
use super::{Extra, Frame, Omitted, WalkEnd};

/// One thread of the process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Thread {
    /// The system's id of the thread.
    pub id: u64,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Whether it is the thread that was watched.
    pub main: bool,
    /// Whether it is the thread that crashed.
    pub crashed: bool,
    /// `running`, `runnable`, `blocked`, `uninterruptible`, `stopped`, `unresponsive`.
    pub state: Option<String>,
    /// The system call it was in, by name or number.
    pub syscall: Option<String>,
    /// CPU time, nanoseconds.
    pub cpu: Option<u64>,
    /// Registers by name, in the platform's customary order.
    pub registers: Vec<(String, u64)>,
    /// The stack, innermost frame first.
    pub frames: Vec<Frame>,
    /// Why the walk stopped.
    pub end: Option<WalkEnd>,
    /// Where frames were left out of [`Thread::frames`], and how many.
    pub omitted: Option<Omitted>,
    /// Keys not known here.
    pub extra: Extra,
}

impl Thread {
    /// The name of what is no thread, but the stack of the exception that ended the process: where it
    /// was thrown first, rather than where the process then aborted.
    pub const LAST_EXCEPTION: &'static str = "Last Exception Backtrace";

    /// The word in the report that says why the walk stopped, be it one that this version does not know.
    pub fn end_word(&self) -> Option<&str> {
        let end = self.end?;
        Some(word(
            end.as_str(),
            end == WalkEnd::Other,
            &self.extra,
            "end",
        ))
    }
}

/// One stack taken during a stall.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Since the stall's start, nanoseconds.
    pub at: u64,
    /// State of the thread, as in [`Thread::state`].
    pub state: Option<String>,
    /// How many samples in a row had this stack.
    pub count: u64,
    /// How many rootward frames are those of the sample before.
    pub keep: u64,
    /// The rest of the frames, leafward, innermost first.
    pub frames: Vec<Frame>,
    /// Where frames were left out of [`Sample::frames`], and how many.
    pub omitted: Option<Omitted>,
    /// Why the walk stopped, where it stopped before the thread's first function.
    pub end: Option<WalkEnd>,
    /// Keys not known here.
    pub extra: Extra,
}

impl Sample {
    /// The word in the report that says why the walk stopped, be it one that this version does not know.
    pub fn end_word(&self) -> Option<&str> {
        let end = self.end?;
        Some(word(
            end.as_str(),
            end == WalkEnd::Other,
            &self.extra,
            "end",
        ))
    }
}
