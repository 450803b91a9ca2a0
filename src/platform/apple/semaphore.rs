//! A counting semaphore: a word that is counted in user space, and a Mach semaphore to sleep on.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use mach2::kern_return::{KERN_OPERATION_TIMED_OUT, KERN_SUCCESS};

use super::task;
use crate::platform::{clock, process_id, signals};

/// Time between two looks at the count when a thread cannot sleep on the semaphore, nanoseconds.
const LOOK_EVERY: u64 = 1_000_000;

/// Waits without the semaphore: the wait was aborted (`KERN_ABORTED`), or the task had no room for one more port.
fn rest(nanoseconds: u64) {
    signals::pause(nanoseconds as i64);
}

/// A counting semaphore, made in a `const`.
///
/// The Mach semaphore is made by the first that waits, never by one that posts: a post before
/// that has counted up first, so that the waiter finds the permit without sleeping.
#[derive(Debug, Default)]
pub struct Semaphore {
    count: AtomicU32,
    /// Its name, and above 32 bits the process that has made it; 0 until a thread has waited.
    port: AtomicU64,
}

impl Semaphore {
    /// With no permit in it.
    pub const fn new() -> Semaphore {
        Semaphore {
            count: AtomicU32::new(0),
            port: AtomicU64::new(0),
        }
    }

    /// Puts one permit in and wakes one waiter. What was written before it is seen by the thread that
    /// takes the permit. Signal-safe: two atomics and at most one Mach trap.
    pub fn post(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if let Some(port) = name_in(self.port.load(Ordering::SeqCst)) {
            // SAFETY: a name only; the semaphore lives as long as `self`.
            unsafe { mach2::semaphore::semaphore_signal(port) };
        }
    }

    /// Takes one permit; `false` when none came before [`clock::monotonic`] reached `deadline`.
    pub fn wait_until(&self, deadline: u64) -> bool {
        loop {
            let port = self.port();
            if self.take() {
                return true;
            }
            let left = deadline.saturating_sub(clock::monotonic());
            if left == 0 {
                return false;
            }
            let time = mach2::clock_types::mach_timespec_t {
                tv_sec: (left / 1_000_000_000).min(86_400) as u32,
                tv_nsec: (left % 1_000_000_000) as i32,
            };
            // SAFETY: names and plain values only. It may return early; the count decides.
            let code = unsafe { mach2::semaphore::semaphore_timedwait(port, time) };
            if code != KERN_SUCCESS && code != KERN_OPERATION_TIMED_OUT {
                rest(left.min(LOOK_EVERY));
            }
        }
    }

    fn take(&self) -> bool {
        let (order, failed) = (Ordering::SeqCst, Ordering::SeqCst);
        let taken = self
            .count
            .fetch_update(order, failed, |count| count.checked_sub(1));
        taken.is_ok()
    }

    /// The Mach semaphore, made at the first call in this process.
    fn port(&self) -> u32 {
        let seen = self.port.load(Ordering::SeqCst);
        if let Some(port) = name_in(seen) {
            return port;
        }
        let mut made = 0;
        const FIFO: i32 = 0; // SYNC_POLICY_FIFO (mach/sync_policy.h)
        // SAFETY: `made` lives across the call.
        unsafe { mach2::semaphore::semaphore_create(task::own(), &mut made, FIFO, 0) };
        let word = u64::from(process_id()) << 32 | u64::from(made);
        let (order, failed) = (Ordering::SeqCst, Ordering::SeqCst);
        match self.port.compare_exchange(seen, word, order, failed) {
            Ok(_) => made,
            Err(theirs) => {
                // SAFETY: made above, seen by no other thread.
                unsafe { mach2::semaphore::semaphore_destroy(task::own(), made) };
                theirs as u32
            }
        }
    }
}

/// A name of this process'; a child of `fork` has none of its parent's ports.
fn name_in(word: u64) -> Option<u32> {
    let is_ours = word >> 32 == u64::from(process_id());
    Some(word as u32).filter(|&port| is_ours && port != 0)
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        if let Some(port) = name_in(*self.port.get_mut()) {
            // SAFETY: no thread can post or wait any more: `self` is not borrowed.
            unsafe { mach2::semaphore::semaphore_destroy(task::own(), port) };
        }
    }
}
