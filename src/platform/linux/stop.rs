//! Stopping another thread for as long as it takes to copy its registers and its stack.
//!
//! A real-time signal is queued to the thread with a slot's number and that slot's generation (rt_tgsigqueueinfo(2)). Its
//! handler claims the slot by compare-and-swap, copies the machine context and the stack into memory that was reserved
//! beforehand, marks the slot and returns: the thread runs again before the copy is read. A handler that answers late finds
//! another generation and writes nothing. If a sandbox denies signals with a value, a plain one is sent (tgkill(2)); the slot
//! then names the thread that is to answer. A thread whose alternate stack is not known to be there is asked with care
//! (`contact.rs`), and one that blocks the signal by another one (`fallback.rs`).
//!
//! What a signal does to the thread beyond the pause: a blocked `poll`, `epoll_wait`, `nanosleep`
//! and others (signal(7)) return EINTR whether SA_RESTART is set or not.

mod contact;
mod copy;
mod fallback;
mod handler;
mod queue;
mod signal;
mod slot;
mod stream;
mod wait;

use std::ops::Range;
use std::sync::atomic::Ordering;

use self::contact::Contact;
pub use self::contact::with_lasting_handlers;
use self::fallback::Fallback;
use self::handler::HANDLERS;
use self::queue::{is_denied, queue, send};
pub use self::signal::{claim_signal, forget_taken, install, taken};
use self::slot::{
    COPYING, FREE, GENERATION_MASK, GENERATION_SHIFT, IDLE, PHASE_MASK, REQUESTED, SLOTS, StackPart,
};
use self::wait::wait;
use super::memory::Reserved;
use crate::platform::surface::NOTES;
pub use crate::platform::surface::{Copied, Standing, StopBudget, StopError, WhileStopped};
use crate::platform::{SystemError, Thread};

/// The right to stop threads, one at a time, and the memory that their stacks are copied into.
#[derive(Debug)]
pub struct Stopper {
    slot: usize,
    memory: std::mem::ManuallyDrop<Reserved>,
    work: Option<WhileStopped>,
}

/// Bytes before the copy, for the work's words.
const BEFORE: usize = (NOTES * 8).next_multiple_of(64);

/// Deeper stacks are rare, and cost a page fault for each further page the first time.
const TOUCHED: usize = 256 << 10;

impl Stopper {
    /// Reserves room for a copy of `room` bytes, and touches as much of it as nearly all stacks need;
    /// installs the handler.
    pub fn new(
        room: usize,
        signal: Option<i32>,
        work: Option<WhileStopped>,
    ) -> Result<Stopper, SystemError> {
        install(signal)?;
        let all = room.saturating_add(BEFORE);
        let memory = std::mem::ManuallyDrop::new(Reserved::touched(all, TOUCHED)?);
        let claimed = SLOTS.iter().position(|slot| {
            let state = slot.state.load(Ordering::Relaxed);
            let idle = (state & !PHASE_MASK) | IDLE;
            state & PHASE_MASK == FREE
                && slot
                    .state
                    .compare_exchange(state, idle, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        });
        match claimed {
            Some(slot) => Ok(Stopper { slot, memory, work }),
            None => {
                drop(std::mem::ManuallyDrop::into_inner(memory));
                Err(SystemError {
                    call: "claiming one of the capture slots",
                    source: std::io::Error::from_raw_os_error(libc::EBUSY),
                })
            }
        }
    }

    /// Stops `thread`, copies its registers and its stack, and lets it go.
    ///
    /// `known` is where the thread's own stack lies, if that is known for certain: a stack pointer within it is copied from
    /// plainly and never past its end, any other by checked reads. Signal-safe, but the thread to be stopped may not call it.
    pub fn stop(
        &mut self,
        thread: Thread,
        known: Range<u64>,
        budget: &StopBudget,
    ) -> Result<Copied<'_>, StopError> {
        if thread == Thread::current() {
            return Err(StopError::CallingThread);
        }
        fallback::tidy();
        let usual = signal::in_place()?;
        let mut fallback = if contact::may_block(thread) {
            Fallback::find(thread, usual, contact::patience(thread, budget.answer))
                .inspect_err(|_| contact::forget(thread))?
        } else {
            None
        };
        let mut asked = self.ask(thread, known.clone(), budget, (usual, fallback.as_mut()));
        if fallback.is_none() && matches!(asked, Err(StopError::Blocked)) {
            // A thread without a CPU may not yet have left the handler of the previous capture.
            let patience = if thread.is_ready() {
                contact::patience(thread, budget.answer)
            } else {
                0
            };
            contact::note_blocks(thread);
            fallback =
                Fallback::find(thread, usual, patience).inspect_err(|_| contact::forget(thread))?;
            asked = self.ask(thread, known, budget, (usual, fallback.as_mut()));
        }
        let blocks = fallback.is_some();
        drop(fallback);
        asked?;
        let slot = slot::at(self.slot);
        // SAFETY: DONE, seen with Acquire: the handler has let the request go.
        let request = unsafe { &*slot.request.get() };
        contact::note(thread, &request.alternate, blocks);
        let part = |part: &StackPart| {
            let at = part.at.min(request.room);
            let bytes = part.bytes.min(request.room.saturating_sub(at));
            // SAFETY: the handler wrote so many bytes there, within `room`, and it is not written there
            // before the next `stop`, which needs `&mut self`.
            unsafe { std::slice::from_raw_parts(request.into.add(at), bytes) }
        };
        let [inner, outer] = &request.parts;
        Ok(Copied {
            registers: &request.registers,
            base: inner.base,
            stack: part(inner),
            interrupted: (outer.base, part(outer)),
            // SAFETY: the handler wrote so many words there, at most `NOTES`; as above.
            notes: unsafe { std::slice::from_raw_parts(request.notes, request.noted.min(NOTES)) },
            stopped: request.stopped,
            cut: request.cut,
        })
    }

    /// Asks `thread` by the usual signal or by the fallback, and waits for the answer. Signal-safe.
    fn ask(
        &mut self,
        thread: Thread,
        known: Range<u64>,
        budget: &StopBudget,
        (usual, fallback): (i32, Option<&mut Fallback>),
    ) -> Result<(), StopError> {
        let slot = slot::at(self.slot);
        let state = slot.state.load(Ordering::Acquire);
        if state & PHASE_MASK == COPYING {
            // A previous handler was itself stopped in the middle; the memory is still its own.
            return Err(StopError::Unresponsive);
        }
        let signal = fallback.as_ref().map_or(usual, |fallback| fallback.signal);
        let generation = (state >> GENERATION_SHIFT).wrapping_add(1) & GENERATION_MASK;
        {
            // SAFETY: no handler has the slot: it is neither REQUESTED nor COPYING, and only this
            // stopper makes it so.
            let request = unsafe { &mut *slot.request.get() };
            request.notes = self.memory.as_ptr().cast();
            request.into = self.memory.as_ptr().wrapping_add(BEFORE);
            request.room = self.memory.length().saturating_sub(BEFORE);
            request.work = self.work;
            request.known = known;
            request.budget = budget.stopped;
        }
        let requested = (generation << GENERATION_SHIFT) | REQUESTED;
        let contact = (!contact::is_safe(thread)).then(Contact::begin).flatten();
        slot.thread.store(0, Ordering::Relaxed);
        // A thread that refuses, or is asked by the fallback, finds its request only by its thread id.
        if contact.is_some() || fallback.is_some() {
            slot.thread.store(thread.tid(), Ordering::Relaxed);
        }
        slot.state.store(requested, Ordering::Release);
        let value = match fallback {
            Some(_) => fallback::TOKEN,
            None => (self.slot as u64) << 56 | generation,
        };
        let mut queued = queue(signal, thread, value);
        if matches!(&queued, Err(StopError::System(error)) if is_denied(error)) {
            queued = match fallback {
                // Without a value the host would take it for its own.
                Some(_) => Err(StopError::Blocked),
                None => {
                    slot.thread.store(thread.tid(), Ordering::Release);
                    send(signal, thread)
                }
            };
        }
        if let Err(error) = queued {
            slot.state
                .store((generation << GENERATION_SHIFT) | IDLE, Ordering::Release);
            return Err(error);
        }
        // Our own handler blocks the signal too while it runs, and soon returns. A thread that is
        // about to end takes a signal and never looks at it.
        let asks_by_fallback = fallback.is_some();
        let hopeless = || {
            let is_withheld = || HANDLERS.load(Ordering::Relaxed) == 0 && thread.withholds(signal);
            // The fallback signal was not blocked a moment ago; if it is now, the host's own handler of it may be running.
            !asks_by_fallback && is_withheld() || !thread.is_alive()
        };
        let is_ready = || thread.is_ready();
        let is_answered = wait(&slot.state, budget.answer, hopeless, is_ready);
        drop(contact);
        if let Some(fallback) = fallback {
            fallback.is_answered = is_answered;
        }
        if !is_answered {
            return Err(if !thread.is_alive() {
                StopError::Gone
            } else if thread.withholds(signal) {
                StopError::Blocked
            } else {
                StopError::Unresponsive
            });
        }
        Ok(())
    }
}

/// Takes our handlers from each signal that has one: our library is unloaded, and nothing is asked any more.
pub fn uninstall() {
    signal::uninstall();
    fallback::uninstall();
}

/// Shows `thread` that an alternate stack is offered to it.
#[cfg(feature = "thread-stacks")]
pub fn offer_stack(thread: Thread, generation: u64) -> Result<(), StopError> {
    let value = handler::STACK_OFFER << 56 | generation;
    queue(signal::in_place()?, thread, value)
}

impl Drop for Stopper {
    fn drop(&mut self) {
        let state = &slot::at(self.slot).state;
        let mut now = state.load(Ordering::Acquire);
        // While a stuck handler still writes, both slot and memory are left to it for good.
        while now & PHASE_MASK != COPYING {
            let free = ((now >> GENERATION_SHIFT).wrapping_add(1) & GENERATION_MASK)
                << GENERATION_SHIFT
                | FREE;
            match state.compare_exchange(now, free, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    // SAFETY: dropped here alone, once; no handler knows it any more.
                    unsafe { std::mem::ManuallyDrop::drop(&mut self.memory) };
                    return;
                }
                Err(changed) => now = changed,
            }
        }
    }
}
