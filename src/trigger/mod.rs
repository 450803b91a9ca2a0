//! Decides when to report: heartbeat and watchdog, crashes, panics, load, rate limits.

pub(crate) mod chains;
pub(crate) mod crash;
pub mod heartbeat;
pub mod load;
pub mod load_watch;
pub mod loss;
pub(crate) mod panic;
pub(crate) mod pause;
pub mod ping;
pub mod rate_limit;
pub(crate) mod rest;
pub mod sampling;
pub(crate) mod signal_names;
pub mod stall;
pub(crate) mod terminate;
pub mod watchdog;
pub(crate) mod watched_thread;
mod worker;

pub use crash::Crash;
#[cfg(all(feature = "__internals", target_os = "linux"))]
pub use crash::set_phase_hook;
pub use heartbeat::{Busy, Heartbeat};
pub use load::{CpuLoad, MemoryLoad, SlowFrames};
pub use rate_limit::RateLimit;
pub use stall::Stall;
pub(crate) use worker::{Inbox, Worker};

use std::cell::Cell;

use crate::platform::own_thread;

/// Starts a thread of ours: no signal of the app's is handled on it.
pub(crate) fn spawn(
    name: &str,
    stack: usize,
    work: Box<dyn FnOnce() + Send>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(stack);
    own_thread::spawn(thread, work)
}

thread_local! {
    /// True on a thread of ours whose callback has dropped the monitor.
    static DROPS_MONITOR: Cell<bool> = const { Cell::new(false) };
}

/// Waits for a thread of ours to end, unless it is this one: a callback of the app's that drops the monitor
/// runs on such a thread, which ends by itself once that has returned.
pub(crate) fn join(thread: std::thread::JoinHandle<()>) {
    if thread.thread().id() == std::thread::current().id() {
        DROPS_MONITOR.set(true);
    } else {
        // The panic hook has reported one that panicked.
        let _ = thread.join();
    }
}

/// Returns true on a thread of ours whose callback has dropped the monitor: what the callback needs may be gone.
pub(crate) fn is_left() -> bool {
    DROPS_MONITOR.get()
}
