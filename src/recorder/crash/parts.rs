//! The parts of a crash report: the contents of each, and the rest of a report after a fault cut one off.
//!
//! Signal-safe throughout.

use std::time::Duration;

use super::Cause;
use super::{CrashRecorder, CrashWork};
use crate::capture::{ImageTable, ImagesGuard};
use crate::platform::folder::Folder;
use crate::platform::{Thread, ThreadName};
use crate::recorder::helper::{Helper, Renewals};
use crate::recorder::scratch::{self, Scratch, view};
use crate::recorder::{Recording, ReportBuffers};
use crate::report::{
    CaptureView, CutReason, EventKind, EventView, Found, RawFrame, SignalView, ThreadView,
};
use crate::store::launch;
use crate::trigger::crash::{self, CrashPart, Crashed};
use crate::trigger::panic::PanicNote;
use crate::trigger::signal_names::{code_name, signal_name};
use crate::trigger::terminate::Exception;

/// Longest time that a crash in unknown code waits for a new image table, nanoseconds.
const MAX_REFRESH_WAIT: u64 = 50_000_000;

/// A report while it is written.
pub(super) struct CrashReport<'a> {
    recorder: &'a CrashRecorder,
    work: &'a mut CrashWork,
    crashed: &'a Crashed,
    cause: Option<Cause>,
    images: ImagesGuard,
    cost: CaptureView,
    /// The report's `cut`: the first part that a fault cut off.
    cut: Option<CutReason>,
    /// True once it was tried to create the report's own file.
    has_tried_own_file: bool,
}

impl<'a> CrashReport<'a> {
    pub fn new(
        recorder: &'a CrashRecorder,
        work: &'a mut CrashWork,
        crashed: &'a Crashed,
    ) -> CrashReport<'a> {
        CrashReport {
            recorder,
            work,
            crashed,
            cause: None,
            images: ImageTable::enter(),
            cost: CaptureView::default(),
            cut: None,
            has_tried_own_file: false,
        }
    }

    /// Writes the report. A part that is cut off before it has written anything is tried a second time.
    pub fn write(&mut self) {
        for part in CrashPart::ALL {
            let before = self.length();
            for _ in 0..2 {
                let Some(cut) = part.write(&mut || self.part(part)) else {
                    break;
                };
                self.cut = self.cut.or(Some(cut));
                if let Some(recording) = &mut self.work.recording {
                    // The file may have a section that was not counted yet.
                    recording.truncate_to_whole();
                }
                if self.length() != before {
                    break;
                }
            }
        }
        // If this is cut off, too, the next launch closes the file.
        self.close();
    }

    fn length(&self) -> u64 {
        self.work.recording.as_ref().map_or(0, Recording::length)
    }

    fn part(&mut self, part: CrashPart) {
        match part {
            CrashPart::Open => self.open(),
            CrashPart::Event => self.event(),
            CrashPart::Thread => self.thread(),
            CrashPart::Vitals => self.vitals(),
            CrashPart::Threads => self.threads(),
            CrashPart::Close => self.close(),
        }
    }

    /// Begins the report in its own file, or after the launch's record if no file can be created.
    fn open(&mut self) {
        let kind = self.cause.insert(Cause::of(self.crashed)).kind();
        let CrashRecorder { facts, folder, .. } = self.recorder;
        let (buffers, stamp) = (&mut self.work.scratch.buffers, self.work.stamp);
        launch::crashes(folder, kind == EventKind::Panic);
        // In a sandbox this may fault.
        if !std::mem::replace(&mut self.has_tried_own_file, true) {
            let create = Folder::create_for_crash;
            let begun = Recording::begin_as(folder, create, facts, kind, buffers, stamp);
            self.work.recording = begun.ok();
        }
        if self.work.recording.is_none()
            && let Some((file, start)) = launch::room_after_record(folder)
        {
            let begun = Recording::begin_in(file, start, facts, kind, buffers, stamp);
            self.work.recording = begun.ok();
        }
    }

    fn event(&mut self) {
        let (Some(recording), Some(cause)) = (&mut self.work.recording, &self.cause) else {
            return;
        };
        let signal = &self.crashed.signal;
        let thread = ThreadName::of(self.crashed.thread);
        let panicking = cause.panic.and_then(|_| thread.as_str());
        let view = EventView {
            kind: cause.kind(),
            fatal: true,
            signal: Some(SignalView {
                number: signal.number.unsigned_abs().into(),
                name: signal_name(signal.number),
                code: signal.code.into(),
                code_name: code_name(signal.number, signal.code),
                address: signal.address,
            }),
            reason: self.crashed.exception,
            name: cause.exception.map(Exception::name).or(panicking),
            message: cause.message(),
            location: cause.panic.map(PanicNote::location),
            ..EventView::default()
        };
        recording.event(&mut self.work.scratch.buffers, &view);
    }

    fn thread(&mut self) {
        let CrashWork {
            scratch,
            thrown: frames,
            recording: Some(recording),
            ..
        } = &mut *self.work
        else {
            return;
        };
        self.cost = thread(recording, scratch, &mut self.images, self.crashed);
        if let Some(exception) = self.cause.as_ref().and_then(|cause| cause.exception) {
            let buffers = &mut scratch.buffers;
            thrown(recording, buffers, frames, &self.images, exception);
        }
    }

    fn vitals(&mut self) {
        let Some(recording) = &mut self.work.recording else {
            return;
        };
        let buffers = &mut self.work.scratch.buffers;
        recording.vitals_and_context(buffers);
        if self.recorder.near_memory {
            let Crashed {
                signal, registers, ..
            } = self.crashed;
            super::near::write(recording, buffers, registers, signal.address);
        }
    }

    fn threads(&mut self) {
        let Some(recording) = &mut self.work.recording else {
            return;
        };
        let written = [self.crashed.thread, Thread::current()];
        let others = |thread| !written.contains(&thread);
        let (work, images) = (&mut self.work.scratch, &mut self.images);
        let tally = work.write_threads(recording, images, Renewals::default(), others);
        tally.add_to(&mut self.cost);
    }

    /// Writes the end and gives the file its name.
    fn close(&mut self) {
        let Some(mut recording) = self.work.recording.take() else {
            return;
        };
        let buffers = &mut self.work.scratch.buffers;
        if self.cut.is_some() {
            // Frames in the file may refer to images that are not in it yet.
            recording.images(buffers, &self.images);
        }
        let cut = self.cut.or(self.cost.cut);
        recording.write_cost(buffers, &CaptureView { cut, ..self.cost });
        recording.loss(buffers);
        let is_whole = recording.finish(&self.recorder.folder, buffers).is_ok();
        if let Some(pending) = self.cause.as_ref().and_then(|cause| cause.panic)
            && is_whole
        {
            // This report contains the panic: the one that the panic hook wrote is removed.
            pending.remove_files(&self.recorder.folder);
        }
    }
}

/// Writes the thread that crashed, its images and the main image. Returns the cost of the capture. Signal-safe.
fn thread(
    recording: &mut Recording,
    work: &mut Scratch,
    images: &mut ImagesGuard,
    crashed: &Crashed,
) -> CaptureView {
    let mut named = [("", 0); 40];
    let mut count = 0usize;
    for (register, slot) in crashed.registers.named().zip(&mut named) {
        *slot = register;
        count = count.saturating_add(1);
    }
    let name = ThreadName::of(crashed.thread);
    let thread = ThreadView {
        crashed: true,
        cpu: (crashed.thread.progress()).map(|now| Duration::from_nanos(now.cpu)),
        registers: named.get(..count).unwrap_or_default(),
        ..view(crashed.thread, &name)
    };
    // A library may have been loaded since. Only the helper thread may call the loader.
    let renew = || {
        let is_renewed = Helper::refresh_within(MAX_REFRESH_WAIT);
        if !is_renewed {
            // The helper may never leave the loader's lock.
            crash::recall_monitor();
        }
        is_renewed
    };
    let (registers, capturer) = (&crashed.registers, &mut work.capturer);
    let captured = capturer.capture_context_renewing(registers, images, renew);
    let cost = scratch::cost(&captured);
    recording.thread(&mut work.buffers, images, &thread, &captured);
    recording.main_image(&mut work.buffers, images);
    cost
}

/// Writes the stack at which the exception was first thrown, if that is known. Signal-safe.
fn thrown(
    recording: &mut Recording,
    buffers: &mut ReportBuffers,
    frames: &mut [RawFrame],
    images: &ImagesGuard,
    exception: &Exception,
) {
    let stack = exception.stack();
    if stack.is_empty() {
        return;
    }
    // Foundation walks by frame pointers (backtrace_from_fp(3)); all are return addresses.
    for (slot, &pc) in frames.iter_mut().zip(stack) {
        *slot = RawFrame {
            pc,
            found: Found::FramePointer,
            image: RawFrame::NO_IMAGE,
        };
    }
    let count = stack.len().min(frames.len());
    let frames = frames.get(..count).unwrap_or_default();
    recording.thrown(buffers, images, frames, exception.omitted());
}
