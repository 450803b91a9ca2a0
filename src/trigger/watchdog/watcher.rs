//! The receiver of what the watchdog finds, and the thread that a call is about.

use std::sync::Arc;

use crate::platform::Thread;
use crate::trigger::stall::{Reason, StallEndInfo, StallInfo};

/// The watched thread that a finding is about.
#[derive(Debug, Clone)]
pub struct WatchTarget {
    /// Its index among the watched threads; 0 is the one that installed.
    pub index: usize,
    /// The thread.
    pub thread: Thread,
    /// The app's name for it or its pool; `None` for the thread that installed.
    pub name: Option<Arc<str>>,
    /// Its number in its pool; 0 for a thread of its own.
    pub number: u32,
    /// True if a launch that ends during a stall of this thread is recorded as `stalled`.
    pub essential: bool,
    /// Counts of the threads of its pool, when it stalled: all, those at rest, those in a stall.
    pub pool: [u64; 3],
}

/// The receiver of stalls. All calls come on the watchdog's own thread, one at a time, and for each watched thread in this
/// order: `first_miss`, any number of `sample`, then `forget`, `dropped` or `stalled`; after
/// `stalled` any number of `sample`, then `ended`. A stall that is certain at once comes without
/// `first_miss`.
pub trait Watcher {
    /// The calls that follow are about this thread.
    fn about(&mut self, _subject: &WatchTarget) {}

    /// More threads than the one that installed are watched from now on.
    fn more_threads(&mut self) {}

    /// A first beat was missed: take a stack. `at`: nanoseconds since the start.
    fn first_miss(&mut self, at: u64);

    /// Take a further stack. `at`: nanoseconds since the start.
    fn sample(&mut self, at: u64);

    /// It was no stall: forget the stacks.
    fn forget(&mut self);

    /// It is a stall: take a stack and begin the report.
    fn stalled(&mut self, info: &StallInfo);

    /// The stall is over: close the report.
    fn ended(&mut self, end: &StallEndInfo);

    /// The stall does not count, for this reason: forget the stacks, count the reason.
    fn dropped(&mut self, reason: Reason);

    /// Threads were observed at `now` (monotonic, nanoseconds), and the calls about them have been made.
    fn observed(&mut self, _now: u64) {}
}
