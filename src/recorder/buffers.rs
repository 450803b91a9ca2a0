//! The memory that a report is made in: reserved at install, one for each thread that writes.
//!
//! Signal-safe, but for what reserves it.

use crate::capture::{ImagesGuard, LoadedImage};
use crate::context::{CONTEXT, Snapshot};
use crate::report::{Chains, RawChains, RawFrame};

/// Sections are made in this much memory before they go out whole.
const SECTION_BUFFER: usize = 64 << 10;
/// A thread's frames, at most.
pub(crate) const MAX_FRAMES: usize = 1024;
/// Images in one report, at most.
const MAX_IMAGES: usize = 1024;

/// Buffer, image numbers and scratch for frames.
#[derive(Debug)]
pub(crate) struct ReportBuffers {
    buffer: Box<[u8]>,
    /// The numbers of the images in the report that is written into.
    pub indices: ImageIndices,
    frames: Box<[RawFrame]>,
    context: Snapshot,
}

impl ReportBuffers {
    /// Reserves and touches all of it.
    pub fn new() -> ReportBuffers {
        // Zeroes would be pages that the kernel has yet to give.
        ReportBuffers {
            buffer: vec![0xff; SECTION_BUFFER].into_boxed_slice(),
            indices: ImageIndices::new(),
            frames: RawFrame::room(MAX_FRAMES),
            context: Snapshot::new(),
        }
    }

    /// The buffer in which a section is made.
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The buffer in which a section is made, and the app's context as it is now.
    pub fn context(&mut self) -> (&mut [u8], &Snapshot) {
        CONTEXT.read(&mut self.context);
        (&mut self.buffer, &self.context)
    }

    /// All parts at once, but the context.
    pub fn parts(&mut self) -> (&mut [u8], &mut ImageIndices, &mut [RawFrame]) {
        (&mut self.buffer, &mut self.indices, &mut self.frames)
    }

    /// A new report has no images yet.
    pub fn forget_images(&mut self) {
        (self.indices.len, self.indices.written) = (0, 0);
    }
}

/// Numbers of the images in the file: they are given in the order in which frames first
/// refer to them, and images are written in that order.
#[derive(Debug)]
pub(crate) struct ImageIndices {
    /// Serial number and base.
    images: Box<[(u32, u64)]>,
    len: usize,
    written: usize,
}

impl ImageIndices {
    #[inline(never)]
    pub fn new() -> ImageIndices {
        ImageIndices {
            images: vec![(u32::MAX, u64::MAX); std::hint::black_box(MAX_IMAGES)].into_boxed_slice(),
            len: 0,
            written: 0,
        }
    }

    /// The number of an image; [`RawFrame::NO_IMAGE`] once there are too many.
    pub fn index_of(&mut self, image: &LoadedImage) -> u32 {
        let mut known = self.images.iter().take(self.len);
        if let Some(index) = known.position(|known| known.0 == image.serial) {
            return index as u32;
        }
        let Some(slot) = self.images.get_mut(self.len) else {
            return RawFrame::NO_IMAGE;
        };
        *slot = (image.serial, image.base);
        let index = self.len;
        self.len = index.saturating_add(1);
        index as u32
    }

    /// Serial number and base of the next image that has a number but is not in the file yet.
    pub fn next_unwritten(&self) -> Option<(u32, u64)> {
        let known = self.images.get(..self.len)?;
        known.get(self.written).copied()
    }

    /// Counts the next image as written, or as never to be written.
    pub fn mark_written(&mut self) {
        self.written = self.written.saturating_add(1);
    }

    /// Copies `frames` into `scratch` with the file's image numbers. `images` may be others than when the stack was
    /// taken.
    pub fn number_images<'s>(
        &mut self,
        frames: &[RawFrame],
        images: &ImagesGuard,
        scratch: &'s mut [RawFrame],
    ) -> &'s [RawFrame] {
        let count = frames.len().min(scratch.len());
        for (slot, frame) in scratch.iter_mut().zip(frames) {
            let image = images.image_of(frame);
            let number = image.map_or(RawFrame::NO_IMAGE, |image| self.index_of(image));
            *slot = RawFrame {
                image: number,
                ..*frame
            };
        }
        scratch.get(..count).unwrap_or_default()
    }

    /// Counts in the images of async callers.
    pub fn count_async_images(&mut self, tasks: RawChains<'_>, images: &ImagesGuard) {
        let all = (0..tasks.chains.len()).filter_map(|index| tasks.at(index));
        for caller in all.flat_map(|(_, callers, _)| callers) {
            if let Some(image) = images.at(*caller).filter(|image| !image.is_gone()) {
                self.index_of(image);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(serial: u32) -> LoadedImage {
        let mut image = LoadedImage::new("", 0x1000, 0, 0x1000);
        image.serial = serial;
        image
    }

    #[test]
    fn images_are_numbered_in_the_order_of_need_and_owed_once() {
        let mut indices = ImageIndices::new();
        assert_eq!(
            [3, 1, 3, 2].map(|serial| indices.index_of(&image(serial))),
            [0, 1, 0, 2]
        );
        assert_eq!(indices.next_unwritten(), Some((3, 0x1000)));
        indices.mark_written();
        assert_eq!(indices.index_of(&image(4)), 3);
        let next = || {
            let (owed, _) = indices.next_unwritten()?;
            indices.mark_written();
            Some(owed)
        };
        assert_eq!(std::iter::from_fn(next).collect::<Vec<u32>>(), [1, 2, 4]);
    }

    #[test]
    fn a_process_with_more_images_than_fit_loses_only_their_numbers() {
        let mut indices = ImageIndices::new();
        for serial in 0..MAX_IMAGES as u32 {
            assert_eq!(indices.index_of(&image(serial)), serial);
        }
        assert_eq!(indices.index_of(&image(u32::MAX)), RawFrame::NO_IMAGE);
        assert_eq!(indices.index_of(&image(5)), 5);
    }
}
