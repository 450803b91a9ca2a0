//! The calling thread's signal mask, for the time of a scope.

/// While it lives, the calling thread takes no signals, nor do threads that it starts until they open some.
pub struct SignalMask {
    before: libc::sigset_t,
    // The mask is the calling thread's: it must be set back there.
    _here: std::marker::PhantomData<*const ()>,
}

impl SignalMask {
    /// Blocks every signal that can be blocked.
    pub fn block_all() -> SignalMask {
        let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigfillset` initialises `all` before it is read; `pthread_sigmask` initialises
        // `before` and cannot fail with a valid `how`.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
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
