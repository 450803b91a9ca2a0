//! Stopping another thread for as long as it takes to copy its registers and its stack:
//! `thread_suspend`, `thread_get_state`, copy, `thread_resume`.
//!
//! Between suspend and resume nothing is allocated, freed, locked or released: the thread may hold
//! any lock of the process. A thread that is blocked in the kernel stays so; the calls do not
//! interrupt it.

use std::ops::Range;

use mach2::kern_return::KERN_SUCCESS;

use super::context::{self, REGISTERS};
use super::memory::{self, Reserved};
use super::task;
use crate::platform::clock::monotonic as now;
use crate::platform::darwin_frame::interrupted;
pub use crate::platform::surface::{Copied, StopBudget, StopError};
use crate::platform::{SystemError, Thread};

/// Bytes below the stack pointer that a leaf function may use without moving it (System V psABI
/// for x86-64, 3.2.2; Apple's arm64 ABI has 128 too).
const RED_ZONE: u64 = 128;

/// Bytes copied between two looks at the clock, and between two looks for a signal's frame.
const CHUNK: usize = 64 << 10;

/// Depth on an alternate stack to which the signal's frame is searched for, bytes.
const FRAME_WITHIN: usize = 4 * CHUNK;

/// Bytes that were copied.
#[derive(Debug, Clone, Copy)]
struct StackPart {
    /// Address of these bytes in memory.
    base: u64,
    /// Offset of these bytes in the copy.
    at: usize,
    bytes: usize,
}

/// The copy of a stack, that of the stack which a handler interrupted, and whether they end before the stack does.
struct Parts {
    inner: StackPart,
    interrupted: StackPart,
    cut: bool,
}

/// The right to stop threads, one at a time, and the memory that their stacks are copied into.
#[derive(Debug)]
pub struct Stopper {
    memory: Reserved,
    registers: [u64; REGISTERS],
}

impl Stopper {
    /// Reserves and touches room for a copy of `room` bytes. No signal is used here.
    pub fn new(room: usize, _signal: Option<i32>) -> Result<Stopper, SystemError> {
        // Looked up once, so that later calls need no list of threads.
        Thread::main();
        Ok(Stopper {
            memory: Reserved::touched(room, room)?,
            registers: [0; REGISTERS],
        })
    }

    /// Stops `thread`, copies its registers and its stack, and lets it go.
    ///
    /// `known` is the address range of the thread's own stack, if that is known for certain: a stack pointer within it
    /// is copied from plainly and never past its end, any other by checked reads. Signal-safe, except for the thread to
    /// be stopped.
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
        self.registers = context::of_thread(suspended.port).ok_or(StopError::Gone)?;
        let parts = self.copy_stack(&known, start, budget.stopped);
        drop(suspended);
        let released_at = now();
        Ok(Copied {
            registers: &self.registers,
            base: parts.inner.base,
            stack: self.copied(parts.inner),
            interrupted: (parts.interrupted.base, self.copied(parts.interrupted)),
            released_at,
            stopped: released_at.saturating_sub(start),
            cut: parts.cut,
        })
    }

    fn copied(&self, part: StackPart) -> &[u8] {
        // SAFETY: so many bytes were written there, within the memory.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(part.at), part.bytes) }
    }

    /// Copies the stack of the suspended thread; where a handler runs there that has interrupted another
    /// stack, that one too.
    fn copy_stack(&mut self, known: &Range<u64>, start: u64, budget: u64) -> Parts {
        const NONE: StackPart = StackPart {
            base: 0,
            at: 0,
            bytes: 0,
        };
        let sp = self.registers[if cfg!(target_arch = "x86_64") { 7 } else { 31 }];
        let room = self.memory.length();
        let base = sp.saturating_sub(RED_ZONE) & !7;
        if known.contains(&base) {
            let (inner, cut) = self.copy_own(known, base, 0, start, budget);
            return Parts {
                inner,
                interrupted: NONE,
                cut,
            };
        }
        // The page of sp is there for certain, what lies below it is not.
        let mut inner = StackPart {
            base: base.max(sp & !4095),
            ..NONE
        };
        let mut is_late = false;
        while inner.bytes < room && !is_late {
            let chunk = CHUNK.min(room.saturating_sub(inner.bytes));
            // SAFETY: the memory is ours, and so much of it is left.
            let bytes = unsafe {
                let into = self.memory.as_ptr().add(inner.bytes);
                memory::read_raw(inner.base.wrapping_add(inner.bytes as u64), into, chunk)
            };
            let before = inner.bytes;
            inner.bytes = inner.bytes.saturating_add(bytes);
            if before < FRAME_WITHIN
                && let Some(sp) = interrupted(self.copied(inner), before, inner.base)
                && (known.is_empty() || known.contains(&sp))
            {
                // The frame ends where the alternate stack does: that one is whole.
                let at = inner.bytes.next_multiple_of(64).min(room);
                let base = sp.saturating_sub(RED_ZONE).max(sp & !4095) & !7;
                let (interrupted, cut) = self.copy_own(known, base, at, start, budget);
                if interrupted.bytes > 0 {
                    return Parts {
                        inner,
                        interrupted,
                        cut,
                    };
                }
            }
            if bytes < chunk {
                break;
            }
            is_late = now().saturating_sub(start) > budget;
        }
        Parts {
            inner,
            interrupted: NONE,
            cut: is_late || inner.bytes == room,
        }
    }

    /// Copies what lies from `base` to the end of the stack, the thread's own or another one, to where `at` bytes of
    /// the memory are in use; and whether it was cut.
    fn copy_own(
        &mut self,
        known: &Range<u64>,
        base: u64,
        at: usize,
        start: u64,
        budget: u64,
    ) -> (StackPart, bool) {
        let room = self.memory.length().saturating_sub(at);
        let into = self.memory.as_ptr().wrapping_add(at);
        let is_own = known.contains(&base);
        // Another stack is copied as far as the kernel reads it.
        let wanted = if is_own {
            known.end.saturating_sub(base) as usize
        } else {
            usize::MAX
        };
        let length = wanted.min(room);
        let mut bytes = 0;
        while bytes < length {
            let chunk = CHUNK.min(length.saturating_sub(bytes));
            if is_own {
                // SAFETY: the source lies within the thread's own stack from the red zone of its stack
                // pointer on, or from the page of it, which is mapped and readable while the thread is on it, or has
                // left it for an alternate one, and stands still; the destination has `room` bytes. They are
                // different mappings.
                unsafe {
                    let from = (base as *const u8).add(bytes);
                    std::ptr::copy_nonoverlapping(from, into.add(bytes), chunk);
                }
                bytes = bytes.saturating_add(chunk);
            } else {
                // SAFETY: the memory is ours, `room` bytes of it are left.
                let read = unsafe {
                    memory::read_raw(
                        base.wrapping_add(bytes as u64),
                        into.wrapping_add(bytes),
                        chunk,
                    )
                };
                bytes = bytes.saturating_add(read);
                if read < chunk {
                    return (StackPart { base, at, bytes }, false);
                }
            }
            if now().saturating_sub(start) > budget {
                break;
            }
        }
        (StackPart { base, at, bytes }, bytes < wanted)
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

/// Nothing: captures need no signal.
pub fn claim_profiling() {}

/// Nothing: captures need no signal.
pub fn claim_profiling_for_this_thread() {}

/// Nothing: captures need no signal.
pub fn release_profiling() {}
