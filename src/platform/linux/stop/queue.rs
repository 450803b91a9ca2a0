//! Queueing the signal to one thread, with a value.

use super::StopError;
use crate::platform::{SystemError, Thread, linux};

/// `siginfo_t` as the kernel takes it for a queued signal (include/uapi/asm-generic/siginfo.h).
#[repr(C)]
struct QueueInfo {
    signal: i32,
    errno: i32,
    code: i32,
    pad: i32,
    pid: i32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<QueueInfo>() == size_of::<libc::siginfo_t>());

/// Queues the signal with this value. Signal-safe.
pub(super) fn queue(signal: i32, thread: Thread, value: u64) -> Result<(), StopError> {
    // SAFETY: no arguments, cannot fail.
    let (pid, uid) = unsafe { (libc::getpid(), libc::getuid()) };
    let info = QueueInfo {
        signal,
        errno: 0,
        code: linux::SI_QUEUE,
        pad: 0,
        pid,
        uid,
        value,
        rest: [0; 12],
    };
    let (number, info) = (libc::SYS_rt_tgsigqueueinfo, &raw const info);
    // SAFETY: `info` lives across the call and has the layout that the kernel reads.
    outcome("rt_tgsigqueueinfo", || unsafe {
        libc::syscall(number, pid, thread.tid(), signal, info)
    })
}

/// Sends the signal without a value. Signal-safe.
pub(super) fn send(signal: i32, thread: Thread) -> Result<(), StopError> {
    // SAFETY: a plain system call on a thread of this process.
    outcome("tgkill", || unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.tid(), signal)
    })
}

/// Returns true if a sandbox denies the call as such. Signal-safe.
pub(super) fn is_denied(error: &SystemError) -> bool {
    let code = error.source.raw_os_error();
    [libc::EPERM, libc::EACCES, libc::ENOSYS]
        .map(Some)
        .contains(&code)
}

/// errno stays.
fn outcome(call: &'static str, make: impl FnOnce() -> libc::c_long) -> Result<(), StopError> {
    let errno = linux::errno();
    let failed = (make() != 0).then(linux::errno);
    linux::set_errno(errno);
    match failed {
        None => Ok(()),
        Some(libc::ESRCH) => Err(StopError::Gone),
        Some(code) => Err(StopError::System(SystemError {
            call,
            source: std::io::Error::from_raw_os_error(code),
        })),
    }
}
