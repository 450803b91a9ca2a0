//! A counting semaphore on a futex: one word, no lock, made in a `const`.

use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

use super::system_call::system_call;

/// A counting semaphore. It holds no memory beside itself and is never destroyed, so that a late
/// `post` touches nothing that is gone.
#[derive(Debug, Default)]
pub struct Semaphore {
    count: AtomicU32,
}

impl Semaphore {
    /// With no permit in it.
    pub const fn new() -> Semaphore {
        Semaphore {
            count: AtomicU32::new(0),
        }
    }

    /// Puts one permit in and wakes one waiter. What was written before it is seen by the thread that
    /// takes the permit. Signal-safe: one atomic and one `futex` call; `errno` is kept.
    pub fn post(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.futex(libc::FUTEX_WAKE, 1, None);
    }

    /// Takes one permit; `false` when none came before [`monotonic`](crate::platform::clock::monotonic) reached `deadline`.
    pub fn wait_until(&self, deadline: u64) -> bool {
        loop {
            if self.take() {
                return true;
            }
            if !self.sleep(deadline) {
                return self.take();
            }
        }
    }

    fn take(&self) -> bool {
        let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
        let taken = self
            .count
            .fetch_update(order, failed, |count| count.checked_sub(1));
        taken.is_ok()
    }

    /// Sleeps while the count is 0; `false` when the deadline has passed. FUTEX_WAIT_BITSET takes
    /// an absolute CLOCK_MONOTONIC time (futex(2)), so that interruptions don't prolong the wait.
    fn sleep(&self, deadline: u64) -> bool {
        let time = libc::timespec {
            tv_sec: (deadline / 1_000_000_000) as i64,
            tv_nsec: (deadline % 1_000_000_000) as libc::c_long,
        };
        let failed = self.futex(libc::FUTEX_WAIT_BITSET, 0, Some(&time));
        failed.wrapping_neg() != libc::ETIMEDOUT as isize
    }

    fn futex(&self, operation: libc::c_int, value: usize, time: Option<&libc::timespec>) -> isize {
        let (word, time) = (self.count.as_ptr(), time.map_or(null(), std::ptr::from_ref));
        let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as usize;
        let any = libc::FUTEX_BITSET_MATCH_ANY as usize;
        // SAFETY: the word is a live atomic; `time` is null or lives across the call.
        unsafe {
            system_call(
                libc::SYS_futex,
                [word as usize, operation, value, time as usize, 0, any],
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::clock;

    #[test]
    fn permits_are_counted() {
        let semaphore = Semaphore::new();
        assert!(!semaphore.wait_timeout(0));
        semaphore.post();
        semaphore.post();
        assert!(semaphore.wait_timeout(0));
        semaphore.wait();
        assert!(!semaphore.wait_timeout(1_000_000));
    }

    #[test]
    fn the_deadline_is_kept_to_the_late_side() {
        let before = clock::monotonic();
        assert!(!Semaphore::new().wait_timeout(3_000_000));
        assert!(clock::monotonic() - before >= 3_000_000);
    }

    #[test]
    fn every_post_wakes_a_waiter_and_carries_what_was_written() {
        use std::sync::Arc;
        let shared = Arc::new((Semaphore::new(), Semaphore::new(), AtomicU32::new(0)));
        let other = Arc::clone(&shared);
        let waiter = std::thread::spawn(move || {
            for round in 1..=1000 {
                other.0.wait();
                assert_eq!(other.2.load(Ordering::Relaxed), round);
                other.1.post();
            }
        });
        for round in 1..=1000 {
            shared.2.store(round, Ordering::Relaxed);
            shared.0.post();
            shared.1.wait();
        }
        waiter.join().unwrap();
    }
}
