//! Children that share the process' handlers (clone(2), `CLONE_SIGHAND`): one that dies of a signal has the default action put in
//! place for its parent, too. The thread that looks puts our handler back.
//!
//! Signal-safe throughout.

use std::sync::atomic::{AtomicU64, Ordering};

use super::installed::installed;
use crate::platform::signals;

/// A child is dead at most so long after its signal, nanoseconds. If it takes longer, its signal is noted again.
const DIES: u64 = 100_000_000;

/// Bits of the signals that came to a child that shares our memory. A child that does not share it sets only its own copy.
static CAME: AtomicU64 = AtomicU64::new(0);

/// A signal has come to a process that may be such a child.
pub(super) fn note(signal: i32) {
    CAME.fetch_or(bit(signal), Ordering::SeqCst);
    installed().inspect(|ours| (ours.writer.wake)());
}

/// What came before an install is of no use.
pub(super) fn forget() {
    CAME.store(0, Ordering::SeqCst);
}

fn bit(signal: i32) -> u64 {
    1 << (signal & 63)
}

/// Signals that have come, and since when.
#[derive(Debug, Default)]
pub(super) struct HandlerWatch(Option<u64>);

impl HandlerWatch {
    /// Puts back our handlers after a while. Returns the nanoseconds until then; `None` where nothing has come.
    pub fn look(&mut self, now: u64) -> Option<u64> {
        if CAME.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let since = *self.0.get_or_insert(now);
        if now.saturating_sub(since) < DIES {
            return Some(DIES);
        }
        self.0 = None;
        let came = CAME.swap(0, Ordering::SeqCst);
        let is_lost = |signal: &i32| came & bit(*signal) != 0 && signals::is_default(*signal);
        for signal in (1..64).filter(is_lost) {
            // Without a handler the process dies as without us.
            let _ = signals::reinstall(signal);
        }
        None
    }
}
