//! The signals of captures: claimed at install, looked at before each use, and given up for another where the app has
//! taken one.
//!
//! | signal | its handler runs on | claimed |
//! | --- | --- | --- |
//! | [`ON_ALTERNATE_STACK`], real-time | the thread's alternate stack | at install |
//! | [`ON_PRESENT_STACK`], real-time | the stack that the thread is on | at install |
//! | SIGPROF | the stack that the thread is on | by [`claim_profiling`], where it has the default action |
//!
//! The threads of libdispatch, and with it Swift's pool, block every real-time signal and leave SIGPROF open
//! (`_dispatch_worker_thread` in src/queue.c of swift-corelibs-libdispatch). A profiler of the app's takes SIGPROF, or gives
//! up where it finds a handler. Therefore SIGPROF is claimed only where such threads are watched.

use std::cell::OnceCell;
use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::StopError;
use crate::platform::clock::monotonic as now;
use crate::platform::linux::threads::ThreadSignals;
use crate::platform::linux::{context, entry};
use crate::platform::signals::{self, NEEDED, action_now};
use crate::platform::{SystemError, Thread};

/// A real-time signal of captures.
pub(super) struct CaptureSignal {
    /// The signal whose handler is ours; 0 before [`install`].
    number: AtomicI32,
    flags: i32,
}

/// Its handler runs on the thread's alternate stack.
pub(super) static ON_ALTERNATE_STACK: CaptureSignal = CaptureSignal {
    number: AtomicI32::new(0),
    flags: libc::SA_ONSTACK,
};

/// Its handler runs on the stack that the thread is on.
pub(super) static ON_PRESENT_STACK: CaptureSignal = CaptureSignal {
    number: AtomicI32::new(0),
    flags: 0,
};

/// A bit for each signal that was ours and that somebody else has taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Installs the handlers, once a process, and returns their signals. The first one is `wanted`, or else the first
/// real-time signal from `SIGRTMIN + 4` on without a handler; the second one is the next. Later calls return those in use.
///
/// They stay installed until [`uninstall`], since an answer may come at any time later. Without the handler the
/// signal's default action would end the process.
pub fn install(wanted: Option<i32>) -> Result<[i32; 2], SystemError> {
    let first = ON_ALTERNATE_STACK.claim(|| wanted.or_else(|| unused().next()))?;
    let next = || unused().find(|&free| free > first);
    let second = ON_PRESENT_STACK.claim(|| next().or_else(|| unused().next()).or(Some(first)))?;
    Ok([first, second])
}

/// Installs the handlers for a new monitor, one for the signal that is `wanted`, if there is one.
///
/// # Errors
/// That signal, if it is not a real-time signal, if it has a handler, and if the handler is installed for another one.
pub fn claim_signals(wanted: Option<i32>) -> Result<(), (i32, Error)> {
    TAKEN.store(0, Ordering::Relaxed);
    let Some(signal) = wanted else { return Ok(()) };
    let fails = |kind, why| Err((signal, Error::new(kind, why)));
    let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
    if !(first..=last).contains(&signal) {
        let why = format!("it is not a real-time signal ({first} to {last})");
        return fails(ErrorKind::InvalidInput, why);
    }
    let installed = ON_ALTERNATE_STACK.number.load(Ordering::Relaxed);
    if installed == 0 && !signals::is_default(signal) {
        return fails(ErrorKind::ResourceBusy, "it has a handler already".into());
    }
    let [installed, _] = install(wanted).map_err(|error| (signal, error.source))?;
    if installed != signal {
        let why = format!("captures of this process have been using signal {installed}");
        return fails(ErrorKind::ResourceBusy, why);
    }
    Ok(())
}

/// Installs the handler for SIGPROF, if that has the default action: for threads that block all real-time signals.
pub fn claim_profiling() {
    entry::prepare();
    if signals::is_default(libc::SIGPROF) {
        ON_PRESENT_STACK.hook(libc::SIGPROF);
    }
}

/// As [`claim_profiling`], if the calling thread blocks the signals of captures.
pub fn claim_profiling_for_this_thread() {
    let blocked = Thread::current().signals().map_or(0, |set| set.blocked);
    if blocked & ThreadSignals::bit(ON_PRESENT_STACK.number.load(Ordering::Relaxed)) != 0 {
        claim_profiling();
    }
}

/// Gives SIGPROF the default action again, if its handler is ours.
pub fn release_profiling() {
    release(libc::SIGPROF);
}

/// Takes the handler from each signal of captures that has it: our library is unloaded.
pub fn uninstall() {
    (libc::SIGRTMIN()..=libc::SIGRTMAX()).for_each(release);
    release_profiling();
}

fn release(signal: i32) {
    if signals::is_in_place(signal) {
        // Drops what is pending.
        let _ = signals::exchange(signal, Some(&signals::action(libc::SIG_IGN, 0, &[])));
        signals::set_default(signal);
    }
}

/// The signals that were the captures' own, and that somebody else has taken since [`claim_signals`].
pub fn taken() -> Vec<i32> {
    let _ = (ON_ALTERNATE_STACK.in_place(), ON_PRESENT_STACK.in_place());
    let taken = TAKEN.load(Ordering::Relaxed);
    let is_taken = |signal: &i32| taken & ThreadSignals::bit(*signal) != 0;
    (1..=64).filter(is_taken).collect()
}

/// The real-time signals without a handler, from `SIGRTMIN + 4` on. Signal-safe.
fn unused() -> impl Iterator<Item = i32> {
    (libc::SIGRTMIN().saturating_add(4)..=libc::SIGRTMAX())
        .filter(|&signal| signals::is_default(signal))
}

impl CaptureSignal {
    /// Installs the handler, unless it is, and returns its signal. If no signal is free that is the last one.
    fn claim(&self, free: impl FnOnce() -> Option<i32>) -> Result<i32, SystemError> {
        let installed = self.number.load(Ordering::Acquire);
        if installed != 0 {
            return Ok(installed);
        }
        let signal = free().unwrap_or_else(|| libc::SIGRTMAX());
        entry::prepare();
        context::prepare();
        signals::exchange(signal, Some(&self.action())).map_err(|source| SystemError {
            call: "sigaction",
            source: Error::from_raw_os_error(source),
        })?;
        // Two that come at once may have taken a signal each: the handler is the same, and the first one's
        // counts. (No lock: a child of `fork` must find none that a thread of its parent holds.)
        Ok(self.replace(0, signal))
    }

    /// Notes another signal than `before`. If two do at once the first one's counts. Signal-safe.
    fn replace(&self, before: i32, signal: i32) -> i32 {
        let (order, or) = (Ordering::AcqRel, Ordering::Acquire);
        let stored = self.number.compare_exchange(before, signal, order, or);
        stored.map_or_else(|first| first, |_| signal)
    }

    /// Returns the signal to send: one whose handler is ours at this moment. If the action was reset or ignored, ours is
    /// installed again. If somebody else handles the signal by now, it is theirs, and the first free one takes its
    /// place. Between this and the sending lie microseconds. Signal-safe.
    ///
    /// # Errors
    /// [`StopError::System`] if no real-time signal is free.
    pub(super) fn in_place(&self) -> Result<i32, StopError> {
        install(None).map_err(StopError::System)?;
        let signal = self.number.load(Ordering::Acquire);
        if self.hook(signal) {
            return Ok(signal);
        }
        TAKEN.fetch_or(ThreadSignals::bit(signal), Ordering::Relaxed);
        let free = unused().find(|&new| self.hook(new)).ok_or_else(|| {
            StopError::System(SystemError {
                call: "finding a free real-time signal",
                source: Error::from_raw_os_error(libc::EBUSY),
            })
        })?;
        Ok(self.replace(signal, free))
    }

    /// Returns true if the handler of `signal` is ours, after installing it where no handler is. Signal-safe.
    fn hook(&self, signal: i32) -> bool {
        let ours = self.action();
        let is_ours = |action: usize| action == ours.sa_sigaction;
        let is_free = |action: usize| matches!(action, libc::SIG_DFL | libc::SIG_IGN);
        match action_now(signal) {
            // A sandbox that denies the look lets nobody change it either.
            None => return true,
            Some((now, flags)) if is_ours(now) && (flags ^ ours.sa_flags) & NEEDED == 0 => {
                return true;
            }
            // Without its flags, signal(2) has put back its address alone.
            Some((now, _)) if is_free(now) || is_ours(now) => {}
            Some(_) => return false,
        }
        // A handler that was put there in this very moment is put back.
        match signals::exchange(signal, Some(&ours)) {
            Ok(before) if is_ours(before.sa_sigaction) || is_free(before.sa_sigaction) => true,
            Ok(before) => {
                let _ = signals::exchange(signal, Some(&before));
                false
            }
            Err(_) => false,
        }
    }

    /// The action with our handler, which keeps to the rules of handlers. Signal-safe.
    fn action(&self) -> libc::sigaction {
        signals::action(entry::address(), libc::SA_RESTART | self.flags, &[])
    }

    /// Returns the signal by which to ask `thread`: this one, or SIGPROF if the thread blocks this one. A thread that blocks
    /// all signals for a moment, as one that starts another thread, ends, or returns from our handler, is waited for up to
    /// `patience` nanoseconds. Signal-safe.
    ///
    /// # Errors
    /// [`StopError::Blocked`] if the thread blocks both, [`StopError::Gone`] without such a thread, and those of
    /// [`CaptureSignal::in_place`].
    pub(super) fn open_to(&self, thread: Thread, patience: u64) -> Result<i32, StopError> {
        let usual = self.in_place()?;
        let until = now().saturating_add(patience);
        let (first_cpu, mut is_last_look) = (OnceCell::new(), false);
        loop {
            // A kernel that does not report the mask leaves it to the answer.
            let blocked = thread.signals().map_or(0, |signals| signals.blocked);
            let is_open = |signal: i32| blocked & ThreadSignals::bit(signal) == 0;
            if is_open(usual) {
                return Ok(usual);
            }
            let may_profile = self.flags == ON_PRESENT_STACK.flags && is_open(libc::SIGPROF);
            if may_profile && signals::is_in_place(libc::SIGPROF) {
                return Ok(libc::SIGPROF);
            }
            if is_last_look {
                return Err(if thread.is_alive() {
                    StopError::Blocked
                } else {
                    StopError::Gone
                });
            }
            signals::pause(MASK_POLL);
            is_last_look = is_lasting(thread, &first_cpu) || now() >= until;
        }
    }
}

/// Returns true if no code that blocks signals for a moment keeps them blocked so long: the thread sleeps, or has run for
/// [`MAX_BLOCKED_TIME`] since the first call, whose CPU time is kept in `first`. One that is ready but gets no CPU may be in such
/// code. Signal-safe.
pub(super) fn is_lasting(thread: Thread, first: &OnceCell<u64>) -> bool {
    thread.progress().is_none_or(|progress| {
        let ran = progress
            .cpu
            .saturating_sub(*first.get_or_init(|| progress.cpu));
        !progress.running || ran > MAX_BLOCKED_TIME
    })
}

/// Time between two looks at the mask of a thread that blocks everything, nanoseconds.
const MASK_POLL: i64 = 150_000;

/// The longest time that such code runs, and that the kernel counts at once for a thread that runs (a tick of 4 ms),
/// nanoseconds.
const MAX_BLOCKED_TIME: u64 = 5_000_000;
