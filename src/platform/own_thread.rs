//! The recorder's own threads, which handle no signal of the app's.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use super::os::{is_for_process, send_to_process};
use super::signals::{FAULTS, change_mask, exchange_mask, set_of};
use super::{Semaphore, Thread};

/// Their ids, 0 for none: more than one monitor has, and one that is being dropped.
static OWN: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// For so long a thread that starts is waited for, nanoseconds.
const START: u64 = 100_000_000;

thread_local! {
    /// On a thread of ours: the mask of the one that started it.
    static MASK_OF_APP: Cell<Option<libc::sigset_t>> = const { Cell::new(None) };
}

/// Runs a callback of the app's on a thread of ours with the mask that the app's thread had which started this one: a
/// program that the callback starts inherits it.
pub fn with_mask_of_app<T>(callback: impl FnOnce() -> T) -> T {
    let Some(mask) = MASK_OF_APP.get() else {
        return callback();
    };
    let ours = exchange_mask(libc::SIG_SETMASK, &mask);
    let result = callback();
    exchange_mask(libc::SIG_SETMASK, &ours);
    result
}

/// Starts a thread of ours, and waits until it runs: its start takes memory, and the app may allow none once this returns.
pub fn spawn(thread: Builder, work: Box<dyn FnOnce() + Send>) -> std::io::Result<JoinHandle<()>> {
    // The new thread is begun with all signals blocked, until it is known as ours.
    let before = exchange_mask(libc::SIG_BLOCK, &set_of(1..=64));
    let runs = Arc::new(Semaphore::new());
    let told = Arc::clone(&runs);
    let started = thread.spawn(move || {
        let place = begin(&before);
        told.post();
        work();
        place.inspect(|place| place.store(0, Ordering::Relaxed));
    });
    exchange_mask(libc::SIG_SETMASK, &before);
    if started.is_ok() {
        runs.wait_timeout(START);
    }
    started
}

/// Notes the calling thread. Opens the signals that a fault of its own raises (blocked, they would kill the process without
/// a report), but not those that the app had blocked `before`, and, on Linux, the captures' own, by which reports show it.
/// It has no floating-point traps from then on: a thread inherits those of the app (`feenableexcept`), and the code of
/// compilers divides by zero where the quotient is not used.
fn begin(before: &libc::sigset_t) -> Option<&'static AtomicU64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the register's value after a reset (Intel's manual, volume 1, 10.2.3): nearest, and all exceptions masked.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &0x1f80_u32, options(nostack, readonly));
    }
    let (id, order) = (Thread::current().id(), Ordering::Relaxed);
    let take = |place: &&AtomicU64| place.compare_exchange(0, id, order, order).is_ok();
    let place = OWN.iter().find(take);
    MASK_OF_APP.set(Some(*before));
    // SAFETY: the set is a whole one.
    let is_open = |fault: &i32| unsafe { libc::sigismember(before, *fault) } == 0;
    change_mask(libc::SIG_UNBLOCK, FAULTS.into_iter().filter(is_open));
    // Without signals of captures there are no captures.
    #[cfg(target_os = "linux")]
    let captures = super::stop::install(None).into_iter().flatten();
    #[cfg(target_os = "linux")]
    change_mask(libc::SIG_UNBLOCK, captures);
    place
}

fn is_own(thread: Thread) -> bool {
    OWN.iter()
        .any(|own| own.load(Ordering::Relaxed) == thread.id())
}

/// Returns true if the process has no threads but ours.
pub fn are_alone() -> bool {
    let mut listed = [Thread::current(); OWN.len()];
    let count = super::threads::list(&mut listed);
    let is_ours = |thread: &Thread| is_own(*thread) || !thread.is_alive();
    let listed = listed.get(..count).filter(|_| count > 0);
    listed.is_some_and(|listed| listed.iter().all(is_ours))
}

/// Gives a signal that was sent to the process and has come to a thread of ours to another thread. Where all threads of
/// the app block it, it waits for one that doesn't, as without us. `false` where it is the calling thread's. Signal-safe.
///
/// # Safety
/// - `info` and `context` are what the kernel gave the handler that calls this, for `signal`.
pub unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: the caller vouches for both; the kernel puts the context's set back when the handler returns.
    unsafe {
        if !is_for_process((*info).si_code) || !is_own(Thread::current()) {
            return false;
        }
        change_mask(libc::SIG_BLOCK, [signal]);
        let behind = &raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        libc::sigaddset(behind, signal);
        send_to_process(signal, info);
    }
    true
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// An app that sets traps is no reason for ours to die of a division.
    #[test]
    fn a_thread_of_ours_has_no_floating_point_traps() {
        let state = || {
            let mut state = 0_u32;
            // SAFETY: writes the register there.
            unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut state) };
            state
        };
        let (told, tells) = std::sync::mpsc::channel();
        let app = std::thread::spawn(move || {
            // Invalid operations, divisions by zero and overflows trap: feenableexcept(3).
            // SAFETY: a valid value of the register, for this thread alone.
            unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &0x1900_u32) };
            let work = Box::new(move || told.send(state()).unwrap());
            spawn(Builder::new(), work).unwrap().join().unwrap();
        });
        app.join().unwrap();
        assert_eq!(tells.recv(), Ok(0x1f80));
    }
}
