//! Room on the disk: kept ahead, given up when the disk is full; and no death by a file's largest size.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use super::errno;
use super::kept::KnownDescriptor;

/// Gives an empty file so much room on the disk, if the file system can.
pub(super) fn allocate(fd: RawFd, bytes: u32) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: a plain call on an open descriptor.
    let done = unsafe { libc::fallocate(fd, 0, 0, bytes.into()) } == 0;
    #[cfg(target_vendor = "apple")]
    let done = {
        let mut wanted = libc::fstore_t {
            fst_flags: libc::F_ALLOCATEALL,
            fst_posmode: libc::F_PEOFPOSMODE,
            fst_offset: 0,
            fst_length: bytes.into(),
            fst_bytesalloc: 0,
        };
        // SAFETY: an open descriptor, and a structure that lives across the call.
        unsafe { libc::fcntl(fd, libc::F_PREALLOCATE, &raw mut wanted) != -1 }
    };
    done
}

/// Makes a full disk take more: first the reserve's room is given up, then the file system commits that.
pub(super) struct Room {
    reserve: Option<KnownDescriptor>,
    tried: u8,
}

impl Room {
    pub fn of(reserve: Option<KnownDescriptor>) -> Room {
        Room { reserve, tried: 0 }
    }

    /// Returns true if a call that ended with this `errno`, on a file of this one's file system, is to be tried again.
    /// Signal-safe.
    pub fn make(&mut self, error: i32, file: KnownDescriptor) -> bool {
        let (libc::ENOSPC | libc::EDQUOT, Some(reserve)) = (error, self.reserve) else {
            return false;
        };
        self.tried += 1;
        match self.tried {
            // SAFETY: a plain call on a descriptor that is open on the reserve.
            1 => reserve
                .get()
                .is_ok_and(|fd| unsafe { libc::ftruncate(fd, 0) } == 0),
            2 => file.get().map(settle).is_ok(),
            _ => false,
        }
    }
}

/// Has the file system of `fd` commit what it holds: some free what is given up no earlier (btrfs). Signal-safe: one
/// system call, which may take as long as the disk does.
fn settle(fd: RawFd) {
    #[cfg(target_os = "linux")]
    // SAFETY: a plain call on a descriptor.
    let _ = unsafe { libc::syncfs(fd) };
    #[cfg(target_vendor = "apple")]
    // SAFETY: as above.
    let _ = unsafe { libc::fsync(fd) };
}

/// Keeps SIGXFSZ (a write beyond RLIMIT_FSIZE) from the calling thread while it lives.
pub(super) struct NoSizeSignal {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl NoSizeSignal {
    pub fn begin() -> NoSizeSignal {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the sets are filled in by the calls before they are read.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ);
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            NoSizeSignal {
                set: set.assume_init(),
                before: before.assume_init(),
            }
        }
    }
}

impl Drop for NoSizeSignal {
    fn drop(&mut self) {
        let error = errno();
        // SAFETY: the sets and the time live across the calls; the kernel's set has 8 bytes.
        unsafe {
            // One that has come meanwhile is taken.
            #[cfg(target_os = "linux")]
            {
                let at_once = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                let none = std::ptr::null_mut::<libc::siginfo_t>();
                libc::syscall(libc::SYS_rt_sigtimedwait, &self.set, none, &at_once, 8usize);
            }
            #[cfg(target_vendor = "apple")]
            {
                let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
                let mut taken = 0;
                if libc::sigpending(pending.as_mut_ptr()) == 0
                    && libc::sigismember(pending.as_ptr(), libc::SIGXFSZ) == 1
                {
                    libc::sigwait(&self.set, &mut taken);
                }
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut());
        }
        super::set_errno(error);
    }
}
