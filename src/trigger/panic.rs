//! Rust panics: notes of the hook for the crash handler, so that one death is one report.
// Signal-safe: nothing here can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::loss::{LOSSES, LossReason};
use super::pause::may_block;
use crate::platform::forked::OnceFlag;
use crate::platform::text::FixedText;
use crate::platform::{Thread, folder, process_id};
use crate::report::name::Name;

/// Panics that are kept in mind at once, one a thread.
const MAX_PANICS: usize = 16;
const MAX_MESSAGE: usize = 2048;
const MAX_LOCATION: usize = 512;
const MAX_EARLIER: usize = 1024;

/// The last panic of one thread.
struct PanicSlot {
    /// The thread that owns the slot, 0 while it is free. Only that thread reads or writes the rest.
    owner: AtomicU64,
    note: UnsafeCell<PanicNote>,
}

// SAFETY: `note` is accessed only by the thread whose id is in `owner`, set by compare-and-swap; a
// signal handler that reads it runs on that thread, or has another one read it while it waits, and
// never returns into a write it interrupted without the process dying.
unsafe impl Sync for PanicSlot {}

impl PanicSlot {
    fn change_owner(&self, from: u64, to: u64) -> bool {
        let changed = (self.owner).compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        changed.is_ok()
    }
}

/// A panic of a thread, and the one before it.
#[derive(Debug)]
pub(crate) struct PanicNote {
    message: FixedText<MAX_MESSAGE>,
    location: FixedText<MAX_LOCATION>,
    report: Option<Name>,
    /// The thread's panic before this one, and its report.
    earlier: FixedText<MAX_EARLIER>,
    earlier_report: Option<Name>,
    /// True if the panic came while the earlier one was being unwound, and ends the process.
    nested: bool,
}

const EMPTY: PanicNote = PanicNote {
    message: FixedText::EMPTY,
    location: FixedText::EMPTY,
    report: None,
    earlier: FixedText::EMPTY,
    earlier_report: None,
    nested: false,
};

static NOTES: [PanicSlot; MAX_PANICS] = [const {
    PanicSlot {
        owner: AtomicU64::new(0),
        note: UnsafeCell::new(EMPTY),
    }
}; MAX_PANICS];

/// Core's message when a panic meets a frame that cannot unwind: the panic before it is the cause.
const CANNOT_UNWIND: &str = "panic in a function that cannot unwind";
/// The same where that frame is a destructor that runs because of an earlier panic: both are.
const IN_CLEANUP: &str = "panic in a destructor during cleanup";

/// A panic as the hook sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panic<'a> {
    pub message: &'a str,
    pub location: &'a str,
}

/// Reports a panic; returns the name of the report, or `None` if none was written.
pub(crate) type OnPanic = fn(&Panic<'_>) -> Option<Name>;

static HANDLER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
/// The process that installed; a child of `fork` has another id.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static HOOK: OnceFlag = OnceFlag::new();

/// Panics that a launch reports at most before one kills it; the rest are counted.
const MAX_REPORTS: u64 = 10;
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// The exit status of a process whose main thread panicked (std::process: `lang_start`).
const PANIC_STATUS: i32 = 101;

/// Returns true if the process exits with `status` because of a panic of the calling thread: it escaped from `main`, or
/// a hook leaves the process in the middle of it. `unwound`: a panic has dropped the monitor.
pub(crate) fn ends_process(status: Option<i32>, unwound: bool) -> bool {
    let known = PROCESS.load(Ordering::Acquire) == process_id() && own_note().is_some();
    let escapes = match status {
        Some(status) => status == PANIC_STATUS && (known || unwound),
        // It may have been caught above the monitor.
        None => unwound,
    };
    escapes && Thread::current().is_main() || known && status != Some(0) && std::thread::panicking()
}

/// Returns the report of the calling thread's last panic, which ends the process: if it was one too many, or another
/// thread was writing a report, it is written now.
pub(crate) fn last_report() -> Option<Name> {
    let handler = HANDLER.load(Ordering::Acquire);
    if let Some(note) = own_note().filter(|note| note.report.is_none() && !handler.is_null()) {
        let (message, location) = (note.message, note.location);
        let _pause = may_block();
        report(handler, message.as_str(), location.as_str());
    }
    own_note().and_then(|note| note.report)
}

/// The message in the report of a panic that the hook has not seen.
const UNSEEN: &str =
    "a panic that was not seen when it began: another hook has taken the place of ours";

/// Reports the panic of the calling thread that drops the monitor, unless the hook has.
pub(crate) fn drops_monitor() {
    if !std::thread::panicking() || PROCESS.load(Ordering::Acquire) != process_id() {
        return;
    }
    if own_note().is_none() {
        note(UNSEEN, "");
    }
    last_report();
}

/// Puts our hook before the one that is there. It stays for good; [`uninstall`] makes it idle.
pub(crate) fn install(handler: OnPanic) {
    PROCESS.store(process_id(), Ordering::Release);
    WRITTEN.store(0, Ordering::Relaxed);
    HANDLER.store(handler as *mut (), Ordering::Release);
    // Earlier panics of this thread were caught.
    if let Some(slot) = slot_of(Thread::current())
        && !std::thread::panicking()
    {
        slot.owner.store(0, Ordering::Release);
    }
    if HOOK.is_first_call() {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Neither is the app's turn: to name the frames of a backtrace may take seconds.
            let _pause = may_block();
            noted(info);
            before(info);
        }));
    }
}

/// The hook only passes on to the one before it from now on.
pub(crate) fn uninstall() {
    HANDLER.store(std::ptr::null_mut(), Ordering::Release);
}

fn noted(info: &std::panic::PanicHookInfo<'_>) {
    let handler = HANDLER.load(Ordering::Acquire);
    // A child of `fork` is not what is recorded.
    if handler.is_null() || PROCESS.load(Ordering::Acquire) != process_id() {
        return;
    }
    let message = info
        .payload_as_str()
        .unwrap_or("(a payload that is no text)");
    if [CANNOT_UNWIND, IN_CLEANUP].contains(&message)
        && let Some(note) = own_note()
    {
        if message == IN_CLEANUP {
            note.mark_nested();
        }
        return;
    }
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    note(message, &location);
    // With `panic = "abort"` the SIGABRT is certain, and its report has all of this.
    if cfg!(panic = "unwind") {
        if WRITTEN.fetch_add(1, Ordering::Relaxed) >= MAX_REPORTS {
            LOSSES.count(LossReason::Quota);
            return;
        }
        report(handler, message, &location);
    }
}

/// Reports the calling thread's panic by `handler`, which `install` has stored.
fn report(handler: *mut (), message: &str, location: &str) {
    // SAFETY: only `install` stores a pointer that is not null, and it is an `OnPanic`.
    let handler = unsafe { std::mem::transmute::<*mut (), OnPanic>(handler) };
    let report = handler(&Panic { message, location });
    if let Some(note) = own_note() {
        note.report = report;
    }
}

fn note(message: &str, location: &str) {
    if slot_of(Thread::current()).is_none() {
        // Threads that have panicked keep their slot until they are gone.
        for slot in &NOTES {
            let owner = slot.owner.load(Ordering::Acquire);
            let thread = Thread::from_id(owner);
            // Either may be denied in a sandbox.
            if owner != 0 && !thread.is_alive() && thread.progress().is_none() {
                slot.change_owner(owner, 0);
            }
        }
        let claim = |slot: &PanicSlot| slot.change_owner(0, Thread::current().id());
        // None free: at worst the text is missing from the report of this panic's abort.
        if !NOTES.iter().any(claim) {
            return;
        }
        if let Some(note) = own_note() {
            // Another thread's, which is gone.
            note.message.clear();
            note.report = None;
        }
    }
    if let Some(note) = own_note() {
        note.renew(message, location);
    }
}

impl PanicNote {
    /// The thread panics anew.
    fn renew(&mut self, message: &str, location: &str) {
        self.earlier.clear();
        if !self.message.as_str().is_empty() {
            for part in [self.message.as_str(), ", ", self.location.as_str()] {
                self.earlier.add(part);
            }
        }
        self.earlier_report = self.report.take();
        self.nested = false;
        self.message.clear();
        self.message.add(message);
        self.location.clear();
        self.location.add(location);
    }

    /// Marks the panic as raised while the thread's earlier one was unwound: it ends the process.
    fn mark_nested(&mut self) {
        self.nested = true;
        if !self.earlier.as_str().is_empty() {
            self.message.add("\nwhile unwinding from: ");
            self.message.add(self.earlier.as_str());
        }
    }
}

/// Returns true if the calling thread has panicked, as far as the hook has seen. Signal-safe.
pub(crate) fn has_panicked() -> bool {
    slot_of(Thread::current()).is_some()
}

/// The calling thread's note. Signal-safe.
fn own_note() -> Option<&'static mut PanicNote> {
    let slot = slot_of(Thread::current())?;
    // SAFETY: this thread owns the slot, and no caller holds the reference across another call
    // that takes it.
    Some(unsafe { &mut *slot.note.get() })
}

#[inline(never)]
fn slot_of(thread: Thread) -> Option<&'static PanicSlot> {
    NOTES
        .iter()
        .find(|slot| slot.owner.load(Ordering::Acquire) == thread.id())
}

impl PanicNote {
    /// The panic that `thread`, which is the calling one or stands still, is in the middle of, if it
    /// is `panicking` (the value of `std::thread::panicking` on it). Signal-safe.
    pub fn of(thread: Thread, panicking: bool) -> Option<&'static PanicNote> {
        let slot = slot_of(thread).filter(|_| panicking)?;
        // SAFETY: the thread that owns the slot writes nothing there meanwhile.
        Some(unsafe { &*slot.note.get() })
    }

    /// Its message. Signal-safe.
    pub fn message(&self) -> &str {
        self.message.as_str()
    }

    /// `file:line:column`. Signal-safe.
    pub fn location(&self) -> &str {
        self.location.as_str()
    }

    /// Removes the reports that the hook wrote, now that a better one stands. Signal-safe.
    pub fn remove_files(&self, folder: &folder::Folder) {
        let earlier = self.earlier_report.filter(|_| self.nested);
        for name in [self.report, earlier].into_iter().flatten() {
            // Already gone is as good.
            let _ = folder.remove(name.as_c_str());
        }
    }
}
