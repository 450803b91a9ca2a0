//! The report of a crash: the file into which it goes, the file's fate, and the cause of the signal as far as others have
//! noted it.

mod near;
mod parts;

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use parts::CrashReport;

use super::scratch::Scratch;
use super::{Helper, ProcessInfo, Recording, Stamp};
use crate::capture::CaptureLimits;
use crate::platform::abort;
use crate::platform::folder::Folder;
use crate::platform::text::FixedText;
use crate::report::{EventKind, RawFrame};
use crate::store::{Name, PARTIAL, WHOLE, launch};
use crate::trigger::crash::{CrashWriter, Crashed};
use crate::trigger::panic::PanicNote;
use crate::trigger::terminate::{self, Exception};

/// Everything that a crash report needs, made at install.
#[derive(Debug)]
pub(crate) struct CrashRecorder {
    pub facts: ProcessInfo,
    pub folder: Arc<Folder>,
    /// True if memory near the crash is written.
    near_memory: bool,
    /// The parts that writing changes.
    work: UnsafeCell<CrashWork>,
}

/// What a crash report is written with, reserved at install.
#[derive(Debug)]
struct CrashWork {
    scratch: Scratch,
    /// Memory for the frames of a throw.
    thrown: Box<[RawFrame]>,
    recording: Option<Recording>,
    /// That of the last report.
    stamp: Stamp,
}

// SAFETY: `work` is only entered by the one thread that the crash trigger lets in by compare-and-swap.
unsafe impl Sync for CrashRecorder {}
// SAFETY: as above.
unsafe impl Send for CrashRecorder {}

impl CrashRecorder {
    /// Reserves all that a crash report needs.
    pub fn new(
        facts: ProcessInfo,
        folder: Arc<Folder>,
        limits: &CaptureLimits,
        near_memory: bool,
    ) -> std::io::Result<CrashRecorder> {
        let work = CrashWork {
            scratch: Scratch::new(limits, facts.threads)?,
            thrown: RawFrame::room(terminate::MAX_ADDRESSES),
            recording: None,
            stamp: Stamp::default(),
        };
        Ok(CrashRecorder {
            facts,
            folder,
            near_memory,
            work: UnsafeCell::new(work),
        })
    }
}

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
    retract,
    wake: Helper::wake,
};

/// Writes the report, part by part. Signal-safe; called by the thread that the crash trigger let in.
fn write(crashed: &Crashed) {
    // SAFETY: only `prepare_crash` stores here, and nothing is freed while a handler runs.
    let Some(recorder) = (unsafe { RECORDER.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    // SAFETY: there is one such thread, once.
    let work = unsafe { &mut *recorder.work.get() };
    // A recording of another crash was not to be finished.
    work.recording = None;
    work.stamp = Stamp::fresh();
    CrashReport::new(recorder, work, crashed).write();
}

/// Takes the last report back: the process lives on. Signal-safe; called while nothing is written.
fn retract() {
    // SAFETY: as in `write`.
    let Some(recorder) = (unsafe { RECORDER.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    // SAFETY: the crash trigger lets in one thread, to write or to take back.
    let stamp = unsafe { (*recorder.work.get()).stamp };
    launch::retract_survived(&recorder.folder);
    for kind in [EventKind::Crash, EventKind::Panic, EventKind::Exception] {
        for ending in [WHOLE, PARTIAL] {
            let name = Name::new(stamp.time, kind.as_str(), &stamp.id, ending);
            // Most are not there; and one that cannot be removed now cannot later either.
            let _ = recorder.folder.remove(name.as_c_str());
        }
    }
}

/// The cause of the signal, as far as others have noted it.
struct Cause {
    pub panic: Option<&'static PanicNote>,
    pub exception: Option<&'static Exception>,
    /// libc's last words before it aborted.
    words: FixedText<1024>,
    aborted: bool,
}

impl Cause {
    /// Signal-safe.
    pub fn of(crashed: &Crashed) -> Cause {
        let aborted = crashed.signal.number == libc::SIGABRT;
        let trapped = matches!(crashed.signal.number, libc::SIGTRAP | libc::SIGILL);
        let words = if aborted || (abort::BEFORE_TRAPS && trapped) {
            FixedText::filled(abort::message)
        } else {
            FixedText::EMPTY
        };
        Cause {
            panic: PanicNote::of(crashed.thread, crashed.panicking),
            exception: Exception::of(crashed.thread).filter(|_| aborted),
            words,
            aborted,
        }
    }

    pub fn kind(&self) -> EventKind {
        match (self.aborted, &self.panic, &self.exception) {
            (true, _, Some(_)) => EventKind::Exception,
            (true, Some(_), None) => EventKind::Panic,
            _ => EventKind::Crash,
        }
    }

    pub fn message(&self) -> Option<&str> {
        if let Some(exception) = &self.exception {
            return exception.message();
        }
        if let Some(panic) = &self.panic {
            return Some(panic.message());
        }
        Some(self.words.as_str()).filter(|words| !words.is_empty())
    }
}
