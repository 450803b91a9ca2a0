//! Descriptors kept only to be given up when the process has no other left.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// One for a report, one each for what its writer, the helper and the watchdog read meanwhile.
#[derive(Debug)]
pub(super) struct Spares([AtomicI32; 4]);

impl Spares {
    /// Duplicates of `fd`: as many as the process may have.
    pub fn of(fd: RawFd) -> Spares {
        Spares(std::array::from_fn(|_| AtomicI32::new(duplicate(fd))))
    }

    /// Gives them up, for good; says whether there were any. Signal-safe.
    pub fn give_up(&self) -> bool {
        let mut any = false;
        for spare in &self.0 {
            let spare = spare.swap(-1, Ordering::AcqRel);
            any |= spare >= 0;
            close(spare);
        }
        any
    }

    /// Gives them up where the process could not open two files more. `fd` is any that is open.
    /// Signal-safe.
    pub fn leave_room(&self, fd: RawFd) {
        let tried = [duplicate(fd), duplicate(fd)];
        tried.into_iter().for_each(close);
        if tried.contains(&-1) {
            self.give_up();
        }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Another descriptor for the same; -1 where the process may have no more.
fn duplicate(fd: RawFd) -> RawFd {
    // SAFETY: takes no memory; of what is no descriptor there is no duplicate.
    unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) }
}

fn close(fd: RawFd) {
    if fd >= 0 {
        // SAFETY: one of our own duplicates, which its owner closes once.
        unsafe { libc::close(fd) };
    }
}
