//! The chains of the frames that a walk has found.

use super::follow::follow;
use super::notes::{BY_REGISTER, CALLERS, find, read_context};
use super::{ADDRESS, AsyncFrame, REGISTER};
use crate::capture::images::Images;
use crate::capture::registers::Registers;
use crate::platform::memory;
use crate::report::model::{AsyncEnd, Omitted, RawChain, RawChains};

/// Most async functions of a stack whose chains are kept: the innermost ones.
const CHAINS: usize = 16;

/// Finds the callers of a frame's function, and why there are no more.
type ChainOf<'c> = &'c mut dyn FnMut(AsyncFrame, &mut [u64]) -> (usize, AsyncEnd);

/// The async functions of one stack, and their chains. Signal-safe once made.
#[derive(Debug)]
pub(crate) struct FoundTasks {
    frames: [(u32, AsyncFrame); CHAINS],
    chains: [RawChain; CHAINS],
    count: usize,
    callers: Box<[u64]>,
}

impl FoundTasks {
    /// Allocates the room.
    pub(crate) fn new() -> FoundTasks {
        FoundTasks {
            frames: [(0, AsyncFrame::Unknown); CHAINS],
            chains: [RawChain::default(); CHAINS],
            count: 0,
            // Zeroes would be pages that the kernel has yet to give.
            callers: vec![u64::MAX; std::hint::black_box(2 * CALLERS)].into_boxed_slice(),
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

    /// Finds the chains in what was noted while the thread stood still.
    pub(crate) fn match_notes(&mut self, notes: &[u64], images: &Images) {
        self.fill(images, &mut |frame, into| {
            let key = match frame {
                AsyncFrame::Saved(place) => place,
                AsyncFrame::InRegister => BY_REGISTER,
                AsyncFrame::Unknown => return (0, AsyncEnd::Unknown),
            };
            let Some((callers, end)) = find(notes, key) else {
                return (0, AsyncEnd::Unknown);
            };
            let count = callers.len().min(into.len());
            into.iter_mut()
                .zip(callers)
                .for_each(|(to, from)| *to = *from);
            (
                count,
                if count < callers.len() {
                    AsyncEnd::Limit
                } else {
                    end
                },
            )
        });
    }

    /// Reads the chains of a stack that lies as it was walked. Signal-safe.
    pub(crate) fn read_live(&mut self, registers: &Registers, images: &Images) {
        self.fill(images, &mut |frame, into| {
            let context = match frame {
                AsyncFrame::Saved(place) => {
                    let mut word = [0u8; 8];
                    match memory::read(place.wrapping_sub(8), &mut word) {
                        8 => u64::from_le_bytes(word),
                        _ => return (0, AsyncEnd::Unreadable),
                    }
                }
                AsyncFrame::InRegister => registers.get(REGISTER),
                AsyncFrame::Unknown => return (0, AsyncEnd::Unknown),
            };
            if context & ADDRESS == 0 {
                return (0, AsyncEnd::Root);
            }
            follow(context, &mut read_context, into)
        });
    }

    fn fill(&mut self, images: &Images, chain_of: ChainOf<'_>) {
        let mut used = 0;
        let frames = self.frames.iter().take(self.count);
        for ((index, frame), chain) in frames.zip(&mut self.chains) {
            let room = self.callers.get_mut(used..).unwrap_or_default();
            let most = room.len().min(CALLERS);
            let room = room.get_mut(..most).unwrap_or_default();
            let (count, end) = chain_of(*frame, room);
            let callers = room.get(..count).unwrap_or_default();
            // What resumes nowhere in code is a context no longer.
            let code = callers
                .iter()
                .take_while(|caller| is_code(images, **caller))
                .count();
            *chain = RawChain {
                frame: *index,
                from: used as u32,
                count: code as u32,
                end: if code < count { AsyncEnd::Invalid } else { end },
            };
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

/// Returns true if an address is in an image's code, or in no image that is known.
fn is_code(images: &Images, address: u64) -> bool {
    let image = images.find(address).and_then(|index| images.get(index));
    image.is_none_or(|image| image.is_code(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(frames: &[usize]) -> FoundTasks {
        let mut tasks = FoundTasks::new();
        frames
            .iter()
            .for_each(|frame| tasks.add(*frame, AsyncFrame::Saved(8 * *frame as u64)));
        tasks
    }

    fn frames(tasks: &FoundTasks) -> Vec<u32> {
        tasks
            .chains()
            .chains
            .iter()
            .map(|chain| chain.frame)
            .collect()
    }

    #[test]
    fn chains_belong_to_the_frames_that_are_kept() {
        let images = Images::new(vec![]);
        let mut all = tasks(&[1, 5, 9]);
        all.without(Omitted { at: 4, count: 3 });
        // The places are those of the frames, whatever their indices.
        all.match_notes(&[72, 2 << 8, 0x5000, 0x6000, 8, 0], &images);
        assert_eq!(frames(&all), [1, 6]);
        let chains = all.chains();
        let ends: Vec<_> = chains
            .chains
            .iter()
            .map(|chain| (chain.count, chain.end))
            .collect();
        assert_eq!(ends, [(0, AsyncEnd::Root), (2, AsyncEnd::Root)]);
        assert_eq!(chains.callers[..2], [0x5000, 0x6000]);
        all.truncate(6);
        all.match_notes(&[], &images);
        assert_eq!(frames(&all), [1]);
        assert_eq!(all.chains().chains[0].end, AsyncEnd::Unknown);
    }

    #[test]
    fn contexts_of_this_process_are_read_in_place() {
        let last = [0u64, 0x6000];
        let first = [last.as_ptr() as u64, 0x5000];
        let frame = [first.as_ptr() as u64, 0];
        let mut tasks = FoundTasks::new();
        tasks.add(0, AsyncFrame::InRegister);
        tasks.add(2, AsyncFrame::Saved(&raw const frame[1] as u64));
        tasks.add(3, AsyncFrame::Saved(64));
        tasks.add(4, AsyncFrame::Unknown);
        let mut registers = Registers::new(crate::capture::Arch::NATIVE);
        registers.set(REGISTER, last.as_ptr() as u64);
        tasks.read_live(&registers, &Images::new(vec![]));
        let chains = tasks.chains();
        let ends: Vec<_> = chains
            .chains
            .iter()
            .map(|chain| (chain.count, chain.end))
            .collect();
        let (root, none) = (AsyncEnd::Root, AsyncEnd::Unknown);
        assert_eq!(
            ends,
            [(1, root), (2, root), (0, AsyncEnd::Unreadable), (0, none)]
        );
        assert_eq!(chains.callers[..3], [0x6000, 0x5000, 0x6000]);
    }
}
