//! The report of a crash, written by the writer thread, or by the dying thread where the writer thread does not.

use std::time::Duration;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::cause::Cause;
use super::helper::Renewals;
use super::threads::Tally;
use super::{Facts, Helper, Recording, ReportBuffers, ThreadList};
use crate::capture::{CaptureLimits, Capturer, ImageTable, ImagesGuard};
use crate::platform::spare::Spare;
use crate::platform::{Thread, clock, file};
use crate::report::{CaptureView, EventKind, EventView, Found, RawFrame, SignalView, ThreadView};
use crate::store::{FALLBACK, Name, PARTIAL, SPARE, SPARE_FALLBACK, WHOLE, launch};
use crate::trigger::crash::{Crashed, Phase, Section, Stamp, Writer, WriterRole};
use crate::trigger::panic::Pending;
use crate::trigger::signal_names::{code_name, signal_name};
use crate::trigger::terminate::{self, Exception};

/// Everything that a crash report needs, made at install.
#[derive(Debug)]
pub(crate) struct CrashRecorder {
    pub facts: Facts,
    pub folder: file::Folder,
    /// Whether memory near the crash is written.
    near_memory: bool,
    /// Nothing is shared between the two: either may be stopped anywhere.
    writer_thread: Option<WriterContext>,
    dying: WriterContext,
}

/// What one of the two writes with.
#[derive(Debug)]
struct WriterContext {
    /// The parts that writing changes; there is one thread for each writer context at a time.
    work: UnsafeCell<Work>,
    /// What is kept for a crash while the report is written.
    salvage: UnsafeCell<ReportBuffers>,
    /// What it writes to, where the process can open no file any more.
    spare: Option<Spare>,
}

#[derive(Debug)]
struct Work {
    buffers: ReportBuffers,
    capturer: Capturer,
    threads: ThreadList,
    /// Where the frames of a throw are made.
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
        threads: usize,
    ) -> std::io::Result<CrashRecorder> {
        let writer = |ending| WriterContext::new(limits, threads, spare(&folder, &facts, ending));
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
        let pens = self.writer_thread.iter().chain([&self.dying]);
        pens.filter_map(|writer| writer.spare.as_ref())
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
            work: UnsafeCell::new(Work {
                buffers: ReportBuffers::new(),
                capturer: Capturer::new(limits).map_err(std::io::Error::other)?,
                threads: ThreadList::new(threads),
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
/// - No handler is looking at it, and none will: `trigger::crash::uninstall` said so.
pub(crate) unsafe fn retire_crash() {
    let recorder = RECORDER.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !recorder.is_null() {
        // SAFETY: it came out of a box in `prepare_crash`, and by the caller's word nobody else
        // has it.
        drop(unsafe { Box::from_raw(recorder) });
    }
}

/// What the crash trigger calls.
pub(crate) static CRASH_WRITER: Writer = Writer {
    write,
    salvage,
    retract,
};

/// Writes those parts of the report that can be claimed. Signal-safe; called by the dying thread that
/// the crash trigger let in, and by the writer thread.
fn write(crashed: &Crashed<'_>) {
    // SAFETY: only `prepare_crash` stores here, and nothing is freed while a handler runs, or the
    // writer thread writes.
    let Some(recorder) = (unsafe { RECORDER.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let claims = crashed.claims;
    let Some(writer) = recorder.writer(claims.role) else {
        return;
    };
    let parts = [
        Section::Begin,
        Section::Thread,
        Section::Vitals,
        Section::Threads,
    ];
    if !parts.into_iter().any(|part| claims.is_left(part)) {
        return;
    }
    // SAFETY: there is one thread for each writer context, once; `salvage` is the only other user and runs only
    // when this call is never returned to.
    let work = unsafe { &mut *writer.work.get() };
    // Of another crash, which was not to be finished.
    work.recording = None;
    let cause = Cause::of(crashed);
    // Where the writer thread has begun, this is the dying thread's file beside its.
    let beside = claims.is_touched(Section::Begin);
    let begins = claims.claim(Section::Begin);
    if !begins && claims.role == WriterRole::WriterThread {
        return;
    }
    crashed.phase(Phase::Open);
    let ending = if beside { FALLBACK } else { PARTIAL };
    let (kind, buffers) = (cause.kind(), &mut work.buffers);
    let stamp = crashed.stamp;
    let (folder, facts, spare) = (&recorder.folder, &recorder.facts, writer.spare.as_ref());
    let begun = Recording::begin_as(folder, facts, kind, buffers, stamp, ending, spare);
    let Ok(begun) = begun else {
        return;
    };
    work.recording = Some(begun);
    launch::crashes(kind == EventKind::Panic);
    if begins {
        crashed.phase(Phase::Event);
        work.event(&cause, crashed);
        if !claims.done(Section::Begin) {
            return;
        }
    }
    let Some(mut cost) = work.parts(recorder, &cause, crashed) else {
        return;
    };
    if !claims.claim(Section::Close) && claims.role == WriterRole::WriterThread {
        return;
    }
    crashed.phase(Phase::Close);
    if beside && !claims.writer_thread_died {
        cost.cut = Some(STUCK);
    }
    if work.close(recorder, &cost) {
        claims.done(Section::Close);
        if let Some(pending) = cause.panic {
            // One death, one report: what the panic hook wrote is part of this one.
            pending.remove_files(&recorder.folder);
        }
    }
}

/// What the dying thread's own file says where the writer thread has not written all.
const STUCK: &str = "the writer thread stood still";

impl Work {
    /// Writes `event`. Signal-safe.
    fn event(&mut self, cause: &Cause, crashed: &Crashed<'_>) {
        let Some(recording) = &mut self.recording else {
            return;
        };
        write_event(recording, &mut self.buffers, cause, crashed);
    }

    /// Writes the parts between the event and the end, and gives what they cost; `None` where another
    /// writer has taken one over. Signal-safe.
    fn parts(
        &mut self,
        recorder: &CrashRecorder,
        cause: &Cause,
        crashed: &Crashed<'_>,
    ) -> Option<CaptureView<'static>> {
        let recording = self.recording.as_mut()?;
        let (buffers, capturer, claims) = (&mut self.buffers, &mut self.capturer, crashed.claims);
        let mut cost = CaptureView::default();
        let mut images = ImageTable::enter();
        if claims.claim(Section::Thread) {
            crashed.phase(Phase::Thread);
            if images.find(crashed.registers.pc()).is_none() {
                // A library that was loaded since? The helper thread may ask the loader, we may not.
                drop(images);
                Helper::refresh_within(REFRESH_WAIT);
                images = ImageTable::enter();
            }
            let (unwind, cut) = thread(recording, buffers, capturer, &images, crashed);
            cost.unwind = Some(Duration::from_nanos(unwind));
            cost.cut = cut.then_some("limit");
            if let Some(exception) = &cause.exception {
                thrown(recording, buffers, &mut self.thrown, &images, exception);
            }
            if !claims.done(Section::Thread) {
                return None;
            }
        }
        if claims.claim(Section::Vitals) {
            crashed.phase(Phase::Vitals);
            super::vitals_and_context(recording, buffers);
            if recorder.near_memory {
                let address = crashed.signal.address;
                super::near::write(recording, buffers, crashed.registers, address);
            }
            if !claims.done(Section::Vitals) {
                return None;
            }
        }
        if claims.claim(Section::Threads) {
            crashed.phase(Phase::Threads);
            let done = [crashed.thread, Thread::current()];
            let tally: Tally = self.threads.write_others(
                recording,
                buffers,
                capturer,
                &mut images,
                &mut Renewals::none(),
                &done,
            );
            cost.bytes = Some(tally.bytes);
            cost.unanswered = Some(tally.unanswered);
            if tally.left_out > 0 {
                cost.cut = Some("limit");
            }
            if !claims.done(Section::Threads) {
                return None;
            }
        }
        Some(cost)
    }

    /// Writes the end and gives the file its name: whether it is whole. Signal-safe.
    fn close(&mut self, recorder: &CrashRecorder, cost: &CaptureView<'_>) -> bool {
        let Some(mut recording) = self.recording.take() else {
            return false;
        };
        recording.cost(&mut self.buffers, cost);
        super::loss(&mut recording, &mut self.buffers);
        recording
            .finish(&recorder.folder, &mut self.buffers)
            .is_ok()
    }
}

/// Writes the thread that crashed, its images, and the main one; gives how long unwinding took, and
/// whether it was cut. Signal-safe.
fn thread(
    recording: &mut Recording,
    buffers: &mut ReportBuffers,
    capturer: &mut Capturer,
    images: &ImagesGuard,
    crashed: &Crashed<'_>,
) -> (u64, bool) {
    let mut named = [("", 0); 40];
    let count = crashed
        .registers
        .named()
        .zip(&mut named)
        .map(|(one, slot)| *slot = one)
        .count();
    let thread = crashed.thread;
    let view = ThreadView {
        id: thread.id(),
        name: crashed.name.as_str(),
        main: thread.is_main(),
        crashed: true,
        cpu: thread.progress().map(|now| Duration::from_nanos(now.cpu)),
        registers: named.get(..count).unwrap_or_default(),
        ..ThreadView::default()
    };
    let captured = capturer.capture_context(crashed.registers, images);
    let cost = (captured.unwind, captured.cut);
    recording.thread(buffers, images, &view, &captured);
    recording.main_image(buffers, images);
    cost
}

/// Writes where the exception was thrown first, if it says. Signal-safe.
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

/// Nobody died of what was reported last. Signal-safe.
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

/// A crash came while the report was written: what is there is kept, says so, and is closed.
/// Signal-safe; [`write`] is never returned to.
fn salvage(role: WriterRole, phase: Phase) {
    // SAFETY: as in `write`.
    let Some(recorder) = (unsafe { RECORDER.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let Some(writer) = recorder.writer(role) else {
        return;
    };
    // SAFETY: the same thread that was in `write`, which does not go on; the bench here is not the
    // one that was in use.
    let (work, buffers) = unsafe { (&mut *writer.work.get(), &mut *writer.salvage.get()) };
    if let Some(mut recording) = work.recording.take() {
        // A section may be in the file that was not counted yet.
        recording.settle();
        // Frames that stand may name images that do not yet.
        recording.images(&mut work.buffers, &ImageTable::enter());
        recording.cost(
            buffers,
            &CaptureView {
                cut: Some(phase.as_str()),
                ..CaptureView::default()
            },
        );
        // If this fails too, the next launch closes it.
        let _ = recording.finish(&recorder.folder, buffers);
    }
}

fn write_event(
    recording: &mut Recording,
    buffers: &mut ReportBuffers,
    cause: &Cause,
    crashed: &Crashed<'_>,
) {
    let signal = &crashed.signal;
    let code = code_name(signal.number, signal.code);
    recording.event(
        buffers,
        &EventView {
            kind: cause.kind(),
            fatal: true,
            signal: Some(SignalView {
                number: signal.number.unsigned_abs().into(),
                name: signal_name(signal.number),
                code: signal.code.into(),
                code_name: code,
                address: signal.address,
                ..SignalView::default()
            }),
            reason: crashed.exception,
            name: cause.exception.as_ref().map(Exception::name),
            message: cause.message(),
            location: cause.panic.as_ref().map(Pending::location),
            ..EventView::default()
        },
    );
}
