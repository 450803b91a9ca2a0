//! The recorder's own threads, which handle no signal of the app's.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Thread;
use super::os::{is_for_process, send_to_process};
use super::signals::{FAULTS, change_mask};

/// Their ids, 0 for none: more than one monitor has, and one that is being dropped.
static OWN: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// While it lives, the calling thread is one of them.
pub struct OwnThread(Option<&'static AtomicU64>);

impl OwnThread {
    /// Notes the calling thread, which was started with all signals blocked, and opens those that a fault of its own raises
    /// (blocked, they would kill the process without a report) and, on Linux, the captures' own, by which reports show it.
    pub fn begin() -> OwnThread {
        let id = Thread::current().id();
        let take = |place: &&AtomicU64| {
            let taken = place.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        };
        let place = OWN.iter().find(take);
        change_mask(libc::SIG_UNBLOCK, &FAULTS);
        // Without a capture signal there are no captures.
        #[cfg(target_os = "linux")]
        let _ =
            super::stop::install(None).map(|capture| change_mask(libc::SIG_UNBLOCK, &[capture]));
        OwnThread(place)
    }

    /// Gives a signal that was sent to the process and has come to a thread of ours to another thread. Where all threads of
    /// the app block it, it waits for one that doesn't, as without us. `false` where it is the calling thread's. Signal-safe.
    ///
    /// # Safety
    /// - `info` and `context` are what the kernel gave the handler that calls this, for `signal`.
    pub unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
        let is_own = |own: &AtomicU64| own.load(Ordering::Relaxed) == Thread::current().id();
        // SAFETY: the caller vouches for both; the kernel puts the context's set back when the handler returns.
        unsafe {
            if !is_for_process((*info).si_code) || !OWN.iter().any(is_own) {
                return false;
            }
            change_mask(libc::SIG_BLOCK, &[signal]);
            let behind = &raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask;
            libc::sigaddset(behind, signal);
            send_to_process(signal, info);
        }
        true
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        self.0.inspect(|place| place.store(0, Ordering::Relaxed));
    }
}
