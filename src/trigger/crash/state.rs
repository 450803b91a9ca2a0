//! What the handlers of one process share: which thread writes, how far it is, and what was installed.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::CrashWriter;
use crate::platform::process_id;
use crate::platform::stacks::CrashStack;

/// The process that installed; 0 while nothing is installed. A child of `fork` has another id.
pub(super) static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The thread that is writing, or has written; 0 for none.
pub(super) static OWNER: AtomicU64 = AtomicU64::new(0);
/// Whether the report is written (or given up).
pub(super) static DONE: AtomicBool = AtomicBool::new(false);
/// The signal that `OWNER` died of.
pub(super) static FIRST_SIGNAL: AtomicU32 = AtomicU32::new(0);
/// Where on its stack `OWNER`'s handler stands while the previous handler runs for it; 0 when it does
/// not.
pub(super) static IN_PREVIOUS: AtomicUsize = AtomicUsize::new(0);
/// The thread that writes for `OWNER`, which stands still: that which takes Mach exceptions.
pub(super) static WRITES_FOR_IT: AtomicU64 = AtomicU64::new(0);
/// How often another signal came to `OWNER` once its report was written.
pub(super) static FOLLOWED: AtomicU32 = AtomicU32::new(0);
/// How often a handler that was there before dealt with what had been reported.
pub(super) static DEALT_WITH: AtomicU32 = AtomicU32::new(0);
/// Handlers that run just now and may look at what is below.
pub(super) static INSIDE: AtomicU32 = AtomicU32::new(0);
/// Handlers that pass on a signal just now that they did not report.
pub(super) static PASSING: AtomicU32 = AtomicU32::new(0);
/// Whether nothing is reported while a debugger is attached.
pub(super) static LEAVE_TO_DEBUGGER: AtomicBool = AtomicBool::new(false);
pub(super) static WRITER: AtomicPtr<CrashWriter> = AtomicPtr::new(std::ptr::null_mut());
pub(super) static STACK: AtomicPtr<CrashStack> = AtomicPtr::new(std::ptr::null_mut());
/// A handler that has dealt with so many faults is called first from then on.
pub(super) const DEALS_WITH_IT: u32 = 8;

/// A signal, as the kernel gave it to the handler.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub signal: i32,
    pub info: *mut libc::siginfo_t,
    pub frame: *mut c_void,
    /// Where the handler stands on its stack.
    pub here: usize,
}

/// Whether a crash is being reported, so that other triggers do nothing. Signal-safe.
pub(crate) fn in_progress() -> bool {
    OWNER.load(Ordering::Acquire) != 0
}

/// Does something that needs the writer to be there; `None` where nothing is installed in this
/// process (any more).
pub(super) fn inside<T>(what: impl FnOnce() -> T) -> Option<T> {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let done = (PROCESS.load(Ordering::SeqCst) == process_id()).then(what);
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    done
}
