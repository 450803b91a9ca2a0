//! Looks whether a report that is written gets on: a part that stands still is cut off by a signal of the thread that looks.
//!
//! That thread does other work too, in which it may have to wait for a lock that the thread which writes keeps (the loader's, the
//! allocator's). From there it is called back by a signal: it looks within the handler, until the report is written.
//!
//! Signal-safe throughout.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::platform::signals::SignalInfo;
use crate::platform::{Thread, process_id};

/// The thread that a signal is sent to, since its part stands still; 0 once it has come.
static CUT_OFF: AtomicU64 = AtomicU64::new(0);
/// The thread that looks, while it does other work; 0 else.
static OTHER_WORK: AtomicU64 = AtomicU64::new(0);
/// The same thread once a signal is sent to call it back; 0 once that has come.
static CALLED_BACK: AtomicU64 = AtomicU64::new(0);

/// Other work of the thread that looks. Begin it before the last look that precedes the work: a crash before that look is seen,
/// a later one calls back.
#[derive(Debug)]
pub(crate) struct OtherWork(());

impl OtherWork {
    pub fn begin() -> OtherWork {
        OTHER_WORK.store(Thread::current().id(), Ordering::SeqCst);
        OtherWork(())
    }
}

impl Drop for OtherWork {
    fn drop(&mut self) {
        OTHER_WORK.store(0, Ordering::SeqCst);
    }
}

/// Returns true if this signal is there to cut off a part in which the calling thread stands still, or stood.
pub(super) fn is_cut_off(facts: &SignalInfo, thread: Thread) -> bool {
    is_for(&CUT_OFF, facts, thread)
}

/// Returns true if this signal calls the calling thread back to look.
pub(super) fn is_recall(facts: &SignalInfo, thread: Thread) -> bool {
    is_for(&CALLED_BACK, facts, thread)
}

fn is_for(sent_to: &AtomicU64, facts: &SignalInfo, thread: Thread) -> bool {
    let order = Ordering::SeqCst;
    facts.sender == Some(process_id())
        && sent_to
            .compare_exchange(thread.id(), 0, order, order)
            .is_ok()
}

/// Count of the parts that were begun.
static PARTS_BEGUN: AtomicU32 = AtomicU32::new(0);

/// A part begins.
pub(super) fn begin_part() {
    PARTS_BEGUN.fetch_add(1, Ordering::Relaxed);
    recall_monitor();
}

/// Calls back the thread that looks, where it does other work and is blocked in it. On Apple platforms nobody looks.
pub(crate) fn recall_monitor() {
    #[cfg(target_os = "linux")]
    on_linux::recall();
}

#[cfg(target_os = "linux")]
pub(super) use on_linux::{PartWatch, until_written};

#[cfg(target_os = "linux")]
mod on_linux {
    use super::super::state::{self, CrashStage};
    use super::{CALLED_BACK, CUT_OFF, OTHER_WORK, PARTS_BEGUN};
    use crate::platform::clock::monotonic;
    use crate::platform::{Thread, signals};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A part during which its thread was blocked for so long stands still, nanoseconds.
    const MAX_BLOCKED: u64 = 2_000_000_000;
    /// One that takes longer never ends, nanoseconds.
    const MAX_PART_TIME: u64 = 10_000_000_000;
    /// Time between two looks in a handler, nanoseconds.
    const POLL: i64 = 100_000_000;

    /// Sends a thread a signal whose handler is ours, and that it never blocks while it writes.
    fn send(thread: Thread, sent_to: &AtomicU64) {
        let is_ours = |&signal: &i32| signals::is_in_place(signal);
        if let Some(signal) = signals::FAULTS.into_iter().find(is_ours) {
            sent_to.store(thread.id(), Ordering::SeqCst);
            signals::send(thread, signal);
        }
    }

    /// As [`super::call`].
    pub(super) fn recall() {
        let away = OTHER_WORK.load(Ordering::SeqCst);
        let looks = Thread::from_id(away);
        let may_be_called = away != 0
            && looks != Thread::current()
            && looks.progress().is_none_or(|now| !now.running)
            && CALLED_BACK.load(Ordering::SeqCst) == 0;
        let order = Ordering::SeqCst;
        if may_be_called && OTHER_WORK.compare_exchange(away, 0, order, order).is_ok() {
            send(looks, &CALLED_BACK);
        }
    }

    /// Looks until the report is written that is written now. For the thread that was called back.
    pub(in crate::trigger::crash) fn until_written() {
        let mut watch = PartWatch::default();
        loop {
            let seen = state::now();
            if seen.stage != CrashStage::Writing {
                return;
            }
            watch.cut_off_stalled(seen.owner.thread(), monotonic());
            signals::pause(POLL);
        }
    }

    /// Observations on the part that is written.
    #[derive(Debug, Default)]
    pub(in crate::trigger::crash) struct PartWatch {
        last_count: Option<u32>,
        cpu: u64,
        /// Begin of this part, and the last time at which its thread ran.
        since: u64,
        ran: u64,
    }

    impl PartWatch {
        /// Cuts off a part that stands still.
        pub fn cut_off_stalled(&mut self, owner: Thread, now: u64) {
            let last_count = Some(PARTS_BEGUN.load(Ordering::Relaxed));
            if last_count != self.last_count {
                self.last_count = last_count;
                self.since = now;
                self.ran = now;
            }
            let progress = owner.progress();
            if progress.is_none_or(|is| is.running || is.cpu != self.cpu) {
                self.ran = now;
            }
            self.cpu = progress.map_or(0, |is| is.cpu);
            if now.saturating_sub(self.ran) >= MAX_BLOCKED
                || now.saturating_sub(self.since) >= MAX_PART_TIME
            {
                self.since = now;
                self.ran = now;
                send(owner, &CUT_OFF);
            }
        }
    }
}
