//! Stopping another thread for as long as it takes to copy its registers and its stack.
//!
//! A real-time signal is queued to the thread with a slot's number and that slot's generation
//! (rt_tgsigqueueinfo(2)). Its handler claims the slot by compare-and-swap, copies the machine
//! context and the stack into memory that was reserved beforehand, marks the slot and returns: the
//! thread runs again before anybody has looked at the copy. A handler that answers late finds
//! another generation and writes nothing.
//!
//! What a signal does to the thread beyond the pause: a blocked `poll`, `epoll_wait`, `nanosleep`
//! and others (signal(7)) return EINTR whatever SA_RESTART says.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::clock::monotonic as now;
use super::context::{self, REGISTERS};
use super::memory::{self, Reserved};
use crate::platform::{SystemError, Thread};

/// How many [`Stopper`]s a process can have at a time.
pub const SLOTS: usize = 32;

/// Bytes below the stack pointer that a leaf function may use without moving it (System V psABI
/// for x86-64, 3.2.2; the Arm ABI has none).
const RED_ZONE: u64 = if cfg!(target_arch = "x86_64") { 128 } else { 0 };

/// How large a thread's own stack may be thought, where only its top is known.
const OWN_STACK: u64 = 64 << 20;

/// How much is copied between two looks at the clock.
const CHUNK: usize = 64 << 10;

/// Why a thread could not be captured.
#[derive(Debug)]
#[non_exhaustive]
pub enum StopError {
    /// It did not answer in time: it blocks the signal, sleeps uninterruptibly, or is stopped.
    Unresponsive,
    /// There is no such thread (any more).
    Gone,
    /// It is the calling thread, which cannot wait for itself.
    CallingThread,
    /// The signal could not be sent.
    System(SystemError),
}

impl std::fmt::Display for StopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StopError::Unresponsive => f.write_str("the thread did not answer in time"),
            StopError::Gone => f.write_str("the thread has ended"),
            StopError::CallingThread => {
                f.write_str("a thread cannot stop itself; capture the calling thread in place")
            }
            StopError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StopError {}

/// What one stop may take.
#[derive(Debug, Clone)]
pub struct StopBudget {
    /// The copy is cut short when it has taken this long, nanoseconds.
    pub stopped: u64,
    /// A thread that has not answered after this long is unresponsive, nanoseconds.
    pub answer: u64,
}

/// What was copied.
#[derive(Debug, Clone)]
pub struct Copied<'a> {
    /// The registers, numbered as in [`context`].
    pub registers: &'a [u64; REGISTERS],
    /// Where the copied stack begins in memory.
    pub base: u64,
    /// The stack, from [`Copied::base`] on.
    pub stack: &'a [u8],
    /// How long the handler kept the thread, nanoseconds.
    pub stopped: u64,
    /// Whether the copy ends before the stack does, for want of room or of time.
    pub cut: bool,
}

/// What a handler fills in: for it alone while the slot is `COPYING`, else for the stopper alone.
struct Request {
    into: *mut u8,
    room: usize,
    known: Range<u64>,
    budget: u64,
    registers: [u64; REGISTERS],
    base: u64,
    bytes: usize,
    stopped: u64,
    cut: bool,
}

#[repr(align(64))]
struct Slot {
    /// Generation << 4 | flags | phase.
    state: AtomicU64,
    request: UnsafeCell<Request>,
}

// SAFETY: `request` is handed back and forth by `state`, see `Request`.
unsafe impl Sync for Slot {}

const FREE: u64 = 0;
const IDLE: u64 = 1;
const ASKED: u64 = 2;
const COPYING: u64 = 3;
const DONE: u64 = 4;
const PHASE: u64 = 7;
/// The stopper sleeps on the state and wants to be woken.
const WAITING: u64 = 8;
const GENERATION: u32 = 4;

static SLOT: [Slot; SLOTS] = [const {
    Slot {
        state: AtomicU64::new(FREE),
        request: UnsafeCell::new(Request {
            into: std::ptr::null_mut(),
            room: 0,
            known: 0..0,
            budget: 0,
            registers: [0; REGISTERS],
            base: 0,
            bytes: 0,
            stopped: 0,
            cut: false,
        }),
    }
}; SLOTS];

/// The signal whose handler is installed; 0 before.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static INSTALL: Mutex<()> = Mutex::new(());

/// Installs the handler, once a process, and says which signal it is: `wanted`, or else the first
/// real-time signal from `SIGRTMIN + 4` on that nobody handles. Later calls return the same.
///
/// It stays installed for the rest of the process: an answer may come at any time later, and
/// without the handler the signal's default action would end the process.
pub fn install(wanted: Option<i32>) -> Result<i32, SystemError> {
    let _one = INSTALL
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let installed = SIGNAL.load(Ordering::Relaxed);
    if installed != 0 {
        return Ok(installed);
    }
    let signal = match wanted {
        Some(signal) => signal,
        None => (libc::SIGRTMIN() + 4..=libc::SIGRTMAX())
            .find(|&signal| is_default(signal))
            .unwrap_or_else(|| libc::SIGRTMAX()),
    };
    // SAFETY: an all-zero `sigaction` is a valid value of that plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = answer as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the set lives across the call.
    unsafe { libc::sigfillset(&mut action.sa_mask) };
    // SAFETY: `answer` keeps to the rules of handlers: it allocates nothing, takes no lock, calls
    // only async-signal-safe functions and keeps errno.
    if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
        return Err(SystemError::last("sigaction"));
    }
    SIGNAL.store(signal, Ordering::Release);
    Ok(signal)
}

fn is_default(signal: i32) -> bool {
    // SAFETY: an all-zero `sigaction` is a valid value of that plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; `action` lives across the call.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } == 0;
    known && action.sa_sigaction == libc::SIG_DFL
}

/// The right to stop threads, one at a time, and the memory that their stacks are copied into.
#[derive(Debug)]
pub struct Stopper {
    slot: usize,
    signal: i32,
    memory: std::mem::ManuallyDrop<Reserved>,
}

impl Stopper {
    /// Reserves and touches room for a copy of `room` bytes; installs the handler.
    pub fn new(room: usize, signal: Option<i32>) -> Result<Stopper, SystemError> {
        let signal = install(signal)?;
        let memory = std::mem::ManuallyDrop::new(Reserved::new(room)?);
        let claimed = SLOT.iter().position(|slot| {
            let state = slot.state.load(Ordering::Relaxed);
            let idle = (state & !PHASE) | IDLE;
            state & PHASE == FREE
                && slot
                    .state
                    .compare_exchange(state, idle, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        });
        match claimed {
            Some(slot) => Ok(Stopper {
                slot,
                signal,
                memory,
            }),
            None => {
                drop(std::mem::ManuallyDrop::into_inner(memory));
                Err(SystemError {
                    call: "claiming one of the capture slots",
                    source: std::io::Error::from_raw_os_error(libc::EBUSY),
                })
            }
        }
    }

    /// Stops `thread`, copies its registers and its stack, and lets it go.
    ///
    /// `known` is where the thread's own stack lies, if that is known for certain: a stack pointer
    /// within it is copied from plainly and never past its end, any other by checked reads.
    /// Signal-safe, but for the thread to be stopped.
    pub fn stop(
        &mut self,
        thread: Thread,
        known: Range<u64>,
        budget: &StopBudget,
    ) -> Result<Copied<'_>, StopError> {
        if thread == Thread::current() {
            return Err(StopError::CallingThread);
        }
        // In bounds since `new`.
        let slot = &SLOT[self.slot % SLOTS];
        let state = slot.state.load(Ordering::Acquire);
        if state & PHASE == COPYING {
            // A handler of before was itself stopped in the middle; the memory is still its own.
            return Err(StopError::Unresponsive);
        }
        let generation = (state >> GENERATION).wrapping_add(1) & GENERATIONS;
        {
            // SAFETY: no handler has the slot: it is neither ASKED nor COPYING, and only this
            // stopper makes it so.
            let request = unsafe { &mut *slot.request.get() };
            request.into = self.memory.as_ptr();
            request.room = self.memory.len();
            request.known = known;
            request.budget = budget.stopped;
        }
        let asked = (generation << GENERATION) | ASKED;
        slot.state.store(asked, Ordering::Release);
        if let Err(error) = queue(self.signal, thread, self.slot as u64, generation) {
            slot.state
                .store((generation << GENERATION) | IDLE, Ordering::Release);
            return Err(error);
        }
        let signal = self.signal;
        // Our own handler blocks the signal too while it runs, and soon returns.
        let withheld = || HANDLERS.load(Ordering::Relaxed) == 0 && thread.withholds(signal);
        if !wait(&slot.state, budget.answer, withheld) {
            return Err(StopError::Unresponsive);
        }
        // SAFETY: DONE, seen with Acquire: the handler has let the request go.
        let request = unsafe { &*slot.request.get() };
        // SAFETY: the handler wrote so many bytes, at most `room`, and nobody writes there before
        // the next `stop`, which needs `&mut self`.
        let stack = unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr(), request.bytes.min(request.room))
        };
        Ok(Copied {
            registers: &request.registers,
            base: request.base,
            stack,
            stopped: request.stopped,
            cut: request.cut,
        })
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        let state = &SLOT[self.slot % SLOTS].state;
        let mut now = state.load(Ordering::Acquire);
        // While a stuck handler still writes, both slot and memory are left to it for good.
        while now & PHASE != COPYING {
            let free = ((now >> GENERATION).wrapping_add(1) & GENERATIONS) << GENERATION | FREE;
            match state.compare_exchange(now, free, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    // SAFETY: dropped here alone, once; no handler knows it any more.
                    unsafe { std::mem::ManuallyDrop::drop(&mut self.memory) };
                    return;
                }
                Err(changed) => now = changed,
            }
        }
    }
}

/// The signal's value has 8 bits for the slot and the rest for the generation.
const GENERATIONS: u64 = (1 << 56) - 1;

/// Waits until the slot is DONE; takes the request back and says `false` when that takes too long,
/// or when it looks hopeless at two times.
fn wait(state: &AtomicU64, patience: u64, hopeless: impl Fn() -> bool) -> bool {
    let start = now();
    // Most answers come within microseconds from another core. Where the thread needs this core,
    // it must have it: after a short while this one only looks now and then, and is not woken by
    // the handler, whose time is what counts.
    let mut pauses = 0u32;
    while now().saturating_sub(start) < DOZE.min(patience) {
        if state.load(Ordering::Acquire) & PHASE == DONE {
            return true;
        }
        if now().saturating_sub(start) < SPIN {
            std::hint::spin_loop();
        } else {
            doze(10_000u64 << pauses.min(5));
            pauses += 1;
        }
    }
    let mut looks = 0;
    let mut look_at = LOOK;
    let mut patience = patience;
    let mut graced = false;
    loop {
        let seen = state.load(Ordering::Acquire);
        if seen & PHASE == DONE {
            return true;
        }
        let waited = now().saturating_sub(start);
        if waited >= look_at {
            looks = if hopeless() { looks + 1 } else { 0 };
            look_at = waited.saturating_add(LOOK);
            if looks == 2 {
                patience = 0;
            }
        }
        if waited >= patience {
            if seen & PHASE == ASKED {
                let idle = (seen & !(PHASE | WAITING)) | IDLE;
                if state
                    .compare_exchange(seen, idle, Ordering::AcqRel, Ordering::Acquire)
                    .is_ok()
                {
                    return false;
                }
            } else if !graced {
                // It is in the middle of copying: that is never long unless it is held itself.
                patience = waited.saturating_add(GRACE);
                graced = true;
            } else {
                return false;
            }
            continue;
        }
        let sleepy = seen | WAITING;
        if seen != sleepy
            && state
                .compare_exchange(seen, sleepy, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
        {
            continue;
        }
        futex_wait(state, sleepy, patience.min(look_at).saturating_sub(waited));
    }
}

/// How long an answer is waited for without letting go of the core, nanoseconds.
const SPIN: u64 = 5_000;

/// How long it is waited for without being woken by it, nanoseconds.
const DOZE: u64 = 2_000_000;

/// How often the kernel is asked whether there can be an answer at all, nanoseconds.
const LOOK: u64 = 4_000_000;

/// Handlers that run just now.
static HANDLERS: AtomicU32 = AtomicU32::new(0);

/// How long a handler that has begun to copy is waited for beyond the budget, nanoseconds.
const GRACE: u64 = 50_000_000;

/// The handler: a copy of the context and of the stack, and nothing else.
extern "C" fn answer(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    HANDLERS.fetch_add(1, Ordering::Relaxed);
    let errno = super::errno();
    // SAFETY: the kernel gives a valid siginfo; a queued signal carries a value.
    let (code, value) = unsafe { ((*info).si_code, (*info).si_value().sival_ptr as u64) };
    let slot = SLOT
        .get((value >> 56) as usize)
        .filter(|_| code == libc::SI_QUEUE);
    if let Some(slot) = slot {
        let generation = value & GENERATIONS;
        let asked = (generation << GENERATION) | ASKED;
        let copying = (generation << GENERATION) | COPYING;
        // The stopper may mark itself as sleeping between the two tries; it never takes that back.
        let claimed = [(asked, copying), (asked | WAITING, copying | WAITING)]
            .into_iter()
            .any(|(from, to)| {
                slot.state
                    .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            });
        if claimed {
            let start = now();
            // SAFETY: claimed: the request is this handler's alone until it is DONE.
            let request = unsafe { &mut *slot.request.get() };
            // SAFETY: the context that the kernel gave to this handler.
            request.registers = unsafe { context::registers(context.cast()) };
            copy_stack(request, start);
            request.stopped = now().saturating_sub(start);
            let done = (generation << GENERATION) | DONE;
            if slot.state.swap(done, Ordering::AcqRel) & WAITING != 0 {
                futex_wake(&slot.state);
            }
        }
    }
    super::set_errno(errno);
    HANDLERS.fetch_sub(1, Ordering::Relaxed);
}

/// Copies the stack of the interrupted thread, which is the calling one, into `request`.
fn copy_stack(request: &mut Request, start: u64) {
    let sp = request.registers[if cfg!(target_arch = "x86_64") { 7 } else { 31 }];
    request.bytes = 0;
    request.cut = false;
    let known = request.known.start <= sp && sp < request.known.end;
    let marker = 0u8;
    let own = &raw const marker as u64;
    // On the same stack the kernel has put its signal frame below the red zone, so that this much
    // is there for certain; on an alternate stack the page of sp is.
    let same = own < sp && sp - own < (64 << 10);
    let red = if same {
        sp.saturating_sub(RED_ZONE)
    } else {
        sp.saturating_sub(RED_ZONE).max(sp & !4095)
    };
    request.base = red & !7;
    if !known {
        // A thread's control block lies at the top of its stack (glibc and musl alike), so that on
        // its own stack nothing beyond is wanted; on another one, what the kernel can read is.
        let beyond = context::thread_pointer().wrapping_sub(request.base);
        let wanted = if beyond < OWN_STACK {
            beyond as usize
        } else {
            request.room
        };
        let length = wanted.min(request.room);
        // SAFETY: the memory is the request's, `room` bytes of it.
        request.bytes = unsafe { memory::read_raw(request.base, request.into, length) };
        request.cut = request.bytes == length && length < wanted;
        return;
    }
    let wanted = (request.known.end - request.base) as usize;
    let length = wanted.min(request.room);
    request.cut = length < wanted;
    while request.bytes < length {
        let chunk = CHUNK.min(length - request.bytes);
        // SAFETY: the source lies between sp (less the red zone, see above) and the end of the
        // thread's own stack, all of it mapped and readable while this thread is on it; the
        // destination has `room` bytes. They are different mappings.
        unsafe {
            let from = (request.base as *const u8).add(request.bytes);
            std::ptr::copy_nonoverlapping(from, request.into.add(request.bytes), chunk);
        }
        request.bytes += chunk;
        if request.bytes < length && now().saturating_sub(start) > request.budget {
            request.cut = true;
            return;
        }
    }
}

/// `siginfo_t` as the kernel takes it for a queued signal (include/uapi/asm-generic/siginfo.h).
#[repr(C)]
struct QueueInfo {
    signal: i32,
    errno: i32,
    code: i32,
    pad: i32,
    pid: i32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<QueueInfo>() == size_of::<libc::siginfo_t>());

fn queue(signal: i32, thread: Thread, slot: u64, generation: u64) -> Result<(), StopError> {
    // SAFETY: no arguments, cannot fail.
    let (pid, uid) = unsafe { (libc::getpid(), libc::getuid()) };
    let info = QueueInfo {
        signal,
        errno: 0,
        code: libc::SI_QUEUE,
        pad: 0,
        pid,
        uid,
        value: (slot << 56) | generation,
        rest: [0; 12],
    };
    let errno = super::errno();
    // SAFETY: `info` lives across the call and has the layout that the kernel reads.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            pid,
            thread.tid(),
            signal,
            &raw const info,
        )
    };
    let failed = (result != 0).then(super::errno);
    super::set_errno(errno);
    match failed {
        None => Ok(()),
        Some(libc::ESRCH) => Err(StopError::Gone),
        Some(code) => Err(StopError::System(SystemError {
            call: "rt_tgsigqueueinfo",
            source: std::io::Error::from_raw_os_error(code),
        })),
    }
}

/// The low half of a state, as futexes are 32 bits wide.
fn futex_word(state: &AtomicU64) -> *const u32 {
    let word: *const u32 = state.as_ptr().cast_const().cast();
    if cfg!(target_endian = "big") {
        word.wrapping_add(1)
    } else {
        word
    }
}

fn futex_wait(state: &AtomicU64, seen: u64, nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    let errno = super::errno();
    // SAFETY: the word is part of a static; the time lives across the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            futex_word(state),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            seen as u32,
            &raw const time,
        )
    };
    super::set_errno(errno);
}

fn doze(nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds as libc::c_long,
    };
    let errno = super::errno();
    // SAFETY: the time lives across the call.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &time, std::ptr::null_mut());
    }
    super::set_errno(errno);
}

fn futex_wake(state: &AtomicU64) {
    // SAFETY: the word is part of a static.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            futex_word(state),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}
