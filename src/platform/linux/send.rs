//! Sending a signal to the calling thread, and the sender of one.

use super::{errno, set_errno};
use crate::platform::Thread;

/// Queues `signal` again for the calling thread, with the facts that it came with. Signal-safe.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn again(signal: i32, info: *mut libc::siginfo_t) {
    let before = errno();
    // SAFETY: plain system calls on this process and thread; the caller vouches for `info`.
    let queued = unsafe {
        let process = libc::getpid();
        let thread = libc::syscall(libc::SYS_gettid);
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info)
    };
    if queued != 0 {
        to_self(signal);
    }
    set_errno(before);
}

/// Sends `signal` to the calling thread. Signal-safe.
pub fn to_self(signal: i32) {
    to(Thread::current(), signal);
}

/// Sends `signal` to a thread of this process. Signal-safe.
pub fn to(thread: Thread, signal: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.tid(), signal) };
}

/// Returns true if a process sent the signal that has this `si_code`. Source: sigaction(2).
pub fn is_sent(code: i32) -> bool {
    code <= 0
}

/// Returns true if a fault of the CPU with this `si_code` has no address: `SI_KERNEL`, as for a
/// non-canonical one.
pub fn is_without_address(code: i32) -> bool {
    const SI_KERNEL: i32 = 0x80;
    code == SI_KERNEL
}
