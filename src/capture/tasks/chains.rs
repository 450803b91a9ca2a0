//! The chains of the frames that a walk has found.
//!
//! A thread that was stopped runs again while its chains are read. A chain has changed if a second reading differs, or if
//! the context, the frame pointer or the return address on the stack does.

use super::follow::{follow, read_context};
use super::{AsyncFrame, REGISTER};
use crate::capture::images::Images;
use crate::capture::memory::Memory;
use crate::capture::registers::{Arch, Registers};
use crate::platform::clock::monotonic as now;
use crate::platform::memory;
use crate::report::model::{AsyncEnd, Omitted, RawChain, RawChains};

/// Most async functions of a stack whose chains are kept: the innermost ones.
const MAX_CHAINS: usize = 16;

/// Most callers of a chain.
const MAX_CALLERS: usize = 512;

/// Most time for the chains of a stack, nanoseconds; of a thread that runs, since it was let go.
const MAX_TIME: u64 = 1_000_000;

/// The stack of a thread that was stopped and runs again.
pub(crate) struct ReleasedThread<'c> {
    /// The time at which it was let go (monotonic, nanoseconds).
    pub(crate) at: u64,
    pub(crate) copy: &'c mut dyn Memory,
}

/// The async functions of one stack, and their chains. Signal-safe once made.
#[derive(Debug)]
pub(crate) struct FoundChains {
    frames: [(u32, AsyncFrame); MAX_CHAINS],
    chains: [RawChain; MAX_CHAINS],
    count: usize,
    callers: Box<[u64]>,
}

impl FoundChains {
    /// Allocates the room.
    pub(crate) fn new() -> FoundChains {
        FoundChains {
            frames: [(0, AsyncFrame::Unknown); MAX_CHAINS],
            chains: [RawChain::default(); MAX_CHAINS],
            count: 0,
            // Zeroes would be pages that the kernel has yet to give.
            callers: vec![u64::MAX; std::hint::black_box(2 * MAX_CALLERS)].into_boxed_slice(),
        }
    }

    /// Forgets the stack before.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Takes the frame of an async function, which has this index.
    pub(crate) fn add(&mut self, index: usize, frame: AsyncFrame) {
        if let Some(slot) = self.frames.get_mut(self.count) {
            // What a frame that a signal interrupted had in its registers is not in those of the thread.
            let frame = match frame {
                AsyncFrame::InRegister if index > 0 => AsyncFrame::Unknown,
                frame => frame,
            };
            *slot = (index as u32, frame);
            self.count = self.count.saturating_add(1);
        }
    }

    /// Forgets the frames from this index on.
    pub(crate) fn truncate(&mut self, frames: usize) {
        let kept = self.frames.iter().take(self.count);
        self.count = kept
            .take_while(|(index, _)| (*index as usize) < frames)
            .count();
    }

    /// Counts frames as a stack has them that lacks some; those of functions that it lacks are forgotten.
    pub(crate) fn without(&mut self, omitted: Omitted) {
        let gap = omitted.at..omitted.at.saturating_add(omitted.count);
        let mut kept = 0;
        for at in 0..self.count {
            let Some(&(index, frame)) = self.frames.get(at) else {
                break;
            };
            let index = match u64::from(index) {
                index if gap.contains(&index) => continue,
                index if index >= gap.end => index.saturating_sub(omitted.count),
                index => index,
            };
            if let Some(to) = self.frames.get_mut(kept) {
                *to = (index as u32, frame);
                kept = kept.saturating_add(1);
            }
        }
        self.count = kept;
    }

    /// Reads the chains from memory. The stack lies as it was walked, unless its thread was let go. Signal-safe.
    pub(crate) fn read(
        &mut self,
        registers: &Registers,
        images: &Images,
        mut release: Option<ReleasedThread<'_>>,
    ) {
        let mut used = 0;
        let until = release
            .as_ref()
            .map_or_else(now, |release| release.at)
            .saturating_add(MAX_TIME);
        for index in 0..self.count {
            let Some((frame, task)) = self.frames.get(index).copied() else {
                break;
            };
            let room = self.callers.get_mut(used..).unwrap_or_default();
            let (count, mut end) = read_chain(task, registers, until, room);
            let callers = room.get(..count).unwrap_or_default();
            if let Some(release) = &mut release
                && has_changed(task, registers, (callers, end), release)
            {
                end = AsyncEnd::Changed;
            }
            // What resumes nowhere in an image's code is a context no longer.
            let code = callers
                .iter()
                .take_while(|caller| {
                    images
                        .at(**caller)
                        .is_none_or(|image| image.is_code(**caller))
                })
                .count();
            if code < count && end != AsyncEnd::Changed {
                end = AsyncEnd::Invalid;
            }
            if let Some(chain) = self.chains.get_mut(index) {
                *chain = RawChain {
                    frame,
                    first_caller: used as u32,
                    count: code as u32,
                    end,
                };
            }
            used = used.saturating_add(code);
        }
    }

    /// The chains, as they are written.
    pub(crate) fn chains(&self) -> RawChains<'_> {
        RawChains {
            chains: self.chains.get(..self.count).unwrap_or_default(),
            callers: &self.callers,
        }
    }
}

/// The context of a frame's function, if it is known.
fn context_of(task: AsyncFrame, registers: &Registers) -> Option<u64> {
    match task {
        AsyncFrame::Saved { context, .. } => Some(context),
        AsyncFrame::InRegister => Some(registers.get(REGISTER)),
        AsyncFrame::Unknown => None,
    }
}

/// Reads the callers of a frame's function. Returns their count and why there are no more.
fn read_chain(
    task: AsyncFrame,
    registers: &Registers,
    until: u64,
    room: &mut [u64],
) -> (usize, AsyncEnd) {
    let Some(context) = context_of(task, registers) else {
        return (0, AsyncEnd::Unknown);
    };
    let mut count = 0usize;
    let mut read = |at: u64| {
        if now() > until {
            Err(AsyncEnd::Limit)
        } else {
            read_context(at)
        }
    };
    let end = follow(context, &mut read, &mut |caller| {
        let slot = room.get_mut(count).filter(|_| count < MAX_CALLERS);
        let fits = slot.is_some();
        if let Some(slot) = slot {
            *slot = caller;
            count = count.wrapping_add(1);
        }
        fits
    });
    (count, end)
}

/// Returns true if a chain may be another one than when the thread was stopped.
fn has_changed(
    task: AsyncFrame,
    registers: &Registers,
    (callers, end): (&[u64], AsyncEnd),
    release: &mut ReleasedThread<'_>,
) -> bool {
    let Some(context) = context_of(task, registers) else {
        return false;
    };
    let mut known = callers.iter();
    let again = follow(context, &mut read_context, &mut |caller| {
        known.next() == Some(&caller)
    });
    // A chain that was cut ends as the callers that were read do.
    let is_same = known.next().is_none() && (again == end || end == AsyncEnd::Limit);
    let is_late = now().saturating_sub(release.at) > MAX_TIME;
    !is_same || is_late || !is_same_call(task, release.copy)
}

/// Returns true if the words of the stack that show a function's call are those of the copy still.
fn is_same_call(task: AsyncFrame, copy: &mut dyn Memory) -> bool {
    let AsyncFrame::Saved { slot, sp, .. } = task else {
        return true;
    };
    let return_address = match Arch::NATIVE {
        Arch::X86_64 if sp != slot => sp,
        _ => slot,
    };
    [slot, slot.wrapping_sub(8), return_address.wrapping_sub(8)]
        .into_iter()
        .all(|at| {
            let mut word = [0u8; 8];
            let length = memory::read(at, &mut word);
            length == word.len() && copy.read(at) == Ok(u64::from_le_bytes(word))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::memory::StackCopy;
    use crate::capture::tests::bytes_of;

    const EXTENDED_FP: u64 = 1 << 60 | 0x1000;

    fn frames(tasks: &FoundChains) -> Vec<u32> {
        tasks
            .chains()
            .chains
            .iter()
            .map(|chain| chain.frame)
            .collect()
    }

    fn ends(tasks: &FoundChains) -> Vec<(u32, AsyncEnd)> {
        let chains = tasks.chains().chains.iter();
        chains.map(|chain| (chain.count, chain.end)).collect()
    }

    /// The frame whose extended frame pointer is the last of these words.
    fn saved(stack: &[u64]) -> AsyncFrame {
        let slot = stack.as_ptr() as u64 + 8 * (stack.len() as u64 - 1);
        AsyncFrame::Saved {
            slot,
            context: stack[stack.len() - 2],
            sp: stack.as_ptr() as u64 + 8,
        }
    }

    fn registers() -> Registers {
        Registers::new(crate::capture::Arch::NATIVE)
    }

    #[test]
    fn chains_belong_to_the_frames_that_are_kept() {
        let images = Images::new(vec![]);
        let mut all = FoundChains::new();
        for index in [1, 5, 9] {
            all.add(index, AsyncFrame::Unknown);
        }
        all.without(Omitted { at: 4, count: 3 });
        all.read(&registers(), &images, None);
        assert_eq!(frames(&all), [1, 6]);
        all.truncate(6);
        all.read(&registers(), &images, None);
        assert_eq!(frames(&all), [1]);
        assert_eq!(ends(&all), [(0, AsyncEnd::Unknown)]);
    }

    #[test]
    fn contexts_of_this_process_are_read_in_place() {
        let last = [0u64, 0x6000];
        let first = [last.as_ptr() as u64, 0x5000];
        let stack = [7, first.as_ptr() as u64, EXTENDED_FP];
        let mut tasks = FoundChains::new();
        tasks.add(0, AsyncFrame::InRegister);
        tasks.add(2, saved(&stack));
        tasks.add(3, saved(&[7, 64, EXTENDED_FP]));
        tasks.add(4, AsyncFrame::Unknown);
        let mut registers = registers();
        registers.set(REGISTER, last.as_ptr() as u64);
        tasks.read(&registers, &Images::new(vec![]), None);
        let (root, none) = (AsyncEnd::Root, AsyncEnd::Unknown);
        assert_eq!(
            ends(&tasks),
            [(1, root), (2, root), (0, AsyncEnd::Invalid), (0, none)]
        );
        assert_eq!(tasks.chains().callers[..3], [0x6000, 0x5000, 0x6000]);
    }

    #[test]
    fn a_chain_whose_stack_or_context_is_another_one_meanwhile_has_changed() {
        let last = [0u64, 0x6000];
        let context = [last.as_ptr() as u64, 0x5000];
        let mut stack = [7, context.as_ptr() as u64, EXTENDED_FP];
        let images = Images::new(vec![]);
        let task = saved(&stack);
        let end = |stack: &[u64; 3], copied: &[u64; 3], at: u64| {
            let bytes = bytes_of(copied);
            let mut copy = StackCopy::new(stack.as_ptr() as u64, &bytes);
            let mut tasks = FoundChains::new();
            tasks.add(1, task);
            let copy = &mut copy;
            tasks.read(&registers(), &images, Some(ReleasedThread { at, copy }));
            ends(&tasks)[0]
        };
        let copied = stack;
        assert_eq!(end(&stack, &copied, now()), (2, AsyncEnd::Root));
        for at in 0..3 {
            // On arm64 the return address is elsewhere.
            if at > 0 || cfg!(target_arch = "x86_64") {
                let before = std::mem::replace(&mut stack[at], 8);
                assert_eq!(end(&stack, &copied, now()).1, AsyncEnd::Changed, "{at}");
                stack[at] = before;
            }
        }
        // Read so late that anything may have happened.
        let (count, end) = end(&stack, &copied, now() - 2 * MAX_TIME);
        assert_eq!((count, end), (0, AsyncEnd::Changed));
    }
}
