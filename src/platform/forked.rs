//! What a child of `fork` must not keep: reports that its parent is writing.
//!
//! A lock by flock(2) belongs to the open file, which the child shares: while it lived, the next
//! launch would take a report whose writer was killed for one that is being written. So in the
//! child each such descriptor is made one of `/dev/null`; its number stays taken, since values that
//! the child copied will close it.

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// Reports that are open at a time, at most: stall, crash, live, panic, and the probe of an install.
/// One that finds no place is shared as before.
const SLOTS: usize = 8;
const FREE: RawFd = -1;

static OPEN: [AtomicI32; SLOTS] = [const { AtomicI32::new(FREE) }; SLOTS];

/// Has children of `fork` give up what is kept from them, from now on. Not signal-safe.
pub fn install() {
    static ONCE: Once = Once::new();
    // SAFETY: `give_up` calls only what is async-signal-safe, and stays for ever.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(give_up));
    });
}

/// Keeps this open descriptor from children of `fork` until [`no_longer`]. Signal-safe.
pub fn keep_from_children(fd: RawFd) {
    for slot in &OPEN {
        if slot
            .compare_exchange(FREE, fd, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
    }
}

/// This descriptor is about to be closed. Signal-safe.
pub fn no_longer(fd: RawFd) {
    for slot in &OPEN {
        let _ = slot.compare_exchange(fd, FREE, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Signal-safe.
extern "C" fn give_up() {
    for slot in &OPEN {
        let fd = slot.swap(FREE, Ordering::AcqRel);
        if fd == FREE {
            continue;
        }
        // SAFETY: plain calls; `fd` is open, as its owner, copied with it, has not closed it.
        unsafe {
            let flags = libc::O_RDWR | libc::O_CLOEXEC;
            let nothing = libc::open(c"/dev/null".as_ptr(), flags);
            if nothing >= 0 {
                libc::dup2(nothing, fd);
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
                libc::close(nothing);
            }
        }
    }
}
