//! Fatal signals: one thread is let in to write, the others wait, and then the process dies as it
//! would have died without us.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::capture::Registers;
use crate::platform::signals::{self, CrashStack, SignalFacts};
use crate::platform::{Thread, context, errno, process_id, set_errno};

/// Which deaths are reported.
///
/// ```
/// let crash = wedjat::Crash::default().sigterm(true).panics(false);
/// assert!(crash.sigterm && !crash.panics);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Crash {
    /// SIGTERM too (off): somebody asked the process to end.
    pub sigterm: bool,
    /// Rust panics (on).
    pub panics: bool,
}

impl Default for Crash {
    fn default() -> Crash {
        Crash {
            sigterm: false,
            panics: true,
        }
    }
}

impl Crash {
    /// Sets whether SIGTERM is reported.
    #[must_use]
    pub fn sigterm(mut self, on: bool) -> Crash {
        self.sigterm = on;
        self
    }

    /// Sets whether Rust panics are reported.
    #[must_use]
    pub fn panics(mut self, on: bool) -> Crash {
        self.panics = on;
        self
    }

    /// The signals that this asks for.
    pub(crate) fn signals(&self) -> &'static [i32] {
        const ALL: [i32; 8] = [
            libc::SIGABRT,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGSEGV,
            libc::SIGTRAP,
            libc::SIGSYS,
            libc::SIGTERM,
        ];
        if self.sigterm {
            &ALL
        } else {
            ALL.split_at(7).0
        }
    }
}

/// A crash, as the writer of its report sees it.
#[derive(Debug)]
pub(crate) struct Crashed<'a> {
    /// The thread that crashed: the calling one.
    pub thread: Thread,
    /// The signal.
    pub signal: SignalFacts,
    /// The registers at the crash.
    pub registers: &'a Registers,
}

impl Crashed<'_> {
    /// Notes how far the writer has come, for a crash of its own. Signal-safe.
    pub fn phase(&self, phase: Phase) {
        PHASE.store(phase as u32, Ordering::Relaxed);
        let hook = PHASE_HOOK.load(Ordering::Relaxed);
        if !hook.is_null() {
            // SAFETY: only `set_phase_hook` stores a pointer that is not null: such a function.
            let hook = unsafe { std::mem::transmute::<*mut (), fn(&'static str)>(hook) };
            hook(phase.as_str());
        }
    }
}

static PHASE_HOOK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// For tests: has `hook` called, in the handler, at the beginning of each phase of the writing, with
/// what the report says after a crash in that phase. A test crashes there, or kills the process.
#[doc(hidden)]
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "for tests on Linux")
)]
pub fn set_phase_hook(hook: fn(&'static str)) {
    PHASE_HOOK.store(hook as *mut (), Ordering::Relaxed);
}

/// How far the writing of a crash report has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    Open,
    Event,
    Thread,
    Vitals,
    Threads,
    Close,
}

impl Phase {
    /// What the report's `cut` says. Signal-safe.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Open => "crashed while opening the file",
            Phase::Event => "crashed while writing the event",
            Phase::Thread => "crashed while unwinding the crashed thread",
            Phase::Vitals => "crashed while reading vitals and context",
            Phase::Threads => "crashed while capturing the other threads",
            Phase::Close => "crashed while closing the report",
        }
    }

    fn now() -> Phase {
        match PHASE.load(Ordering::Relaxed) {
            0 => Phase::Open,
            1 => Phase::Event,
            2 => Phase::Thread,
            3 => Phase::Vitals,
            4 => Phase::Threads,
            _ => Phase::Close,
        }
    }
}

/// Who writes the report, and who keeps what is there if that crashes too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer {
    /// Writes the report. Must be signal-safe.
    pub write: fn(&Crashed<'_>),
    /// Closes the report after a crash in `write`, which is not returned to. Must be signal-safe.
    pub salvage: fn(Phase),
}

/// The process that installed; 0 while nothing is installed. A child of `fork` has another id.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The thread that is writing, or has written; 0 for none.
static OWNER: AtomicU64 = AtomicU64::new(0);
/// Whether the report is written (or given up).
static DONE: AtomicBool = AtomicBool::new(false);
static PHASE: AtomicU32 = AtomicU32::new(0);
/// The signal that `OWNER` died of.
static FIRST_SIGNAL: AtomicU32 = AtomicU32::new(0);
/// Handlers that run just now and may look at what is below.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// How often a signal was passed on that was not reported.
static PASSED_ON: AtomicU32 = AtomicU32::new(0);
static WRITER: AtomicPtr<Writer> = AtomicPtr::new(std::ptr::null_mut());
static STACK: AtomicPtr<CrashStack> = AtomicPtr::new(std::ptr::null_mut());
/// A stack of its own for [`Writer::salvage`]: what is left of the alternate one may be little.
static SALVAGE_STACK: AtomicPtr<CrashStack> = AtomicPtr::new(std::ptr::null_mut());

/// The handler's own needs: unwinding, formatting and a section's making, in debug builds too.
const CRASH_STACK: usize = 512 << 10;
const SALVAGE_STACK_SIZE: usize = 64 << 10;
/// What a thread without an alternate stack is given.
const ALTERNATE_STACK: usize = 64 << 10;
/// Other threads that crash meanwhile wait at most so long for the report.
const WAIT_STEPS: u32 = 500;
const WAIT_STEP: i64 = 10_000_000;
/// And then so long for the first one to die, so that the process dies of its signal.
const LET_DIE: i64 = 200_000_000;
/// More passes than any chain of handlers has: it is a ring.
const A_RING: u32 = 64;

/// Installs the handlers. `writer` is called by the dying thread, once for the process.
pub(crate) fn install(
    crash: &Crash,
    writer: &'static Writer,
) -> Result<(), (Option<i32>, std::io::Error)> {
    for (place, size) in [(&STACK, CRASH_STACK), (&SALVAGE_STACK, SALVAGE_STACK_SIZE)] {
        if place.load(Ordering::Acquire).is_null() {
            let stack = CrashStack::new(size).map_err(|error| (None, error))?;
            place.store(Box::into_raw(Box::new(stack)), Ordering::Release);
        }
    }
    signals::ensure_alternate_stack(ALTERNATE_STACK).map_err(|error| (None, error))?;
    WRITER.store(std::ptr::from_ref(writer).cast_mut(), Ordering::Release);
    PROCESS.store(process_id(), Ordering::SeqCst);
    signals::install(crash.signals(), handle).map_err(|(signal, error)| {
        PROCESS.store(0, Ordering::SeqCst);
        (Some(signal), error)
    })
}

/// Takes the handlers back; one that somebody has replaced since stays with them, and passes on to
/// what was there before us. Where another thread is writing a report just now, waits for it.
///
/// `true` when no handler can look any more at what the writer needs.
pub(crate) fn uninstall(crash: &Crash) -> bool {
    if in_progress() && OWNER.load(Ordering::Acquire) != Thread::current().id() {
        wait_for_the_report();
    }
    for &signal in crash.signals() {
        signals::restore_if_ours(signal, handle);
    }
    PROCESS.store(0, Ordering::SeqCst);
    // A handler that comes later finds PROCESS changed; one that came before is counted.
    INSIDE.load(Ordering::SeqCst) == 0 && !in_progress()
}

/// The signals asked for whose handler is not ours any more.
pub(crate) fn replaced(crash: &Crash) -> Vec<i32> {
    let all = crash.signals().iter().copied();
    all.filter(|&signal| !signals::is_in_place(signal, handle))
        .collect()
}

/// Whether a crash is being reported, so that other triggers hold their tongue. Signal-safe.
pub(crate) fn in_progress() -> bool {
    OWNER.load(Ordering::Acquire) != 0
}

fn wait_for_the_report() {
    for _ in 0..WAIT_STEPS {
        if DONE.load(Ordering::Acquire) {
            break;
        }
        signals::pause(WAIT_STEP);
    }
}

/// What the handler hands to its body on the crash stack.
struct Call {
    writer: &'static Writer,
    thread: Thread,
    signal: SignalFacts,
    registers: Registers,
}

/// What becomes of a signal once we are through with it.
enum Then {
    /// Whoever was there before us decides.
    Before,
    /// Whoever was there before us has decided, and called us again.
    Default,
    /// It is swallowed.
    Nothing,
}

/// The handler. Signal-safe: everything here and below it.
extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, frame: *mut c_void) {
    let errno = errno();
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let then = if PROCESS.load(Ordering::SeqCst) == process_id() {
        // SAFETY: info and context are what the kernel gave for this signal.
        unsafe { report(signal, info, frame) }
    } else {
        pass_on()
    };
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    match then {
        Then::Nothing => return set_errno(errno),
        Then::Before => signals::restore(signal),
        Then::Default => signals::set_default(signal),
    }
    set_errno(errno);
    // SAFETY: as above; who is to decide is back in place.
    unsafe { signals::deliver_again(signal, info, frame) };
}

/// A signal that is not reported goes to who was there before; a handler over ours may be among
/// those, and pass it on to us again without end.
fn pass_on() -> Then {
    if PASSED_ON.fetch_add(1, Ordering::Relaxed) < A_RING {
        Then::Before
    } else {
        Then::Default
    }
}

/// # Safety
/// - `info` and `frame` are what the kernel gave the handler for `signal`.
unsafe fn report(signal: i32, info: *mut libc::siginfo_t, frame: *mut c_void) -> Then {
    let thread = Thread::current();
    // SAFETY: the caller vouches for info.
    let facts = unsafe { signals::facts(signal, info) };
    match OWNER.compare_exchange(0, thread.id(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            FIRST_SIGNAL.store(signal.unsigned_abs(), Ordering::Release);
            // SAFETY: only `install` stores here, references that live for ever.
            let (writer, stack) = unsafe {
                (
                    WRITER.load(Ordering::Acquire).as_ref(),
                    STACK.load(Ordering::Acquire).as_ref(),
                )
            };
            if let (Some(writer), Some(stack)) = (writer, stack) {
                // SAFETY: the caller vouches for the context.
                let registers = unsafe { context::registers(frame.cast()) };
                let mut call = Call {
                    writer,
                    thread,
                    signal: facts,
                    registers: Registers::native(registers),
                };
                // SAFETY: OWNER lets one thread come here, once; `body` cannot unwind, being
                // `extern "C"`.
                unsafe { stack.run(body, std::ptr::from_mut(&mut call).cast()) };
            }
            DONE.store(true, Ordering::Release);
            // One death, one report: what follows of this one (Rust aborts after a stack overflow)
            // needs no handler, nor has the alternate stack room for its frame.
            signals::restore_all();
            Then::Before
        }
        Err(owner) if owner == thread.id() => {
            if DONE.load(Ordering::Acquire) {
                return Then::Default;
            }
            if facts.sender.is_some_and(|sender| sender != process_id()) {
                // Somebody's impatience is no crash of ours: the report goes on.
                return Then::Nothing;
            }
            DONE.store(true, Ordering::Release);
            crashed_while_writing();
            Then::Before
        }
        Err(_) => {
            // Another thread is at it, and the process will die of that: wait for it.
            wait_for_the_report();
            signals::pause(LET_DIE);
            pass_on()
        }
    }
}

extern "C" fn body(argument: *mut c_void) {
    // SAFETY: `report` passes a pointer to a `Call` that outlives this run.
    let call = unsafe { &*argument.cast::<Call>() };
    (call.writer.write)(&Crashed {
        thread: call.thread,
        signal: call.signal,
        registers: &call.registers,
    });
}

/// A fault in our own writing: keep what there is, then die of the first signal, as the process
/// would have.
fn crashed_while_writing() {
    // SAFETY: only `install` stores here, references that live for ever.
    let stack = unsafe { SALVAGE_STACK.load(Ordering::Acquire).as_ref() };
    if let Some(stack) = stack {
        // SAFETY: DONE lets one thread come here, once; `salvage` cannot unwind.
        unsafe { stack.run(salvage, std::ptr::null_mut()) };
    }
    let first = FIRST_SIGNAL.load(Ordering::Acquire) as i32;
    signals::restore_all();
    signals::raise_here(first);
}

extern "C" fn salvage(_: *mut c_void) {
    // SAFETY: only `install` stores here, references that live for ever.
    if let Some(writer) = unsafe { WRITER.load(Ordering::Acquire).as_ref() } {
        (writer.salvage)(Phase::now());
    }
}
