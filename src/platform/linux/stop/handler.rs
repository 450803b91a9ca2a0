//! The handler: a copy of the machine context and of the stack, and nothing else.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use super::copy;
use super::slot::{
    COPYING, CaptureSlot, DONE, GENERATION, GENERATIONS, PHASE, REQUESTED, SLOT, StackPart, WAITING,
};
use super::wait::futex_wake;
#[cfg(feature = "thread-stacks")]
use super::{StopError, queue::queue};
use crate::platform::clock::monotonic as now;
use crate::platform::linux::{self, context};
use crate::platform::signals::room_left;
use crate::platform::{SystemError, Thread};

/// The signal whose handler is installed; 0 before.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Installs the handler, once a process, and returns which signal it is: `wanted`, or else the first
/// real-time signal from `SIGRTMIN + 4` on without a handler. Later calls return the same.
///
/// It stays installed for the rest of the process: an answer may come at any time later, and
/// without the handler the signal's default action would end the process.
pub fn install(wanted: Option<i32>) -> Result<i32, SystemError> {
    let installed = SIGNAL.load(Ordering::Relaxed);
    if installed != 0 {
        return Ok(installed);
    }
    let signal = match wanted {
        Some(signal) => signal,
        None => (libc::SIGRTMIN() + 4..=libc::SIGRTMAX())
            .find(|&signal| is_default(signal))
            .unwrap_or_else(|| libc::SIGRTMAX()),
    };
    // SAFETY: an all-zero `sigaction` is a valid value of that plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = answer as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the set lives across the call.
    unsafe { libc::sigfillset(&mut action.sa_mask) };
    // SAFETY: `answer` keeps to the rules of handlers: it allocates nothing, takes no lock, calls
    // only async-signal-safe functions and keeps errno.
    if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
        return Err(SystemError::last("sigaction"));
    }
    // Two that come at once may have taken a signal each: the handler is the same, and the first one's
    // counts. (No lock: a child of `fork` must find none that a thread of its parent holds.)
    match SIGNAL.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(signal),
        Err(first) => Ok(first),
    }
}

/// Installs the handler for `signal` and no other.
///
/// # Errors
/// If it is no real-time signal, if it has a handler, and if the handler stands for another one.
pub fn claim_signal(signal: i32) -> std::io::Result<()> {
    use std::io::{Error, ErrorKind};
    let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
    if !(first..=last).contains(&signal) {
        let why = format!("it is no real-time signal ({first} to {last})");
        return Err(Error::new(ErrorKind::InvalidInput, why));
    }
    let installed = SIGNAL.load(Ordering::Relaxed);
    if installed == 0 && !is_default(signal) {
        let why = "it has a handler already";
        return Err(Error::new(ErrorKind::ResourceBusy, why));
    }
    let installed = install(Some(signal)).map_err(|error| error.source)?;
    if installed != signal {
        let why = format!("captures of this process have been using signal {installed}");
        return Err(Error::new(ErrorKind::ResourceBusy, why));
    }
    Ok(())
}

fn is_default(signal: i32) -> bool {
    // SAFETY: an all-zero `sigaction` is a valid value of that plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: reads only; `action` lives across the call.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } == 0;
    known && action.sa_sigaction == libc::SIG_DFL
}

/// In place of a slot's number: an alternate stack is offered, under the generation that follows.
#[cfg(feature = "thread-stacks")]
const STACK_OFFER: u64 = 0xff;

/// Shows `thread` that an alternate stack is offered to it.
#[cfg(feature = "thread-stacks")]
pub fn offer_stack(thread: Thread, generation: u64) -> Result<(), StopError> {
    let signal = install(None).map_err(StopError::System)?;
    queue(signal, thread, STACK_OFFER, generation)
}

/// Handlers that run just now.
pub(super) static HANDLERS: AtomicU32 = AtomicU32::new(0);

/// The handler: a copy of the context and of the stack, and nothing else.
extern "C" fn answer(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    HANDLERS.fetch_add(1, Ordering::Relaxed);
    let errno = linux::errno();
    // SAFETY: the kernel gives a valid siginfo; a queued signal carries a value.
    let (code, value) = unsafe { ((*info).si_code, (*info).si_value().sival_ptr as u64) };
    let slot = match code {
        libc::SI_QUEUE => {
            let slot = SLOT.get((value >> 56) as usize);
            slot.map(|slot| (slot, value & GENERATIONS))
        }
        libc::SI_TKILL => request_without_value(),
        _ => None,
    };
    #[cfg(feature = "thread-stacks")]
    if value >> 56 == STACK_OFFER && code == libc::SI_QUEUE {
        // SAFETY: the context that the kernel gave to this handler.
        unsafe { linux::thread_stacks::take(value & GENERATIONS, context.cast()) };
    }
    if let Some((slot, generation)) = slot {
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
            // SAFETY: the context that the kernel gave to this handler.
            request.registers = unsafe { context::registers(context.cast()) };
            // SAFETY: as above.
            if unsafe { room_left(context) } >= ROOM_TO_COPY {
                // SAFETY: as above.
                unsafe { copy::stack(request, start, context.cast()) };
            } else {
                // A handler of the app's has used up what its alternate stack has: the registers are
                // all that can be had without running over its end.
                (request.parts, request.cut) = ([StackPart::NONE; 2], true);
            }
            request.stopped = now().saturating_sub(start);
            let done = (generation << GENERATION) | DONE;
            if slot.state.swap(done, Ordering::AcqRel) & WAITING != 0 {
                futex_wake(&slot.state);
            }
        }
    }
    linux::set_errno(errno);
    HANDLERS.fetch_sub(1, Ordering::Relaxed);
}

/// The slot that the calling thread is to answer, and its generation, where signals with a value are denied.
/// A signal that comes late answers the present request.
fn request_without_value() -> Option<(&'static CaptureSlot, u64)> {
    let this = Thread::current().tid();
    SLOT.iter().find_map(|slot| {
        // In this order: a request to another thread first takes back the last one.
        let state = slot.state.load(Ordering::Acquire);
        let is_requested =
            state & PHASE == REQUESTED && slot.thread.load(Ordering::Acquire) == this;
        is_requested.then_some((slot, state >> GENERATION))
    })
}

/// A copy of the stack is made only where the handler has so much stack left, bytes: more than twice
/// what it takes in a debug build.
const ROOM_TO_COPY: usize = 4 << 10;
