//! The report of a crash: the file into which it goes, and the file's fate.

mod cause;
mod near;
mod parts;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, Ordering};

use cause::Cause;

use super::work::Work;
use super::{Facts, Helper, Recording, ReportBuffers};
use crate::capture::{CaptureLimits, ImageTable};
use crate::platform::spare::Spare;
use crate::platform::{clock, file};
use crate::report::{CaptureView, EventKind, RawFrame};
use crate::store::{FALLBACK, Name, PARTIAL, SPARE, SPARE_FALLBACK, WHOLE, launch};
use crate::trigger::crash::{CrashPart, CrashWriter, Crashed, Phase, Stamp, WriterRole};
use crate::trigger::terminate;

/// Everything that a crash report needs, made at install.
#[derive(Debug)]
pub(crate) struct CrashRecorder {
    pub facts: Facts,
    pub folder: file::Folder,
    /// True if memory near the crash is written.
    near_memory: bool,
    /// Nothing is shared between the two: either may be stopped anywhere.
    writer_thread: Option<WriterContext>,
    dying: WriterContext,
}

/// The memory and file of one of the two writers.
#[derive(Debug)]
struct WriterContext {
    /// The parts that writing changes; there is one thread for each writer context at a time.
    work: UnsafeCell<CrashWork>,
    /// Buffers kept for a crash while the report is written.
    salvage: UnsafeCell<ReportBuffers>,
    /// The file to write to if the process can open no file any more.
    spare: Option<Spare>,
}

#[derive(Debug)]
struct CrashWork {
    work: Work,
    /// Memory for the frames of a throw.
    thrown: Box<[RawFrame]>,
    recording: Option<Recording>,
}

// SAFETY: the cells of a writer context are only entered by the one thread whose role it is (the crash trigger
// lets one dying thread in by compare-and-swap, and there is one writer thread), and by that same thread
// again in `salvage`.
unsafe impl Sync for CrashRecorder {}
// SAFETY: as above.
unsafe impl Send for CrashRecorder {}

impl CrashRecorder {
    /// Reserves all that a crash report needs.
    pub fn new(
        facts: Facts,
        folder: file::Folder,
        limits: &CaptureLimits,
        near_memory: bool,
    ) -> std::io::Result<CrashRecorder> {
        let writer = |ending| {
            let spare = spare(&folder, &facts, ending);
            WriterContext::new(limits, facts.threads, spare)
        };
        let (writer_thread, dying) = match cfg!(target_os = "linux") {
            true => (Some(writer(SPARE)?), writer(SPARE_FALLBACK)?),
            false => (None, writer(SPARE)?),
        };
        Ok(CrashRecorder {
            facts,
            folder,
            near_memory,
            writer_thread,
            dying,
        })
    }

    fn spares(&self) -> impl Iterator<Item = &Spare> {
        let contexts = self.writer_thread.iter().chain([&self.dying]);
        contexts.filter_map(|writer| writer.spare.as_ref())
    }

    fn writer(&self, role: WriterRole) -> Option<&WriterContext> {
        match role {
            WriterRole::WriterThread => self.writer_thread.as_ref(),
            WriterRole::Dying => Some(&self.dying),
        }
    }
}

impl Drop for CrashRecorder {
    fn drop(&mut self) {
        self.spares().for_each(|spare| spare.remove(&self.folder));
    }
}

/// A file for the next crash. Where none can be made, one is when the crash comes.
fn spare(folder: &file::Folder, facts: &Facts, ending: &str) -> Option<Spare> {
    let kind = EventKind::Crash.as_str();
    let name = Name::new(clock::realtime(), kind, &facts.launch, ending);
    Spare::new(folder, name.as_c_str().to_owned()).ok()
}

impl WriterContext {
    fn new(
        limits: &CaptureLimits,
        threads: usize,
        spare: Option<Spare>,
    ) -> std::io::Result<WriterContext> {
        Ok(WriterContext {
            work: UnsafeCell::new(CrashWork {
                work: Work::new(limits, threads)?,
                thrown: vec![RawFrame::default(); terminate::STACK].into_boxed_slice(),
                recording: None,
            }),
            salvage: UnsafeCell::new(ReportBuffers::new()),
            spare,
        })
    }
}

/// A crash in unknown code waits at most so long for a fresh image table, nanoseconds.
const REFRESH_WAIT: u64 = 50_000_000;

static RECORDER: AtomicPtr<CrashRecorder> = AtomicPtr::new(std::ptr::null_mut());

/// Puts `recorder` where the handler finds it, until [`retire_crash`].
pub(crate) fn prepare_crash(recorder: CrashRecorder) {
    RECORDER.store(Box::into_raw(Box::new(recorder)), Ordering::Release);
}

/// Frees what [`prepare_crash`] took.
///
/// # Safety
/// - No handler reads it, and none will: `trigger::crash::uninstall` returned `true`.
pub(crate) unsafe fn retire_crash() {
    let recorder = RECORDER.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !recorder.is_null() {
        // SAFETY: it came out of a box in `prepare_crash`, and by the caller's word no handler has it.
        drop(unsafe { Box::from_raw(recorder) });
    }
}

/// The functions that the crash trigger calls.
pub(crate) static CRASH_WRITER: CrashWriter = CrashWriter {
    write,
    salvage,
    retract,
};

/// Writes those parts of the report that can be claimed. Signal-safe; called by the dying thread that
/// the crash trigger let in, and by the writer thread.
fn write(crashed: &Crashed) {
    // SAFETY: only `prepare_crash` stores here, and nothing is freed while a handler runs, or the
    // writer thread writes.
    let Some(recorder) = (unsafe { RECORDER.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let Some(writer) = recorder.writer(crashed.role()) else {
        return;
    };
    if !crashed.is_any_left() {
        return;
    }
    // SAFETY: there is one thread for each writer context, once; `salvage` is the only other user and runs only
    // when this call is never returned to.
    let work = unsafe { &mut *writer.work.get() };
    // A recording of another crash was not to be finished.
    work.recording = None;
    let cause = Cause::of(crashed);
    let Some(begin) = crashed.begin() else {
        return;
    };
    let ending = if begin.fallback { FALLBACK } else { PARTIAL };
    let (kind, buffers) = (cause.kind(), &mut work.work.buffers);
    let stamp = crashed.stamp;
    let (folder, facts, spare) = (&recorder.folder, &recorder.facts, writer.spare.as_ref());
    let begun = Recording::begin_as(folder, facts, kind, buffers, stamp, ending, spare);
    let Ok(begun) = begun else {
        return;
    };
    work.recording = Some(begun);
    launch::crashes(kind == EventKind::Panic);
    // It looks whether the process lives on.
    Helper::wake();
    if begin.event {
        crashed.phase(Phase::Event);
        work.event(&cause, crashed);
        if crashed.done(CrashPart::Begin).is_none() {
            return;
        }
    }
    let Some(mut cost) = work.parts(recorder, &cause, crashed) else {
        return;
    };
    if !crashed.may_close() {
        return;
    }
    if begin.writer_thread_is_stuck {
        cost.cut = Some(STUCK);
    }
    if work.close(recorder, &cost) {
        let _ = crashed.done(CrashPart::Close);
        if let Some(pending) = cause.panic {
            // One death, one report: what the panic hook wrote is part of this one.
            pending.remove_files(&recorder.folder);
        }
    }
}

/// The `cut` of the dying thread's own file where the writer thread has not written all.
const STUCK: &str = "the writer thread stood still";

/// Takes the report of this stamp back: the process lives on. Signal-safe.
fn retract(stamp: Stamp) {
    launch::goes_on();
    // SAFETY: as in `write`.
    let Some(recorder) = (unsafe { RECORDER.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    for spare in recorder.spares() {
        // One that could not be renamed.
        spare.take_back(&recorder.folder, spare.name());
    }
    for kind in [EventKind::Crash, EventKind::Panic, EventKind::Exception] {
        for ending in [WHOLE, PARTIAL, FALLBACK] {
            let name = Name::new(stamp.time, kind.as_str(), &stamp.id, ending);
            for spare in recorder.spares() {
                spare.take_back(&recorder.folder, name.as_c_str());
            }
            // Most are not there; and one that cannot be removed now cannot later either.
            let _ = recorder.folder.remove(name.as_c_str());
        }
    }
}

/// Closes what is written of a report whose writer has crashed itself, in this phase; `capture.cut` holds that.
/// Signal-safe; [`write`] is never returned to.
fn salvage(role: WriterRole, phase: Phase) {
    // SAFETY: as in `write`.
    let Some(recorder) = (unsafe { RECORDER.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let Some(writer) = recorder.writer(role) else {
        return;
    };
    // SAFETY: the same thread that was in `write`, which does not go on; the buffers here are not those
    // that were in use.
    let (work, buffers) = unsafe { (&mut *writer.work.get(), &mut *writer.salvage.get()) };
    if let Some(mut recording) = work.recording.take() {
        // A section may be in the file that was not counted yet.
        recording.settle();
        // Frames that stand may name images that do not yet.
        recording.images(&mut work.work.buffers, &ImageTable::enter());
        let cost = CaptureView {
            cut: Some(phase.as_str()),
            ..CaptureView::default()
        };
        recording.cost(buffers, &cost);
        // If this fails too, the next launch closes it.
        let _ = recording.finish(&recorder.folder, buffers);
    }
}
