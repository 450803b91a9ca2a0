//! The event that a report is about.

use std::time::Duration;

use super::{Extra, Value};
use crate::report::wire::fields::{Address, As, Maybe, Nanos, extra, lenient};

words! {
    /// The kind of event that a report is about.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum EventKind {
        /// The watched thread's run loop did not come round in time.
        Stall = "stall",
        /// A fatal signal or Mach exception.
        Crash = "crash",
        /// A Rust panic.
        Panic = "panic",
        /// An uncaught Objective-C or C++ exception.
        Exception = "exception",
        /// Asked for by the app.
        Live = "live",
        /// Too much CPU for too long.
        Cpu = "cpu",
        /// Too much memory.
        Memory = "memory",
        /// A type that this version does not know; its name is in [`Event::extra`] under `type`.
        #[default]
        #[serde(other)]
        Other = "other",
    }
}

words! {
    /// The class of a stall.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum StallClass {
        /// The launch: no turn has ended yet.
        Launch = "launch",
        /// The thread used the CPU.
        Busy = "busy",
        /// The thread waited in the kernel: for a lock, a file, a peer.
        Blocked = "blocked",
        /// The thread was ready to run, but the machine gave it no CPU.
        Starved = "starved",
        /// The frame rate was low while the thread used the CPU.
        SlowFrames = "slow_frames",
        /// A class that this version does not know; [`Report::class_word`](super::Report::class_word) returns its name.
        #[default]
        #[serde(other)]
        Other = "other",
    }
}

impl Event {
    /// Returns the report's word for what happened. It may be one that this version does not know.
    pub fn word(&self) -> &str {
        word(self.kind.as_str(), &self.extra, "type")
    }
}

/// The word under `key` in `extra`, which the reader put there if it is not known; else `known`.
pub(super) fn word<'a>(known: &'a str, extra: &'a Extra, key: &str) -> &'a str {
    match extra.iter().find(|(name, _)| name == key) {
        Some((_, Value::Text(word))) => word,
        _ => known,
    }
}

section! {
    /// The event that a report is about.
    #[derive(Default)]
    Event, EventView<'a> {
        /// `stall`, `crash` (a signal or Mach exception), `panic` (Rust), `exception` (uncaught, Objective-C or C++),
        /// `live` (by `record`), `cpu`, `memory` (too much of it).
        /// *always*
        #[serde(rename = "type", deserialize_with = "lenient")]
        kind: EventKind,
        /// True if the process died of it.
        /// *else `false`*
        #[serde(deserialize_with = "lenient")]
        fatal: bool,
        /// The signal, for a crash.
        /// *else none*
        #[serde(deserialize_with = "lenient")]
        signal: Option<Signal> as Option<SignalView<'a>>,
        /// The thresholds that a stall passed.
        /// *else none*
        #[serde(deserialize_with = "lenient")]
        thresholds: Option<Thresholds> as Option<ThresholdsView>,
        /// Class of a stall: `busy`, `blocked`, `starved`, `launch`, `slow_frames`.
        /// *else unknown*
        #[serde(deserialize_with = "lenient")]
        class: Option<StallClass>,
        /// Name of the exception or of the panicking thread.
        /// *else none*
        #[serde(deserialize_with = "lenient")]
        name: Option<String> as Option<&'a str>,
        /// `file:line:column` of the panic.
        /// *else none*
        #[serde(deserialize_with = "lenient")]
        location: Option<String> as Option<&'a str>,
        /// One line for people; in a live report, what the app passed to `record`.
        /// *else none*
        #[serde(deserialize_with = "lenient")]
        reason: Option<String> as Option<&'a str>,
        /// Id of the thread that the report is about.
        /// *else the one that crashed, or the main one*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        thread: Option<u64>,
        /// The watched thread that stalled, unless it is the one that installed.
        /// *else the thread that installed, or none*
        #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        watched: Option<Watched> as Option<WatchedView<'a>>,
        /// Message of the panic or exception.
        /// *else none*
        #[serde(deserialize_with = "lenient")]
        message: Option<String> as Option<&'a str>,
    }
}

section! {
    /// A fatal signal.
    #[derive(Default)]
    Signal, SignalView<'a> {
        /// Number on the platform that wrote the report.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        number: u64,
        /// As `SIGSEGV`.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        name: String as &'a str,
        /// `si_code`.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        code: i64,
        /// As `SEGV_MAPERR`.
        /// *else unknown*
        #[serde(deserialize_with = "lenient")]
        code_name: Option<String> as Option<&'a str>,
        /// The fault address.
        /// *else none; avma*
        #[serde(with = "Maybe::<Address>")]
        address: Option<u64>,
    }
}

section! {
    /// Thresholds that make a freeze a stall.
    #[derive(Default)]
    Thresholds, ThresholdsView {
        /// Time without a beat of the watched thread that makes a strike.
        /// *always; ns*
        #[serde(with = "As::<Nanos>")]
        timeout: Duration,
        /// Count of strikes in a row that make a stall.
        /// *always; count*
        #[serde(deserialize_with = "lenient")]
        strikes: u64,
    }
}

section! {
    /// A watched thread besides the one that installed, and its pool when the stall was certain.
    #[derive(Default)]
    Watched, WatchedView<'a> {
        /// The app's name for the thread, or for its pool.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        name: String as &'a str,
        /// Number of the thread in its pool, from 1.
        /// *else it is in no pool*
        #[serde(deserialize_with = "lenient")]
        number: Option<u64>,
        /// Count of the threads of the pool.
        /// *else it is in no pool; count*
        #[serde(deserialize_with = "lenient")]
        pool: Option<u64>,
        /// Count of its threads that were at rest: outside of a turn.
        /// *else it is in no pool; count*
        #[serde(deserialize_with = "lenient")]
        at_rest: Option<u64>,
        /// Count of its threads in a stall, this one among them.
        /// *else it is in no pool; count*
        #[serde(deserialize_with = "lenient")]
        stalled: Option<u64>,
    }
}
