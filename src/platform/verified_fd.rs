//! Descriptors that are held for long, used only while they are open on what they were opened on.
//!
//! An app may close descriptors that it has not opened (one that becomes a daemon often closes all), and
//! then open files of its own, which get the same numbers: nothing of ours may be written there, nor
//! closed.
//!
//! Signal-safe throughout.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::errno;
use super::ownership::FileStat;

/// A descriptor and what it was opened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownDescriptor {
    pub number: RawFd,
    pub device: u64,
    pub inode: u64,
}

impl KnownDescriptor {
    /// Identifies the file that a descriptor is open on now; an `errno` if it is invalid.
    pub fn of(number: RawFd) -> Result<KnownDescriptor, i32> {
        let FileStat { device, inode, .. } = FileStat::of(number)?;
        Ok(KnownDescriptor {
            number,
            device,
            inode,
        })
    }

    /// The state of the file now; `EBADF` where the descriptor was closed elsewhere.
    pub fn facts(&self) -> Result<FileStat, i32> {
        let now = FileStat::of(self.number)?;
        let is_same = (now.device, now.inode) == (self.device, self.inode);
        if is_same { Ok(now) } else { Err(libc::EBADF) }
    }

    /// Its number; `EBADF` where it was closed elsewhere.
    #[inline(never)]
    pub fn get(&self) -> Result<RawFd, i32> {
        self.facts().map(|_| self.number)
    }

    /// Closes it, unless it was closed elsewhere.
    pub fn close(&self) {
        if let Ok(number) = self.get() {
            // SAFETY: open on what its owner opened, which has no further use for it.
            unsafe { libc::close(number) };
        }
    }
}

/// No descriptor.
const NONE: RawFd = -1;
/// One that is being filled in.
const CLAIMED: RawFd = -2;

/// Owns a descriptor; closes it when dropped, unless it was closed elsewhere.
#[derive(Debug)]
pub struct VerifiedFd {
    number: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl VerifiedFd {
    /// Owns none yet.
    pub const fn unowned() -> VerifiedFd {
        VerifiedFd {
            number: AtomicI32::new(NONE),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
        }
    }

    /// Takes it over. The error is an `errno`.
    pub fn new(fd: OwnedFd) -> Result<VerifiedFd, i32> {
        let known = KnownDescriptor::of(fd.as_raw_fd())?;
        let _ = fd.into_raw_fd();
        let kept = VerifiedFd::unowned();
        kept.claim(known);
        Ok(kept)
    }

    /// Owns another descriptor for the same; none where the process may have no more.
    pub(super) fn duplicate(&self) -> VerifiedFd {
        let (kept, mut known) = (VerifiedFd::unowned(), self.known());
        // SAFETY: takes no memory; of what is no descriptor there is no duplicate.
        known.number = unsafe { libc::fcntl(known.number, libc::F_DUPFD_CLOEXEC, 3) };
        kept.claim(known);
        kept
    }

    /// Owns this descriptor, if it owns none; false otherwise.
    pub(super) fn claim(&self, known: KnownDescriptor) -> bool {
        let (free, order) = (&self.number, Ordering::AcqRel);
        let is_free = free.compare_exchange(NONE, CLAIMED, order, Ordering::Relaxed);
        if is_free.is_ok() {
            self.device.store(known.device, Ordering::Relaxed);
            self.inode.store(known.inode, Ordering::Relaxed);
            self.number.store(known.number, Ordering::Release);
        }
        is_free.is_ok()
    }

    /// Gives up the descriptor of this number, if it owns it.
    pub(super) fn release(&self, number: RawFd) {
        let order = Ordering::AcqRel;
        let _ = (self.number).compare_exchange(number, NONE, order, Ordering::Relaxed);
    }

    /// Gives up what it owns.
    pub(super) fn take(&self) -> KnownDescriptor {
        let known = self.known();
        let number = self.number.swap(NONE, Ordering::AcqRel);
        KnownDescriptor { number, ..known }
    }

    /// Its number; `EBADF` where it was closed elsewhere.
    pub fn get(&self) -> Result<RawFd, i32> {
        self.known().get()
    }

    /// The file that it is open on.
    #[inline(never)]
    pub(super) fn known(&self) -> KnownDescriptor {
        KnownDescriptor {
            number: self.number.load(Ordering::Acquire),
            device: self.device.load(Ordering::Relaxed),
            inode: self.inode.load(Ordering::Relaxed),
        }
    }

    /// Takes over the file of `fd`. It keeps its own number if that is still open on its file. All threads then see the
    /// new file at once. The error is an `errno`.
    pub fn replace(&self, fd: OwnedFd) -> Result<(), i32> {
        let new = KnownDescriptor::of(fd.as_raw_fd())?;
        match self.get() {
            Ok(number) if number != fd.as_raw_fd() => replace_fd(fd.as_raw_fd(), number)?,
            // The app has closed it; what was opened since may have got the same number.
            _ => self.number.store(fd.into_raw_fd(), Ordering::Release),
        }
        self.device.store(new.device, Ordering::Relaxed);
        self.inode.store(new.inode, Ordering::Release);
        Ok(())
    }
}

impl Drop for VerifiedFd {
    fn drop(&mut self) {
        self.known().close();
    }
}

/// Puts what `from` is open on in the place of `to`.
fn replace_fd(from: RawFd, to: RawFd) -> Result<(), i32> {
    // SAFETY: plain calls on open descriptors.
    unsafe {
        #[cfg(target_os = "linux")]
        let moved = libc::dup3(from, to, libc::O_CLOEXEC);
        #[cfg(target_vendor = "apple")]
        let moved = {
            let moved = libc::dup2(from, to);
            libc::fcntl(to, libc::F_SETFD, libc::FD_CLOEXEC);
            moved
        };
        if moved < 0 { Err(errno()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::FromRawFd;

    /// Closed by the app, and opened again: the number is the same, and it is not closed with the new descriptor.
    #[test]
    fn a_number_that_comes_again_is_ours_again() {
        let kept = VerifiedFd::new(File::open(".").unwrap().into()).unwrap();
        let number = kept.get().unwrap();
        // SAFETY: the number is open, and `kept` is its only other owner, whose place this one takes.
        let again = unsafe { OwnedFd::from_raw_fd(number) };
        kept.replace(again).unwrap();
        assert_eq!(kept.get(), Ok(number));
    }

    #[test]
    fn a_number_that_was_taken_over_is_neither_used_nor_closed() {
        let ours: OwnedFd = File::open("/dev/null").unwrap().into();
        let kept = VerifiedFd::new(ours).unwrap();
        let number = kept.get().unwrap();
        let theirs = File::open("Cargo.toml").unwrap();
        // SAFETY: what an app does that closes what it has not opened.
        assert_eq!(number, unsafe { libc::dup2(theirs.as_raw_fd(), number) });
        assert_eq!(kept.get(), Err(libc::EBADF));
        drop(kept);
        let left = KnownDescriptor::of(number).unwrap();
        assert_eq!(
            left.inode,
            KnownDescriptor::of(theirs.as_raw_fd()).unwrap().inode
        );
        // SAFETY: the duplicate made above.
        assert_eq!(0, unsafe { libc::close(number) });
        assert_eq!(KnownDescriptor::of(number), Err(libc::EBADF));
    }
}
