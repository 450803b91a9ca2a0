//! Files of `/proc`: those that stay open for a process that can open none any more, the paths of a thread's own,
//! and the numbers in them.
//!
//! Signal-safe, but for what is opened at install.

use std::ffi::CStr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::platform::descriptors;
use crate::platform::kept::Kept;
use crate::platform::process_id;

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
    /// Id of the process that opened it: `/proc/self` is another folder in a child of `fork`.
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
            // SAFETY: just opened, and it has no other owner.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            if self.kept.replace(fd).is_ok() {
                self.process.store(process_id(), Ordering::Release);
            }
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

/// A path under `/proc/self/task`, built without allocating.
pub(super) struct Path {
    bytes: [u8; 64],
}

impl Path {
    pub(super) fn task(tid: i32, file: &CStr) -> Path {
        let mut room = [0; 12];
        Path::of([digits(tid, &mut room), b"/", file.to_bytes(), b""])
    }

    /// The link of a descriptor's file in `/proc`, as the calling thread sees it.
    pub(super) fn descriptor(file: i32) -> Path {
        let (mut task, mut number) = ([0; 12], [0; 12]);
        // SAFETY: no arguments, cannot fail.
        let task = digits(unsafe { libc::gettid() }, &mut task);
        Path::of([task, b"/fd/", digits(file, &mut number), b""])
    }

    fn of(parts: [&[u8]; 4]) -> Path {
        let mut path = Path { bytes: [0; 64] };
        let parts = [&b"/proc/self/task/"[..]].into_iter().chain(parts);
        // The last byte stays 0 whatever the parts are.
        let room = path.bytes.iter_mut().take(63);
        for (slot, byte) in room.zip(parts.flatten()) {
            *slot = *byte;
        }
        path
    }

    pub(super) fn as_c_str(&mut self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

/// A number without its sign, in decimal.
fn digits(number: i32, room: &mut [u8; 12]) -> &[u8] {
    let mut at = room.len();
    let mut rest = number.unsigned_abs();
    while let Some(slot) = at.checked_sub(1).and_then(|next| room.get_mut(next)) {
        *slot = b'0' + (rest % 10) as u8;
        at -= 1;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    room.get(at..).unwrap_or(&[])
}

/// Reads the beginning of a file; nothing where it cannot be read.
pub(super) fn read_file<'b>(path: &CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    let errno = super::errno();
    let file = descriptors::open(path, libc::O_RDONLY);
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
pub(super) fn read_task<'b>(tid: i32, file: &CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    read_file(Path::task(tid, file).as_c_str(), buffer)
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
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The decimal number that the text begins with; 0 without one.
pub(super) fn decimal(text: &[u8]) -> u64 {
    text.iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0u64, |number, &digit| {
            number
                .wrapping_mul(10)
                .wrapping_add(u64::from(digit - b'0'))
        })
}
