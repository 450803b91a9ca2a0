//! Stopping another thread for as long as it takes to copy its registers and its stack.
//!
//! A slot names the thread that is to answer, and a signal is sent to that thread (tgkill(2)). Its handler looks for the slot,
//! claims it by compare-and-swap, copies the machine context and the stack into memory that was reserved beforehand, marks the
//! slot and returns: the thread runs again before the copy is read. A handler that comes late finds the request withdrawn and
//! writes nothing, or answers the present one. `signal.rs` has the signals, `stack.rs` the stacks that their handlers run on.
//!
//! What a signal does to the thread beyond the pause: a blocked `poll`, `epoll_wait`, `nanosleep`
//! and others (signal(7)) return EINTR whether SA_RESTART is set or not.

mod copy;
mod handler;
mod signal;
mod slot;
mod stack;
mod wait;

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::atomic::Ordering;

use self::handler::HANDLERS;
pub use self::handler::{handle_capture, refuse_request};
use self::signal::{ON_ALTERNATE_STACK, ON_PRESENT_STACK, is_lasting};
pub use self::signal::{
    claim_profiling, claim_profiling_for_this_thread, claim_signals, install, release_profiling,
    taken, uninstall,
};
use self::slot::{COPYING, FREE, GENERATION_SHIFT, IDLE, PHASE_MASK, REQUESTED, SLOTS, StackPart};
use self::wait::wait;
use super::memory::Reserved;
use super::send_to;
pub use crate::platform::surface::{Copied, StopBudget, StopError};
use crate::platform::{SystemError, Thread};

/// The right to stop threads, one at a time, and the memory that their stacks are copied into.
#[derive(Debug)]
pub struct Stopper {
    slot: usize,
    memory: std::mem::ManuallyDrop<Reserved>,
}

/// Deeper stacks are rare, and cost a page fault for each further page the first time.
const TOUCHED: usize = 64 << 10;

impl Stopper {
    /// Reserves room for a copy of `room` bytes, and touches as much of it as nearly all stacks need;
    /// installs the handler.
    pub fn new(room: usize, signal: Option<i32>) -> Result<Stopper, SystemError> {
        install(signal)?;
        let memory = std::mem::ManuallyDrop::new(Reserved::touched(room, TOUCHED)?);
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
            Some(slot) => Ok(Stopper { slot, memory }),
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
        self.ask(thread, known, budget)?;
        let slot = slot::at(self.slot);
        // SAFETY: DONE, seen with Acquire: the handler has let the request go.
        let request = unsafe { &*slot.request.get() };
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
            released_at: request.released_at,
            stopped: request.stopped,
            cut: request.cut,
        })
    }

    /// Asks `thread`, and waits for the answer. Signal-safe.
    fn ask(
        &mut self,
        thread: Thread,
        known: Range<u64>,
        budget: &StopBudget,
    ) -> Result<(), StopError> {
        let slot = slot::at(self.slot);
        let state = slot.state.load(Ordering::Acquire);
        if state & PHASE_MASK == COPYING {
            // A previous handler was itself stopped in the middle; the memory is still its own.
            return Err(StopError::Unresponsive);
        }
        let signal = if stack::must_be_alternate(thread, &known) {
            &ON_ALTERNATE_STACK
        } else {
            &ON_PRESENT_STACK
        };
        let signal = signal.open_to(thread, budget.answer)?;
        let generation = (state >> GENERATION_SHIFT).wrapping_add(1);
        {
            // SAFETY: no handler has the slot: it is neither REQUESTED nor COPYING, and only this
            // stopper makes it so.
            let request = unsafe { &mut *slot.request.get() };
            request.into = self.memory.as_ptr();
            request.room = self.memory.length();
            request.known = known;
            request.budget = budget.stopped;
        }
        slot.thread.store(thread.tid(), Ordering::Relaxed);
        let requested = (generation << GENERATION_SHIFT) | REQUESTED;
        slot.state.store(requested, Ordering::Release);
        if let Err(error) = send(signal, thread) {
            slot.try_move(generation, REQUESTED, IDLE);
            return Err(error);
        }
        // Our own handler blocks the signal too while it runs, and soon returns. A thread that is
        // about to end takes a signal and never looks at it.
        let first_cpu = OnceCell::new();
        let is_hopeless = || {
            let is_withheld = HANDLERS.load(Ordering::Relaxed) == 0 && thread.withholds(signal);
            is_withheld && is_lasting(thread, &first_cpu) || !thread.is_alive()
        };
        let is_ready = || thread.is_ready();
        if wait(slot, generation, budget.answer, is_hopeless, is_ready) {
            return Ok(());
        }
        Err(if !thread.is_alive() {
            StopError::Gone
        } else if thread.withholds(signal) {
            StopError::Blocked
        } else {
            StopError::Unresponsive
        })
    }
}

/// Sends the signal to one thread. Signal-safe.
fn send(signal: i32, thread: Thread) -> Result<(), StopError> {
    match send_to(thread, signal) {
        0 => Ok(()),
        failed => Err(match failed.wrapping_neg() as i32 {
            libc::ESRCH => StopError::Gone,
            code => StopError::System(SystemError {
                call: "tgkill",
                source: std::io::Error::from_raw_os_error(code),
            }),
        }),
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        let state = &slot::at(self.slot).state;
        let mut now = state.load(Ordering::Acquire);
        // While a stuck handler still writes, both slot and memory are left to it for good.
        while now & PHASE_MASK != COPYING {
            let free = (now >> GENERATION_SHIFT).wrapping_add(1) << GENERATION_SHIFT | FREE;
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
