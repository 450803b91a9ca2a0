//! The calling thread's signal mask, for the time of a scope.

use super::signals::FAULTS;

/// While it lives, the calling thread takes no signals; threads that it starts take none for good. Signals that
/// it had blocked stay so.
pub struct SignalMask {
    before: libc::sigset_t,
    // The mask is the calling thread's: it must be set back there.
    _here: std::marker::PhantomData<*const ()>,
}

impl SignalMask {
    /// Blocks every signal that can be blocked, but those that a fault of the thread itself raises
    /// (blocking them would kill the process without a report) and, on Linux, the captures' own, by which reports
    /// show our threads too. No other is opened: an app that blocks one everywhere waits for it by `sigwait`.
    pub fn block_all() -> SignalMask {
        let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // Without a capture signal there are no captures.
        #[cfg(target_os = "linux")]
        let capture = super::stop::install(None).ok();
        // SAFETY: `sigfillset` initialises `all` before it is read; `pthread_sigmask` initialises
        // `before` and cannot fail with a valid `how`.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for fault in FAULTS {
                libc::sigdelset(all.as_mut_ptr(), fault);
            }
            #[cfg(target_os = "linux")]
            if let Some(capture) = capture {
                libc::sigdelset(all.as_mut_ptr(), capture);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            #[cfg(target_os = "linux")]
            if let Some(capture) = capture {
                libc::sigemptyset(all.as_mut_ptr());
                libc::sigaddset(all.as_mut_ptr(), capture);
                libc::pthread_sigmask(libc::SIG_UNBLOCK, all.as_ptr(), std::ptr::null_mut());
            }
            before.assume_init()
        };
        SignalMask {
            before,
            _here: std::marker::PhantomData,
        }
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        // SAFETY: `before` is the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
