//! Fatal signals: one thread is let in to write, the others wait, and then the process dies as it
//! would have died without us.
//!
//! Nothing here knows of reports. [`install`] takes a [`CrashWriter`], two functions; each crash is handed to it as one
//! [`Crashed`]. It writes part by part ([`CrashPart::write`]), so that a crash of its own costs one part. A signal that
//! the process lives on after is handed to [`CrashWriter::retract`].
// Signal-safe: nothing in these modules can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod handler;
mod installed;
#[cfg(target_vendor = "apple")]
mod mach;
mod previous;
mod state;
mod survival;
mod waiting;
mod watch;
mod writing;

pub(crate) use handler::{install, uninstall};
pub(crate) use state::{in_progress, is_undecided};
pub(crate) use survival::{LifeWatch, ends_in_order, lives_on};
pub(crate) use waiting::crashed_too;
pub(crate) use watch::{OtherWork, recall_monitor};
pub(crate) use writing::CrashPart;
#[cfg(all(feature = "__internals", target_os = "linux"))]
pub use writing::set_phase_hook;

use crate::capture::Registers;
use crate::platform::Thread;
use crate::platform::signals::{FAULTS, SignalInfo};

settings! {
    /// The kinds of death that are reported.
    ///
    /// ```
    /// let crash = wedjat::Crash::default().sigterm(true).panics(false);
    /// assert_ne!(crash, wedjat::Crash::default());
    /// ```
    #[derive(Eq)]
    pub struct Crash {
        /// Sets whether SIGTERM is reported (off by default): another process wants this one to end.
        pub(crate) sigterm: bool = false;
        /// Sets whether Rust panics are reported (on by default).
        pub(crate) panics: bool = true;
        /// Sets whether signals are left to the debugger while one is attached (off by default): it has seen them
        /// already. No report is written then.
        pub(crate) leave_to_debugger: bool = false;
        /// Sets whether memory near the crash is reported (off by default). It has the bytes around the instruction and the
        /// fault address, the top of the stack, and the C strings that registers point at. The app's data may be in it.
        pub(crate) near_memory: bool = false;
    }
}

impl Crash {
    /// The signals that are reported.
    pub(crate) fn signals(&self) -> &'static [i32] {
        const ALL: [i32; 8] = {
            let [a, b, c, d, e, f, g] = FAULTS;
            [a, b, c, d, e, f, g, libc::SIGTERM]
        };
        if self.sigterm { &ALL } else { &FAULTS }
    }
}

/// A crash, as the writer of its report sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crashed {
    /// The thread that crashed: the calling one, unless the taker of Mach exceptions writes for it.
    pub thread: Thread,
    /// The signal.
    pub signal: SignalInfo,
    /// The registers at the crash.
    pub registers: Registers,
    /// The Mach exception that it came by, where it came by one: the calling thread is another
    /// one then, and the one that crashed stands still.
    pub exception: Option<&'static str>,
    /// True if that thread is in the middle of a Rust panic.
    pub panicking: bool,
}

/// The functions that write the report, and take it back, and the one that has somebody look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrashWriter {
    /// Writes the report. Must be signal-safe.
    pub write: fn(&Crashed),
    /// Removes the report that was written last: a handler that was there before has dealt with the fault,
    /// and the process goes on. Nothing is written meanwhile. Must be signal-safe.
    pub retract: fn(),
    /// Wakes the thread that looks ([`LifeWatch::look`]). Must be signal-safe.
    pub wake: fn(),
}
