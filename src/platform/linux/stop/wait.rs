//! Waiting for a handler's answer, and giving up on it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::slot::{DONE, IDLE, PHASE, REFUSED, REQUESTED, WAITING};
use crate::platform::clock::monotonic as now;
use crate::platform::linux;
use crate::platform::linux::system_call::system_call;
use crate::platform::signals::pause;

/// Waits until the slot is DONE; returns `false` when it is REFUSED. Takes the request back and returns `false` when that
/// takes too long, or when it looks hopeless at two times. A thread that is ready but has no CPU is given ten times as long.
pub(super) fn wait(
    state: &AtomicU64,
    patience: u64,
    hopeless: impl Fn() -> bool,
    is_ready: impl Fn() -> bool,
) -> bool {
    let start = now();
    // Most answers come within microseconds from another core. Where the thread needs this core,
    // it must have it: after a short while this one only looks now and then, and is not woken by
    // the handler, whose time is what counts.
    let mut pauses = 0u32;
    let mut looks = 0u32;
    while now().saturating_sub(start) < DOZE.min(patience) {
        match state.load(Ordering::Acquire) & PHASE {
            DONE => return true,
            REFUSED => return false,
            _ => {}
        }
        if now().saturating_sub(start) < SPIN {
            std::hint::spin_loop();
        } else {
            pause(10_000 << pauses.min(5));
            pauses = pauses.saturating_add(1);
            if pauses >= DOUBTS {
                looks = if hopeless() {
                    looks.saturating_add(1)
                } else {
                    0
                };
            }
            if looks == 2 {
                break;
            }
        }
    }
    let mut look_at = POLL;
    let (mut patience, mut most) = match looks {
        2 => (0, 0),
        _ => (patience, patience.saturating_mul(10)),
    };
    let mut graced = false;
    loop {
        let seen = state.load(Ordering::Acquire);
        if seen & PHASE == DONE {
            return true;
        }
        if seen & PHASE == REFUSED {
            return false;
        }
        let waited = now().saturating_sub(start);
        if waited >= look_at {
            looks = if hopeless() {
                looks.saturating_add(1)
            } else {
                0
            };
            look_at = waited.saturating_add(POLL);
            if looks == 2 {
                patience = 0;
                most = 0;
            }
        }
        if waited >= patience {
            if seen & PHASE == REQUESTED {
                if waited < most && is_ready() {
                    patience = waited.saturating_add(POLL);
                    continue;
                }
                let idle = (seen & !(PHASE | WAITING)) | IDLE;
                if state
                    .compare_exchange(seen, idle, Ordering::AcqRel, Ordering::Acquire)
                    .is_ok()
                {
                    return false;
                }
            } else if !graced {
                // It is in the middle of copying: that is never long unless it is held itself.
                patience = waited.saturating_add(GRACE);
                graced = true;
            } else {
                return false;
            }
            continue;
        }
        let sleepy = seen | WAITING;
        if seen != sleepy
            && state
                .compare_exchange(seen, sleepy, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
        {
            continue;
        }
        futex_wait(state, sleepy, patience.min(look_at).saturating_sub(waited));
    }
}

/// Pauses after which the kernel is asked if there can be an answer at all: 150 µs.
const DOUBTS: u32 = 4;

/// Time for which an answer is awaited without letting go of the core, nanoseconds.
const SPIN: u64 = 5_000;

/// Time for which the waiter then looks now and then without being woken by the handler, nanoseconds.
const DOZE: u64 = 2_000_000;

/// Time between two queries of the kernel if there can be an answer at all, nanoseconds.
const POLL: u64 = 4_000_000;

/// Time beyond the budget for which a handler that has begun to copy is awaited, nanoseconds.
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
