//! The report folder kept as a descriptor, and files in it: create, lock, write, rename.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

use super::errno;

/// A folder that is written to by descriptor, so that the app may change its working directory, or
/// its root, without a report going astray.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    /// A descriptor kept only to be given up when the process has no other left.
    spare: AtomicI32,
}

impl Folder {
    /// Opens `path`, making it and its parents where they are missing, and proves that a file can
    /// be created, written and removed in it.
    pub fn open(path: &Path) -> io::Result<Folder> {
        std::fs::create_dir_all(path)?;
        let fd: OwnedFd = std::fs::File::open(path)?.into();
        // SAFETY: `fd` is open; the call only duplicates it.
        let spare = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
        let folder = Folder {
            fd,
            spare: AtomicI32::new(spare),
        };
        folder.probe()?;
        Ok(folder)
    }

    fn probe(&self) -> io::Result<()> {
        let name = std::ffi::CString::new(format!(".probe-{}", std::process::id()))?;
        let from = io::Error::from_raw_os_error;
        // A probe that an earlier process of the same id left must not stop us.
        let _ = self.remove(&name);
        let file = self.create(&name).map_err(from)?;
        let written = file.write(b"wedjat").map_err(from);
        drop(file);
        self.remove(&name).map_err(from)?;
        written
    }

    /// Creates `name`, which must not be there, and locks it. The error is an `errno`.
    ///
    /// Signal-safe.
    pub fn create(&self, name: &CStr) -> Result<File, i32> {
        let open = || {
            // SAFETY: `name` is a C string and the descriptor is open while `self` lives.
            let fd = unsafe {
                libc::openat(
                    self.fd.as_raw_fd(),
                    name.as_ptr(),
                    libc::O_RDWR
                        | libc::O_CREAT
                        | libc::O_EXCL
                        | libc::O_CLOEXEC
                        | libc::O_NOFOLLOW,
                    0o600 as libc::c_uint,
                )
            };
            if fd < 0 { Err(errno()) } else { Ok(fd) }
        };
        let fd = match open() {
            Err(libc::EMFILE | libc::ENFILE) => {
                let spare = self.spare.swap(-1, Ordering::AcqRel);
                if spare < 0 {
                    return Err(libc::EMFILE);
                }
                // SAFETY: the swap made this call the only owner of `spare`.
                unsafe { libc::close(spare) };
                open()?
            }
            other => other?,
        };
        // SAFETY: `fd` was just opened and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let file = File { fd };
        // A folder on a file system without locks still takes reports.
        file.lock();
        Ok(file)
    }

    /// Renames `from` to `to`, both in this folder. The error is an `errno`.
    ///
    /// Signal-safe.
    pub fn rename(&self, from: &CStr, to: &CStr) -> Result<(), i32> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: both names are C strings and the descriptor is open while `self` lives.
        check(unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) })
    }

    /// Removes `name`. The error is an `errno`.
    ///
    /// Signal-safe.
    pub fn remove(&self, name: &CStr) -> Result<(), i32> {
        // SAFETY: `name` is a C string and the descriptor is open while `self` lives.
        check(unsafe { libc::unlinkat(self.fd.as_raw_fd(), name.as_ptr(), 0) })
    }

    /// The descriptor, for a listing.
    pub fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let spare = self.spare.swap(-1, Ordering::AcqRel);
        if spare >= 0 {
            // SAFETY: the swap made this call the only owner of `spare`.
            unsafe { libc::close(spare) };
        }
    }
}

/// An open report file, locked against the next launch while it is open.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
}

impl File {
    /// Writes all of `bytes`, or fails with an `errno`.
    ///
    /// Signal-safe.
    pub fn write(&self, mut bytes: &[u8]) -> Result<(), i32> {
        while !bytes.is_empty() {
            // SAFETY: the pointer and length are those of a live slice.
            let n = unsafe { libc::write(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
            match n {
                n if n > 0 => bytes = bytes.get(n as usize..).unwrap_or_default(),
                0 => return Err(libc::EIO),
                _ if errno() == libc::EINTR => {}
                _ => return Err(errno()),
            }
        }
        Ok(())
    }

    /// Cuts the file to `len` bytes and goes on writing there. The error is an `errno`.
    ///
    /// Signal-safe.
    pub fn truncate(&self, len: u64) -> Result<(), i32> {
        let len = i64::try_from(len).map_err(|_| libc::EFBIG)?;
        // SAFETY: plain calls on an open descriptor.
        unsafe {
            check(libc::ftruncate(self.fd.as_raw_fd(), len))?;
            if libc::lseek(self.fd.as_raw_fd(), len, libc::SEEK_SET) < 0 {
                return Err(errno());
            }
        }
        Ok(())
    }

    fn lock(&self) -> bool {
        lock_now(self.fd.as_raw_fd())
    }
}

/// Takes the exclusive `flock` of `file` if nobody holds it; false where somebody does.
pub fn try_lock(file: &std::fs::File) -> bool {
    lock_now(file.as_raw_fd())
}

fn lock_now(fd: RawFd) -> bool {
    // SAFETY: a plain call on an open descriptor.
    unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

fn check(result: libc::c_int) -> Result<(), i32> {
    if result == 0 { Ok(()) } else { Err(errno()) }
}
