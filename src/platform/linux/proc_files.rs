//! Files of `/proc`: those kept open in case no more can be opened later, the paths of a thread's files, and the numbers in
//! them.
//!
//! Signal-safe, but for what is opened at install.

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::platform::descriptors;
use crate::platform::process_id;
use crate::platform::text::FixedText;
use crate::platform::verified_fd::VerifiedFd;

/// The threads of this process.
pub(super) static TASKS: ProcFile = ProcFile::new(c"/proc/self/task", libc::O_DIRECTORY);
/// The memory of this process.
pub(super) static MEMORY: ProcFile = ProcFile::new(c"/proc/self/mem", 0);

/// Opens the files from which facts for reports are read, those that this process may open. Not signal-safe.
pub fn open_for_reports() {
    TASKS.open();
    MEMORY.open();
}

/// One that stays open.
#[derive(Debug)]
pub(super) struct ProcFile {
    path: &'static CStr,
    flags: i32,
    kept: VerifiedFd,
    /// Id of the process that opened it: `/proc/self` is another folder in a child of `fork`.
    process: AtomicU32,
}

impl ProcFile {
    pub const fn new(path: &'static CStr, flags: i32) -> ProcFile {
        ProcFile {
            path,
            flags,
            kept: VerifiedFd::unowned(),
            process: AtomicU32::new(0),
        }
    }

    /// Opens it, unless this process has already. One at a time.
    pub fn open(&self) {
        if self.get().is_some() {
            return;
        }
        let opened = descriptors::open_owned(self.path, self.flags | libc::O_RDONLY);
        if opened.is_ok_and(|fd| self.kept.replace(fd).is_ok()) {
            self.process.store(process_id(), Ordering::Release);
        }
    }

    /// The descriptor; `None` where it is not open in this process.
    pub fn get(&self) -> Option<RawFd> {
        let is_ours = self.process.load(Ordering::Acquire) == process_id();
        self.kept.get().ok().filter(|_| is_ours)
    }

    /// Reads it from its start; nothing while it is not open.
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> &'b [u8] {
        read_open(self.get().unwrap_or(-1), buffer)
    }
}

/// The path of a file of a thread's own.
pub(super) fn task_path(tid: i32, file: &str) -> FixedText<64> {
    FixedText::path(format_args!("/proc/self/task/{tid}/{file}"))
}

/// Reads the beginning of a file; nothing where it cannot be read.
#[inline(never)]
pub(super) fn read_file<'b>(path: &CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    let errno = super::errno();
    let file = descriptors::open_at(libc::AT_FDCWD, path, libc::O_RDONLY, 0);
    // read(2), not pread(2): an app's filter of system calls may know no other.
    // SAFETY: the buffer is ours and of the length given; a bad descriptor only fails.
    let got = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
    if file >= 0 {
        // SAFETY: opened above, closed once.
        unsafe { libc::close(file) };
    }
    super::set_errno(errno);
    first(buffer, got)
}

/// Reads the beginning of a thread's own file.
pub(super) fn read_task<'b>(tid: i32, file: &str, buffer: &'b mut [u8]) -> &'b [u8] {
    read_file(task_path(tid, file).as_c_str(), buffer)
}

/// Reads an open file from its start; nothing of what is no descriptor.
pub(super) fn read_open(file: RawFd, buffer: &mut [u8]) -> &[u8] {
    let errno = super::errno();
    // SAFETY: the buffer is ours and of the length given; a bad descriptor only fails.
    let got = unsafe { libc::pread(file, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    super::set_errno(errno);
    first(buffer, got)
}

/// The bytes that a call has `got`; none where it failed.
fn first(buffer: &[u8], got: isize) -> &[u8] {
    let length = usize::try_from(got).unwrap_or(0);
    buffer.get(..length).unwrap_or_default()
}

/// The number in the text, with or without `0x`.
pub(super) fn hexadecimal(text: &[u8]) -> u64 {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    digits
        .iter()
        .map_while(|&digit| char::from(digit).to_digit(16))
        .fold(0u64, |number, digit| {
            number.wrapping_shl(4) | u64::from(digit)
        })
}

/// A decimal number, all of the text.
#[inline(never)]
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
