//! Threads that crash while another one's crash is being reported: where they were.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::capture::Registers;
use crate::platform::Thread;

/// Threads that are remembered, at most; those beyond are captured like any other, if they answer.
const SLOTS: usize = 64;

struct WitnessSlot {
    /// The thread that fills the slot in, 0 while it is free.
    claimed: AtomicU64,
    /// The same thread, once the registers stand.
    thread: AtomicU64,
    /// There once `thread` is set. Not an `Option`, whose `None` is not all zeros: 19 KB of every program's file.
    registers: UnsafeCell<MaybeUninit<Registers>>,
}

// SAFETY: `registers` is written by the thread that set `claimed` by compare-and-swap, once until
// `leave`, and read only while `thread` is set, which happens after.
unsafe impl Sync for WitnessSlot {}

static SLOT: [WitnessSlot; SLOTS] = [const {
    WitnessSlot {
        claimed: AtomicU64::new(0),
        thread: AtomicU64::new(0),
        registers: UnsafeCell::new(MaybeUninit::uninit()),
    }
}; SLOTS];

/// Notes where the calling thread crashed. It must stay there, in its handler, until the report is
/// done. Signal-safe.
pub(super) fn note(thread: Thread, registers: Registers) {
    for slot in &SLOT {
        let claimed =
            slot.claimed
                .compare_exchange(0, thread.id(), Ordering::AcqRel, Ordering::Acquire);
        if claimed == Err(thread.id()) {
            return;
        }
        if claimed.is_ok() {
            // SAFETY: claimed by this thread just now, and it is not read before `thread` is set.
            unsafe { *slot.registers.get() = MaybeUninit::new(registers) };
            slot.thread.store(thread.id(), Ordering::Release);
            return;
        }
    }
}

/// Returns the registers at which `thread` crashed, if it did so while another thread's crash was being reported and
/// waits for that. Signal-safe.
pub(crate) fn crashed_too(thread: Thread) -> Option<Registers> {
    let slot = SLOT
        .iter()
        .find(|slot| slot.thread.load(Ordering::Acquire) == thread.id())?;
    // SAFETY: `thread` is set, so the registers stand and are not written again until `leave`,
    // which is called only once the report, whose thread reads them here, is done.
    Some(unsafe { (*slot.registers.get()).assume_init() })
}

/// The calling thread goes on. Only once the report that it waited for is done. Signal-safe.
pub(super) fn leave(thread: Thread) {
    for slot in &SLOT {
        if slot.thread.load(Ordering::Acquire) == thread.id() {
            slot.thread.store(0, Ordering::Release);
            slot.claimed.store(0, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Slots that are left are free again, for more threads than there are slots.
    #[test]
    fn a_slot_that_is_left_is_free() {
        for id in 1..=3 * SLOTS as u64 {
            let thread = Thread::from_id(id);
            note(thread, Registers::native(crate::platform::context::here()));
            assert!(crashed_too(thread).is_some(), "{id}");
            leave(thread);
            assert!(crashed_too(thread).is_none(), "{id}");
        }
    }
}
