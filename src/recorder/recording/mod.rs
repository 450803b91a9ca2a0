//! One report while it is written: its file, its sections in their order, and the file's names.
//!
//! What is marked *signal-safe* is called from the crash handler too: no allocation, no lock, no panic.

mod stacks;

use std::time::Duration;

use super::names::Names;
use super::{Facts, ReportBuffers};

use crate::capture::ImagesGuard;
use crate::context::CONTEXT;
use crate::platform::clock;
use crate::platform::file::{self, Folder};
use crate::platform::spare::Spare;
use crate::report::{
    AppView, CaptureView, ClosedBy, EventKind, EventView, HeadView, LossView, OsView, ReportWriter,
    Sink, SinkError, StallEndView,
};
use crate::store::{Name, PARTIAL, WHOLE, fresh_id};
use crate::trigger::crash::Stamp;
use crate::trigger::loss::{self, LOSSES, LossReason};
use crate::vitals::GAUGES;

impl Sink for &file::File {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        file::File::write(self, bytes).map_err(|errno| SinkError { errno })
    }
}

/// The `cut` of a report whose sections did not all get through.
const DISK_FULL: &str = "the disk took no more";

/// One report while it is written.
#[derive(Debug)]
pub(crate) struct Recording {
    file: file::File,
    kind: EventKind,
    time: u64,
    id: [u8; 16],
    crc: u32,
    sections: u64,
    /// Bytes of whole sections.
    length: u64,
    /// The last section that did not get through: the disk is full, say.
    failed: Option<SinkError>,
    /// True if part of such a section is in the file.
    torn: bool,
    /// True if sections are missing, and the file does not say so.
    is_missing_unsaid: bool,
    /// The name that it has instead, where it was made beforehand and could not be renamed.
    misnamed: Option<Name>,
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
        facts: &Facts,
        event: &EventView<'_>,
        buffers: &mut ReportBuffers,
    ) -> Result<Recording, i32> {
        let stamp = Stamp {
            time: clock::realtime(),
            id: fresh_id(),
        };
        let begun = Recording::begin_as(folder, facts, event.kind, buffers, stamp, None);
        let mut recording = begun.inspect_err(|_| LOSSES.count(LossReason::Unwritten))?;
        recording.names = facts.names.then(Names::default);
        recording.event(buffers, event);
        Ok(recording)
    }

    /// Creates the file and writes `head`: by a name that is known before, and in a file that was made before
    /// where there is one. Signal-safe.
    pub fn begin_as(
        folder: &Folder,
        facts: &Facts,
        kind: EventKind,
        buffers: &mut ReportBuffers,
        Stamp { time, id }: Stamp,
        spare: Option<&Spare>,
    ) -> Result<Recording, i32> {
        buffers.forget_images();
        let monotonic = clock::monotonic();
        let name = Name::new(time, kind.as_str(), &id, PARTIAL);
        let made = spare.and_then(|spare| Some((spare.take()?, Name::of(spare.name()))));
        let (file, misnamed) = match made {
            Some((file, name)) => {
                folder.leave_room();
                (file, Some(name))
            }
            None => (folder.create(name.as_c_str())?, None),
        };
        let mut recording = Recording {
            file,
            kind,
            time,
            id,
            crc: 0,
            sections: 0,
            length: 0,
            failed: None,
            torn: false,
            is_missing_unsaid: false,
            misnamed,
            all_images: facts.all_images,
            names: None,
        };
        recording.write(buffers, |writer| {
            writer.head(&HeadView {
                id,
                launch: facts.launch,
                time: crate::report::time::wall(time),
                clock: Duration::from_nanos(monotonic),
                app: AppView {
                    name: &facts.app_name,
                    version: &facts.app_version,
                    ..AppView::default()
                },
                os: OsView {
                    name: facts.os_name,
                    version: &facts.os_version,
                    build: facts.os_build.as_deref(),
                    ..OsView::default()
                },
                device: facts.device.as_deref(),
                arch: facts.arch,
                pid: u64::from(facts.pid),
                ..HeadView::default()
            })
        });
        match recording.failed {
            Some(error) => {
                // A file that was made beforehand stays, and is empty again.
                if recording.misnamed.is_none() {
                    let _ = folder.remove(recording.name().as_c_str());
                }
                Err(error.errno)
            }
            None => {
                recording.name_it(folder);
                Ok(recording)
            }
        }
    }

    /// Gives a file that was made beforehand its report's name; where that is denied, the next launch
    /// does it. Signal-safe.
    fn name_it(&mut self, folder: &Folder) {
        let name = self.name();
        let may = |from: &Name| folder.rename(from.as_c_str(), name.as_c_str()).is_ok();
        if self.misnamed.as_ref().is_some_and(may) {
            self.misnamed = None;
        }
    }

    /// Writes sections. One that fails is taken back, so that what stands is whole, and later ones
    /// are still tried: a smaller one may have room. Signal-safe.
    pub fn write(
        &mut self,
        buffers: &mut ReportBuffers,
        sections: impl FnOnce(&mut ReportWriter<'_, &file::File>) -> Result<(), SinkError>,
    ) {
        self.write_from(buffers.buffer(), sections);
    }

    fn write_from(
        &mut self,
        buffer: &mut [u8],
        sections: impl FnOnce(&mut ReportWriter<'_, &file::File>) -> Result<(), SinkError>,
    ) {
        let mut writer = ReportWriter::resume(buffer, &self.file, self.crc, self.sections);
        let result = sections(&mut writer);
        (self.crc, self.sections) = (writer.crc(), writer.sections());
        self.length = self.length.saturating_add(writer.bytes());
        if let Err(error) = result {
            self.failed = Some(error);
            self.settle();
        }
    }

    /// Cuts the file to the whole sections that are counted. Signal-safe.
    pub fn settle(&mut self) {
        self.torn = self.file.truncate(self.length).is_err();
    }

    /// Writes `event`. Signal-safe.
    pub fn event(&mut self, buffers: &mut ReportBuffers, event: &EventView<'_>) {
        self.write(buffers, |writer| writer.event(event));
    }

    /// Writes what stands in every report behind its first thread: the main image, `vitals` and `context`.
    /// Signal-safe.
    pub fn surroundings(&mut self, buffers: &mut ReportBuffers, images: &ImagesGuard) {
        self.main_image(buffers, images);
        self.vitals_and_context(buffers);
    }

    /// Writes `vitals` and `context`. Signal-safe.
    pub fn vitals_and_context(&mut self, buffers: &mut ReportBuffers) {
        self.write(buffers, |writer| writer.vitals(&GAUGES.read()));
        let (buffer, context) = buffers.context();
        if !context.is_empty() {
            self.write_from(buffer, |writer| writer.context(&context.view()));
        }
    }

    /// Writes `stall_end`: after how many nanoseconds it was over, and how. Signal-safe.
    pub fn stall_end(&mut self, buffers: &mut ReportBuffers, lasted: u64, how: &str) {
        let view = StallEndView {
            duration: Duration::from_nanos(lasted),
            how,
            ..StallEndView::default()
        };
        self.write(buffers, |writer| writer.stall_end(&view));
    }

    /// Writes `loss`: what was not reported since launch, if anything. Signal-safe.
    pub fn loss(&mut self, buffers: &mut ReportBuffers) {
        let mut counts = [("", 0); loss::COUNT + 1];
        let context = ("context", CONTEXT.left_out());
        let all = LOSSES.counts().into_iter().chain([context]);
        let slots = counts.iter_mut().zip(all);
        slots.for_each(|(slot, count)| *slot = count);
        if counts.iter().any(|(_, count)| *count > 0) {
            let view = LossView {
                counts: &counts,
                ..LossView::default()
            };
            self.write(buffers, |writer| writer.loss(&view));
        }
    }

    /// Writes what the capture cost, and that sections are missing if some are. Signal-safe.
    pub fn cost(&mut self, buffers: &mut ReportBuffers, cost: &CaptureView<'_>) {
        let before = self.failed.take();
        let cut = before.map_or(cost.cut, |_| Some(DISK_FULL));
        self.write(buffers, |writer| {
            writer.capture(&CaptureView { cut, ..*cost })
        });
        if self.failed.take().is_some() {
            // A disk that has no room for the figures may have some for the word.
            let view = CaptureView {
                cut: Some(DISK_FULL),
                ..CaptureView::default()
            };
            self.write(buffers, |writer| writer.capture(&view));
            self.is_missing_unsaid = self.failed.is_some();
        }
        self.failed = self.failed.or(before);
    }

    /// Writes `end` and gives the file its final name; returns that and the file's bytes. Where that fails the file
    /// stays as it is, for the next launch to close. Signal-safe.
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
            self.settle();
            return Err(error.errno);
        }
        self.name_it(folder);
        if self.misnamed.is_some() {
            return Err(libc::EACCES);
        }
        let whole = Name::new(self.time, self.kind.as_str(), &self.id, WHOLE);
        let bytes = self.file.length()?;
        folder.rename(self.name().as_c_str(), whole.as_c_str())?;
        Ok((whole, bytes))
    }

    /// Bytes of whole sections so far. Signal-safe.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Its present name. Signal-safe.
    pub fn name(&self) -> Name {
        Name::new(self.time, self.kind.as_str(), &self.id, PARTIAL)
    }
}
