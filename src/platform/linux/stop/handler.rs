//! The signal handler of captures. It copies the machine context and the stack.

use std::sync::atomic::{AtomicU32, Ordering};

use super::copy;
use super::slot::{
    COPYING, CaptureSlot, DONE, GENERATION_MASK, GENERATION_SHIFT, PHASE_MASK, REQUESTED, SLOTS,
    WAITING,
};
use super::wait::futex_wake;
use crate::platform::Thread;
use crate::platform::clock::monotonic as now;
use crate::platform::linux::entry::{HandlerStack, entry};
use crate::platform::linux::{SI_QUEUE, SI_TKILL, context};

/// Stands in a signal's value for a slot's number: the signal offers an alternate stack of this generation.
#[cfg(feature = "thread-stacks")]
pub(super) const STACK_OFFER: u64 = 0xff;

/// Count of the handlers that are running.
pub(super) static HANDLERS: AtomicU32 = AtomicU32::new(0);

entry!(
    /// Entry point of the handler of captures. Without a stack for [`answer`] the request is not answered.
    capture, answer, ["ret"], {}
);

/// Handles a signal of captures: copies the context and the stack, and runs the request's work on them.
///
/// Uses nothing at the thread pointer, which may be 0: neither `errno` nor libc's stack canary.
///
/// # Safety
/// - The arguments are what the kernel gave for this signal.
unsafe extern "C-unwind" fn answer(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    _sp: usize,
    _stack: Option<&'static HandlerStack>,
) {
    // SAFETY: the kernel gives a valid siginfo; a queued signal carries a value.
    let (code, value) = unsafe { ((*info).si_code, (*info).si_value().sival_ptr as u64) };
    let slot = match code {
        SI_QUEUE => {
            let slot = SLOTS.get((value >> 56) as usize);
            slot.map(|slot| (slot, value & GENERATION_MASK))
        }
        SI_TKILL => request_without_value(),
        _ => None,
    };
    #[cfg(feature = "thread-stacks")]
    if value >> 56 == STACK_OFFER && code == SI_QUEUE {
        // SAFETY: the context that the kernel gave to this handler.
        unsafe {
            crate::platform::linux::thread_stacks::take(value & GENERATION_MASK, context.cast())
        };
    }
    // SAFETY: the context that the kernel gave to this handler.
    unsafe { answer_request(slot, context.cast()) };
}

/// Answers the request in the slot, if it still has this generation and was not withdrawn. Signal-safe.
///
/// # Safety
/// - `context` is what the kernel gave to the handler that calls this.
pub(super) unsafe fn answer_request(
    request: Option<(&'static CaptureSlot, u64)>,
    context: *const libc::ucontext_t,
) {
    HANDLERS.fetch_add(1, Ordering::Relaxed);
    if let Some((slot, generation)) = request {
        let requested = (generation << GENERATION_SHIFT) | REQUESTED;
        let copying = (generation << GENERATION_SHIFT) | COPYING;
        // The stopper may set WAITING between the two tries, and never clears it.
        let claimed = [
            (requested, copying),
            (requested | WAITING, copying | WAITING),
        ]
        .into_iter()
        .any(|(from, to)| {
            slot.state
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        if claimed {
            let start = now();
            // SAFETY: claimed: the request is this handler's alone until it is DONE.
            let request = unsafe { &mut *slot.request.get() };
            // SAFETY: the caller vouches for the context.
            request.registers = unsafe { context::registers(context) };
            // SAFETY: as above.
            unsafe { copy::stack(request, start, context) };
            copy::while_stopped(request, start);
            request.stopped = now().saturating_sub(start);
            let done = (generation << GENERATION_SHIFT) | DONE;
            if slot.state.swap(done, Ordering::AcqRel) & WAITING != 0 {
                futex_wake(&slot.state);
            }
        }
    }
    HANDLERS.fetch_sub(1, Ordering::Relaxed);
}

/// Returns the slot that the calling thread is to answer, and its generation, for a signal that carries neither. A
/// late signal answers the present request.
pub(super) fn request_without_value() -> Option<(&'static CaptureSlot, u64)> {
    let this = Thread::current().tid();
    SLOTS.iter().find_map(|slot| {
        // The state is read first: a request to another thread withdraws the last one before it writes the thread.
        let state = slot.state.load(Ordering::Acquire);
        let is_requested =
            state & PHASE_MASK == REQUESTED && slot.thread.load(Ordering::Acquire) == this;
        is_requested.then_some((slot, state >> GENERATION_SHIFT))
    })
}
