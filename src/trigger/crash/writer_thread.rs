//! The writer thread: a thread made at install that writes crash reports, so that the dying thread has
//! nothing to do but to wait for it.
//!
//! The dying thread hands over what the kernel gave it and waits. Where the writer thread does not answer,
//! stands still or crashes, the dying thread goes on with the parts that are left
//! ([`Claims`]), in a file of its own.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::claims::Claims;
use super::{CrashPart, CrashWriter, Crashed};
use crate::platform::signals;
use crate::platform::stacks::{self, CrashStack};
use crate::platform::{Semaphore, Thread, clock};

/// There is no writer thread, or it will never write again.
const GONE: u32 = 0;
const IDLE: u32 = 1;
/// A report is wanted.
const REQUESTED: u32 = 2;
const WRITING: u32 = 3;
/// It has crashed itself.
const DIED: u32 = 4;

static STATE: AtomicU32 = AtomicU32::new(GONE);
static STOP: AtomicBool = AtomicBool::new(false);
/// True if it has crashed in this report.
static CRASHED: AtomicBool = AtomicBool::new(false);
/// The thread's id, for as long as it lives.
static THREAD: AtomicU64 = AtomicU64::new(0);
/// The thread that waits for it.
static WAITS: AtomicU64 = AtomicU64::new(0);
/// Posted when a report is wanted.
static WAKE_UP: Semaphore = Semaphore::new();
/// Posted when it is written, or never will be.
static ANSWER: Semaphore = Semaphore::new();
static STACK: AtomicPtr<CrashStack> = AtomicPtr::new(std::ptr::null_mut());

/// The request that the dying thread hands over. It is a copy: the dying thread may go on without the writer thread.
struct WriteRequest(UnsafeCell<Option<(&'static CrashWriter, Crashed)>>);

// SAFETY: written only by the thread that owns the crash while STATE is IDLE, and read only by the
// writer thread while it is WRITING.
unsafe impl Sync for WriteRequest {}

static REQUEST: WriteRequest = WriteRequest(UnsafeCell::new(None));

/// As much as the dying thread has to write on.
const WRITER_STACK: usize = 512 << 10;
/// For its own crashes, and for closing what it has written then.
const ALTERNATE_STACK: usize = 128 << 10;
/// A writer thread that has not begun after this long has no CPU, nanoseconds.
const BEGINS_WITHIN: u64 = 200_000_000;
/// One that was blocked for so long in one part is stuck, nanoseconds.
const BLOCKED_FOR: u64 = 2_000_000_000;
/// One that has not finished a part after this long never will, nanoseconds.
const AT_MOST: u64 = 10_000_000_000;
/// Time between two looks of the dying thread at the writer thread's progress, nanoseconds.
const POLL: u64 = 20_000_000;

/// The running thread; dropping it stops it.
#[derive(Debug)]
pub(crate) struct WriterThread {
    thread: Option<JoinHandle<()>>,
}

impl WriterThread {
    /// Starts it, and waits until it is ready.
    ///
    /// # Errors
    /// When its stack or the thread cannot be had.
    pub fn spawn() -> io::Result<WriterThread> {
        if [WRITING, DIED].contains(&STATE.load(Ordering::Acquire))
            && Thread::from_id(THREAD.load(Ordering::Acquire)).is_alive()
        {
            // One of an earlier monitor is stuck in its report, with the stack: crashes are written
            // by the dying thread from now on.
            return Ok(WriterThread { thread: None });
        }
        if STACK.load(Ordering::Acquire).is_null() {
            let stack = Box::new(CrashStack::new(WRITER_STACK)?);
            STACK.store(Box::into_raw(stack), Ordering::Release);
        }
        STOP.store(false, Ordering::SeqCst);
        STATE.store(GONE, Ordering::SeqCst);
        let (begun, ready) = std::sync::mpsc::sync_channel(1);
        let thread = crate::trigger::spawn("wedjat-crash", 128 << 10, move || {
            // A fault of its own needs a stack for the handler; without one it ends the process,
            // as it would have.
            stacks::with_alternate_stack(ALTERNATE_STACK, || {
                THREAD.store(Thread::current().id(), Ordering::SeqCst);
                STATE.store(IDLE, Ordering::SeqCst);
                let _ = begun.send(());
                drop(begun);
                run();
            });
        })?;
        let _ = ready.recv();
        Ok(WriterThread {
            thread: Some(thread),
        })
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        STOP.store(true, Ordering::SeqCst);
        WAKE_UP.post();
        if is_idle() {
            // It does nothing but return.
            let _ = thread.join();
        }
    }
}

fn run() {
    while !STOP.load(Ordering::SeqCst) {
        WAKE_UP.wait();
        let requested =
            STATE.compare_exchange(REQUESTED, WRITING, Ordering::AcqRel, Ordering::Acquire);
        if requested.is_err() {
            continue;
        }
        CRASHED.store(false, Ordering::Relaxed);
        // SAFETY: only `spawn` stores here, a reference that lives for ever.
        if let Some(stack) = unsafe { STACK.load(Ordering::Acquire).as_ref() } {
            // SAFETY: there is one writer thread at a time; `body` cannot unwind, being `extern "C"`.
            unsafe { stack.run(body, std::ptr::null_mut()) };
        }
        STATE.store(IDLE, Ordering::Release);
        ANSWER.post();
    }
    THREAD.store(0, Ordering::SeqCst);
    STATE.store(GONE, Ordering::SeqCst);
}

extern "C" fn body(_: *mut c_void) {
    // SAFETY: WRITING: the request is the writer thread's until it is IDLE again.
    let Some((writer, mut crashed)) = (unsafe { *REQUEST.0.get() }) else {
        return;
    };
    crashed.claims = crashed.claims.for_writer_thread();
    (writer.write)(&crashed);
}

/// The result of handing over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed {
    /// The report is written.
    Complete,
    /// There is no writer thread, or it has not begun and never will.
    Not,
    /// It stands still.
    Stuck,
    /// It has crashed.
    Died,
}

/// Has the writer thread write the report and waits for it. Only for the thread that owns the crash.
/// Signal-safe.
pub(super) fn write(writer: &'static CrashWriter, crashed: &Crashed) -> Handed {
    let here = Thread::current().id();
    let writer_thread = THREAD.load(Ordering::Acquire);
    if writer_thread == here || STATE.load(Ordering::Acquire) != IDLE {
        return Handed::Not;
    }
    // SAFETY: IDLE, and only the owner of the crash writes here: it is not read now.
    unsafe { *REQUEST.0.get() = Some((writer, *crashed)) };
    // An answer that was not waited for may be left.
    while ANSWER.wait_until(0) {}
    if STATE
        .compare_exchange(IDLE, REQUESTED, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        return Handed::Not;
    }
    WAITS.store(here, Ordering::Release);
    WAKE_UP.post();
    let handed = wait(Thread::from_id(writer_thread), &crashed.claims);
    WAITS.store(0, Ordering::Release);
    handed
}

fn wait(writer_thread: Thread, claims: &Claims) -> Handed {
    let mut start = clock::monotonic();
    let mut written = 0;
    let mut blocked = 0;
    loop {
        let answered = ANSWER.wait_timeout(POLL);
        match STATE.load(Ordering::Acquire) {
            DIED => return Handed::Died,
            IDLE | GONE if answered => return Handed::Complete,
            GONE => return Handed::Not,
            _ => {}
        }
        let waited = clock::monotonic().saturating_sub(start);
        if !claims.is_touched(CrashPart::Begin) {
            let withdrawn = waited > BEGINS_WITHIN
                && STATE
                    .compare_exchange(REQUESTED, IDLE, Ordering::AcqRel, Ordering::Acquire)
                    .is_ok();
            if withdrawn {
                return Handed::Not;
            }
        }
        if claims.written() != written {
            written = claims.written();
            (start, blocked) = (clock::monotonic(), 0);
            continue;
        }
        // One that is ready to run gets on once it has the CPU.
        if !writer_thread.progress().is_none_or(|now| now.running) {
            blocked += POLL;
        }
        if blocked > BLOCKED_FOR || waited > AT_MOST {
            return Handed::Stuck;
        }
    }
}

/// Returns true if the calling thread waits for the writer thread. Signal-safe.
pub(super) fn is_waited_for_by(thread: Thread) -> bool {
    WAITS.load(Ordering::Acquire) == thread.id()
}

/// Returns true if the calling thread is the writer thread, in the middle of a report. Signal-safe.
pub(super) fn is_writing(thread: Thread) -> bool {
    THREAD.load(Ordering::Acquire) == thread.id() && STATE.load(Ordering::Acquire) == WRITING
}

/// Returns true if it is in no report, and looks at nothing that the writer needs. Signal-safe.
pub(super) fn is_idle() -> bool {
    [GONE, IDLE].contains(&STATE.load(Ordering::Acquire))
}

/// On the writer thread, in the handler of its own crash: whether it is the first in this report. Signal-safe.
pub(super) fn first_crash() -> bool {
    !CRASHED.swap(true, Ordering::Relaxed)
}

/// On the writer thread, in the handler of its own crash, once what it has written is closed: wakes the
/// dying thread, and stays here for ever. Signal-safe.
pub(super) fn has_died() -> ! {
    STATE.store(DIED, Ordering::Release);
    ANSWER.post();
    loop {
        signals::pause(3_600_000_000_000);
    }
}
