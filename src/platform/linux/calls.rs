//! Names of the system calls that threads wait in.

use crate::platform::surface::Blocked;

impl Blocked {
    /// The name of the system call that it is in; `None` for those that hardly ever block. Signal-safe.
    pub fn call_name(&self) -> Option<&'static str> {
        name(libc::c_long::try_from(self.call?).ok()?)
    }
}

fn name(number: libc::c_long) -> Option<&'static str> {
    macro_rules! table {
        ($($call:ident $name:literal)*) => {
            match number {
                $(libc::$call => Some($name),)*
                _ => older(number),
            }
        };
    }
    table! {
        SYS_accept "accept" SYS_accept4 "accept4" SYS_clock_nanosleep "clock_nanosleep"
        SYS_close "close" SYS_connect "connect" SYS_copy_file_range "copy_file_range"
        SYS_epoll_pwait "epoll_pwait" SYS_epoll_pwait2 "epoll_pwait2" SYS_fallocate "fallocate"
        SYS_fcntl "fcntl" SYS_fdatasync "fdatasync" SYS_flock "flock" SYS_fsync "fsync"
        SYS_ftruncate "ftruncate" SYS_futex "futex" SYS_getdents64 "getdents64"
        SYS_io_getevents "io_getevents" SYS_io_uring_enter "io_uring_enter" SYS_ioctl "ioctl"
        SYS_mmap "mmap" SYS_mprotect "mprotect" SYS_mq_timedreceive "mq_timedreceive"
        SYS_mq_timedsend "mq_timedsend" SYS_msgrcv "msgrcv" SYS_msgsnd "msgsnd"
        SYS_msync "msync" SYS_munmap "munmap" SYS_nanosleep "nanosleep" SYS_openat "openat"
        SYS_ppoll "ppoll" SYS_pread64 "pread64" SYS_preadv "preadv" SYS_pselect6 "pselect6"
        SYS_pwrite64 "pwrite64" SYS_pwritev "pwritev" SYS_read "read" SYS_readv "readv"
        SYS_recvfrom "recvfrom" SYS_recvmmsg "recvmmsg" SYS_recvmsg "recvmsg"
        SYS_renameat2 "renameat2" SYS_rt_sigsuspend "rt_sigsuspend"
        SYS_rt_sigtimedwait "rt_sigtimedwait" SYS_semop "semop" SYS_semtimedop "semtimedop"
        SYS_sendfile "sendfile" SYS_sendmmsg "sendmmsg" SYS_sendmsg "sendmsg" SYS_sendto "sendto"
        SYS_splice "splice" SYS_statx "statx" SYS_sync "sync" SYS_sync_file_range "sync_file_range"
        SYS_syncfs "syncfs" SYS_unlinkat "unlinkat" SYS_wait4 "wait4" SYS_waitid "waitid"
        SYS_write "write" SYS_writev "writev"
    }
}

/// Calls that only older architectures have.
#[cfg(target_arch = "x86_64")]
fn older(number: libc::c_long) -> Option<&'static str> {
    match number {
        libc::SYS_epoll_wait => Some("epoll_wait"),
        libc::SYS_open => Some("open"),
        libc::SYS_pause => Some("pause"),
        libc::SYS_poll => Some("poll"),
        libc::SYS_select => Some("select"),
        libc::SYS_stat => Some("stat"),
        libc::SYS_unlink => Some("unlink"),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn older(_number: libc::c_long) -> Option<&'static str> {
    None
}
