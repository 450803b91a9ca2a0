//! The handler: a copy of the machine context and of the stack, and nothing else.

use std::sync::atomic::{AtomicU32, Ordering};

use super::copy;
use super::slot::{
    COPYING, CaptureSlot, DONE, GENERATION, GENERATIONS, PHASE, REQUESTED, SLOT, WAITING,
};
use super::wait::futex_wake;
use crate::platform::Thread;
use crate::platform::clock::monotonic as now;
use crate::platform::linux::entry::{HandlerStack, entry};
use crate::platform::linux::{SI_QUEUE, SI_TKILL, context};

/// In place of a slot's number: an alternate stack is offered, under the generation that follows.
#[cfg(feature = "thread-stacks")]
pub(super) const STACK_OFFER: u64 = 0xff;

/// Handlers that run just now.
pub(super) static HANDLERS: AtomicU32 = AtomicU32::new(0);

entry!(
    /// Starts the handler of captures. Where there is no stack nobody answers.
    capture, answer, ["ret"], {}
);

/// The handler: a copy of the context and of the stack, and the work on it that the request brings.
///
/// Nothing here is kept at the thread pointer, which may be 0: neither `errno`, nor a canary of libc's.
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
            let slot = SLOT.get((value >> 56) as usize);
            slot.map(|slot| (slot, value & GENERATIONS))
        }
        SI_TKILL => request_without_value(),
        _ => None,
    };
    #[cfg(feature = "thread-stacks")]
    if value >> 56 == STACK_OFFER && code == SI_QUEUE {
        // SAFETY: the context that the kernel gave to this handler.
        unsafe { crate::platform::linux::thread_stacks::take(value & GENERATIONS, context.cast()) };
    }
    // SAFETY: the context that the kernel gave to this handler.
    unsafe { fill_in(slot, context.cast()) };
}

/// Answers the request in the slot of this generation, if it has not been taken back. Signal-safe.
///
/// # Safety
/// - `context` is what the kernel gave to the handler that calls this.
pub(super) unsafe fn fill_in(
    request: Option<(&'static CaptureSlot, u64)>,
    context: *const libc::ucontext_t,
) {
    HANDLERS.fetch_add(1, Ordering::Relaxed);
    if let Some((slot, generation)) = request {
        let requested = (generation << GENERATION) | REQUESTED;
        let copying = (generation << GENERATION) | COPYING;
        // The stopper may mark itself as sleeping between the two tries; it never takes that back.
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
            let done = (generation << GENERATION) | DONE;
            if slot.state.swap(done, Ordering::AcqRel) & WAITING != 0 {
                futex_wake(&slot.state);
            }
        }
    }
    HANDLERS.fetch_sub(1, Ordering::Relaxed);
}

/// The slot that the calling thread is to answer, and its generation, where the signal does not carry it.
/// A signal that comes late answers the present request.
pub(super) fn request_without_value() -> Option<(&'static CaptureSlot, u64)> {
    let this = Thread::current().tid();
    SLOT.iter().find_map(|slot| {
        // In this order: a request to another thread first takes back the last one.
        let state = slot.state.load(Ordering::Acquire);
        let is_requested =
            state & PHASE == REQUESTED && slot.thread.load(Ordering::Acquire) == this;
        is_requested.then_some((slot, state >> GENERATION))
    })
}
