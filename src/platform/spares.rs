//! Descriptors kept only to be given up when the process has no other left.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use super::kept::KnownDescriptor;

/// One for a report, one each for what its writer, the helper and the watchdog read meanwhile.
#[derive(Debug)]
pub(super) struct Spares {
    numbers: [AtomicI32; 4],
    of: KnownDescriptor,
}

impl Spares {
    /// Duplicates of this one: as many as the process may have.
    pub fn of(of: KnownDescriptor) -> Spares {
        Spares {
            numbers: std::array::from_fn(|_| AtomicI32::new(duplicate(of.number))),
            of,
        }
    }

    /// Gives them up, for good; whether there were any. Signal-safe.
    pub fn give_up(&self) -> bool {
        let mut any = false;
        for number in &self.numbers {
            let number = number.swap(-1, Ordering::AcqRel);
            let spare = KnownDescriptor { number, ..self.of };
            any |= spare.get().is_ok();
            spare.close();
        }
        any
    }

    /// Gives them up where the process could not open two files more. `fd` is any that is open.
    /// Signal-safe.
    pub fn leave_room(&self, fd: RawFd) {
        let tried = [duplicate(fd), duplicate(fd)];
        for &number in tried.iter().filter(|&&number| number >= 0) {
            // SAFETY: one that was just made.
            unsafe { libc::close(number) };
        }
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
