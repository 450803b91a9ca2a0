//! Time that the recorder itself takes on the watched thread, as for the report of a panic: no stall of the app's.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::platform::Thread;

/// The recorder's time on the process' one watched thread.
pub(crate) static OWN_TIME: OwnTime = OwnTime::new();

/// Counts of the times at which the recorder began and ended work on the watched thread.
#[derive(Debug)]
pub(crate) struct OwnTime {
    /// The watched thread; 0 for none.
    watched: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    begun: u64,
    ended: u64,
}

impl Seen {
    /// Returns true if the recorder was at work at any time between an earlier moment and this one.
    pub fn at_work_since(self, earlier: Seen) -> bool {
        self.begun != self.ended || self != earlier
    }
}

impl OwnTime {
    const fn new() -> OwnTime {
        OwnTime {
            watched: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// From now on it is about this thread.
    pub fn watch(&self, thread: Option<Thread>) {
        let id = thread.map_or(0, Thread::id);
        self.watched.store(id, Ordering::Relaxed);
    }

    /// Runs work of the recorder on the calling thread.
    pub fn take<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Ended<'a>(&'a OwnTime);
        impl Drop for Ended<'_> {
            fn drop(&mut self) {
                self.0.ended.fetch_add(1, Ordering::Release);
            }
        }
        let watched = self.watched.load(Ordering::Relaxed) == Thread::current().id();
        let _ended = watched.then(|| {
            self.begun.fetch_add(1, Ordering::Release);
            Ended(self)
        });
        work()
    }

    /// Reads the counts.
    pub fn seen(&self) -> Seen {
        // In this order: work that begins meanwhile is not taken for none.
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Acquire);
        Seen { begun, ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_on_the_watched_thread_counts_and_even_if_it_is_over() {
        let own = OwnTime::new();
        let before = own.seen();
        own.take(|| ());
        assert!(!own.seen().at_work_since(before));
        own.watch(Some(Thread::current()));
        std::thread::scope(|scope| {
            scope.spawn(|| own.take(|| assert!(!own.seen().at_work_since(before))));
        });
        let within = own.take(|| own.seen());
        assert!(within.at_work_since(within) && within.at_work_since(before));
        let after = own.seen();
        assert!(after.at_work_since(within) && after.at_work_since(before));
        assert!(!own.seen().at_work_since(after));
    }
}
