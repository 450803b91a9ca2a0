//! Alternate signal stacks for the threads of others, so that a stack overflow on any thread can be
//! reported: without one the kernel has nowhere to put the handler's frame, and kills the process.
//!
//! New threads get theirs by a `pthread_create` of our own in front of libc's ([`interpose`]);
//! those that were there before by the capture's signal, whose handler puts the stack into
//! `uc_stack`: the kernel takes it over when the handler returns (`restore_altstack` in
//! kernel/signal.c), whereas what sigaltstack(2) sets inside a handler is undone then.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::stop;
use crate::platform::Thread;
use crate::platform::clock::monotonic as now;
use crate::platform::stacks::{self, AlternateStack};

/// Time that a thread may take to come for its stack, nanoseconds.
const PATIENCE: u64 = 20_000_000;

const NONE: u64 = 0;
const OFFERED: u64 = 1;
const TAKING: u64 = 2;
const TAKEN: u64 = 3;
const DECLINED: u64 = 4;
const PHASE: u64 = 7;
const GENERATION: u32 = 3;

/// Generation << 3 | phase of the one offer.
static OFFER: AtomicU64 = AtomicU64::new(NONE);
static OFFERED_STACK: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Gives a stack to each thread of this process that has none. A thread that is blocked in a system
/// call sees it return EINTR, as by any signal; one that blocks the signal goes without. One caller
/// at a time. Not signal-safe.
pub fn give_to_all() {
    let mut threads = vec![Thread::current(); 4096];
    let count = super::threads::list(&mut threads).min(threads.len());
    let own = Thread::current();
    let mut spare = None;
    for &thread in threads.iter().take(count).filter(|&&thread| thread != own) {
        let Some(stack) = spare.take().or_else(|| AlternateStack::new().ok()) else {
            return;
        };
        if is_taken(thread, &stack) {
            // It is the thread's for good: nothing is called when the thread ends.
            std::mem::forget(stack);
        } else {
            spare = Some(stack);
        }
    }
}

/// Offers a stack to a thread; returns true if it is the thread's from now on.
fn is_taken(thread: Thread, stack: &AlternateStack) -> bool {
    OFFERED_STACK.store(stack.start(), Ordering::Relaxed);
    let generation =
        (OFFER.load(Ordering::Relaxed) >> GENERATION).wrapping_add(1) & ((1 << 40) - 1);
    OFFER.store((generation << GENERATION) | OFFERED, Ordering::Release);
    if stop::offer_stack(thread, generation).is_err() {
        return withdraw();
    }
    let start = now();
    loop {
        match OFFER.load(Ordering::Acquire) & PHASE {
            TAKEN => return true,
            DECLINED => return false,
            // Once it takes, it is done in no time.
            OFFERED if now().saturating_sub(start) > PATIENCE => return withdraw(),
            _ => crate::platform::signals::pause(20_000),
        }
    }
}

/// Takes the offer back; returns true if the thread has the stack by now.
fn withdraw() -> bool {
    let offered = OFFER.load(Ordering::Acquire);
    if offered & PHASE == OFFERED
        && OFFER
            .compare_exchange(
                offered,
                (offered & !PHASE) | NONE,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    {
        return false;
    }
    while OFFER.load(Ordering::Acquire) & PHASE == TAKING {
        crate::platform::signals::pause(20_000);
    }
    OFFER.load(Ordering::Acquire) & PHASE == TAKEN
}

/// In the handler: takes the stack that is offered under this generation, if the thread has none.
/// Signal-safe.
///
/// # Safety
/// - `context` is what the kernel gave to the handler that calls this.
pub(super) unsafe fn take(generation: u64, context: *mut libc::ucontext_t) {
    let offered = (generation << GENERATION) | OFFERED;
    let taking = (generation << GENERATION) | TAKING;
    if OFFER
        .compare_exchange(offered, taking, Ordering::AcqRel, Ordering::Relaxed)
        .is_err()
    {
        return;
    }
    // SAFETY: the caller vouches for the context, which no other thread reads.
    let stack = unsafe { &mut (*context).uc_stack };
    // A smaller one stays: the handler runs on it, and the kernel refuses to change it then (EPERM, which
    // it swallows). A handler without SA_ONSTACK could, but would end runtimes whose stacks are small.
    let wanted = stack.ss_flags & libc::SS_DISABLE != 0;
    if wanted {
        stack.ss_sp = OFFERED_STACK.load(Ordering::Relaxed).cast();
        stack.ss_flags = 0;
        stack.ss_size = stacks::alternate_size();
    }
    let phase = if wanted { TAKEN } else { DECLINED };
    OFFER.store((generation << GENERATION) | phase, Ordering::Release);
}
