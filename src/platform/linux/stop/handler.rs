//! The handler of captures. It copies the machine context and the stack.

use std::sync::atomic::{AtomicU32, Ordering};

use super::copy;
use super::slot::{COPYING, CaptureSlot, DONE, REFUSED, REQUESTED, request_to_this_thread};
use crate::platform::clock::monotonic as now;
use crate::platform::linux::{SI_TKILL, context, send_again};
use crate::platform::{process_id, signals};

/// Count of the handlers that are running.
pub(super) static HANDLERS: AtomicU32 = AtomicU32::new(0);

/// Handles a signal of captures: copies the context and the stack.
///
/// Uses nothing at the thread pointer, which may be 0: neither `errno` nor libc's stack canary.
///
/// # Safety
/// - The arguments are what the kernel gave for this signal.
pub unsafe fn handle_capture(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo; a signal that was sent has a sender.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid() as u32) };
    if signal == libc::SIGPROF && (code != SI_TKILL || sender != process_id()) {
        // SAFETY: the caller vouches for the facts.
        return unsafe { act_by_default(signal, info) };
    }
    HANDLERS.fetch_add(1, Ordering::Relaxed);
    // The kernel keeps one SIGPROF at a time: it stands for those that came while it was pending.
    while let Some((slot, generation)) = request_to_this_thread() {
        if slot.try_move(generation, REQUESTED, COPYING) {
            // SAFETY: the request is this handler's alone until it is DONE; the context is what the kernel gave to it.
            unsafe { fill(slot, context.cast()) };
            slot.try_move(generation, COPYING, DONE);
        }
    }
    HANDLERS.fetch_sub(1, Ordering::Relaxed);
}

/// Fills in the request.
///
/// # Safety
/// - The request is the caller's alone.
/// - `context` is what the kernel gave to the handler that calls this.
unsafe fn fill(slot: &CaptureSlot, context: *const libc::ucontext_t) {
    let start = now();
    // SAFETY: the caller vouches for the request and the context.
    unsafe {
        let request = &mut *slot.request.get();
        request.registers = context::registers(context);
        copy::stack(request, start, context);
        request.released_at = now();
        request.stopped = request.released_at.saturating_sub(start);
    }
}

/// Has the default action of SIGPROF deal with one that is not ours: the app has no handler of its own. Where it has put
/// one over ours, that handler has passed on what it dealt with.
///
/// # Safety
/// - `info` is what the kernel gave for this signal.
unsafe fn act_by_default(signal: i32, info: *mut libc::siginfo_t) {
    if signals::is_in_place(signal) {
        signals::set_default(signal);
        // SAFETY: the caller vouches for the facts. The signal is blocked until this handler returns.
        unsafe { send_again(signal, info) };
    }
}

/// Answers for a thread whose stack had no room for the kernel's frame: the kernel has dropped the signal of a capture,
/// left the registers as they were, and raised SIGSEGV without an address. Returns false if the thread was not asked.
/// Signal-safe.
///
/// Source: `setup_rt_frame` in arch/x86/kernel/signal.c, `signal_setup_done` in kernel/signal.c.
pub fn refuse_request() -> bool {
    request_to_this_thread()
        .is_some_and(|(slot, generation)| slot.try_move(generation, REQUESTED, REFUSED))
}
