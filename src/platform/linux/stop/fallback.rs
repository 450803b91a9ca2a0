//! Another signal, for a thread that blocks the captures' own.
//!
//! The threads of libdispatch, and with it Swift's pool, block every real-time signal and leave SIGPROF open
//! (`_dispatch_worker_thread` in src/queue.c of swift-corelibs-libdispatch).
//!
//! Such a signal may be the host's. Therefore our handler is in place only while one thread is asked: a profiler that starts
//! finds no handler in its way, and one that runs keeps its own. A signal that is not ours meanwhile goes to the action before, as
//! the kernel would have had it. Where ours is still pending for a thread that did not answer, the handler stays until it has been
//! delivered: the default action would end the process.
//!
//! Signal-safe throughout.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::handler::{answer_request, request_without_value};
use super::{StopError, signal};
use crate::platform::clock::monotonic;
use crate::platform::linux::entry::{HandlerStack, ScarceStack, entry};
use crate::platform::linux::threads::ThreadSignals;
use crate::platform::linux::{SI_QUEUE, send_again};
use crate::platform::{Thread, process_id, signals};

/// The value by which the handler knows a signal of ours. No slot has this number.
pub(super) const TOKEN: u64 = u64::from_be_bytes(*b"\xfewedjat!");

/// Signals that the host may use, too: profilers alone use the first one, and the other one is ignored by default.
const SHARED: [i32; 2] = [libc::SIGPROF, libc::SIGURG];

/// Looks at the mask of a thread that blocks everything, and the time between two, nanoseconds: a thread that starts another one
/// does so for a moment.
const LOOKS: u32 = 2;
const BETWEEN: i64 = 150_000;
/// A thread that has run for so long since its answer has left the handler, nanoseconds.
const WAY_OUT: u64 = 1_000_000;

/// Looks for the other user of a fallback, as far apart.
const WAITS: u32 = 10;

/// Id of the process that uses a fallback; 0 for none. In a child of `fork` the user is not there.
static USER: AtomicU32 = AtomicU32::new(0);

/// Bits of the signals of which the host has found our handler as the one before its own. They are the host's alone from
/// then on: with ours on top each of the two handlers would call the other one.
static MET: AtomicU64 = AtomicU64::new(0);

/// The action of a signal before ours; the default action at first.
struct ActionBefore {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

static BEFORE: [ActionBefore; 65] = [const {
    ActionBefore {
        handler: AtomicUsize::new(libc::SIG_DFL),
        flags: AtomicI32::new(0),
        mask: AtomicU64::new(0),
    }
}; 65];

impl ActionBefore {
    fn of(signal: i32) -> &'static ActionBefore {
        let [first, ..] = &BEFORE;
        BEFORE.get(signal as usize).unwrap_or(first)
    }

    fn keep(&self, action: &libc::sigaction) {
        // SAFETY: the set begins with the kernel's 64 bits, and is aligned for its words.
        let mask = unsafe { (&raw const action.sa_mask).cast::<u64>().read() };
        self.mask.store(mask, Ordering::Release);
        self.flags.store(action.sa_flags, Ordering::Release);
        self.handler.store(action.sa_sigaction, Ordering::Release);
    }

    fn action(&self) -> libc::sigaction {
        // SAFETY: zeroes are a valid action.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = self.handler.load(Ordering::Acquire);
        action.sa_flags = self.flags.load(Ordering::Acquire);
        // SAFETY: as in `keep`.
        unsafe {
            let mask = (&raw mut action.sa_mask).cast::<u64>();
            mask.write(self.mask.load(Ordering::Acquire));
        }
        action
    }
}

/// Threads for which one of ours was pending when they were asked no more: the thread's id, and above it the signal. 0 is free.
static OWED: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

fn ours() -> usize {
    arrived as *const () as usize
}

fn is_in_place(signal: i32) -> bool {
    signals::disposition(signal) == Some(ours())
}

/// Returns true if `signal` is pending for `thread`.
fn is_pending(signal: i32, thread: Thread) -> bool {
    let pending = thread.signals().map_or(0, |signals| signals.pending);
    pending & ThreadSignals::bit(signal) != 0
}

/// The right to use fallbacks, for one stopper at a time.
struct Turn;

impl Turn {
    /// `None` where another thread keeps it.
    fn take() -> Option<Turn> {
        let own = process_id();
        (0..WAITS).find_map(|look| {
            if look > 0 {
                signals::pause(BETWEEN);
            }
            let user = USER.load(Ordering::Acquire);
            let is_taken = user != own
                && (USER.compare_exchange(user, own, Ordering::AcqRel, Ordering::Relaxed)).is_ok();
            // Not by `then_some`: a turn that is made and dropped is another's that ends.
            if is_taken { Some(Turn) } else { None }
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        USER.store(0, Ordering::Release);
    }
}

/// While this lives, our handler is in place for `signal`, which `thread` does not block.
pub(super) struct Fallback {
    pub signal: i32,
    thread: Thread,
    /// True once the thread has run the handler.
    pub is_answered: bool,
    _turn: Turn,
}

impl Fallback {
    /// Prepares another signal for `thread`, which may block all for as long as `patience` (nanoseconds). `None` where it does
    /// not block the `usual` one, or the kernel does not report that.
    ///
    /// # Errors
    /// [`StopError::Blocked`] where no usable signal is open, [`StopError::Gone`] without such a thread.
    pub fn find(thread: Thread, usual: i32, patience: u64) -> Result<Option<Fallback>, StopError> {
        let until = monotonic().saturating_add(patience);
        let mut looks = 0;
        let cpu = || thread.progress().map(|progress| progress.cpu);
        let before = (patience > 0).then(cpu).flatten();
        // It has left the handler, and blocks all by itself.
        let has_run = || {
            cpu()
                .zip(before)
                .is_some_and(|(now, before)| now.saturating_sub(before) > WAY_OUT)
        };
        while looks < LOOKS || monotonic() < until && thread.is_alive() && !has_run() {
            if looks > 0 {
                signals::pause(BETWEEN);
            }
            looks = looks.saturating_add(1);
            let Some(ThreadSignals { blocked, .. }) = thread.signals() else {
                return Ok(None);
            };
            let is_open = |signal: i32| blocked & ThreadSignals::bit(signal) == 0;
            if is_open(usual) {
                return Ok(None);
            }
            let shared = SHARED.into_iter().filter(|&signal| is_open(signal));
            let mut all = signal::free_among(is_open).chain(shared);
            if let Some(found) = all.find_map(|signal| Fallback::begin(signal, thread)) {
                return Ok(Some(found));
            }
        }
        Err(if thread.is_alive() {
            StopError::Blocked
        } else {
            StopError::Gone
        })
    }

    fn begin(signal: i32, thread: Thread) -> Option<Fallback> {
        if MET.load(Ordering::Acquire) & ThreadSignals::bit(signal) != 0 {
            return None;
        }
        let turn = Turn::take()?;
        let keep = |before: &libc::sigaction| {
            if before.sa_sigaction != ours() {
                ActionBefore::of(signal).keep(before);
            }
        };
        let before = signals::exchange(signal, None).ok()?;
        keep(&before);
        // A host's handler that runs on the thread's own stack has room there, and may have none on the alternate one.
        let stack = if signals::is_handler(&before) {
            before.sa_flags & libc::SA_ONSTACK
        } else {
            libc::SA_ONSTACK
        };
        let action = signals::action(ours(), libc::SA_RESTART | stack, &[]);
        // Another one may have been put there in this very moment.
        keep(&signals::exchange(signal, Some(&action)).ok()?);
        Some(Fallback {
            signal,
            thread,
            is_answered: false,
            _turn: turn,
        })
    }
}

impl Drop for Fallback {
    fn drop(&mut self) {
        let owed = self.thread.id() | (self.signal as u64) << 32;
        let is_owed = !self.is_answered && is_pending(self.signal, self.thread);
        if is_owed && !OWED.iter().any(|place| is_stored(place, owed)) {
            // No place is left: our handler stays for good.
            MET.fetch_or(ThreadSignals::bit(self.signal), Ordering::AcqRel);
            return;
        }
        settle();
        put_back(self.signal);
    }
}

/// Returns true if the place has the value, or was free.
fn is_stored(place: &AtomicU64, value: u64) -> bool {
    let stored = place.compare_exchange(0, value, Ordering::AcqRel, Ordering::Acquire);
    stored.is_ok() || stored == Err(value)
}

/// Puts the action before in place again, unless one of ours is still pending.
fn put_back(signal: i32) {
    let is_owed = |place: &AtomicU64| place.load(Ordering::Acquire) >> 32 == signal as u64;
    if OWED.iter().any(is_owed) {
        return;
    }
    let now = signals::disposition(signal);
    if now == Some(ours()) {
        let _ = signals::exchange(signal, Some(&ActionBefore::of(signal).action()));
    } else if !matches!(now, Some(libc::SIG_DFL | libc::SIG_IGN)) {
        MET.fetch_or(ThreadSignals::bit(signal), Ordering::AcqRel);
    }
}

/// Looks again for what was pending.
fn settle() {
    for place in &OWED {
        let owed = place.load(Ordering::Acquire);
        let (signal, thread) = ((owed >> 32) as i32, Thread::from_id(owed & 0xffff_ffff));
        if owed != 0 && !is_pending(signal, thread) {
            place.store(0, Ordering::Release);
            put_back(signal);
        }
    }
}

/// Puts back actions for which a pending signal was waited for.
pub(super) fn tidy() {
    if OWED.iter().any(|place| place.load(Ordering::Relaxed) != 0)
        && let Some(_turn) = Turn::take()
    {
        settle();
    }
}

/// Takes our handler from each signal that has it: our library is unloaded.
pub(super) fn uninstall() {
    for signal in (1..=64).filter(|&signal| is_in_place(signal)) {
        // Drops what is pending.
        let _ = signals::exchange(signal, Some(&signals::action(libc::SIG_IGN, 0, &[])));
        let _ = signals::exchange(signal, Some(&ActionBefore::of(signal).action()));
    }
}

entry!(
    /// Starts the handler of a fallback. Where there is no stack nobody answers.
    arrived, answer_or_pass_on, ["ret"], {}
);

/// # Safety
/// - The arguments are what the kernel gave for this signal.
unsafe extern "C-unwind" fn answer_or_pass_on(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    sp: usize,
    stack: Option<&'static HandlerStack>,
) {
    // SAFETY: the caller vouches for what arrived; a queued signal has a sender and a value.
    unsafe {
        let is_ours = (*info).si_code == SI_QUEUE
            && (*info).si_pid() as u32 == process_id()
            && (*info).si_value().sival_ptr as u64 == TOKEN;
        if is_ours {
            answer_request(request_without_value(), context.cast())
        } else {
            pass_on(signal, info, context, ScarceStack::of(sp, stack))
        }
    }
}

/// Has the action before deal with the signal.
///
/// # Safety
/// - The arguments are what the kernel gave for this signal.
unsafe fn pass_on(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    scarce: Option<ScarceStack>,
) {
    let place = ActionBefore::of(signal);
    let before = place.action();
    if signals::is_handler(&before) {
        if before.sa_flags & libc::SA_RESETHAND != 0 {
            place.handler.store(libc::SIG_DFL, Ordering::Release);
        }
        // SAFETY: the caller vouches for what arrived, and the kernel would call this handler.
        unsafe { signals::call_as_kernel(&before, signal, info, context, scarce) };
    } else if before.sa_sigaction == libc::SIG_DFL && signal != libc::SIGURG {
        signals::set_default(signal);
        // SAFETY: the caller vouches for the facts. The signal is blocked until this handler returns.
        unsafe { send_again(signal, info) };
    }
}
