//! Stopping another thread for as long as it takes to copy its registers and its stack:
//! `thread_suspend`, `thread_get_state`, copy, `thread_resume`.
//!
//! Between suspend and resume nothing is allocated, freed, locked or released: the thread may hold
//! any lock of the process. A thread that is blocked in the kernel stays so; the calls do not
//! interrupt it.

use std::ops::Range;

use mach2::kern_return::KERN_SUCCESS;

use super::clock::monotonic as now;
use super::context::{self, REGISTERS};
use super::memory::{self, Reserved};
use super::task;
pub use crate::platform::surface::{Copied, StopBudget, StopError};
use crate::platform::{SystemError, Thread};

/// Bytes below the stack pointer that a leaf function may use without moving it (System V psABI
/// for x86-64, 3.2.2; Apple's arm64 ABI has 128 too).
const RED_ZONE: u64 = 128;

/// How much is copied between two looks at the clock.
const CHUNK: usize = 64 << 10;

/// The right to stop threads, one at a time, and the memory that their stacks are copied into.
#[derive(Debug)]
pub struct Stopper {
    memory: Reserved,
    registers: [u64; REGISTERS],
}

impl Stopper {
    /// Reserves and touches room for a copy of `room` bytes. No signal is used here.
    pub fn new(room: usize, _signal: Option<i32>) -> Result<Stopper, SystemError> {
        // Asked for once, so that later askers need no list of threads.
        Thread::main();
        Ok(Stopper {
            memory: Reserved::new(room)?,
            registers: [0; REGISTERS],
        })
    }

    /// Stops `thread`, copies its registers and its stack, and lets it go.
    ///
    /// `known` is where the thread's own stack lies, if that is known for certain: a stack pointer
    /// within it is copied from plainly and never past its end, any other by checked reads.
    /// Signal-safe, but for the thread to be stopped.
    pub fn stop(
        &mut self,
        thread: Thread,
        known: Range<u64>,
        budget: &StopBudget,
    ) -> Result<Copied<'_>, StopError> {
        if thread == Thread::current() {
            return Err(StopError::CallingThread);
        }
        let start = now();
        let suspended = Suspended::new(thread)?;
        let mut state = [0u64; context::STATE_WORDS];
        let mut count = (2 * context::STATE_WORDS) as u32;
        // SAFETY: the kernel writes at most `count` words of 32 bits, the size of `state`.
        let code = unsafe {
            mach2::thread_act::thread_get_state(
                suspended.port,
                context::STATE_FLAVOR,
                state.as_mut_ptr().cast(),
                &mut count,
            )
        };
        if code != KERN_SUCCESS {
            return Err(StopError::Gone);
        }
        self.registers = context::from_state(&state);
        let (base, bytes, cut) = self.copy_stack(known, start, budget.stopped);
        drop(suspended);
        let stopped = now().saturating_sub(start);
        // SAFETY: so many bytes were written from the start on, at most the length.
        let stack = unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), bytes) };
        Ok(Copied {
            registers: &self.registers,
            base,
            stack,
            interrupted: (0, &[]),
            stopped,
            cut,
        })
    }

    /// Copies the stack of the suspended thread: where it begins, how many bytes, whether it was
    /// cut.
    fn copy_stack(&mut self, known: Range<u64>, start: u64, budget: u64) -> (u64, usize, bool) {
        let sp = self.registers[if cfg!(target_arch = "x86_64") { 7 } else { 31 }];
        let room = self.memory.len();
        let base = sp.saturating_sub(RED_ZONE) & !7;
        if !(known.start <= base && base < known.end) {
            // The page of sp is there for certain, what lies below it is not.
            let base = base.max(sp & !4095);
            // SAFETY: the memory is ours, `room` bytes of it.
            let bytes = unsafe { memory::read_raw(base, self.memory.as_ptr(), room) };
            return (base, bytes, bytes == room);
        }
        let wanted = (known.end - base) as usize;
        let length = wanted.min(room);
        let mut bytes = 0;
        while bytes < length {
            let chunk = CHUNK.min(length - bytes);
            // SAFETY: the source lies within the thread's own stack from the red zone of its stack
            // pointer on, which is mapped and readable while the thread is on it and stands still;
            // the destination has `room` bytes. They are different mappings.
            unsafe {
                let from = (base as *const u8).add(bytes);
                std::ptr::copy_nonoverlapping(from, self.memory.as_ptr().add(bytes), chunk);
            }
            bytes += chunk;
            if now().saturating_sub(start) > budget {
                break;
            }
        }
        (base, bytes, bytes < wanted)
    }
}

/// A thread that stands still until this is dropped.
struct Suspended {
    port: u32,
}

impl Suspended {
    fn new(thread: Thread) -> Result<Suspended, StopError> {
        let port = thread.tid() as u32;
        // SAFETY: a name only. The calling thread was ruled out.
        if port == 0 || unsafe { mach2::thread_act::thread_suspend(port) } != KERN_SUCCESS {
            return Err(StopError::Gone);
        }
        let suspended = Suspended { port };
        // The name may have come to stand for another thread: the id can't have.
        if task::thread_id(port) != Some(thread.id()) {
            return Err(StopError::Gone);
        }
        Ok(suspended)
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        // SAFETY: the thread that `new` suspended, once.
        unsafe { mach2::thread_act::thread_resume(self.port) };
    }
}
