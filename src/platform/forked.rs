//! Things that a child of `fork` must not keep: reports that its parent is writing, and locks held by threads that the
//! child does not have.
//!
//! A lock by flock(2) belongs to the open file, which the child shares: while it lived, the next launch would take a
//! report whose writer was killed for one that is being written. Therefore the child closes each such descriptor;
//! values that it copied find that it is not theirs any more ([`VerifiedFd`]).

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::verified_fd::{KnownDescriptor, VerifiedFd};
use super::{process_id, signals};

/// Files that are open at a time, at most: the launch's record, reports of a stall, a crash, a panic and
/// of load, live ones, and what an install tries. One that finds no place is shared as before.
const MAX_FILES: usize = 16;
static FILES: [VerifiedFd; MAX_FILES] = [const { VerifiedFd::unowned() }; MAX_FILES];

/// Makes children of `fork` give up the descriptors and locks that they must not keep, from now on. Not signal-safe.
pub fn install() {
    static ONCE: OnceFlag = OnceFlag::new();
    if ONCE.is_first_call() {
        // SAFETY: `give_up` calls only what is async-signal-safe, and stays for ever.
        unsafe { libc::pthread_atfork(None, None, Some(give_up)) };
    }
}

/// Keeps this open descriptor from children of `fork` until [`no_longer`]. Signal-safe.
pub(super) fn keep_from_children(known: KnownDescriptor) {
    FILES.iter().any(|slot| slot.claim(known));
}

/// This descriptor is about to be closed. Signal-safe.
#[inline(never)]
pub(super) fn no_longer(known: KnownDescriptor) {
    FILES.iter().for_each(|slot| slot.release(known.number));
}

/// Signal-safe.
extern "C" fn give_up() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    FILES.iter().for_each(|slot| slot.take().close());
}

/// Forks between the process that called [`install`] and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A number that a child of `fork` does not share with its parent, even where both are the first process of their
/// namespaces (pid_namespaces(7)): then both have the id 1. Signal-safe.
pub fn process_token() -> u32 {
    // The kernel's ids have 22 bits at most.
    process_id() ^ FORKS.load(Ordering::Relaxed).wrapping_mul(0x2_8001)
}

/// A flag that tells the first caller from all later ones. Unlike `Once`, whose other callers wait, it cannot leave a
/// child of `fork` waiting for a thread that the child does not have.
pub struct OnceFlag(AtomicBool);

impl OnceFlag {
    pub const fn new() -> OnceFlag {
        OnceFlag(AtomicBool::new(false))
    }

    /// True once.
    pub fn is_first_call(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// A word that is looked up once a process, and anew in a child of `fork`.
#[derive(Debug)]
pub struct OnceAProcess {
    word: AtomicU64,
    /// Token of the process that has looked it up.
    process: AtomicU32,
}

impl OnceAProcess {
    pub const fn new() -> OnceAProcess {
        OnceAProcess {
            word: AtomicU64::new(0),
            process: AtomicU32::new(0),
        }
    }

    /// Gives it; `None` while the look-up fails. Signal-safe once it is known, and before as far as the look-up is.
    pub fn get(&self, look_up: impl FnOnce() -> Option<u64>) -> Option<u64> {
        if self.process.load(Ordering::Acquire) != process_token() {
            self.word.store(look_up()?, Ordering::Relaxed);
            self.process.store(process_token(), Ordering::Release);
        }
        Some(self.word.load(Ordering::Relaxed))
    }
}

/// Times that a thread checks if a lock is free that its holder may keep for ever.
const MAX_LOCK_POLLS: u32 = 100;

/// Takes a lock, or gives up after so many looks, a millisecond apart: its holder may be, or wait for, the one that asks.
pub fn lock_within<T>(mutex: &Mutex<T>, polls: u32) -> Option<MutexGuard<'_, T>> {
    (0..polls).find_map(|poll| {
        if poll > 0 {
            signals::pause(1_000_000);
        }
        mutex.clear_poison();
        mutex.try_lock().ok()
    })
}

/// A lock that is taken before a `fork` and let go behind it, on both sides, so that no child begins
/// with one that a thread of its parent holds; nor, where its holder is in the loader, with the
/// loader's.
pub struct ForkLock<T: 'static> {
    mutex: Mutex<T>,
    /// `pthread_self` of the thread that forks and holds it; the child's only thread has the same.
    forking: AtomicUsize,
    guard: UnsafeCell<Option<MutexGuard<'static, T>>>,
    /// In a child: it will never be released.
    lost: AtomicBool,
}

// SAFETY: only the holder of `mutex` touches `guard`.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    pub const fn new(value: T) -> ForkLock<T> {
        ForkLock {
            mutex: Mutex::new(value),
            forking: AtomicUsize::new(0),
            guard: UnsafeCell::new(None),
            lost: AtomicBool::new(false),
        }
    }

    /// Takes it; `None` in a child that was forked while its holder would not let go.
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        if self.lost.load(Ordering::Acquire) {
            return None;
        }
        Some(self.mutex.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes it if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        lock_within(&self.mutex, 1)
    }

    /// Takes it, or gives up after a while.
    pub fn lock_soon(&self) -> Option<MutexGuard<'_, T>> {
        lock_within(&self.mutex, MAX_LOCK_POLLS)
    }

    /// Before `fork`, in its thread.
    pub fn before_fork(&'static self) {
        if let Some(guard) = self.lock_soon() {
            self.forking.store(this_thread(), Ordering::Release);
            // SAFETY: we hold the lock.
            unsafe { *self.guard.get() = Some(guard) };
        }
    }

    /// Releases it behind the `fork`, in the parent.
    pub fn in_parent(&'static self) {
        let _ = self.unlock_after_fork();
    }

    /// Releases it behind the `fork`, in the child.
    pub fn in_child(&'static self) {
        if !self.unlock_after_fork() && self.try_lock().is_none() {
            self.lost.store(true, Ordering::Release);
        }
    }

    /// False if this thread did not get the lock before it forked.
    fn unlock_after_fork(&'static self) -> bool {
        let this = this_thread();
        let order = Ordering::AcqRel;
        let released = (self.forking).compare_exchange(this, 0, order, Ordering::Relaxed);
        if released.is_ok() {
            // SAFETY: we hold the lock, and do until the guard that this gives is dropped.
            drop(unsafe { (*self.guard.get()).take() });
        }
        released.is_ok()
    }
}

/// Never zero.
fn this_thread() -> usize {
    // SAFETY: no arguments.
    unsafe { libc::pthread_self() as usize }
}

/// Takes a [`ForkLock`], a static, around each `fork` from the first time on that this is passed.
macro_rules! around_forks {
    ($lock:ident) => {{
        extern "C" fn before() {
            $lock.before_fork();
        }
        extern "C" fn in_parent() {
            $lock.in_parent();
        }
        extern "C" fn in_child() {
            $lock.in_child();
        }
        static ONCE: $crate::platform::forked::OnceFlag = $crate::platform::forked::OnceFlag::new();
        if ONCE.is_first_call() {
            // SAFETY: plain functions, which stay for ever.
            unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        }
    }};
}
pub(crate) use around_forks;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    static LOCK: ForkLock<u32> = ForkLock::new(0);

    /// Result of the lock in a child: 1 if it can take it, 2 if it learns that it never can.
    fn found_by_child() -> i32 {
        // SAFETY: the child takes a lock and leaves; after 20 s by a signal.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(20);
                libc::_exit(if LOCK.lock().is_some() { 1 } else { 2 });
            }
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            assert!(libc::WIFEXITED(status), "the child hung");
            libc::WEXITSTATUS(status)
        }
    }

    #[test]
    fn a_child_is_never_left_with_a_lock_that_is_held_for_ever() {
        around_forks!(LOCK);
        // A thread that is always just in it.
        static STOP: AtomicBool = AtomicBool::new(false);
        let busy = std::thread::spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                *LOCK.lock().unwrap() += 1;
                std::thread::yield_now();
            }
        });
        for _ in 0..50 {
            // A thread that gets no CPU while it is in it is as one that does not let go.
            assert!((0..5).any(|_| found_by_child() == 1));
        }
        STOP.store(true, Ordering::Relaxed);
        busy.join().unwrap();
        // One that would not let go before the fork is over.
        let held = LOCK.lock().unwrap();
        assert_eq!(found_by_child(), 2);
        drop(held);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(found_by_child(), 1);
    }
}
