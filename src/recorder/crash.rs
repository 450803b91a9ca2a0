//! The report of a crash, written by the scribe, or by the dying thread where the scribe does not.

use std::time::Duration;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::cause::Cause;
use super::helper::Renewals;
use super::threads::Tally;
use super::{Facts, Helper, Recording, Threads, Workbench};
use crate::capture::{CaptureLimits, Capturer, ImageTable, ImagesGuard};
use crate::platform::spare::Spare;
use crate::platform::{Thread, clock, file};
use crate::report::{CaptureView, EventKind, EventView, Found, RawFrame, SignalView, ThreadView};
use crate::store::{BESIDE, Name, PARTIAL, SPARE, SPARE_BESIDE, WHOLE, launch};
use crate::trigger::crash::{Crashed, Hand, Phase, Section, Stamp, Writer};
use crate::trigger::panic::Pending;
use crate::trigger::signal_names::{code_name, signal_name};
use crate::trigger::terminate::{self, Exception};

/// Everything that a crash report needs, made at install.
#[derive(Debug)]
pub(crate) struct CrashDesk {
    pub facts: Facts,
    pub folder: file::Folder,
    /// Whether memory near the crash is written.
    near_memory: bool,
    /// Nothing is shared between the two: either may be stopped anywhere.
    scribe: Option<Pen>,
    dying: Pen,
}

/// What one of the two writes with.
#[derive(Debug)]
struct Pen {
    /// The parts that writing changes; there is one thread for each pen at a time.
    work: UnsafeCell<Work>,
    /// What is kept for a crash while the report is written.
    salvage: UnsafeCell<Workbench>,
    /// What it writes to, where the process can open no file any more.
    spare: Option<Spare>,
}

#[derive(Debug)]
struct Work {
    bench: Workbench,
    capturer: Capturer,
    threads: Threads,
    /// Where the frames of a throw are made.
    thrown: Box<[RawFrame]>,
    recording: Option<Recording>,
}

// SAFETY: the cells of a pen are only entered by the one thread whose hand it is (the crash trigger
// lets one dying thread in by compare-and-swap, and there is one scribe), and by that same thread
// again in `salvage`.
unsafe impl Sync for CrashDesk {}
// SAFETY: as above.
unsafe impl Send for CrashDesk {}

impl CrashDesk {
    /// Reserves all that a crash report needs.
    pub fn new(
        facts: Facts,
        folder: file::Folder,
        limits: &CaptureLimits,
        near_memory: bool,
        threads: usize,
    ) -> std::io::Result<CrashDesk> {
        let pen = |ending| Pen::new(limits, threads, spare(&folder, &facts, ending));
        let (scribe, dying) = match cfg!(target_os = "linux") {
            true => (Some(pen(SPARE)?), pen(SPARE_BESIDE)?),
            false => (None, pen(SPARE)?),
        };
        Ok(CrashDesk {
            facts,
            folder,
            near_memory,
            scribe,
            dying,
        })
    }

    fn spares(&self) -> impl Iterator<Item = &Spare> {
        let pens = self.scribe.iter().chain([&self.dying]);
        pens.filter_map(|pen| pen.spare.as_ref())
    }

    fn pen(&self, hand: Hand) -> Option<&Pen> {
        match hand {
            Hand::Scribe => self.scribe.as_ref(),
            Hand::Dying => Some(&self.dying),
        }
    }
}

impl Drop for CrashDesk {
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

impl Pen {
    fn new(limits: &CaptureLimits, threads: usize, spare: Option<Spare>) -> std::io::Result<Pen> {
        Ok(Pen {
            work: UnsafeCell::new(Work {
                bench: Workbench::new(),
                capturer: Capturer::new(limits).map_err(std::io::Error::other)?,
                threads: Threads::new(threads),
                thrown: vec![RawFrame::default(); terminate::STACK].into_boxed_slice(),
                recording: None,
            }),
            salvage: UnsafeCell::new(Workbench::new()),
            spare,
        })
    }
}

/// A crash in unknown code waits at most so long for a fresh image table, nanoseconds.
const REFRESH_WAIT: u64 = 50_000_000;

static DESK: AtomicPtr<CrashDesk> = AtomicPtr::new(std::ptr::null_mut());

/// Puts `desk` where the handler finds it, until [`retire_crash`].
pub(crate) fn prepare_crash(desk: CrashDesk) {
    DESK.store(Box::into_raw(Box::new(desk)), Ordering::Release);
}

/// Frees what [`prepare_crash`] took.
///
/// # Safety
/// - No handler is looking at it, and none will: `trigger::crash::uninstall` said so.
pub(crate) unsafe fn retire_crash() {
    let desk = DESK.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !desk.is_null() {
        // SAFETY: it came out of a box in `prepare_crash`, and by the caller's word nobody else
        // has it.
        drop(unsafe { Box::from_raw(desk) });
    }
}

/// What the crash trigger calls.
pub(crate) static CRASH_WRITER: Writer = Writer {
    write,
    salvage,
    retract,
};

/// Writes those parts of the report that can be claimed. Signal-safe; called by the dying thread that
/// the crash trigger let in, and by the scribe.
fn write(crashed: &Crashed<'_>) {
    // SAFETY: only `prepare_crash` stores here, and nothing is freed while a handler runs, or the
    // scribe writes.
    let Some(desk) = (unsafe { DESK.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let claims = crashed.claims;
    let Some(pen) = desk.pen(claims.hand) else {
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
    // SAFETY: there is one thread for each pen, once; `salvage` is the only other user and runs only
    // when this call is never returned to.
    let work = unsafe { &mut *pen.work.get() };
    // Of another crash, which was not to be finished.
    work.recording = None;
    let cause = Cause::of(crashed);
    // Where the scribe has begun, this is the dying thread's file beside its.
    let beside = claims.is_touched(Section::Begin);
    let begins = claims.claim(Section::Begin);
    if !begins && claims.hand == Hand::Scribe {
        return;
    }
    crashed.phase(Phase::Open);
    let ending = if beside { BESIDE } else { PARTIAL };
    let (kind, bench) = (cause.kind(), &mut work.bench);
    let stamp = crashed.stamp;
    let (folder, facts, spare) = (&desk.folder, &desk.facts, pen.spare.as_ref());
    let begun = Recording::begin_as(folder, facts, kind, bench, stamp, ending, spare);
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
    let Some(mut cost) = work.parts(desk, &cause, crashed) else {
        return;
    };
    if !claims.claim(Section::Close) && claims.hand == Hand::Scribe {
        return;
    }
    crashed.phase(Phase::Close);
    if beside && !claims.scribe_died {
        cost.cut = Some(STUCK);
    }
    if work.close(desk, &cost) {
        claims.done(Section::Close);
        if let Some(pending) = cause.panic {
            // One death, one report: what the panic hook wrote is part of this one.
            pending.remove_files(&desk.folder);
        }
    }
}

/// What the dying thread's own file says where the scribe has not written all.
const STUCK: &str = "the scribe stood still";

impl Work {
    /// Writes `event`. Signal-safe.
    fn event(&mut self, cause: &Cause, crashed: &Crashed<'_>) {
        let Some(recording) = &mut self.recording else {
            return;
        };
        write_event(recording, &mut self.bench, cause, crashed);
    }

    /// Writes the parts between the event and the end, and gives what they cost; `None` where another
    /// hand has taken one over. Signal-safe.
    fn parts(
        &mut self,
        desk: &CrashDesk,
        cause: &Cause,
        crashed: &Crashed<'_>,
    ) -> Option<CaptureView<'static>> {
        let recording = self.recording.as_mut()?;
        let (bench, capturer, claims) = (&mut self.bench, &mut self.capturer, crashed.claims);
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
            let (unwind, cut) = thread(recording, bench, capturer, &images, crashed);
            cost.unwind = Some(Duration::from_nanos(unwind));
            cost.cut = cut.then_some("limit");
            if let Some(exception) = &cause.exception {
                thrown(recording, bench, &mut self.thrown, &images, exception);
            }
            if !claims.done(Section::Thread) {
                return None;
            }
        }
        if claims.claim(Section::Vitals) {
            crashed.phase(Phase::Vitals);
            super::vitals_and_context(recording, bench);
            if desk.near_memory {
                let address = crashed.signal.address;
                super::near::write(recording, bench, crashed.registers, address);
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
                bench,
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
    fn close(&mut self, desk: &CrashDesk, cost: &CaptureView<'_>) -> bool {
        let Some(mut recording) = self.recording.take() else {
            return false;
        };
        recording.cost(&mut self.bench, cost);
        super::loss(&mut recording, &mut self.bench);
        recording.finish(&desk.folder, &mut self.bench).is_ok()
    }
}

/// Writes the thread that crashed, its images, and the main one; gives how long unwinding took, and
/// whether it was cut. Signal-safe.
fn thread(
    recording: &mut Recording,
    bench: &mut Workbench,
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
    recording.thread(bench, images, &view, &captured);
    recording.main_image(bench, images);
    cost
}

/// Writes where the exception was thrown first, if it says. Signal-safe.
fn thrown(
    recording: &mut Recording,
    bench: &mut Workbench,
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
    recording.thrown(bench, images, frames, exception.omitted());
}

/// Nobody died of what was reported last. Signal-safe.
fn retract(stamp: Stamp) {
    launch::goes_on();
    // SAFETY: as in `write`.
    let Some(desk) = (unsafe { DESK.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    for spare in desk.spares() {
        // One that could not be renamed.
        spare.take_back(&desk.folder, spare.name());
    }
    for kind in [EventKind::Crash, EventKind::Panic, EventKind::Exception] {
        for ending in [WHOLE, PARTIAL, BESIDE] {
            let name = Name::new(stamp.time, kind.as_str(), &stamp.id, ending);
            for spare in desk.spares() {
                spare.take_back(&desk.folder, name.as_c_str());
            }
            // Most are not there; and one that cannot be removed now cannot later either.
            let _ = desk.folder.remove(name.as_c_str());
        }
    }
}

/// A crash came while the report was written: what is there is kept, says so, and is closed.
/// Signal-safe; [`write`] is never returned to.
fn salvage(hand: Hand, phase: Phase) {
    // SAFETY: as in `write`.
    let Some(desk) = (unsafe { DESK.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let Some(pen) = desk.pen(hand) else {
        return;
    };
    // SAFETY: the same thread that was in `write`, which does not go on; the bench here is not the
    // one that was in use.
    let (work, bench) = unsafe { (&mut *pen.work.get(), &mut *pen.salvage.get()) };
    if let Some(mut recording) = work.recording.take() {
        // A section may be in the file that was not counted yet.
        recording.settle();
        // Frames that stand may name images that do not yet.
        recording.images(&mut work.bench, &ImageTable::enter());
        recording.cost(
            bench,
            &CaptureView {
                cut: Some(phase.as_str()),
                ..CaptureView::default()
            },
        );
        // If this fails too, the next launch closes it.
        let _ = recording.finish(&desk.folder, bench);
    }
}

fn write_event(
    recording: &mut Recording,
    bench: &mut Workbench,
    cause: &Cause,
    crashed: &Crashed<'_>,
) {
    let signal = &crashed.signal;
    let code = code_name(signal.number, signal.code);
    recording.event(
        bench,
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
