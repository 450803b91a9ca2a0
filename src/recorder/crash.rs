//! The report of a crash, written by the dying thread.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{Facts, Helper, Recording, Threads, Workbench};
use crate::capture::{CaptureLimits, Capturer, ImageTable};
use crate::platform::{file, signals::SignalFacts};
use crate::report::{CaptureView, EventKind, EventView, SignalView, ThreadView};
use crate::trigger::crash::{Crashed, Phase, Writer};
use crate::trigger::panic::Pending;
use crate::trigger::signal_names::{code_name, signal_name};

/// Everything that a crash report needs, made at install and never freed.
#[derive(Debug)]
pub(crate) struct CrashDesk {
    pub facts: Facts,
    pub folder: file::Folder,
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
    ) -> std::io::Result<CrashDesk> {
        Ok(CrashDesk {
            facts,
            folder,
            work: UnsafeCell::new(Work {
                bench: Workbench::new(),
                capturer: Capturer::new(limits).map_err(std::io::Error::other)?,
                threads: Threads::new(),
                recording: None,
            }),
            salvage: UnsafeCell::new(Workbench::new()),
        })
    }
}

/// A crash in unknown code waits at most so long for a fresh image table, nanoseconds.
const REFRESH_WAIT: u64 = 50_000_000;

static DESK: AtomicPtr<CrashDesk> = AtomicPtr::new(std::ptr::null_mut());

/// Puts `desk` where the handler finds it, for good.
pub(crate) fn prepare_crash(desk: &'static CrashDesk) {
    DESK.store(std::ptr::from_ref(desk).cast_mut(), Ordering::Release);
}

/// What the crash trigger calls.
pub(crate) static CRASH_WRITER: Writer = Writer { write, salvage };

/// Writes the report. Signal-safe; called by the one thread that the crash trigger let in.
fn write(crashed: &Crashed<'_>) {
    // SAFETY: only `prepare_crash` stores here, a reference that lives for ever.
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
    } = work;
    let pending = Pending::of(crashed.thread);
    let kind = if pending.is_some() && crashed.signal.number == libc::SIGABRT {
        EventKind::Panic
    } else {
        EventKind::Crash
    };
    crashed.phase(Phase::Open);
    let Ok(begun) = Recording::begin(&desk.folder, &desk.facts, kind, bench) else {
        return;
    };
    let recording = recording.insert(begun);

    crashed.phase(Phase::Event);
    write_event(recording, bench, kind, &crashed.signal, pending.as_ref());

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

    crashed.phase(Phase::Threads);
    let tally = threads.write_others(recording, bench, capturer, &images, &[thread]);

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
    if let Some(recording) = work.recording.take()
        && recording.finish(&desk.folder, &mut work.bench).is_ok()
        && let Some(pending) = pending
    {
        // One death, one report: what the panic hook wrote is part of this one.
        pending.remove_file(&desk.folder);
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

fn write_event(
    recording: &mut Recording,
    bench: &mut Workbench,
    kind: EventKind,
    signal: &SignalFacts,
    pending: Option<&Pending>,
) {
    let code = code_name(signal.number, signal.code);
    recording.event(
        bench,
        &EventView {
            kind,
            fatal: true,
            signal: Some(SignalView {
                number: signal.number.unsigned_abs().into(),
                name: signal_name(signal.number),
                code: signal.code.into(),
                code_name: code,
                address: signal.address,
            }),
            message: pending.map(Pending::message),
            location: pending.map(Pending::location),
            ..EventView::default()
        },
    );
}
