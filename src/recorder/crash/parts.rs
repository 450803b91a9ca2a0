//! The parts of a crash report: what stands in each, and in which order one writer writes those that it can claim.
//!
//! Signal-safe throughout.

use std::time::Duration;

use super::{Cause, CrashRecorder, CrashWork, REFRESH_WAIT};
use crate::capture::{ImageTable, ImagesGuard};
use crate::platform::{Thread, ThreadName};
use crate::recorder::helper::{Helper, Renewals};
use crate::recorder::work::{self, Work, view};
use crate::recorder::{Recording, ReportBuffers};
use crate::report::{CaptureView, EventView, Found, RawFrame, SignalView, ThreadView};
use crate::trigger::crash::{CrashPart, Crashed};
use crate::trigger::panic::Pending;
use crate::trigger::signal_names::{code_name, signal_name};
use crate::trigger::terminate::Exception;

impl CrashWork {
    /// Writes `event`. Signal-safe.
    pub fn event(&mut self, cause: &Cause, crashed: &Crashed) {
        let Some(recording) = &mut self.recording else {
            return;
        };
        let signal = &crashed.signal;
        let thread = ThreadName::of(crashed.thread);
        let panicking = cause.panic.as_ref().and_then(|_| thread.as_str());
        let view = EventView {
            kind: cause.kind(),
            fatal: true,
            signal: Some(SignalView {
                number: signal.number.unsigned_abs().into(),
                name: signal_name(signal.number),
                code: signal.code.into(),
                code_name: code_name(signal.number, signal.code),
                address: signal.address,
                ..SignalView::default()
            }),
            reason: crashed.exception,
            name: cause.exception.as_ref().map(Exception::name).or(panicking),
            message: cause.message(),
            location: cause.panic.as_ref().map(Pending::location),
            ..EventView::default()
        };
        recording.event(&mut self.work.buffers, &view);
    }

    /// Writes the parts between the event and the end, and gives what they cost; `None` where another
    /// writer has taken one over. Signal-safe.
    pub fn parts(
        &mut self,
        recorder: &CrashRecorder,
        cause: &Cause,
        crashed: &Crashed,
    ) -> Option<CaptureView<'static>> {
        let (recording, work) = (self.recording.as_mut()?, &mut self.work);
        let mut cost = CaptureView::default();
        let mut images = ImageTable::enter();
        if crashed.claim(CrashPart::Thread) {
            if images.find(crashed.registers.pc()).is_none() {
                // A library that was loaded since? The helper thread may call the loader, this one may not.
                drop(images);
                Helper::refresh_within(REFRESH_WAIT);
                images = ImageTable::enter();
            }
            cost = thread(recording, work, &images, crashed);
            if let Some(exception) = &cause.exception {
                let buffers = &mut work.buffers;
                thrown(recording, buffers, &mut self.thrown, &images, exception);
            }
            crashed.done(CrashPart::Thread)?;
        }
        if crashed.claim(CrashPart::Vitals) {
            recording.vitals_and_context(&mut work.buffers);
            if recorder.near_memory {
                let address = crashed.signal.address;
                super::near::write(recording, &mut work.buffers, &crashed.registers, address);
            }
            crashed.done(CrashPart::Vitals)?;
        }
        if crashed.claim(CrashPart::Threads) {
            let done = [crashed.thread, Thread::current()];
            let others = |thread| !done.contains(&thread);
            let tally = work.write_threads(recording, &mut images, Renewals::none(), others);
            tally.put_into(&mut cost);
            crashed.done(CrashPart::Threads)?;
        }
        Some(cost)
    }

    /// Writes the end and gives the file its name: whether it is whole. Signal-safe.
    pub fn close(&mut self, recorder: &CrashRecorder, cost: &CaptureView<'_>) -> bool {
        let Some(mut recording) = self.recording.take() else {
            return false;
        };
        let buffers = &mut self.work.buffers;
        recording.cost(buffers, cost);
        recording.loss(buffers);
        recording.finish(&recorder.folder, buffers).is_ok()
    }
}

/// Writes the thread that crashed, its images, and the main one; gives what unwinding cost. Signal-safe.
fn thread(
    recording: &mut Recording,
    work: &mut Work,
    images: &ImagesGuard,
    crashed: &Crashed,
) -> CaptureView<'static> {
    let mut named = [("", 0); 40];
    let slots = crashed.registers.named().zip(&mut named);
    let count = slots.map(|(one, slot)| *slot = one).count();
    let thread = ThreadView {
        crashed: true,
        cpu: (crashed.thread.progress()).map(|now| Duration::from_nanos(now.cpu)),
        registers: named.get(..count).unwrap_or_default(),
        ..view(crashed.thread, &crashed.name)
    };
    let captured = work.capturer.capture_context(&crashed.registers, images);
    let cost = work::cost(&captured);
    recording.thread(&mut work.buffers, images, &thread, &captured);
    recording.main_image(&mut work.buffers, images);
    cost
}

/// Writes where the exception was thrown first, if that is known. Signal-safe.
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
    let slots = frames.iter_mut().zip(stack);
    let count = slots
        .map(|(slot, &pc)| {
            *slot = RawFrame {
                pc,
                found: Found::FramePointer,
                image: RawFrame::NO_IMAGE,
            }
        })
        .count();
    let frames = frames.get(..count).unwrap_or_default();
    recording.thrown(buffers, images, frames, exception.omitted());
}
