//! Has a crash report written, on the stack that is kept for it.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

#[cfg(target_vendor = "apple")]
use super::life;
use super::part;
#[cfg(target_vendor = "apple")]
use super::state::{self, CrashOwner, CrashStage, DEALS_WITH_IT, LEAVE_TO_DEBUGGER, STATE};
use super::state::{FIRST_SIGNAL, SALVAGE_STACK, STACK, WRITER};
use super::{CrashWriter, Crashed, Stamp};
use crate::capture::Registers;
#[cfg(target_vendor = "apple")]
use crate::platform::is_debugged;
use crate::platform::signals::SignalFacts;
#[cfg(target_vendor = "apple")]
use crate::platform::signals::{self, Previous};
use crate::platform::{Thread, stacks};
use crate::trigger::panic;

/// Has the report written, on the stack that is kept for it. Signals that come meanwhile have a stack of their own:
/// the alternate one, on which the handler's own frame lies, looks unused to the kernel.
///
/// # Safety
/// - The calling thread is the one in `CrashStage::Writing`.
pub(super) unsafe fn write(
    thread: Thread,
    signal: SignalFacts,
    registers: Registers,
    exception: Option<&'static str>,
) {
    FIRST_SIGNAL.store(signal.number.unsigned_abs(), Ordering::Release);
    // SAFETY: only `install` stores here, references that live for ever.
    let (writer, stack) = unsafe {
        (
            WRITER.load(Ordering::Acquire).as_ref(),
            STACK.load(Ordering::Acquire).as_ref(),
        )
    };
    if let (Some(writer), Some(stack)) = (writer, stack) {
        let mut call = Arguments {
            writer,
            thread,
            signal,
            registers,
            exception,
        };
        // SAFETY: one thread at a time is writing; `body` cannot unwind, being `extern "C"`.
        unsafe { stack.run(body, std::ptr::from_mut(&mut call).cast()) };
    }
}

/// Writes the report of `thread`, which stands still with these registers, on the calling one.
/// `false` where it is left to the signal that follows.
#[cfg(target_vendor = "apple")]
pub(super) fn write_for(
    thread: Thread,
    signal: SignalFacts,
    registers: Registers,
    exception: &'static str,
) -> bool {
    let seen = state::now();
    if matches!(seen.state, CrashStage::Answered(_)) {
        life::goes_on(seen);
    }
    let seen = state::now();
    let handled =
        signals::previous(signal.number) == Previous::Handler && seen.survived() >= DEALS_WITH_IT;
    if handled || (LEAVE_TO_DEBUGGER.load(Ordering::Relaxed) && is_debugged()) {
        return false;
    }
    let Some(writing) = STATE.claim(seen, CrashOwner::current()) else {
        return false;
    };
    // SAFETY: claimed just now.
    unsafe { write(thread, signal, registers, Some(exception)) };
    STATE.dies(writing, CrashOwner::of(thread)).is_some()
}

/// Arguments of the handler's body on the crash stack.
struct Arguments {
    writer: &'static CrashWriter,
    thread: Thread,
    signal: SignalFacts,
    registers: Registers,
    exception: Option<&'static str>,
}

extern "C" fn body(argument: *mut c_void) {
    // SAFETY: `write` passes a pointer to `Arguments` that outlives this run.
    let call = unsafe { &*argument.cast::<Arguments>() };
    // SAFETY: only `install` stores here, references that live for ever.
    let stack = unsafe { SALVAGE_STACK.load(Ordering::Acquire).as_ref() };
    stacks::with_stack_for_signals(stack, || write_here(call));
}

fn write_here(call: &Arguments) {
    part::all(&mut || {
        (call.writer.write)(&Crashed {
            thread: call.thread,
            signal: call.signal,
            registers: call.registers,
            exception: call.exception,
            // Only a thread that has panicked has its counter: asking makes one, by malloc in a library.
            panicking: call.thread == Thread::current()
                && panic::has_panicked()
                && std::thread::panicking(),
            stamp: Stamp::fresh(),
        });
    });
}
