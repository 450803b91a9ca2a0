//! Files of `/proc` that are opened at install, for a process that can open none any more.

use std::ffi::CStr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::process_id;
use crate::platform::descriptors;
use crate::platform::kept::Kept;

/// The threads of this process.
pub(super) static TASKS: ProcFile = ProcFile::new(c"/proc/self/task", libc::O_DIRECTORY);
/// The memory of this process.
pub(super) static MEMORY: ProcFile = ProcFile::new(c"/proc/self/mem", 0);

/// Opens what reports are read from, as far as it may be. Not signal-safe.
pub fn open_for_reports() {
    TASKS.open();
    MEMORY.open();
}

/// One that stays open.
#[derive(Debug)]
pub(super) struct ProcFile {
    path: &'static CStr,
    flags: i32,
    kept: Kept,
    /// That opened it: `/proc/self` is another folder in a child of `fork`.
    process: AtomicU32,
}

impl ProcFile {
    pub const fn new(path: &'static CStr, flags: i32) -> ProcFile {
        ProcFile {
            path,
            flags,
            kept: Kept::none(),
            process: AtomicU32::new(0),
        }
    }

    /// Opens it, unless this process has already. One at a time.
    pub fn open(&self) {
        if self.get().is_some() {
            return;
        }
        let fd = descriptors::open(self.path, self.flags | libc::O_RDONLY);
        if fd >= 0 {
            // SAFETY: just opened, and nobody else has it.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            if self.kept.replace(fd).is_ok() {
                self.process.store(process_id(), Ordering::Release);
            }
        }
    }

    /// The descriptor; `None` where it is not open in this process. Signal-safe.
    pub fn get(&self) -> Option<RawFd> {
        let is_ours = self.process.load(Ordering::Acquire) == process_id();
        self.kept.get().ok().filter(|_| is_ours)
    }
}
