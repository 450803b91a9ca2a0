//! One report while it is written: its file, its sections in their order, and the file's names.
//!
//! Signal-safe, but for `Recording::begin` and the names of functions: the crash handler calls the rest.

mod stacks;

use std::ffi::CStr;
use std::time::Duration;

use super::names::Names;
use super::{ProcessInfo, ReportBuffers};

use crate::capture::ImagesGuard;
use crate::context::CONTEXT;
use crate::platform::folder::Folder;
use crate::platform::{clock, file, fresh_id};
use crate::report::{
    AppView, CaptureView, ClosedBy, CutReason, EventKind, EventView, HeadView, LossView, OsView,
    ReportWriter, Sink, SinkError, StallEndView,
};
use crate::store::{Name, PARTIAL, WHOLE};
use crate::trigger::loss::{self, LOSSES, LossReason};
use crate::vitals::VITALS;

impl Sink for &file::File {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        file::File::write(self, bytes).map_err(|errno| SinkError { errno })
    }
}

/// The time and id of a report: nanoseconds since the Unix epoch when it was begun, and what no other has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stamp {
    pub time: u64,
    pub id: [u8; 16],
}

impl Stamp {
    /// A new one.
    pub fn fresh() -> Stamp {
        Stamp {
            time: clock::realtime(),
            id: fresh_id(),
        }
    }
}

/// One report while it is written.
#[derive(Debug)]
pub(crate) struct Recording {
    file: file::File,
    kind: EventKind,
    time: u64,
    id: [u8; 16],
    crc: u32,
    sections: u64,
    /// Its first byte in the file: behind the launch's record where it could have no file of its own.
    start: u64,
    /// Bytes of whole sections.
    length: u64,
    /// The last section that did not get through: the disk is full, say.
    failed: Option<SinkError>,
    /// True if part of such a section is in the file.
    torn: bool,
    /// True if sections are missing and no later `capture` section reports it.
    is_missing_unsaid: bool,
    /// True if it holds images that no frame points into.
    all_images: bool,
    /// The functions that frames lie in, where their names are wanted: never in the report of a crash.
    names: Option<Names>,
}

impl Recording {
    /// Creates the file and writes `head` and `event`. Frames get the names of their functions where the app
    /// wants them: writing them allocates.
    pub fn begin(
        folder: &Folder,
        facts: &ProcessInfo,
        event: &EventView<'_>,
        buffers: &mut ReportBuffers,
    ) -> Result<Recording, i32> {
        let stamp = Stamp::fresh();
        let begun = Recording::begin_as(folder, Folder::create, facts, event.kind, buffers, stamp);
        let mut recording = begun.inspect_err(|_| LOSSES.count(LossReason::Unwritten))?;
        recording.names = facts.names.then(Names::default);
        recording.event(buffers, event);
        Ok(recording)
    }

    /// Its name until it is whole.
    fn name_of(kind: EventKind, Stamp { time, id }: Stamp) -> Name {
        Name::new(time, kind.as_str(), &id, PARTIAL)
    }

    /// Creates the file by `create` and writes `head`.
    pub fn begin_as(
        folder: &Folder,
        create: fn(&Folder, &CStr) -> Result<file::File, i32>,
        facts: &ProcessInfo,
        kind: EventKind,
        buffers: &mut ReportBuffers,
        stamp: Stamp,
    ) -> Result<Recording, i32> {
        let name = Recording::name_of(kind, stamp);
        let file = create(folder, name.as_c_str())?;
        let begun = Recording::begin_in(file, 0, facts, kind, buffers, stamp);
        begun.inspect_err(|_| {
            // One that stays is removed by a later launch.
            let _ = folder.remove(name.as_c_str());
        })
    }

    /// Writes `head` into `file`, from its byte `start` on.
    pub fn begin_in(
        file: file::File,
        start: u64,
        facts: &ProcessInfo,
        kind: EventKind,
        buffers: &mut ReportBuffers,
        Stamp { time, id }: Stamp,
    ) -> Result<Recording, i32> {
        buffers.forget_images();
        let monotonic = clock::monotonic();
        let mut recording = Recording {
            file,
            kind,
            time,
            id,
            crc: 0,
            sections: 0,
            start,
            length: 0,
            failed: None,
            torn: false,
            is_missing_unsaid: false,
            all_images: facts.all_images,
            names: None,
        };
        recording.write(buffers.buffer(), |writer| {
            writer.section(&HeadView {
                id,
                launch: facts.launch,
                time: crate::report::time::wall(time),
                clock: Duration::from_nanos(monotonic),
                app: AppView {
                    name: &facts.app_name,
                    version: &facts.app_version,
                },
                os: OsView {
                    name: facts.os_name,
                    version: &facts.os_version,
                    build: facts.os_build.as_deref(),
                },
                device: facts.device.as_deref(),
                arch: facts.arch,
                pid: u64::from(facts.pid),
                ..HeadView::default()
            })
        });
        match recording.failed {
            Some(error) => Err(error.errno),
            None => Ok(recording),
        }
    }

    /// Writes sections. One that fails is taken back, so that what stands is whole, and is the last: images are numbered
    /// in their order, and a sample stands on the one before.
    pub fn write(
        &mut self,
        buffer: &mut [u8],
        sections: impl FnOnce(&mut ReportWriter<'_, &file::File>) -> Result<(), SinkError>,
    ) {
        if self.failed.is_none() {
            self.attempt(buffer, sections);
        }
    }

    /// The same, also behind a section that failed: a smaller one may have room. Returns true if it is written.
    fn attempt(
        &mut self,
        buffer: &mut [u8],
        sections: impl FnOnce(&mut ReportWriter<'_, &file::File>) -> Result<(), SinkError>,
    ) -> bool {
        let mut writer = ReportWriter::resume(buffer, &self.file, self.crc, self.sections);
        let result = sections(&mut writer);
        self.crc = writer.crc();
        self.sections = writer.sections();
        self.length = self.length.saturating_add(writer.bytes());
        if let Err(error) = result {
            self.failed = Some(error);
            self.is_missing_unsaid = true;
            self.truncate_to_whole();
        }
        result.is_ok()
    }

    /// Cuts the file to the whole sections that are counted.
    #[inline(never)]
    pub fn truncate_to_whole(&mut self) {
        self.torn = (self.file.truncate(self.start.saturating_add(self.length))).is_err();
    }

    /// Writes `event`.
    pub fn event(&mut self, buffers: &mut ReportBuffers, event: &EventView<'_>) {
        self.write(buffers.buffer(), |writer| writer.section(event));
    }

    /// Writes what stands in every report behind its first thread: the main image, `vitals` and `context`.
    pub fn surroundings(&mut self, buffers: &mut ReportBuffers, images: &ImagesGuard) {
        self.main_image(buffers, images);
        self.vitals_and_context(buffers);
    }

    /// Writes `vitals` and `context`.
    pub fn vitals_and_context(&mut self, buffers: &mut ReportBuffers) {
        self.write(buffers.buffer(), |writer| writer.section(&VITALS.read()));
        let (buffer, context) = buffers.context();
        if !context.is_empty() {
            context.with_view(|view| self.write(buffer, |writer| writer.section(view)));
        }
    }

    /// Writes `stall_end`.
    pub fn stall_end(&mut self, buffers: &mut ReportBuffers, end: &StallEndView<'_>) {
        self.attempt(buffers.buffer(), |writer| writer.section(end));
    }

    /// Writes `loss`: what was not reported since launch, if anything.
    pub fn loss(&mut self, buffers: &mut ReportBuffers) {
        let mut counts = [("", 0); loss::COUNT + 1];
        let context = ("context", CONTEXT.dropped());
        let all = LOSSES.counts().into_iter().chain([context]);
        let slots = counts.iter_mut().zip(all);
        slots.for_each(|(slot, count)| *slot = count);
        if counts.iter().any(|(_, count)| *count > 0) {
            let view = LossView { counts: &counts };
            self.attempt(buffers.buffer(), |writer| writer.section(&view));
        }
    }

    /// Writes what the capture cost, and that sections are missing if some are.
    pub fn write_cost(&mut self, buffers: &mut ReportBuffers, cost: &CaptureView) {
        let cut = self.failed.map_or(cost.cut, |_| Some(CutReason::DiskFull));
        // If the full section does not fit, one with `cut` alone may.
        let word = CaptureView {
            cut: Some(CutReason::DiskFull),
            ..CaptureView::default()
        };
        let mut views = [CaptureView { cut, ..*cost }, word].into_iter();
        let buffer = buffers.buffer();
        let is_said = views.any(|view| self.attempt(buffer, |writer| writer.section(&view)));
        self.is_missing_unsaid = !is_said;
    }

    /// Writes `end` and gives the file its final name; returns that and the file's bytes. Where that fails the file
    /// stays as it is, for the next launch to close.
    pub fn finish(self, folder: &Folder, buffers: &mut ReportBuffers) -> Result<(Name, u64), i32> {
        let closed = self.close(folder, buffers);
        closed.inspect_err(|_| LOSSES.count(LossReason::Unwritten))
    }

    fn close(mut self, folder: &Folder, buffers: &mut ReportBuffers) -> Result<(Name, u64), i32> {
        if self.torn || self.is_missing_unsaid {
            return Err(self.failed.map_or(libc::EIO, |error| error.errno));
        }
        let writer = ReportWriter::resume(buffers.buffer(), &self.file, self.crc, self.sections);
        if let Err(error) = writer.finish(ClosedBy::Writer) {
            self.truncate_to_whole();
            return Err(error.errno);
        }
        let whole = Name::new(self.time, self.kind.as_str(), &self.id, WHOLE);
        let bytes = self.file.length()?.saturating_sub(self.start);
        // The next launch names one that stands behind a record.
        if self.start == 0 {
            folder.rename(self.name().as_c_str(), whole.as_c_str())?;
        }
        Ok((whole, bytes))
    }

    /// Bytes of whole sections so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Its present name.
    pub fn name(&self) -> Name {
        let (time, id) = (self.time, self.id);
        Recording::name_of(self.kind, Stamp { time, id })
    }
}
