//! Stacks in a report: samples, the names of functions, and the images that frames point into.

use std::time::Duration;

use super::Recording;
use crate::capture::{Captured, ImagesGuard};
use crate::recorder::ReportBuffers;
use crate::recorder::process_info::arch_name;
use crate::report::{
    Found, Frames, ImageView, Omitted, RawFrame, SampleView, Stacked, Thread, ThreadState,
    ThreadView, WalkEnd, With,
};
use crate::trigger::sampling::{FoldedSample, Samples};

/// The names of the functions that frames lie in.
type FrameNames = Vec<Option<String>>;

impl Recording {
    /// Writes a captured thread, and behind it the images that its frames are the first to need.
    /// Signal-safe without names.
    pub fn thread(
        &mut self,
        buffers: &mut ReportBuffers,
        images: &ImagesGuard,
        thread: &ThreadView<'_>,
        captured: &Captured<'_>,
    ) {
        let names = self.names_of(captured.frames, images);
        let (buffer, indices, frames) = buffers.parts();
        let frames = indices.number_images(captured.frames, images, frames);
        indices.count_async_images(captured.tasks, images);
        let view = ThreadView {
            frames,
            tasks: captured.tasks,
            end: Some(captured.end),
            omitted: captured.omitted,
            ..*thread
        };
        self.stack(buffer, &view, frames, names.as_deref());
        self.images(buffers, images);
    }

    /// Writes a section whose frames are these, with the names of their functions where there are any. Signal-safe.
    fn stack(
        &mut self,
        buffer: &mut [u8],
        section: &impl Stacked,
        frames: &[RawFrame],
        names: Option<&[Option<String>]>,
    ) {
        self.write(buffer, |writer| match names {
            None => writer.section(section),
            Some(names) => writer.section(&With(section, NamedFrames { frames, names })),
        });
    }

    /// Writes a thread of which no stack was taken. Signal-safe.
    pub fn unasked(&mut self, buffers: &mut ReportBuffers, thread: &ThreadView<'_>) {
        self.write(buffers.buffer(), |writer| writer.section(thread));
    }

    /// Writes a thread that did not answer, without a stack; `is_blocked` if it blocks the signal that would stop it.
    /// Signal-safe.
    #[inline(never)]
    pub fn unanswered(
        &mut self,
        buffers: &mut ReportBuffers,
        thread: &ThreadView<'_>,
        is_blocked: bool,
    ) {
        let blocked = is_blocked.then_some(ThreadState::SignalBlocked);
        let view = ThreadView {
            state: blocked.or(Some(ThreadState::Unresponsive)),
            end: Some(WalkEnd::Unreadable),
            ..*thread
        };
        self.unasked(buffers, &view);
    }

    /// Writes the stack of a throw as a thread section, though it is no thread, then its images. Signal-safe.
    pub fn thrown(
        &mut self,
        buffers: &mut ReportBuffers,
        images: &ImagesGuard,
        frames: &[RawFrame],
        omitted: Option<Omitted>,
    ) {
        let (buffer, indices, scratch) = buffers.parts();
        let view = ThreadView {
            name: Some(Thread::LAST_EXCEPTION),
            frames: indices.number_images(frames, images, scratch),
            omitted,
            ..ThreadView::default()
        };
        self.write(buffer, |writer| writer.section(&view));
        self.images(buffers, images);
    }

    /// The names of the functions that these frames lie in, if they are wanted.
    // `scripts/signal-safe` knows it by its name.
    #[inline(never)]
    fn names_of(&mut self, frames: &[RawFrame], images: &ImagesGuard) -> Option<FrameNames> {
        let all = self.names.as_mut()?;
        let name = |frame| all.of(frame, images).map(|(name, _)| name.to_owned());
        Some(frames.iter().map(name).collect())
    }

    /// Writes a stack taken during a stall, and behind it the images that its frames are the first
    /// to need. Signal-safe.
    fn sample(
        &mut self,
        buffers: &mut ReportBuffers,
        images: &ImagesGuard,
        sample: &FoldedSample<'_>,
    ) {
        let names = self.names_of(sample.frames, images);
        let (buffer, indices, frames) = buffers.parts();
        let frames = indices.number_images(sample.frames, images, frames);
        indices.count_async_images(sample.tasks, images);
        let view = SampleView {
            at: Duration::from_nanos(sample.at),
            state: sample.state,
            count: sample.count,
            keep: sample.keep,
            frames,
            tasks: sample.tasks,
            omitted: sample.omitted,
            end: sample.end.filter(|end| *end != WalkEnd::Root),
        };
        self.stack(buffer, &view, frames, names.as_deref());
        self.images(buffers, images);
    }

    /// Writes the samples that the report lacks; unless `all`, the newest stack is written only if it is due.
    pub fn samples(
        &mut self,
        buffers: &mut ReportBuffers,
        images: &ImagesGuard,
        samples: &mut Samples,
        all: bool,
    ) {
        while let Some(sample) = samples.next_section(all) {
            self.sample(buffers, images, &sample);
        }
    }

    /// Writes the images that are owed: those that frames point into and that are not written yet.
    /// Signal-safe.
    pub fn images(&mut self, buffers: &mut ReportBuffers, images: &ImagesGuard) {
        let (buffer, indices, _) = buffers.parts();
        while let Some((serial, base)) = indices.next_unwritten() {
            let found = images.by_serial(serial);
            self.write(buffer, |writer| match found {
                Some(image) => writer.section(&ImageView {
                    name: &image.name,
                    id: &image.id,
                    base: image.base,
                    base_svma: image.base_svma,
                    size: image.size,
                    arch: Some(arch_name(std::env::consts::ARCH)),
                    text_hash: image.text_hash.as_ref().map(<[u8; 12]>::as_slice),
                }),
                // Its place in the order must be taken, or every later index would be wrong.
                None => writer.section(&ImageView {
                    base,
                    ..ImageView::default()
                }),
            });
            // Only now: a crash meanwhile leaves it owed.
            indices.mark_written();
        }
    }

    /// Writes the main image if it is not written yet, and all the others if all are wanted. Signal-safe.
    pub fn main_image(&mut self, buffers: &mut ReportBuffers, images: &ImagesGuard) {
        if let Some(main) = images
            .main()
            .and_then(|index| images.images().get(index as usize))
        {
            buffers.parts().1.index_of(main);
        }
        for image in images.images().iter().filter(|_| self.all_images) {
            buffers.parts().1.index_of(image);
        }
        self.images(buffers, images);
    }
}

/// Frames with the names of their functions.
struct NamedFrames<'a> {
    frames: &'a [RawFrame],
    names: &'a [Option<String>],
}

impl Frames for NamedFrames<'_> {
    fn len(&self) -> usize {
        self.frames.len()
    }

    fn at(&self, index: usize) -> Option<(u64, Found, Option<u32>, Option<&str>)> {
        let (pc, found, image, _) = self.frames.at(index)?;
        Some((pc, found, image, self.names.get(index)?.as_deref()))
    }
}
