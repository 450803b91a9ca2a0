//! The calling thread's signal mask, for the time of a scope.

/// While it lives, the calling thread takes no signals; threads that it starts take none for good.
#[derive(Debug)]
pub struct SignalMask {
    before: libc::sigset_t,
    // The mask is the calling thread's: it must be set back there.
    _here: std::marker::PhantomData<*const ()>,
}

impl SignalMask {
    /// Blocks every signal that can be blocked, but those that a fault of the thread itself raises
    /// (blocking them would kill the process without a report) and the real-time ones.
    pub fn block_all() -> SignalMask {
        let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigfillset` initialises `all` before it is read; `pthread_sigmask` initialises
        // `before` and cannot fail with a valid `how`.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for fault in [
                libc::SIGABRT,
                libc::SIGBUS,
                libc::SIGFPE,
                libc::SIGILL,
                libc::SIGSEGV,
                libc::SIGSYS,
                libc::SIGTRAP,
            ] {
                libc::sigdelset(all.as_mut_ptr(), fault);
            }
            // Real-time signals stay open: one of them is the capture's, and reports show our own
            // threads too.
            #[cfg(target_os = "linux")]
            for real_time in libc::SIGRTMIN()..=libc::SIGRTMAX() {
                libc::sigdelset(all.as_mut_ptr(), real_time);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
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
