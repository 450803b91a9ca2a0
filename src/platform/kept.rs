//! Descriptors that are held for long, used only while they are open on what they were opened on.
//!
//! An app may close descriptors that it has not opened (one that becomes a daemon often closes all), and
//! then open files of its own, which get the same numbers: nothing of ours may be written there, nor
//! closed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use super::errno;

/// A descriptor and what it was opened on; owned by somebody else, see [`Kept`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub number: RawFd,
    pub device: u64,
    pub inode: u64,
}

impl Known {
    /// What a descriptor is open on now. Signal-safe.
    pub fn of(number: RawFd) -> Result<Known, i32> {
        let (device, inode, _) = facts(number)?;
        Ok(Known {
            number,
            device,
            inode,
        })
    }

    /// Its number; `EBADF` where somebody has closed it. Signal-safe.
    pub fn get(&self) -> Result<RawFd, i32> {
        match Known::of(self.number)? == *self {
            true => Ok(self.number),
            false => Err(libc::EBADF),
        }
    }

    /// How long the file is, bytes. Signal-safe.
    pub fn length(&self) -> Result<u64, i32> {
        let (_, _, length) = facts(self.get()?)?;
        Ok(length)
    }
}

/// Device, inode and length.
fn facts(fd: RawFd) -> Result<(u64, u64, u64), i32> {
    let mut facts = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: there is room for the answer, which is read only where the call has given one.
    let facts = unsafe {
        if libc::fstat(fd, facts.as_mut_ptr()) != 0 {
            return Err(errno());
        }
        facts.assume_init()
    };
    let length = u64::try_from(facts.st_size).unwrap_or(0);
    #[allow(
        clippy::unnecessary_cast,
        reason = "of another width on other platforms"
    )]
    Ok((facts.st_dev as u64, facts.st_ino as u64, length))
}

/// Owns a descriptor; closes it when dropped, unless somebody else has.
#[derive(Debug)]
pub(super) struct Kept(Known);

impl Kept {
    /// Takes it over.
    ///
    /// # Errors
    /// When the system does not say what it is open on. The error is an `errno`. Signal-safe.
    pub fn new(fd: OwnedFd) -> Result<Kept, i32> {
        let known = Known::of(fd.as_raw_fd())?;
        let _ = fd.into_raw_fd();
        Ok(Kept(known))
    }

    /// Its number; `EBADF` where somebody has closed it. Signal-safe.
    pub fn get(&self) -> Result<RawFd, i32> {
        self.0.get()
    }

    /// What it is open on.
    pub fn known(&self) -> Known {
        self.0
    }

    /// Another descriptor for the same. Not signal-safe.
    pub fn duplicate(&self) -> io::Result<Kept> {
        // SAFETY: a plain call; what it gives is open and has no other owner.
        let fd = unsafe {
            let number = self.get().map_err(io::Error::from_raw_os_error)?;
            let fd = libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            std::os::fd::FromRawFd::from_raw_fd(fd)
        };
        Kept::new(fd).map_err(io::Error::from_raw_os_error)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Ok(number) = self.get() {
            // SAFETY: open on what this owns, and closed once.
            unsafe { libc::close(number) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_number_that_somebody_else_has_taken_is_neither_used_nor_closed() {
        let ours: OwnedFd = File::open("/dev/null").unwrap().into();
        let kept = Kept::new(ours).unwrap();
        let number = kept.get().unwrap();
        let theirs = File::open("Cargo.toml").unwrap();
        // SAFETY: what an app does that closes what it has not opened.
        assert_eq!(number, unsafe { libc::dup2(theirs.as_raw_fd(), number) });
        assert_eq!(kept.get(), Err(libc::EBADF));
        drop(kept);
        let left = Known::of(number).unwrap();
        assert_eq!(left.inode, Known::of(theirs.as_raw_fd()).unwrap().inode);
        // SAFETY: the duplicate made above.
        assert_eq!(0, unsafe { libc::close(number) });
        assert_eq!(Known::of(number), Err(libc::EBADF));
    }
}
