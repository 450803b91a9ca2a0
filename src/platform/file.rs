//! A report file while it is written: by descriptor, with no death by a full disk or by a file's largest size.
//!
//! Signal-safe throughout.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::signals::{exchange_mask, set_of};
use super::verified_fd::{KnownDescriptor, VerifiedFd};
use super::{descriptors, errno, forked};

/// An open report file, locked against the next launch while it is open. Its folder must outlive
/// it.
#[derive(Debug)]
pub struct File {
    fd: KnownDescriptor,
    /// True if it is closed with this value.
    is_owner: bool,
    /// A file that is emptied when the disk is full.
    room: Option<KnownDescriptor>,
}

impl File {
    /// Owns this descriptor, and keeps it from children of `fork`. The error is an `errno`.
    pub(super) fn new(fd: RawFd, room: Option<KnownDescriptor>) -> Result<File, i32> {
        let fd = KnownDescriptor::of(fd)?;
        forked::keep_from_children(fd);
        Ok(File {
            fd,
            is_owner: true,
            room,
        })
    }

    /// A file that stays open when this is dropped.
    pub(super) fn borrowed(fd: KnownDescriptor, room: Option<KnownDescriptor>) -> File {
        File {
            fd,
            is_owner: false,
            room,
        }
    }

    /// A file that another owns, as long as it is open on that.
    pub fn of(kept: &VerifiedFd) -> File {
        File::borrowed(kept.known(), None)
    }

    /// Has `kept` own it from now on, in place of what that owned. The error is an `errno`.
    pub fn replace(self, kept: &VerifiedFd) -> Result<(), i32> {
        forked::no_longer(kept.known());
        kept.replace(self.into_owned())?;
        forked::keep_from_children(kept.known());
        Ok(())
    }

    /// Its descriptor, which children of `fork` keep.
    pub(super) fn into_owned(mut self) -> OwnedFd {
        self.is_owner = false;
        forked::no_longer(self.fd);
        // SAFETY: it was this file's, which closes it no more.
        unsafe { OwnedFd::from_raw_fd(self.fd.number) }
    }

    /// Writes all of `bytes`, or fails with an `errno`; part of them may be written then.
    ///
    /// A file that would become larger than it may is an error, and no death by SIGXFSZ.
    pub fn write(&self, bytes: &[u8]) -> Result<(), i32> {
        let fd = self.fd.get()?;
        self.write_all(bytes, |rest, _| {
            // SAFETY: the pointer and length are those of a live slice.
            unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) }
        })
    }

    /// Writes all of `bytes` from this offset on, wherever [`File::write`] has come to; else as that.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), i32> {
        let fd = self.fd.get()?;
        self.write_all(bytes, |rest, done| {
            let offset = offset.saturating_add(done as u64);
            // SAFETY: the pointer and length are those of a live slice; the kernel refuses an offset that
            // no file has.
            unsafe { libc::pwrite(fd, rest.as_ptr().cast(), rest.len(), offset as libc::off_t) }
        })
    }

    /// Has `write` called with what is left, and how much is not, until nothing is.
    fn write_all(&self, bytes: &[u8], write: impl Fn(&[u8], usize) -> isize) -> Result<(), i32> {
        let _quiet = NoSizeSignal::begin();
        let (mut rest, mut room) = (bytes, Room::of(self.room));
        while !rest.is_empty() {
            match write(rest, bytes.len().saturating_sub(rest.len())) {
                n if n > 0 => rest = rest.get(n as usize..).unwrap_or_default(),
                0 => return Err(libc::EIO),
                _ => match errno() {
                    libc::EINTR => {}
                    error if room.make(error, self.fd) => {}
                    error => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Length in bytes.
    pub fn length(&self) -> Result<u64, i32> {
        Ok(self.fd.facts()?.length)
    }

    /// Takes so much room on the disk, beyond what is in it. False where the file system cannot.
    pub(super) fn allocate(&self, bytes: u32) -> bool {
        let Ok(fd) = self.fd.get() else {
            return false;
        };
        let _quiet = NoSizeSignal::begin();
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

    /// Cuts the file to `len` bytes and goes on writing there. The error is an `errno`.
    pub fn truncate(&self, len: u64) -> Result<(), i32> {
        let len = i64::try_from(len).map_err(|_| libc::EFBIG)?;
        let fd = self.fd.get()?;
        // SAFETY: plain calls on an open descriptor.
        unsafe {
            check(libc::ftruncate(fd, len))?;
            check(libc::lseek(fd, len, libc::SEEK_SET).min(0) as i32)
        }
    }

    pub(super) fn lock(&self) -> bool {
        self.fd.get().is_ok_and(descriptors::lock_now)
    }

    /// Lets its lock go.
    pub fn unlock(&self) {
        let _ = self.fd.get().map(descriptors::unlock);
    }

    /// Closes it, whoever owns it.
    #[inline(never)]
    pub fn close(&self) {
        forked::no_longer(self.fd);
        self.fd.close();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.is_owner {
            self.close();
        }
    }
}

/// Makes a full disk take more: first the room that was kept is given up, then the file system commits that.
pub(super) struct Room {
    kept: Option<KnownDescriptor>,
    tried: u8,
}

impl Room {
    pub fn of(kept: Option<KnownDescriptor>) -> Room {
        Room { kept, tried: 0 }
    }

    /// Returns true if a call that ended with this `errno`, on a file of this one's file system, is to be tried again.
    pub fn make(&mut self, error: i32, file: KnownDescriptor) -> bool {
        let (libc::ENOSPC | libc::EDQUOT, Some(kept)) = (error, self.kept) else {
            return false;
        };
        self.tried = self.tried.saturating_add(1);
        match self.tried {
            // SAFETY: a plain call on a descriptor that is open on it.
            1 => kept
                .get()
                .is_ok_and(|fd| unsafe { libc::ftruncate(fd, 0) } == 0),
            2 => file.get().map(commit).is_ok(),
            _ => false,
        }
    }
}

/// Has the file system of `fd` commit what it holds: some free what is given up no earlier (btrfs). Signal-safe: one
/// system call, which may take as long as the disk does.
fn commit(fd: RawFd) {
    #[cfg(target_os = "linux")]
    // SAFETY: a plain call on a descriptor.
    let _ = unsafe { libc::syncfs(fd) };
    #[cfg(target_vendor = "apple")]
    // SAFETY: as above.
    let _ = unsafe { libc::fsync(fd) };
}

pub(super) fn check(result: libc::c_int) -> Result<(), i32> {
    if result == 0 { Ok(()) } else { Err(errno()) }
}

/// Keeps SIGXFSZ (a write beyond RLIMIT_FSIZE) from the calling thread while it lives.
struct NoSizeSignal {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl NoSizeSignal {
    fn begin() -> NoSizeSignal {
        let set = set_of([libc::SIGXFSZ]);
        let before = exchange_mask(libc::SIG_BLOCK, &set);
        NoSizeSignal { set, before }
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
                let mut pending = set_of([]);
                let mut taken = 0;
                if libc::sigpending(&mut pending) == 0
                    && libc::sigismember(&pending, libc::SIGXFSZ) == 1
                {
                    libc::sigwait(&self.set, &mut taken);
                }
            }
        }
        exchange_mask(libc::SIG_SETMASK, &self.before);
        super::set_errno(error);
    }
}
