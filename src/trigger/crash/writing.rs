//! Writes the report of a crash part by part, in order of worth, on the stack that is kept for it: a part that is cut off, by a
//! fault of ours or because it stands still, is followed by the next.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Crashed;
use super::installed::{Installed, installed};
use super::watch;
use crate::capture::Registers;
use crate::platform::guarded::{ResumePoint, Uncancelled};
use crate::platform::signals::{self, SignalInfo};
use crate::platform::{Thread, errno, set_errno, stacks};
use crate::report::CutReason;
use crate::trigger::panic;

/// Has the report written, on the stack that is kept for it. Signals that come meanwhile have a stack of their own:
/// the alternate one, on which the handler's own frame lies, looks unused to the kernel.
///
/// # Safety
/// - The calling thread is the owner in `CrashStage::Writing`.
pub(super) unsafe fn write(
    thread: Thread,
    signal: SignalInfo,
    registers: Registers,
    exception: Option<&'static str>,
) {
    let Some(ours) = installed() else { return };
    // The thread that is woken here checks that the writing makes progress, and that the process is alive.
    (ours.writer.wake)();
    let crashed = Crashed {
        thread,
        signal,
        registers,
        exception,
        // Ask `panicking()` only after a panic: the first call makes the thread's counter, which in a library may call malloc.
        panicking: thread == Thread::current() && panic::has_panicked() && std::thread::panicking(),
    };
    let mut call = (ours, crashed);
    // SAFETY: one thread at a time is writing; `body` cannot unwind, being `extern "C"`.
    unsafe { ours.stack.run(body, std::ptr::from_mut(&mut call).cast()) };
}

extern "C" fn body(argument: *mut c_void) {
    // SAFETY: `write` passes a pointer to such a pair that outlives this run.
    let (ours, crashed) = unsafe { &*argument.cast::<(&Installed, Crashed)>() };
    stacks::with_stack_for_signals(&ours.salvage, || {
        signals::block_all_but_faults();
        // A thread may be without a thread pointer, and has no errno then.
        let mut kept = None;
        GUARDED.run(&mut || kept = Some((errno(), Uncancelled::begin())));
        // A fault between two parts ends all of them.
        GUARDED.run(&mut || (ours.writer.write)(crashed));
        kept.inspect(|&(errno, _)| set_errno(errno));
    });
}

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

static GUARDED: ResumePoint = ResumePoint::new();
/// True if the part that runs was cut off by a signal that was sent for that.
static STOOD_STILL: AtomicBool = AtomicBool::new(false);
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
    pub fn write(self, work: &mut dyn FnMut()) -> Option<CutReason> {
        STOOD_STILL.store(false, Ordering::Relaxed);
        watch::begin_part();
        let is_whole = GUARDED.run(&mut || {
            #[cfg(all(feature = "__internals", target_os = "linux"))]
            hook::call(self);
            work();
        });
        (!is_whole).then(|| self.cut(STOOD_STILL.load(Ordering::Relaxed)))
    }

    fn cut(self, is_stuck: bool) -> CutReason {
        use CutReason::*;
        let [crashed, stuck] = match self {
            CrashPart::Open => [CrashedOpening, StuckOpening],
            CrashPart::Event => [CrashedInEvent, StuckInEvent],
            CrashPart::Thread => [CrashedUnwinding, StuckUnwinding],
            CrashPart::Vitals => [CrashedInVitals, StuckInVitals],
            CrashPart::Threads => [CrashedInThreads, StuckInThreads],
            CrashPart::Close => [CrashedClosing, StuckClosing],
        };
        if is_stuck { stuck } else { crashed }
    }
}

/// Has the handler continue after the part that runs; `false` where none does. Signal-safe.
///
/// # Safety
/// - `context` is what the kernel gave the handler that calls this, on the thread that writes.
pub(super) unsafe fn cut_off(context: *mut c_void, is_cut_off: bool) -> bool {
    STOOD_STILL.store(is_cut_off, Ordering::Relaxed);
    // SAFETY: the caller vouches for both.
    unsafe { GUARDED.resume_after_work(context) }
}

#[cfg(all(feature = "__internals", target_os = "linux"))]
pub use hook::set_phase_hook;

/// For tests alone: no app has it.
#[cfg(all(feature = "__internals", target_os = "linux"))]
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
            hook(part.cut(false).as_str());
        }
    }
}
