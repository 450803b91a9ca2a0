//! Waiting for a handler's answer, and giving up on it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::slot::{DONE, IDLE, PHASE_MASK, REFUSED, REQUESTED, WAITING};
use crate::platform::clock::monotonic as now;
use crate::platform::linux;
use crate::platform::linux::system_call::system_call;
use crate::platform::signals::pause;

/// Waits until the slot is DONE. Returns false if it is REFUSED. Withdraws the request and returns false after
/// `patience`, or once `hopeless` holds at two checks in a row. A thread that is ready but has no CPU gets ten times
/// as long.
pub(super) fn wait(
    state: &AtomicU64,
    patience: u64,
    hopeless: impl Fn() -> bool,
    is_ready: impl Fn() -> bool,
) -> bool {
    let start = now();
    // Most answers come within microseconds from another core. A thread that needs this core must get it: after SPIN
    // the waiter only polls. The handler does not wake it then, because that would lengthen the stop.
    let mut pauses = 0u32;
    let mut doubts = 0u32;
    while now().saturating_sub(start) < DOZE.min(patience) {
        match state.load(Ordering::Acquire) & PHASE_MASK {
            DONE => return true,
            REFUSED => return false,
            _ => {}
        }
        if now().saturating_sub(start) < SPIN {
            std::hint::spin_loop();
        } else {
            pause(10_000 << pauses.min(5));
            pauses = pauses.saturating_add(1);
            if pauses >= FIRST_CHECK {
                doubts = if hopeless() {
                    doubts.saturating_add(1)
                } else {
                    0
                };
            }
            if doubts == 2 {
                break;
            }
        }
    }
    let mut next_check = POLL;
    let (mut patience, mut patience_if_ready) = match doubts {
        2 => (0, 0),
        _ => (patience, patience.saturating_mul(10)),
    };
    let mut in_grace = false;
    loop {
        let current = state.load(Ordering::Acquire);
        if current & PHASE_MASK == DONE {
            return true;
        }
        if current & PHASE_MASK == REFUSED {
            return false;
        }
        let waited = now().saturating_sub(start);
        if waited >= next_check {
            doubts = if hopeless() {
                doubts.saturating_add(1)
            } else {
                0
            };
            next_check = waited.saturating_add(POLL);
            if doubts == 2 {
                patience = 0;
                patience_if_ready = 0;
            }
        }
        if waited >= patience {
            if current & PHASE_MASK == REQUESTED {
                if waited < patience_if_ready && is_ready() {
                    patience = waited.saturating_add(POLL);
                    continue;
                }
                let idle = (current & !(PHASE_MASK | WAITING)) | IDLE;
                if state
                    .compare_exchange(current, idle, Ordering::AcqRel, Ordering::Acquire)
                    .is_ok()
                {
                    return false;
                }
            } else if !in_grace {
                // The handler is copying, which takes long only if the handler itself is stopped.
                patience = waited.saturating_add(GRACE);
                in_grace = true;
            } else {
                return false;
            }
            continue;
        }
        let waiting = current | WAITING;
        if current != waiting
            && state
                .compare_exchange(current, waiting, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
        {
            continue;
        }
        futex_wait(
            state,
            waiting,
            patience.min(next_check).saturating_sub(waited),
        );
    }
}

/// Pauses after which `hopeless` is called for the first time: 150 µs.
const FIRST_CHECK: u32 = 4;

/// Time for which the waiter spins, nanoseconds.
const SPIN: u64 = 5_000;

/// Time for which the waiter polls after that, nanoseconds. The handler does not wake it.
const DOZE: u64 = 2_000_000;

/// Time between two calls of `hopeless`, nanoseconds.
const POLL: u64 = 4_000_000;

/// Further time for a handler that is copying when `patience` is over, nanoseconds.
const GRACE: u64 = 50_000_000;

/// The low half of a state, as futexes are 32 bits wide.
fn futex_word(state: &AtomicU64) -> *const u32 {
    let word: *const u32 = state.as_ptr().cast_const().cast();
    if cfg!(target_endian = "big") {
        word.wrapping_add(1)
    } else {
        word
    }
}

fn futex_wait(state: &AtomicU64, seen: u64, nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as i64,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    let errno = linux::errno();
    // SAFETY: the word is part of a static; the time lives across the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            futex_word(state),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            seen as u32,
            &raw const time,
        )
    };
    linux::set_errno(errno);
}

pub(super) fn futex_wake(state: &AtomicU64) {
    let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    let arguments = [futex_word(state) as usize, wake, 1, 0, 0, 0];
    // SAFETY: the word is part of a static.
    unsafe { system_call(libc::SYS_futex, arguments) };
}
