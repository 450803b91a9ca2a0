//! Threads and samples.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::word;
use super::hold::{Hold, Owned, Owning};
use super::{Omitted, WalkEnd};
use crate::report::wire::fields::{extra, flag, frames, lenient, registers};
use crate::report::wire::times::duration;

/// One thread of the process.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Thread<H: Hold = Owned> {
    /// The system's id of the thread.
    #[serde(deserialize_with = "lenient")]
    pub id: u64,
    /// Whether it is the thread that was watched.
    #[serde(with = "flag")]
    pub main: bool,
    /// Whether it is the thread that crashed.
    #[serde(with = "flag")]
    pub crashed: bool,
    /// Its name, where it has one.
    #[serde(deserialize_with = "lenient")]
    pub name: Option<H::Text>,
    /// `running`, `runnable`, `blocked`, `uninterruptible`, `stopped`, `unresponsive`.
    #[serde(deserialize_with = "lenient")]
    pub state: Option<H::Text>,
    /// The system call it was in, by name or number.
    #[serde(deserialize_with = "lenient")]
    pub syscall: Option<H::Text>,
    /// CPU time.
    #[serde(with = "duration::optional")]
    pub cpu: Option<Duration>,
    /// Why the walk stopped.
    #[serde(
        deserialize_with = "lenient",
        skip_serializing_if = "WalkEnd::is_other"
    )]
    pub end: Option<WalkEnd>,
    /// Registers by name, in the platform's customary order.
    #[serde(with = "registers")]
    pub registers: H::Numbers,
    /// The stack, innermost frame first.
    #[serde(with = "frames")]
    pub frames: H::Frames,
    /// Where frames were left out of [`Thread::frames`], and how many.
    #[serde(deserialize_with = "lenient")]
    pub omitted: Option<Omitted>,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
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
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Sample<H: Hold = Owned> {
    /// Since the stall's start.
    #[serde(with = "duration")]
    pub at: Duration,
    /// How many samples in a row had this stack.
    #[serde(deserialize_with = "lenient")]
    pub count: u64,
    /// How many outermost frames are those of the sample before.
    #[serde(deserialize_with = "lenient")]
    pub keep: u64,
    /// State of the thread, as in [`Thread::state`].
    #[serde(deserialize_with = "lenient")]
    pub state: Option<H::Text>,
    /// Why the walk stopped, where it stopped before the thread's first function.
    #[serde(
        deserialize_with = "lenient",
        skip_serializing_if = "WalkEnd::is_other"
    )]
    pub end: Option<WalkEnd>,
    /// The rest of the frames, innermost first.
    #[serde(with = "frames")]
    pub frames: H::Frames,
    /// Where frames were left out of [`Sample::frames`], and how many.
    #[serde(deserialize_with = "lenient")]
    pub omitted: Option<Omitted>,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
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
