//! The report of a crash, written by the dying thread.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{Facts, Helper, Recording, Threads, Workbench};
use crate::capture::{CaptureLimits, Capturer, ImageTable};
use crate::platform::{Thread, abort, file};
use crate::report::name::Name;
use crate::report::{CaptureView, EventKind, EventView, SignalView, ThreadView};
use crate::store::launch;
use crate::trigger::crash::{Crashed, Phase, Writer};
use crate::trigger::panic::Pending;
use crate::trigger::signal_names::{code_name, signal_name};
use crate::trigger::terminate::Exception;

/// Everything that a crash report needs, made at install.
#[derive(Debug)]
pub(crate) struct CrashDesk {
    pub facts: Facts,
    pub folder: file::Folder,
    /// Whether memory near the crash is written.
    near_memory: bool,
    /// The parts that writing changes; the crash trigger lets one thread in.
    work: UnsafeCell<Work>,
    /// What is kept for a crash while the report is written.
    salvage: UnsafeCell<Workbench>,
}

#[derive(Debug)]
struct Work {
    bench: Workbench,
    capturer: Capturer,
    threads: Threads,
    recording: Option<Recording>,
    /// The report that was written last.
    written: Option<Name>,
}

// SAFETY: the cells are only entered by the one thread that the crash trigger has let in
// (`trigger::crash` claims by compare-and-swap), and by that same thread again in `salvage`.
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
    ) -> std::io::Result<CrashDesk> {
        Ok(CrashDesk {
            facts,
            folder,
            near_memory,
            work: UnsafeCell::new(Work {
                bench: Workbench::new(),
                capturer: Capturer::new(limits).map_err(std::io::Error::other)?,
                threads: Threads::new(),
                recording: None,
                written: None,
            }),
            salvage: UnsafeCell::new(Workbench::new()),
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

/// Writes the report. Signal-safe; called by the one thread that the crash trigger let in.
fn write(crashed: &Crashed<'_>) {
    // SAFETY: only `prepare_crash` stores here, and nothing is freed while a handler runs.
    let Some(desk) = (unsafe { DESK.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    // SAFETY: the trigger lets one thread in, once; `salvage` is the only other user and runs only
    // when this call is never returned to.
    let work = unsafe { &mut *desk.work.get() };
    let Work {
        bench,
        capturer,
        threads,
        recording,
        written,
    } = work;
    *written = None;
    let cause = Cause::of(crashed);
    let kind = cause.kind();
    crashed.phase(Phase::Open);
    let Ok(begun) = Recording::begin(&desk.folder, &desk.facts, kind, bench) else {
        return;
    };
    let recording = recording.insert(begun);
    launch::crashes();

    crashed.phase(Phase::Event);
    write_event(recording, bench, &cause, crashed);

    crashed.phase(Phase::Thread);
    let mut images = ImageTable::enter();
    if images.find(crashed.registers.pc()).is_none() {
        // A library that was loaded since? The helper thread may ask the loader, we may not.
        drop(images);
        Helper::refresh_within(REFRESH_WAIT);
        images = ImageTable::enter();
    }
    let mut named = [("", 0); 40];
    let count = crashed
        .registers
        .named()
        .zip(&mut named)
        .map(|(one, slot)| *slot = one)
        .count();
    let thread = crashed.thread;
    let mut name = [0; 32];
    let length = thread.name(&mut name);
    let name = name
        .get(..length)
        .and_then(|name| std::str::from_utf8(name).ok());
    let view = ThreadView {
        id: thread.id(),
        name: name.filter(|name| !name.is_empty()),
        main: thread.is_main(),
        crashed: true,
        cpu: thread.progress().map(|now| now.cpu),
        registers: named.get(..count).unwrap_or_default(),
        ..ThreadView::default()
    };
    let captured = capturer.capture_context(crashed.registers, &images);
    let unwind = captured.unwind;
    let cut = captured.cut;
    recording.thread(bench, &images, &view, &captured);
    recording.main_image(bench, &images);

    crashed.phase(Phase::Vitals);
    super::vitals_and_context(recording, bench);

    if desk.near_memory {
        super::near::write(recording, bench, crashed.registers, crashed.signal.address);
    }

    crashed.phase(Phase::Threads);
    let tally = threads.write_others(
        recording,
        bench,
        capturer,
        &images,
        &[thread, Thread::current()],
    );

    crashed.phase(Phase::Close);
    recording.cost(
        bench,
        &CaptureView {
            unwind: Some(unwind),
            bytes: Some(tally.bytes),
            cut: (cut || tally.left_out > 0).then_some("limit"),
            unanswered: Some(tally.unanswered),
            ..CaptureView::default()
        },
    );
    super::loss(recording, bench);
    if let Some(recording) = work.recording.take()
        && let Ok(name) = recording.finish(&desk.folder, &mut work.bench)
    {
        work.written = Some(name);
        if let Some(pending) = cause.panic {
            // One death, one report: what the panic hook wrote is part of this one.
            pending.remove_file(&desk.folder);
        }
    }
}

/// Nobody died of what was reported last. Signal-safe.
fn retract() {
    // SAFETY: as in `write`.
    let Some(desk) = (unsafe { DESK.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    // SAFETY: the same thread that was in `write`, which has returned.
    let work = unsafe { &mut *desk.work.get() };
    if let Some(name) = work.written.take() {
        // A report that cannot be removed now cannot later either.
        let _ = desk.folder.remove(name.as_c_str());
    }
}

/// A crash came while the report was written: what is there is kept, says so, and is closed.
/// Signal-safe; [`write`] is never returned to.
fn salvage(phase: Phase) {
    // SAFETY: as in `write`.
    let Some(desk) = (unsafe { DESK.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    // SAFETY: the same thread that was in `write`, which does not go on; the bench here is not the
    // one that was in use.
    let (work, bench) = unsafe { (&mut *desk.work.get(), &mut *desk.salvage.get()) };
    if let Some(mut recording) = work.recording.take() {
        // A section may be in the file that was not counted yet.
        recording.settle();
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

/// What led to the signal, as far as others have noted it.
struct Cause {
    panic: Option<Pending>,
    exception: Option<Exception>,
    /// What libc said before it aborted.
    said: [u8; 1024],
    said_len: usize,
    aborted: bool,
}

impl Cause {
    /// Signal-safe.
    fn of(crashed: &Crashed<'_>) -> Cause {
        let aborted = crashed.signal.number == libc::SIGABRT;
        let mut said = [0; 1024];
        let said_len = if aborted {
            abort::message(&mut said)
        } else {
            0
        };
        Cause {
            panic: Pending::of(crashed.thread),
            exception: Exception::of(crashed.thread).filter(|_| aborted),
            said,
            said_len,
            aborted,
        }
    }

    fn kind(&self) -> EventKind {
        match (self.aborted, &self.panic, &self.exception) {
            (true, _, Some(_)) => EventKind::Exception,
            (true, Some(_), None) => EventKind::Panic,
            _ => EventKind::Crash,
        }
    }

    fn message(&self) -> Option<&str> {
        if let Some(exception) = &self.exception {
            return exception.what();
        }
        if let Some(panic) = &self.panic {
            return Some(panic.message());
        }
        let said = self.said.get(..self.said_len)?;
        let said = match std::str::from_utf8(said) {
            Ok(said) => said,
            Err(error) => std::str::from_utf8(said.get(..error.valid_up_to())?).ok()?,
        };
        Some(said).filter(|said| !said.is_empty())
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
            }),
            reason: crashed.exception,
            name: cause.exception.as_ref().map(Exception::name),
            message: cause.message(),
            location: cause.panic.as_ref().map(Pending::location),
            ..EventView::default()
        },
    );
}
