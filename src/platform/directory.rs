//! A folder that is held by its descriptor. Files in it are created, or opened if this user owns them.
//!
//! Whoever can write in a folder can put links, pipes and devices there. So no link is followed, and no open blocks.
//! A file that existed is checked after it is opened: it is not ours if it is not regular, if another user owns it,
//! or if it has a second name.

use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::descriptors::{self, OpenFile, open_in, open_owned};
use super::ownership::{self, FileStat, OtherWriters};
use super::verified_fd::VerifiedFd;

/// An open folder. It stays the same if another folder takes its name.
#[derive(Debug)]
pub struct Directory {
    pub(super) fd: VerifiedFd,
}

impl Directory {
    /// Opens a folder that exists.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let fd = open_owned(&path, libc::O_RDONLY | libc::O_DIRECTORY).and_then(VerifiedFd::new);
        fd.map(|fd| Directory { fd })
            .map_err(io::Error::from_raw_os_error)
    }

    /// Opens a folder. Creates it and its parents where they are missing, with mode 0700.
    pub fn make(path: &Path) -> io::Result<Directory> {
        ownership::make_folder(path)?;
        Directory::open(path)
    }

    /// Returns who else may write in it, or change what its path leads to.
    pub fn other_writers(&self, path: &Path) -> io::Result<Option<OtherWriters>> {
        let facts = self.fd.get().and_then(FileStat::of);
        ownership::other_writers(path, &facts.map_err(io::Error::from_raw_os_error)?)
    }

    /// Opens a file of our own, with the flags of `open(2)`.
    pub fn open_own(&self, name: &str, flags: i32) -> io::Result<OpenFile> {
        let name = CString::new(name)?;
        let folder = self.fd.get().map_err(io::Error::from_raw_os_error)?;
        let check_own = |facts: Result<FileStat, i32>| match facts {
            Ok(facts) if facts.is_own() => Ok(()),
            Ok(_) => Err(io::ErrorKind::PermissionDenied.into()),
            Err(error) => Err(io::Error::from_raw_os_error(error)),
        };
        // Checked before, too: to open a device may have an effect.
        check_own(FileStat::at(folder, &name))?;
        let flags = flags | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = open_in(folder, &name, flags).map_err(io::Error::from_raw_os_error)?;
        check_own(FileStat::of(file.as_raw_fd()))?;
        Ok(file.into())
    }

    /// Returns the length in bytes of a file of our own; `None` if there is no such file.
    pub fn own_length(&self, name: &str) -> Option<u64> {
        let name = CString::new(name).ok()?;
        let facts = FileStat::at(self.fd.get().ok()?, &name).ok()?;
        facts.is_own().then_some(facts.length)
    }

    /// Returns true if the open `file` still has this name.
    pub fn is_at(&self, name: &str, file: &OpenFile) -> bool {
        CString::new(name).is_ok_and(|name| self.is_name_of(&name, file.as_raw_fd()))
    }

    /// Returns true if the open file `fd` has this name. Signal-safe.
    pub(super) fn is_name_of(&self, name: &CStr, fd: RawFd) -> bool {
        let named = self.fd.get().and_then(|folder| FileStat::at(folder, name));
        named.is_ok_and(|named| FileStat::of(fd).is_ok_and(|open| named.is_same(&open)))
    }

    /// Writes a new file with mode 0600. Replaces a file of our own of this name. The new file is locked until it is
    /// complete.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if self.own_length(name).is_some() {
            self.remove(name)?;
        }
        let folder = self.fd.get().map_err(io::Error::from_raw_os_error)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let opened = open_in(folder, &CString::new(name)?, flags);
        let file = OpenFile::from(opened.map_err(io::Error::from_raw_os_error)?);
        descriptors::try_lock(&file);
        (&*file)
            .write_all(bytes)
            .inspect_err(|_| drop(self.remove(name)))
    }

    /// Renames a file. Fails if `to` exists.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename_where(from, to, |_| false)
    }

    /// Renames a file. Replaces a file of our own of the name `to`.
    pub fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename_where(from, to, |there| there.is_own())
    }

    fn rename_where(
        &self,
        from: &str,
        to: &str,
        may_replace: fn(&FileStat) -> bool,
    ) -> io::Result<()> {
        let (from, into) = (CString::new(from)?, CString::new(to)?);
        let folder = self.fd.get().map_err(io::Error::from_raw_os_error)?;
        if FileStat::at(folder, &into).is_ok_and(|there| !may_replace(&there)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // SAFETY: C strings, and an open descriptor.
        check(unsafe { libc::renameat(folder, from.as_ptr(), folder, into.as_ptr()) })
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let name = CString::new(name)?;
        let folder = self.fd.get().map_err(io::Error::from_raw_os_error)?;
        // SAFETY: a C string, and an open descriptor.
        check(unsafe { libc::unlinkat(folder, name.as_ptr(), 0) })
    }

    /// Calls `each` with the names of its regular files, in no order, except for names that are not UTF-8. Reads at
    /// most `most` entries.
    pub fn list(&self, most: usize, mut each: impl FnMut(&str)) -> io::Result<()> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let opened = self.fd.get().and_then(|at| open_in(at, c".", flags));
        let fd = opened.map_err(io::Error::from_raw_os_error)?;
        descriptors::list(fd, most, &mut |name, is_file| {
            let name = name.to_str().filter(|_| is_file);
            name.into_iter().for_each(&mut each);
        })
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    super::file::check(result).map_err(io::Error::from_raw_os_error)
}
