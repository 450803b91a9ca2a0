//! Threads that crash while another one's crash is reported: where they were, and their wait for that one to die, so that
//! the process dies of its signal.
//!
//! Signal-safe throughout.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::state::{self, CrashStage, SeenState};
use super::survival::{has_left, retract_survived};
use crate::capture::Registers;
use crate::platform::Thread;
use crate::platform::clock::{monotonic, thread_cpu};
use crate::platform::context::REGISTERS;
use crate::platform::signals;

/// Time between two looks, nanoseconds.
const POLL: u64 = 2_000_000;
/// While the report is written, or the first thread is ready to run and has no CPU, at most so long, nanoseconds.
const MAX_WAIT: u64 = 60_000_000_000;
/// Behind its report, while it is blocked in a previous handler, at most so long: where that waits for one of these
/// others, it waits for ever.
const MAX_BLOCKED: u64 = 5_000_000_000;
/// While it is blocked elsewhere, since it has jumped out of that handler, and lives on.
const MAX_BLOCKED_ELSEWHERE: u64 = 200_000_000;
/// Behind its report, it runs for at most so long.
const MAX_RUNNING: u64 = 1_000_000_000;

/// Waits for the end of what was seen of another thread, or until that thread asks a previous handler, which `asks` to be
/// called on this one too; `false` where it takes too long.
pub(super) fn wait_for_end_of(first: SeenState, asks: bool) -> bool {
    let lives_on = |seen| {
        retract_survived(seen);
        true
    };
    let start = monotonic();
    let mut last = start;
    let mut blocked = 0u64;
    let mut cpu_then = None;
    let mut before = first;
    loop {
        let seen = state::now();
        let is_asking = match seen.stage {
            CrashStage::Off | CrashStage::Idle | CrashStage::Answered => return true,
            CrashStage::Asking if asks => return true,
            stage => stage == CrashStage::Asking,
        };
        let is_written = is_asking || seen.stage == CrashStage::Dying;
        let thread = seen.owner.thread();
        if !thread.is_alive() {
            return is_written && lives_on(seen);
        }
        if seen != before {
            before = seen;
            blocked = 0;
            cpu_then = None;
        }
        signals::pause(POLL as i64);
        let now = monotonic();
        if now.saturating_sub(start) >= MAX_WAIT {
            return false;
        }
        let since = now.saturating_sub(std::mem::replace(&mut last, now));
        if !is_written {
            continue;
        }
        let cpu = thread_cpu(thread.tid());
        if cpu.saturating_sub(*cpu_then.get_or_insert(cpu)) >= MAX_RUNNING {
            // It computes: more likely elsewhere than in a handler.
            return is_asking && lives_on(seen);
        }
        if thread.progress().is_some_and(|now| now.running) {
            continue;
        }
        blocked = blocked.saturating_add(since);
        if is_asking && blocked >= MAX_BLOCKED_ELSEWHERE && has_left(seen.owner) == Some(true) {
            return lives_on(seen);
        }
        if blocked >= MAX_BLOCKED {
            return false;
        }
    }
}

/// Threads that are remembered, at most; those beyond are captured like any other, if they answer.
const MAX_THREADS: usize = 64;

/// Place where a thread crashed that waits.
struct WitnessSlot {
    /// Twice its id, and one more while it fills in the registers; 0 while the slot is free.
    thread: AtomicU64,
    registers: [AtomicU64; REGISTERS],
}

static SLOT: [WitnessSlot; MAX_THREADS] = [const {
    WitnessSlot {
        thread: AtomicU64::new(0),
        registers: [const { AtomicU64::new(0) }; REGISTERS],
    }
}; MAX_THREADS];

fn slot_of(thread: Thread) -> Option<&'static WitnessSlot> {
    let is_its = |slot: &&WitnessSlot| slot.thread.load(Ordering::Acquire) == thread.id() << 1;
    SLOT.iter().find(is_its)
}

/// Notes where the calling thread crashed, until it leaves.
pub(super) fn note(thread: Thread, registers: &[u64; REGISTERS]) {
    let (order, filled) = (Ordering::Relaxed, thread.id() << 1);
    let fills = |slot: &&WitnessSlot| {
        let claimed = slot.thread.compare_exchange(0, filled | 1, order, order);
        claimed.is_ok()
    };
    if slot_of(thread).is_none()
        && let Some(slot) = SLOT.iter().find(fills)
    {
        fence(Ordering::Release);
        for (place, &register) in slot.registers.iter().zip(registers) {
            place.store(register, order);
        }
        slot.thread.store(filled, Ordering::Release);
    }
}

/// Returns the registers at which `thread` crashed, if it did so while another thread's crash was being reported and
/// waits for that.
pub(crate) fn crashed_too(thread: Thread) -> Option<Registers> {
    let slot = slot_of(thread)?;
    let registers = slot.registers.each_ref();
    let registers = registers.map(|register| register.load(Ordering::Relaxed));
    fence(Ordering::Acquire);
    // It may have left meanwhile, and another one have taken the slot.
    let stands = slot.thread.load(Ordering::Relaxed) == thread.id() << 1;
    stands.then(|| Registers::native(registers))
}

/// The calling thread waits no more.
pub(super) fn leave(thread: Thread) {
    while let Some(slot) = slot_of(thread) {
        slot.thread.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Slots that are left are free again, for more threads than there are slots, and what another thread reads meanwhile
    /// is one thread's.
    #[test]
    fn a_slot_that_is_left_is_free() {
        let round = |ids: std::ops::Range<u64>| {
            for id in ids {
                let thread = Thread::from_id(id);
                note(thread, &[id; REGISTERS]);
                assert_eq!(crashed_too(thread).unwrap().values[0], id);
                leave(thread);
                assert!(crashed_too(thread).is_none(), "{id}");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..20).for_each(|_| round(1..100)));
            scope.spawn(|| (0..20).for_each(|_| round(100..200)));
            for id in (0..20).flat_map(|_| 1..200) {
                let read = crashed_too(Thread::from_id(id));
                assert!(read.is_none_or(|read| read.values.iter().all(|&value| value == id)));
            }
        });
    }
}
