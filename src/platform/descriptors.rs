//! Files are opened above the standard descriptors: 0, 1 and 2 are the app's, open or closed.
//!
//! If the app has closed one of them, the system gives its number to the next file that is opened, and the app's output
//! then lands in it. Therefore a file that gets such a number here is moved above 2 at once. No descriptor of the
//! recorder's is opened in another way, except those that libc opens and closes again within one call of its own.

use std::ffi::{CStr, OsStr};
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use super::ownership::FileStat;
use super::verified_fd::KnownDescriptor;
use super::{errno, set_errno};

/// The lowest number that a descriptor of ours may have.
const LOWEST: RawFd = 3;

/// `openat(2)` with `O_CLOEXEC`, above 2; -1 and `errno` where it fails. `mode` is that of a file
/// that is made. Signal-safe.
pub fn open_at(folder: RawFd, path: &CStr, flags: i32, mode: u16) -> RawFd {
    let mode = libc::c_uint::from(mode);
    // SAFETY: a C string; for what is no descriptor the call fails.
    let fd = unsafe { libc::openat(folder, path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
    let moved = above_standard(fd);
    if moved >= 0 && moved != fd && flags & (libc::O_EXCL | libc::O_TRUNC) != 0 {
        // It is to be empty: what is in it by now was printed by the app while it had the low number.
        // SAFETY: plain calls on a descriptor that was just opened.
        unsafe {
            libc::ftruncate(moved, 0);
            libc::lseek(moved, 0, libc::SEEK_SET);
        }
    }
    moved
}

/// Moves a descriptor of ours above 2, and closes the old one; -1 and `errno` if that fails. A descriptor that is above
/// 2 already, or invalid, stays. Signal-safe.
fn above_standard(fd: RawFd) -> RawFd {
    if !(0..LOWEST).contains(&fd) {
        return fd;
    }
    // SAFETY: plain calls on a descriptor that our caller owns.
    unsafe {
        let moved = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, LOWEST);
        let error = errno();
        libc::close(fd);
        set_errno(error);
        moved
    }
}

/// An open file, which is closed with this value unless it was closed elsewhere: an app that becomes
/// a daemon may close all that it finds open, at any time.
#[derive(Debug)]
pub struct OpenFile {
    file: ManuallyDrop<std::fs::File>,
    known: Option<KnownDescriptor>,
}

impl From<OwnedFd> for OpenFile {
    fn from(fd: OwnedFd) -> OpenFile {
        let known = KnownDescriptor::of(fd.as_raw_fd()).ok();
        let file = ManuallyDrop::new(fd.into());
        OpenFile { file, known }
    }
}

impl Deref for OpenFile {
    type Target = std::fs::File;

    fn deref(&self) -> &std::fs::File {
        &self.file
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if self.known.is_some_and(|known| known.get().is_ok()) {
            // A child of `fork` may have the same open file, and would keep a lock.
            unlock(self.file.as_raw_fd());
            // SAFETY: it is not used again, and open on what this owns.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

/// Opens a file by its path, with the flags of `open(2)`. A file that is made is the user's own (mode 0600). The error is an
/// `errno`. Signal-safe.
pub fn open_owned(path: &CStr, flags: i32) -> Result<OwnedFd, i32> {
    open_in(libc::AT_FDCWD, path, flags)
}

/// As [`open_owned`], in a folder.
pub fn open_in(folder: RawFd, path: &CStr, flags: i32) -> Result<OwnedFd, i32> {
    match open_at(folder, path, flags, 0o600) {
        // SAFETY: just opened, and it has no other owner.
        fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(errno()),
    }
}

/// Returns the first value that `of` has for a line of a text; a line of more than 8 KiB comes in parts. Allocates nothing.
/// Not for handlers: the text may be long.
#[cfg(target_os = "linux")]
pub fn find_line<T>(
    path: std::fmt::Arguments<'_>,
    mut of: impl FnMut(&str) -> Option<T>,
) -> Option<T> {
    let mut found = None;
    lines_until(path, &mut |line| {
        found = of(line);
        found.is_some()
    })?;
    found
}

#[cfg(target_os = "linux")]
fn lines_until(path: std::fmt::Arguments<'_>, is_last: &mut dyn FnMut(&str) -> bool) -> Option<()> {
    use std::os::unix::fs::FileExt;
    let path = super::text::FixedText::<1024>::path(path);
    let file = OpenFile::from(open_owned(path.as_c_str(), libc::O_RDONLY).ok()?);
    let mut buffer = [0; 8 << 10];
    let mut from = 0;
    loop {
        let got = file.read_at(&mut buffer, from).ok()?;
        let read = buffer.get(..got).filter(|read| !read.is_empty())?;
        // A line that is not whole is read again.
        let newline = read.iter().rposition(|&byte| byte == b'\n');
        let lines = read.get(..newline.unwrap_or(got))?;
        let is_last = |line| std::str::from_utf8(line).is_ok_and(&mut *is_last);
        if lines.split(|&byte| byte == b'\n').any(is_last) {
            return Some(());
        }
        from = from.saturating_add(lines.len() as u64).saturating_add(1);
    }
}

/// Calls `each` for every entry of an open folder, in no order, and for so many at most. It gets the name, and true for a
/// regular file.
pub(super) fn list(
    folder: OwnedFd,
    most: usize,
    each: &mut dyn FnMut(&OsStr, bool),
) -> io::Result<()> {
    let mut left = most;
    let fd = folder.as_raw_fd();
    // SAFETY: an open folder, which the stream owns from now on.
    let stream = unsafe { libc::fdopendir(folder.into_raw_fd()) };
    if stream.is_null() {
        return Err(io::Error::last_os_error());
    }
    let result = loop {
        if left == 0 {
            break Ok(());
        }
        set_errno(0);
        // SAFETY: an open stream that no other thread has.
        #[cfg(target_os = "linux")]
        let entry = unsafe { libc::readdir64(stream) };
        #[cfg(target_vendor = "apple")]
        // SAFETY: as above.
        let entry = unsafe { libc::readdir(stream) };
        if entry.is_null() {
            break match errno() {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            };
        }
        // SAFETY: an entry holds a C string, and stays until the next is read.
        let (name, kind) = unsafe {
            let name = CStr::from_ptr((&raw const (*entry).d_name).cast());
            (name, (*entry).d_type)
        };
        if name == c"." || name == c".." {
            continue;
        }
        let is_file = match kind {
            libc::DT_UNKNOWN => FileStat::at(fd, name).is_ok_and(|facts| facts.is_file),
            kind => kind == libc::DT_REG,
        };
        left = left.saturating_sub(1);
        #[cfg(test)]
        ENTRIES.set(ENTRIES.get() + 1);
        each(OsStr::from_bytes(name.to_bytes()), is_file);
    };
    // SAFETY: opened above, closed once.
    unsafe { libc::closedir(stream) };
    result
}

#[cfg(test)]
thread_local! {
    /// Entries of folders that this thread has looked at.
    pub static ENTRIES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Takes the exclusive lock of `file`, which is open for writing, if it is free; false where it is not, and on a file
/// system that has no locks at all.
pub fn try_lock(file: &std::fs::File) -> bool {
    lock_now(file.as_raw_fd())
}

/// As [`try_lock`], by number. Signal-safe.
pub(super) fn lock_now(fd: RawFd) -> bool {
    // SAFETY: a plain call on an open descriptor.
    let locked = unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) } == 0;
    // Some file systems, and sandboxes, have no flock(2).
    locked || errno() != libc::EWOULDBLOCK && lock_range(fd, libc::F_WRLCK as _)
}

/// Locks or unlocks the whole file by fcntl(2), for the open file as flock(2) does, not for the process; false where that
/// fails. Signal-safe.
fn lock_range(fd: RawFd, kind: libc::c_short) -> bool {
    // SAFETY: zeroes are valid for this plain structure: from the first byte to the end.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind;
    range.l_whence = libc::SEEK_SET as _;
    // SAFETY: the structure outlives the call on an open descriptor.
    cfg!(target_os = "linux") && unsafe { libc::fcntl(fd, SET_LOCK_OF_FILE, &range) == 0 }
}

#[cfg(target_os = "linux")]
const SET_LOCK_OF_FILE: libc::c_int = libc::F_OFD_SETLK;
/// Darwin's is not public; its file systems have flock(2).
#[cfg(target_vendor = "apple")]
const SET_LOCK_OF_FILE: libc::c_int = -1;

/// Lets it go.
pub(super) fn unlock(fd: RawFd) {
    // SAFETY: as above.
    if unsafe { libc::flock(fd, libc::LOCK_UN) } != 0 {
        lock_range(fd, libc::F_UNLCK as _);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::ffi::{CString, OsString};
    use std::path::Path;

    #[test]
    fn a_folder_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let mut expected = BTreeSet::new();
        for n in 0..500 {
            std::fs::write(folder.path().join(format!("file-{n}")), "").unwrap();
            expected.insert((format!("file-{n}").into(), true));
        }
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        expected.insert(("folder".into(), false));
        std::os::unix::fs::symlink("file-0", folder.path().join("link")).unwrap();
        expected.insert(("link".into(), false));
        let mut found = BTreeSet::<(OsString, bool)>::new();
        let open = |path: &Path| {
            let path = CString::new(path.as_os_str().as_bytes()).unwrap();
            open_owned(&path, libc::O_RDONLY).unwrap()
        };
        list(open(folder.path()), usize::MAX, &mut |name, is_file| {
            assert!(found.insert((name.into(), is_file)));
        })
        .unwrap();
        assert_eq!(found, expected);
        let file = open(&folder.path().join("file-0"));
        assert!(list(file, usize::MAX, &mut |_, _| ()).is_err());
        for (name, expected) in [(c"file-0", true), (c"folder", false), (c"link", false)] {
            let folder = open(folder.path());
            let facts = FileStat::at(folder.as_raw_fd(), name).unwrap();
            assert_eq!(facts.is_file, expected);
        }
    }
}
