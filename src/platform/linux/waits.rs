//! Classifies a thread's wait, by its state and the system call in which it sleeps, and names that call.
//!
//! An uninterruptible sleep (`D`) is a wait for a disk or for a lock of the kernel's on the way there; but the parent
//! of vfork(2) waits so too. In an interruptible one, as where a program serves the file system, a call waits for a disk if it
//! takes the descriptor of a file. A mutex of the C library names its owner. Any other sleep may be how an app waits for its next
//! event.

use crate::platform::Thread;
use crate::platform::surface::{Blocked, Holder, Waits};
use crate::platform::text::FixedText;

/// Classifies the wait of a thread with this state and this `/proc/PID/syscall`. Signal-safe.
pub(super) fn of(state: Option<u8>, syscall: &[u8]) -> Waits {
    classify(state, syscall, &is_on_disk, &|at| {
        matches!(at.holder(), Some(Holder::Known(_)))
    })
}

/// As [`of`], with `is_on_disk` for whether a descriptor is that of a file, and whether a futex is a lock
/// that a thread holds.
fn classify(
    state: Option<u8>,
    syscall: &[u8],
    is_on_disk: &dyn Fn(i32) -> bool,
    is_held: &dyn Fn(Blocked) -> bool,
) -> Waits {
    let at = Blocked::parse(syscall);
    let call = at.and_then(|at| at.call).map(|call| call as libc::c_long);
    match state {
        Some(b'D') if call.is_some_and(is_fork) => Waits::Event,
        Some(b'D') => Waits::Disk,
        Some(b'R' | b'T' | b't') => Waits::Nothing,
        // It has woken meanwhile.
        _ if syscall.starts_with(b"running") => Waits::Nothing,
        _ => match (call, at) {
            (Some(libc::SYS_futex), Some(at)) if is_held(at) => Waits::Lock,
            (Some(call), Some(at)) if takes_file(call) && is_on_disk(at.arguments[0] as i32) => {
                Waits::Disk
            }
            _ => Waits::Event,
        },
    }
}

/// Returns true for calls whose caller may wait for its child, uninterruptibly (`CLONE_VFORK`).
fn is_fork(call: libc::c_long) -> bool {
    #[cfg(target_arch = "x86_64")]
    if call == libc::SYS_vfork {
        return true;
    }
    [libc::SYS_clone, libc::SYS_clone3].contains(&call)
}

/// Returns true for calls that read, write or flush the file of their first argument.
fn takes_file(call: libc::c_long) -> bool {
    [
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_readv,
        libc::SYS_preadv,
        libc::SYS_preadv2,
        libc::SYS_write,
        libc::SYS_pwrite64,
        libc::SYS_writev,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_getdents64,
        libc::SYS_fstat,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_sync_file_range,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
    ]
    .contains(&call)
}

/// Returns true if a descriptor is that of a file, of a folder or of a block device, except for files that the kernel
/// makes up: some of those wait for events (`/proc/kmsg`, `trace_pipe`).
///
/// The file system is not queried, as it may be the one that keeps the thread waiting. Signal-safe.
///
/// Source: statx(2), `AT_STATX_DONT_SYNC`; struct statx in include/uapi/linux/stat.h.
fn is_on_disk(fd: i32) -> bool {
    const MODE: std::ops::Range<usize> = 28..30;
    let errno = super::errno();
    let mut facts = [0u64; 32];
    // SAFETY: an empty path of a descriptor; the kernel writes 256 bytes, which is the size of `facts`.
    let known = unsafe {
        libc::syscall(
            libc::SYS_statx,
            fd,
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC,
            libc::STATX_TYPE,
            facts.as_mut_ptr(),
        )
    } == 0;
    let mut target = [0u8; 16];
    let tid = Thread::current().tid();
    let link = FixedText::<64>::path(format_args!("/proc/self/task/{tid}/fd/{fd}"));
    // SAFETY: a C string, and room of the length given.
    let length = unsafe {
        libc::readlink(
            link.as_c_str().as_ptr(),
            target.as_mut_ptr().cast(),
            target.len(),
        )
    };
    super::set_errno(errno);
    let target = usize::try_from(length)
        .ok()
        .and_then(|length| target.get(..length))
        .unwrap_or_default();
    let made_up = [&b"/proc/"[..], b"/sys/"]
        .iter()
        .any(|folder| target.starts_with(folder));
    // The mode is the third half of word 3 (bytes 24 to 31).
    let bytes = facts[MODE.start / 8].to_ne_bytes();
    let half = bytes.get(const { MODE.start % 8 }..);
    let mode = half.and_then(|half| half.first_chunk()).copied();
    let mode = u16::from_ne_bytes(mode.unwrap_or_default());
    let kind = u32::from(mode) & libc::S_IFMT;
    known && !made_up && [libc::S_IFREG, libc::S_IFDIR, libc::S_IFBLK].contains(&kind)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Contents of `/proc/PID/syscall` for sleeping threads on x86_64 (the first number is the call's).
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_a_thread_waits_for_follows_from_its_state_and_its_call() {
        const MUTEX: &str = "202 0x7f00dead0000 0x80 0x2 0x0 0x0 0x0 0x7ffd9cb9c0f8 0x7f2d6e0f4d36";
        const EVENT: &str = "202 0x7f00beef0000 0x80 0x2 0x0 0x0 0x0 0x7ffd9cb9c0f8 0x7f2d6e0f4d36";
        let rest = "0x7ffd9cb9c0f8 0x2000 0x0 0x0 0x0 0x7ffd9cb9c0f8 0x7f2d6e16b19d";
        let on = |call: u32, file: i32| format!("{call} {file:#x} {rest}");
        // 3 is a file; 0 a terminal, a pipe or a socket.
        let classify = |state: u8, syscall: &str| {
            let held = |at: Blocked| at.arguments[0] == 0x7f00_dead_0000;
            super::classify(Some(state), syscall.as_bytes(), &|file| file == 3, &held)
        };
        for (what, state, syscall, expected) in [
            ("running", b'R', "running", Waits::Nothing),
            ("woken since", b'S', "running", Waits::Nothing),
            ("stopped", b'T', &on(0, 0), Waits::Nothing),
            ("held by a tracer", b't', &on(0, 0), Waits::Nothing),
            (
                "read of a pipe, a socket, a terminal",
                b'S',
                &on(0, 0),
                Waits::Event,
            ),
            ("read of a file in user space", b'S', &on(0, 3), Waits::Disk),
            ("pread64 of it", b'S', &on(17, 3), Waits::Disk),
            ("write to a pipe", b'S', &on(1, 0), Waits::Event),
            ("fsync", b'S', &on(74, 3), Waits::Disk),
            ("read of a file on a disk", b'D', &on(0, 3), Waits::Disk),
            (
                "a page of a mapped file",
                b'D',
                "-1 0x7ffd9cb9c0f8 0x55d0e0",
                Waits::Disk,
            ),
            ("the kernel's lock", b'D', &on(257, 3), Waits::Disk),
            ("vfork", b'D', &on(58, 0), Waits::Event),
            (
                "clone with CLONE_VFORK",
                b'D',
                &on(56, 0x4111),
                Waits::Event,
            ),
            ("newfstatat", b'S', &on(262, -100), Waits::Event),
            (
                "openat, perhaps of a fifo",
                b'S',
                &on(257, -100),
                Waits::Event,
            ),
            ("a mutex that a thread holds", b'S', MUTEX, Waits::Lock),
            ("another futex", b'S', EVENT, Waits::Event),
            ("poll", b'S', &on(7, 0), Waits::Event),
            ("epoll_wait", b'S', &on(232, 3), Waits::Event),
            ("epoll_pwait", b'S', &on(281, 3), Waits::Event),
            ("select", b'S', &on(23, 3), Waits::Event),
            ("pselect6", b'S', &on(270, 3), Waits::Event),
            ("rt_sigtimedwait", b'S', &on(128, 3), Waits::Event),
            ("rt_sigsuspend", b'S', &on(130, 3), Waits::Event),
            ("pause", b'S', &on(34, 3), Waits::Event),
            ("clock_nanosleep", b'S', &on(230, 3), Waits::Event),
            ("restart_syscall", b'S', &on(219, 3), Waits::Event),
            ("wait4", b'S', &on(61, 3), Waits::Event),
            ("accept4", b'S', &on(288, 3), Waits::Event),
            ("recvfrom", b'S', &on(45, 3), Waits::Event),
            ("flock", b'S', &on(73, 3), Waits::Event),
            ("fcntl", b'S', &on(72, 3), Waits::Event),
            ("semtimedop", b'S', &on(220, 3), Waits::Event),
            ("mq_timedreceive", b'S', &on(243, 3), Waits::Event),
            ("io_uring_enter", b'S', &on(426, 3), Waits::Event),
            (
                "asleep outside of a call",
                b'S',
                "-1 0x7ffd9cb9c0f8 0x55d0e0",
                Waits::Event,
            ),
            ("a kernel that does not say", b'S', "", Waits::Event),
            (
                "a disk, of a kernel that does not say",
                b'D',
                "",
                Waits::Disk,
            ),
            ("idle for the kernel", b'I', "", Waits::Event),
        ] {
            assert_eq!(classify(state, syscall), expected, "{what}");
        }
        assert_eq!(
            super::classify(None, b"", &|_| true, &|_| true),
            Waits::Event
        );
    }

    #[test]
    fn files_and_folders_are_distinguished_from_what_events_come_from() {
        use std::os::fd::AsRawFd;
        let file = |path: &str| std::fs::File::open(path).unwrap();
        for path in ["/proc/self/exe", "/", "/etc/passwd"] {
            assert!(is_on_disk(file(path).as_raw_fd()), "{path}");
        }
        for path in ["/dev/null", "/proc/self/status", "/sys/kernel/notes"] {
            if std::path::Path::new(path).exists() {
                assert!(!is_on_disk(file(path).as_raw_fd()), "{path}");
            }
        }
        let (pipe, _end) = std::io::pipe().unwrap();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_on_disk(pipe.as_raw_fd()) && !is_on_disk(socket.as_raw_fd()));
        assert!(!is_on_disk(-1) && !is_on_disk(1 << 20));
    }
}
