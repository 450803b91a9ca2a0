//! Threads and samples.

use std::time::Duration;

use super::event::word;
use super::{AsyncChain, Extra, Frame, Omitted, RawChains, RawFrame, WalkEnd};
use crate::report::wire::fields::{
    As, Maybe, Nanos, chains, extra, flag, frames, lenient, registers,
};

words! {
    /// The state of a thread when it was captured.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum ThreadState {
        /// It used the CPU.
        Running = "running",
        /// It was ready to run, and waited for a CPU.
        Runnable = "runnable",
        /// It waited in the kernel.
        Blocked = "blocked",
        /// It waited in the kernel in a way that no signal ends, as for a disk.
        Uninterruptible = "uninterruptible",
        /// A signal or a debugger had stopped it.
        Stopped = "stopped",
        /// It did not answer in time, and has no stack.
        Unresponsive = "unresponsive",
        /// It blocks the signal that stops threads, and has no stack.
        SignalBlocked = "signal blocked",
        /// It crashed while the report of another thread's crash was written.
        CrashedToo = "crashed too",
        /// It had ended: a main thread that ended before the process.
        Ended = "ended",
        /// A state that this version does not know; [`Thread::state_word`] and [`Sample::state_word`] return its name.
        #[default]
        #[serde(other)]
        Other = "other",
    }
}

section! {
    /// One thread of the process.
    #[derive(Default)]
    Thread, ThreadView<'a> {
        /// The system's id of the thread.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        id: u64,
        /// True for the process' first thread, and in a stall's report for the one that was watched.
        /// *else `false`*
        #[serde(with = "flag")]
        main: bool,
        /// True for the thread that crashed.
        /// *else `false`*
        #[serde(with = "flag")]
        crashed: bool,
        /// Its name; `Last Exception Backtrace` (its `id` is 0) is no thread, but the stack of the first throw of the
        /// exception that ended the process.
        /// *else none*
        #[serde(deserialize_with = "lenient")]
        name: Option<String> as Option<&'a str>,
        /// `running`, `runnable`, `blocked`, `uninterruptible`, `stopped`, `unresponsive`, `signal blocked`, `crashed too`, `ended`
        /// (a main thread that ended before the process).
        /// *else unknown*
        #[serde(deserialize_with = "lenient")]
        state: Option<ThreadState>,
        /// The system call it was in, by name or number.
        /// *else none*
        #[serde(deserialize_with = "lenient")]
        syscall: Option<String> as Option<&'a str>,
        /// Its CPU time.
        /// *else unknown; ns*
        #[serde(with = "Maybe::<Nanos>")]
        cpu: Option<Duration>,
        /// The reason why unwinding stopped: `root` (the thread's first function), `truncated`, `unreadable`,
        /// `no unwind info`, `limit`.
        /// *else unknown*
        #[serde(deserialize_with = "lenient")]
        end: Option<WalkEnd>,
        /// Registers by name, in the platform's customary order.
        /// *else none*
        #[serde(with = "registers")]
        registers: Vec<(String, u64)> as &'a [(&'a str, u64)],
        /// The callers that await the function of a frame: `[frame, callers, end]`.
        /// *else none*
        #[serde(rename = "async", with = "chains")]
        tasks: Vec<AsyncChain> as RawChains<'a>,
        /// The stack, innermost frame first.
        /// *else none*
        #[serde(with = "frames")]
        frames: Vec<Frame> as &'a [RawFrame],
        /// Place and count of the omitted frames.
        /// *else nothing is missing*
        #[serde(deserialize_with = "lenient")]
        omitted: Option<Omitted>,
    }
}

impl Thread {
    /// The name of a stack that is no thread's: that of the first throw of the exception that ended the process. The
    /// thread's own stack shows where the process then aborted.
    pub const LAST_EXCEPTION: &'static str = "Last Exception Backtrace";

    /// Returns the report's word for why the walk stopped. It may be one that this version does not know.
    pub fn end_word(&self) -> Option<&str> {
        Some(word(self.end?.as_str(), &self.extra, "end"))
    }

    /// Returns the report's word for the state. It may be one that this version does not know.
    pub fn state_word(&self) -> Option<&str> {
        Some(word(self.state?.as_str(), &self.extra, "state"))
    }
}

section! {
    /// One stack taken during a stall.
    #[derive(Default)]
    Sample, SampleView<'a> {
        /// Time since the stall's start.
        /// *always; ns*
        #[serde(with = "As::<Nanos>")]
        at: Duration,
        /// Count of samples in a row that had this stack.
        /// *always; count*
        #[serde(deserialize_with = "lenient")]
        count: u64,
        /// Count of outermost frames that are those of the sample before.
        /// *always; frames*
        #[serde(deserialize_with = "lenient")]
        keep: u64,
        /// As in `thread`.
        /// *else unknown*
        #[serde(deserialize_with = "lenient")]
        state: Option<ThreadState>,
        /// The reason why unwinding stopped, as in `thread`.
        /// *else `root`, or unknown*
        #[serde(deserialize_with = "lenient")]
        end: Option<WalkEnd>,
        /// The callers that await the function of a frame: `[frame, callers, end]`.
        /// *else none*
        #[serde(rename = "async", with = "chains")]
        tasks: Vec<AsyncChain> as RawChains<'a>,
        /// The rest of the frames, innermost first.
        /// *else none*
        #[serde(with = "frames")]
        frames: Vec<Frame> as &'a [RawFrame],
        /// Place and count of the omitted frames.
        /// *else nothing is missing*
        #[serde(deserialize_with = "lenient")]
        omitted: Option<Omitted>,
    }
}

impl Sample {
    /// Returns the report's word for why the walk stopped. It may be one that this version does not know.
    pub fn end_word(&self) -> Option<&str> {
        Some(word(self.end?.as_str(), &self.extra, "end"))
    }

    /// Returns the report's word for the state. It may be one that this version does not know.
    pub fn state_word(&self) -> Option<&str> {
        Some(word(self.state?.as_str(), &self.extra, "state"))
    }
}
