//! Threads and samples.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::word;
use super::hold::{Hold, Owned, Owning};
use super::{Extra, Omitted, WalkEnd};
use crate::report::wire::fields::{As, Maybe, Nanos, extra, flag, frames, lenient, registers};

/// One thread of the process.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Thread<H: Hold = Owned> {
    /// The system's id of the thread.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub id: u64,
    /// True for the thread that was watched.
    /// *else `false`*
    #[serde(with = "flag")]
    pub main: bool,
    /// True for the thread that crashed.
    /// *else `false`*
    #[serde(with = "flag")]
    pub crashed: bool,
    /// Its name; `Last Exception Backtrace` is no thread (its `id` is 0), but where the exception that ended
    /// the process was thrown first.
    /// *else none*
    #[serde(deserialize_with = "lenient")]
    pub name: Option<H::Text>,
    /// `running`, `runnable`, `blocked`, `uninterruptible`, `stopped`, `unresponsive`, `crashed too`, `ended`
    /// (a main thread that ended before the process).
    /// *else unknown*
    #[serde(deserialize_with = "lenient")]
    pub state: Option<H::Text>,
    /// The system call it was in, by name or number.
    /// *else none*
    #[serde(deserialize_with = "lenient")]
    pub syscall: Option<H::Text>,
    /// Its CPU time.
    /// *else unknown; ns*
    #[serde(with = "Maybe::<Nanos>")]
    pub cpu: Option<Duration>,
    /// The reason why the walk stopped: `root`, `truncated`, `unreadable`, `no unwind info`, `limit`.
    /// *else unknown*
    #[serde(
        deserialize_with = "lenient",
        skip_serializing_if = "WalkEnd::is_other"
    )]
    pub end: Option<WalkEnd>,
    /// Registers by name, in the platform's customary order.
    /// *else none*
    #[serde(with = "registers")]
    pub registers: H::Numbers,
    /// The stack, innermost frame first.
    /// *else none*
    #[serde(with = "frames")]
    pub frames: H::Frames,
    /// Place and count of the frames that were left out.
    /// *else nothing is missing*
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
        end_word(self.end?, &self.extra)
    }
}

/// One stack taken during a stall.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Sample<H: Hold = Owned> {
    /// Time since the stall's start.
    /// *always; ns*
    #[serde(with = "As::<Nanos>")]
    pub at: Duration,
    /// Count of samples in a row that had this stack.
    /// *always; count*
    #[serde(deserialize_with = "lenient")]
    pub count: u64,
    /// Count of outermost frames that are those of the sample before.
    /// *always; frames*
    #[serde(deserialize_with = "lenient")]
    pub keep: u64,
    /// As in `thread`.
    /// *else unknown*
    #[serde(deserialize_with = "lenient")]
    pub state: Option<H::Text>,
    /// The reason why the walk stopped earlier, as in `thread`.
    /// *else the walk reached the thread's first function, or unknown*
    #[serde(
        deserialize_with = "lenient",
        skip_serializing_if = "WalkEnd::is_other"
    )]
    pub end: Option<WalkEnd>,
    /// The rest of the frames, innermost first.
    /// *else none*
    #[serde(with = "frames")]
    pub frames: H::Frames,
    /// Place and count of the frames that were left out.
    /// *else nothing is missing*
    #[serde(deserialize_with = "lenient")]
    pub omitted: Option<Omitted>,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

impl Sample {
    /// The word in the report that says why the walk stopped, be it one that this version does not know.
    pub fn end_word(&self) -> Option<&str> {
        end_word(self.end?, &self.extra)
    }
}

fn end_word(end: WalkEnd, extra: &Extra) -> Option<&str> {
    let is_other = end == WalkEnd::Other;
    Some(word(end.as_str(), is_other, extra, "end"))
}
