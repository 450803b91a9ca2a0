//! Has a crash report written: by the writer thread, and on the stack that is kept for it where the writer thread does
//! not.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::claims::Claims;
#[cfg(target_vendor = "apple")]
use super::state::{DEALS_WITH_IT, DEALT_WITH, LEAVE_TO_DEBUGGER, OWNER, WRITES_FOR_IT, inside};
use super::state::{DONE, FIRST_SIGNAL, STACK, WRITER};
#[cfg(target_os = "linux")]
use super::writer_thread;
use super::{CrashWriter, Crashed, Phase, Stamp, WriterRole};
use crate::capture::Registers;
#[cfg(target_vendor = "apple")]
use crate::platform::is_debugged;
use crate::platform::signals::SignalFacts;
#[cfg(target_vendor = "apple")]
use crate::platform::signals::{self, Previous};
use crate::platform::{Thread, ThreadName};

/// Has the report written, on the stack that is kept for it.
///
/// # Safety
/// - OWNER is `thread`, and was set by the caller.
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
        // SAFETY: OWNER lets one thread come here, once; `body` cannot unwind, being `extern "C"`.
        unsafe { stack.run(body, std::ptr::from_mut(&mut call).cast()) };
    }
    DONE.store(true, Ordering::Release);
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
    let written = inside(|| {
        let handled = signals::previous(signal.number) == Previous::Handler
            && DEALT_WITH.load(Ordering::Relaxed) >= DEALS_WITH_IT;
        if handled || (LEAVE_TO_DEBUGGER.load(Ordering::Relaxed) && is_debugged()) {
            return false;
        }
        let claimed = OWNER.compare_exchange(0, thread.id(), Ordering::AcqRel, Ordering::Acquire);
        if claimed.is_err() {
            return false;
        }
        WRITES_FOR_IT.store(Thread::current().id(), Ordering::Release);
        // SAFETY: OWNER is that thread, since just now.
        unsafe { write(thread, signal, registers, Some(exception)) };
        WRITES_FOR_IT.store(0, Ordering::Release);
        true
    });
    written == Some(true)
}

/// What the handler hands to its body on the crash stack.
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
    #[cfg_attr(
        not(target_os = "linux"),
        allow(unused_mut, reason = "it has no writer thread")
    )]
    let mut crashed = Crashed {
        thread: call.thread,
        signal: call.signal,
        registers: call.registers,
        exception: call.exception,
        panicking: call.thread == Thread::current() && std::thread::panicking(),
        name: ThreadName::of(call.thread),
        stamp: Stamp::fresh(),
        claims: Claims::fresh(),
    };
    #[cfg(target_os = "linux")]
    match writer_thread::write(call.writer, &crashed) {
        writer_thread::Handed::Complete => return,
        writer_thread::Handed::Died => crashed.claims.writer_thread_died = true,
        writer_thread::Handed::Not | writer_thread::Handed::Stuck => {}
    }
    (call.writer.write)(&crashed);
}

pub(super) extern "C" fn salvage(_: *mut c_void) {
    closes(WriterRole::Dying);
}

/// Has what this writer has written closed, after a crash in its writing.
pub(super) fn closes(role: WriterRole) {
    // SAFETY: only `install` stores here, references that live for ever.
    if let Some(writer) = unsafe { WRITER.load(Ordering::Acquire).as_ref() } {
        (writer.salvage)(role, Phase::now(role));
    }
}
