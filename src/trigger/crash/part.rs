//! The parts of a crash report, in order of worth: one that is cut off, by a fault of ours or because it stands still, is
//! followed by the next.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::platform::guarded::Guarded;
#[cfg(target_os = "linux")]
use crate::platform::signals;
use crate::platform::signals::SignalFacts;
use crate::platform::{Thread, process_id};

/// A part of a crash report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashPart {
    /// The file, with `head`.
    Open,
    Event,
    /// The thread that crashed, and its images.
    Thread,
    /// Vitals, the app's context, memory near the crash.
    Vitals,
    /// All other threads.
    Threads,
    /// The cost, the losses, `end`, and the file's final name.
    Close,
}

static GUARDED: Guarded = Guarded::new();
/// Count of the parts that were begun.
static BEGUN: AtomicU32 = AtomicU32::new(0);
/// The thread that [`NUDGE`] is sent to, since its part stands still; 0 once it has come.
static NUDGED: AtomicU64 = AtomicU64::new(0);
/// True if the part that runs was cut off by it.
static STOOD_STILL: AtomicBool = AtomicBool::new(false);
/// The signal that a part which stands still is cut off by: the handler never blocks it.
const NUDGE: i32 = libc::SIGABRT;

impl CrashPart {
    pub const ALL: [CrashPart; 6] = [
        CrashPart::Open,
        CrashPart::Event,
        CrashPart::Thread,
        CrashPart::Vitals,
        CrashPart::Threads,
        CrashPart::Close,
    ];

    /// Runs `work`, which writes this part; gives the report's `cut` where that was cut off. Signal-safe.
    pub fn write(self, work: &mut dyn FnMut()) -> Option<&'static str> {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        STOOD_STILL.store(false, Ordering::Relaxed);
        let is_whole = GUARDED.run(&mut || {
            #[cfg(all(feature = "internals", target_os = "linux"))]
            hook::call(self);
            work();
        });
        match STOOD_STILL.load(Ordering::Relaxed) {
            _ if is_whole => None,
            true => Some("a part of the report stood still"),
            false => Some(self.crashed()),
        }
    }

    fn crashed(self) -> &'static str {
        match self {
            CrashPart::Open => "crashed while opening the file",
            CrashPart::Event => "crashed while writing the event",
            CrashPart::Thread => "crashed while unwinding the crashed thread",
            CrashPart::Vitals => "crashed while reading vitals and context",
            CrashPart::Threads => "crashed while capturing the other threads",
            CrashPart::Close => "crashed while closing the report",
        }
    }
}

/// Runs the work that writes all parts: a fault between them ends it. Signal-safe.
pub(super) fn all(work: &mut dyn FnMut()) {
    GUARDED.run(work);
}

/// Has the handler go on behind the part that runs; `false` where none does. Signal-safe.
///
/// # Safety
/// - `context` is what the kernel gave the handler that calls this, on the thread that is in [`all`].
pub(super) unsafe fn cut_off(context: *mut c_void, is_nudge: bool) -> bool {
    STOOD_STILL.store(is_nudge, Ordering::Relaxed);
    // SAFETY: the caller vouches for both.
    unsafe { GUARDED.leave(context) }
}

/// Returns true if this signal is there to cut off a part in which the calling thread stands still, or stood. Signal-safe.
pub(super) fn is_nudge(facts: &SignalFacts, thread: Thread) -> bool {
    let order = Ordering::Relaxed;
    let is_ours = facts.number == NUDGE && facts.sender == Some(process_id());
    is_ours
        && NUDGED
            .compare_exchange(thread.id(), 0, order, order)
            .is_ok()
}

/// A part during which its thread was blocked for so long stands still, nanoseconds.
#[cfg(target_os = "linux")]
const BLOCKED_FOR: u64 = 2_000_000_000;
/// One that takes longer never ends, nanoseconds.
#[cfg(target_os = "linux")]
const AT_MOST: u64 = 10_000_000_000;

/// Observations of the helper thread on the part that is written.
#[cfg(target_os = "linux")]
#[derive(Debug, Default)]
pub(super) struct PartWatch {
    begun: Option<u32>,
    cpu: u64,
    /// Begin of this part, and the last time at which its thread ran.
    since: u64,
    ran: u64,
}

#[cfg(target_os = "linux")]
impl PartWatch {
    /// Cuts off a part that stands still.
    pub fn look(&mut self, owner: Thread, now: u64) {
        let begun = Some(BEGUN.load(Ordering::Relaxed));
        if begun != self.begun {
            (self.begun, self.since, self.ran) = (begun, now, now);
        }
        let progress = owner.progress();
        if progress.is_none_or(|is| is.running || is.cpu != self.cpu) {
            self.ran = now;
        }
        self.cpu = progress.map_or(0, |is| is.cpu);
        if now.saturating_sub(self.ran) >= BLOCKED_FOR || now.saturating_sub(self.since) >= AT_MOST
        {
            (self.since, self.ran) = (now, now);
            NUDGED.store(owner.id(), Ordering::Relaxed);
            signals::send(owner, NUDGE);
        }
    }
}

#[cfg(all(feature = "internals", target_os = "linux"))]
pub use hook::set_phase_hook;

/// For tests alone: no app has it.
#[cfg(all(feature = "internals", target_os = "linux"))]
mod hook {
    use std::sync::atomic::{AtomicPtr, Ordering};

    use super::CrashPart;

    static HOOK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

    /// Has `hook` called, in the handler, at the beginning of each part of the writing, with what the report
    /// has after a crash in that part. A test crashes there, or kills the process.
    pub fn set_phase_hook(hook: fn(&'static str)) {
        HOOK.store(hook as *mut (), Ordering::Relaxed);
    }

    pub(super) fn call(part: CrashPart) {
        let hook = HOOK.load(Ordering::Relaxed);
        if !hook.is_null() {
            // SAFETY: only `set_phase_hook` stores a pointer that is not null: such a function.
            let hook = unsafe { std::mem::transmute::<*mut (), fn(&'static str)>(hook) };
            hook(part.crashed());
        }
    }
}
