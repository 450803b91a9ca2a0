//! Sending a signal to the calling thread, and the sender of one.

/// Sends `signal` again to the calling thread; Darwin keeps no facts with it. Signal-safe.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn again(signal: i32, _info: *mut libc::siginfo_t) {
    to_self(signal);
}

/// Sends `signal` to the calling thread. Signal-safe.
pub fn to_self(signal: i32) {
    // SAFETY: the calling thread is there.
    unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
}

/// Returns true if a process sent the signal that has this `si_code`: `SI_USER` and its kin begin at 0x10001
/// (sys/signal.h), and a signal by `pthread_kill` has 0.
pub fn is_sent(code: i32) -> bool {
    code <= 0 || code >= 0x10001
}

/// Returns true if a fault of the CPU with this `si_code` has no address; never here.
pub fn is_without_address(_code: i32) -> bool {
    false
}
