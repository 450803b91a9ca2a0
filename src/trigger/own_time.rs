//! Time that the recorder itself takes on a watched thread, as for the report of a panic: no stall of the app's.

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts of the times at which the recorder began and ended work on one thread.
#[derive(Debug)]
pub(crate) struct OwnTime {
    begun: AtomicU32,
    ended: AtomicU32,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    begun: u32,
    ended: u32,
}

impl Seen {
    /// Returns true if the recorder was at work at any time between an earlier moment and this one.
    pub fn at_work_since(self, earlier: Seen) -> bool {
        self.begun != self.ended || self != earlier
    }
}

/// Work of the recorder, until it is dropped.
pub(crate) struct Working<'a>(&'a OwnTime);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Release);
    }
}

impl OwnTime {
    #[cfg(not(all(loom, test)))]
    pub const fn new() -> OwnTime {
        OwnTime {
            begun: AtomicU32::new(0),
            ended: AtomicU32::new(0),
        }
    }

    #[cfg(all(loom, test))]
    pub fn new() -> OwnTime {
        OwnTime {
            begun: AtomicU32::new(0),
            ended: AtomicU32::new(0),
        }
    }

    /// Begins work of the recorder.
    pub fn begin(&self) -> Working<'_> {
        self.begun.fetch_add(1, Ordering::Release);
        Working(self)
    }

    /// Reads the counts.
    pub fn seen(&self) -> Seen {
        // In this order: work that begins meanwhile is not taken for none.
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Acquire);
        Seen { begun, ended }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn work_counts_while_it_lasts_and_even_if_it_is_over() {
        let own = OwnTime::new();
        let before = own.seen();
        assert!(!own.seen().at_work_since(before));
        let work = own.begin();
        let within = own.seen();
        assert!(within.at_work_since(within) && within.at_work_since(before));
        drop(work);
        let after = own.seen();
        assert!(after.at_work_since(within) && after.at_work_since(before));
        assert!(!own.seen().at_work_since(after));
    }
}
