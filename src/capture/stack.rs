//! Room for the frames of one stack: if it has too many, the innermost and the outermost ones.

use crate::report::model::{Omitted, RawFrame};

/// Frames in a buffer of fixed size.
#[derive(Debug)]
pub(crate) struct FrameBuffer {
    frames: Box<[RawFrame]>,
    innermost: usize,
    count: usize,
}

impl FrameBuffer {
    /// Keeps the first `innermost` and the last `outermost` frames. Allocates; the rest does not.
    pub(crate) fn new(innermost: usize, outermost: usize) -> FrameBuffer {
        let room = innermost.max(1).saturating_add(outermost);
        FrameBuffer {
            frames: RawFrame::room(room),
            innermost: innermost.max(1),
            count: 0,
        }
    }

    /// Takes frames, innermost first, in place of those it had. Signal-safe.
    pub(crate) fn fill(&mut self, frames: impl Iterator<Item = RawFrame>) {
        self.count = 0;
        let (innermost, room) = (self.innermost, self.frames.len());
        let mut next = 0;
        for frame in frames {
            if next == room {
                if innermost == room {
                    // Only the count goes on.
                    self.count = self.count.saturating_add(1);
                    continue;
                }
                next = innermost;
            }
            if let Some(slot) = self.frames.get_mut(next) {
                *slot = frame;
            }
            next = next.saturating_add(1);
            self.count = self.count.saturating_add(1);
        }
        // The outermost part is a ring that begins behind the frame written last.
        if self.count > room
            && let Some(ring) = self.frames.get_mut(innermost..)
            && let Some(turn) = next.checked_sub(innermost)
            && turn <= ring.len()
        {
            ring.rotate_left(turn);
        }
    }

    /// The frame at this index belongs to no known image, and those behind it are not known.
    /// Signal-safe.
    pub(crate) fn mark_unknown(&mut self, index: usize) {
        let (innermost, room) = (self.innermost, self.frames.len());
        if let Some(frame) = self.frames.get_mut(index) {
            frame.image = RawFrame::NO_IMAGE;
        }
        if self.count <= room || index < innermost {
            self.count = self.count.min(index.saturating_add(1));
        } else if let Some(rest) = self.frames.get_mut(index..) {
            // The count of what is left out must stay.
            rest.iter_mut()
                .for_each(|frame| frame.image = RawFrame::NO_IMAGE);
        }
    }

    /// The frames it holds, to be changed. Signal-safe.
    pub(crate) fn frames_mut(&mut self) -> &mut [RawFrame] {
        let count = self.count.min(self.frames.len());
        self.frames.get_mut(..count).unwrap_or(&mut [])
    }

    /// The frames it holds, innermost first.
    pub(crate) fn frames(&self) -> &[RawFrame] {
        self.frames
            .get(..self.count.min(self.frames.len()))
            .unwrap_or(&[])
    }

    /// Place and count of the frames that did not fit.
    pub(crate) fn omitted(&self) -> Option<Omitted> {
        let count = self
            .count
            .checked_sub(self.frames.len())
            .filter(|count| *count > 0)?;
        Some(Omitted {
            at: self.innermost as u64,
            count: count as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_and_the_outermost_frames_stay() {
        for count in 0..40u64 {
            let mut buffer = FrameBuffer::new(5, 4);
            buffer.fill((0..count).map(|pc| RawFrame {
                pc,
                ..RawFrame::default()
            }));
            let kept: Vec<u64> = buffer.frames().iter().map(|frame| frame.pc).collect();
            let wanted: Vec<u64> = (0..count)
                .filter(|pc| count <= 9 || *pc < 5 || *pc >= count - 4)
                .collect();
            assert_eq!(kept, wanted, "of {count}");
            let omitted = (count > 9).then(|| Omitted {
                at: 5,
                count: count - 9,
            });
            assert_eq!(buffer.omitted(), omitted);
        }
    }
}
