//! Waiting for a handler's answer, and giving up on it.

use super::slot::{COPYING, CaptureSlot, DONE, IDLE, REFUSED, REQUESTED};
use crate::platform::clock::monotonic as now;
use crate::platform::signals::pause;

/// Waits until the request of this generation is DONE. Returns false if it is REFUSED. Withdraws the request and returns
/// false after `patience`, or once `is_hopeless` holds at two checks in a row. A thread that is ready but has no CPU gets
/// ten times as long.
///
/// The handler wakes nobody, because that would lengthen the stop: the waiter spins first, since most answers come within
/// microseconds from another core, and sleeps between its looks then, since the thread may need this core. Signal-safe.
pub(super) fn wait(
    slot: &CaptureSlot,
    generation: u64,
    patience: u64,
    is_hopeless: impl Fn() -> bool,
    is_ready: impl Fn() -> bool,
) -> bool {
    let start = now();
    let (mut nap, mut next_check, mut doubts) = (FIRST_NAP, FIRST_CHECK, 0u32);
    let mut copying_since = None;
    loop {
        let phase = slot.phase();
        if matches!(phase, DONE | REFUSED) {
            return phase == DONE;
        }
        let waited = now().saturating_sub(start);
        if waited < SPIN_TIME.min(patience) {
            std::hint::spin_loop();
            continue;
        }
        if phase == COPYING {
            // It takes long only if the handler itself is stopped.
            let since = *copying_since.get_or_insert(waited);
            if waited.saturating_sub(since) >= COPY_GRACE && waited >= patience {
                return false;
            }
        } else {
            if waited >= next_check {
                doubts = if is_hopeless() {
                    doubts.saturating_add(1)
                } else {
                    0
                };
                next_check = waited.saturating_add(MAX_GAP).min(waited.saturating_mul(2));
            }
            let is_over =
                waited >= patience && (waited >= patience.saturating_mul(10) || !is_ready());
            if (doubts >= 2 || is_over) && slot.try_move(generation, REQUESTED, IDLE) {
                return false;
            }
        }
        pause(nap);
        nap = nap.saturating_mul(2).min(MAX_NAP);
    }
}

/// Time for which the waiter spins, nanoseconds.
const SPIN_TIME: u64 = 5_000;

/// Time of the first sleep and of the longest one, nanoseconds.
const FIRST_NAP: i64 = 10_000;
const MAX_NAP: i64 = 320_000;

/// Time until the first call of `is_hopeless`, and the longest one between two, nanoseconds.
const FIRST_CHECK: u64 = 150_000;
const MAX_GAP: u64 = 4_000_000;

/// Further time for a handler that is copying when `patience` is over, nanoseconds.
const COPY_GRACE: u64 = 50_000_000;
