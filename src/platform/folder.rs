//! The report folder as it was opened at install, with what is kept there for a process that can open nothing, or write
//! nothing, when it crashes: descriptors, and room on the disk.
//!
//! Signal-safe, but for the making of it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::descriptors;
use super::directory::Directory;
use super::file::{File, Room, check};
use super::ownership::FileStat;
use super::verified_fd::{KnownDescriptor, VerifiedFd};
use super::{errno, forked, signals};

/// A folder that is written to by descriptor, so that the app may change its working directory, or
/// its root, without a report going astray.
#[derive(Debug)]
pub struct Folder {
    directory: Directory,
    /// True if others may write in it, which the app has allowed.
    is_shared: bool,
    /// Its path, to make it again if it is removed.
    path: CString,
    /// Descriptors that are given up when the process has no other left: one for a report, one each for what its writer,
    /// the helper and the watchdog read meanwhile.
    spares: [VerifiedFd; 4],
    /// A file without a name that only takes up room, to be given up when the disk is full.
    room: Option<VerifiedFd>,
}

impl Folder {
    /// The folder of a directory at `path`, in which others may write if it `is_shared`, once a file was created, written
    /// and removed in it.
    pub fn new(directory: Directory, path: &Path, is_shared: bool) -> io::Result<Folder> {
        let spares = std::array::from_fn(|_| directory.fd.duplicate());
        let folder = Folder {
            directory,
            is_shared,
            path: CString::new(path.as_os_str().as_bytes())?,
            spares,
            room: None,
        };
        forked::install();
        let from = io::Error::from_raw_os_error;
        let file = folder.create_unnamed(".probe").map_err(from)?;
        file.write(b"wedjat").map_err(from)?;
        Ok(folder)
    }

    /// Keeps so many bytes of the disk for the report of a crash, if the file system can.
    #[must_use]
    pub fn with_room(mut self, bytes: u32) -> Folder {
        if bytes > 0
            && let Ok(file) = self.create_unnamed(".reserve")
            && file.allocate(bytes)
        {
            self.room = VerifiedFd::new(file.into_owned()).ok();
        }
        self
    }

    /// The folder itself.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// A file that has no name any more.
    fn create_unnamed(&self, front: &str) -> Result<File, i32> {
        let id = u128::from_be_bytes(super::fresh_id());
        let name = CString::new(format!("{front}-{id:032x}")).map_err(|_| libc::EINVAL)?;
        let file = self.create_unlocked(&name, None)?;
        self.remove(&name)?;
        Ok(file)
    }

    /// Creates `name`, which must not be there, and locks it. The error is an `errno`.
    ///
    /// What stands in the way is helped as far as can be: spare descriptors are given up, a folder that was removed is
    /// made again.
    pub fn create(&self, name: &CStr) -> Result<File, i32> {
        self.create_locked(name, None)
    }

    /// As [`Folder::create`]; the room on the disk that is kept is given up for this file.
    pub fn create_for_crash(&self, name: &CStr) -> Result<File, i32> {
        self.create_locked(name, self.room())
    }

    /// What `kept` is open on, to be written to as a file of [`Folder::create_for_crash`]; `None` where it was closed or
    /// has no name any more.
    pub fn reopen_for_crash(&self, kept: &VerifiedFd) -> Option<File> {
        let file = kept.known();
        let has_name = file.facts().ok()?.links > 0;
        self.leave_room();
        has_name.then(|| File::borrowed(file, self.room()))
    }

    fn create_locked(&self, name: &CStr, room: Option<KnownDescriptor>) -> Result<File, i32> {
        let file = self.create_unlocked(name, room)?;
        // A folder on a file system without locks still takes reports. Another launch may hold the
        // lock for a moment, to see whether the file's writer is gone.
        for _ in 0..MAX_LOCK_TRIES {
            if file.lock() || errno() != libc::EWOULDBLOCK {
                break;
            }
            signals::pause(1_000_000);
        }
        Ok(file)
    }

    fn create_unlocked(&self, name: &CStr, kept: Option<KnownDescriptor>) -> Result<File, i32> {
        const FLAGS: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let open = || {
            let fd = descriptors::open_at(self.directory.fd.get()?, name, FLAGS, 0o600);
            if fd < 0 { Err(errno()) } else { Ok(fd) }
        };
        let mut room = Room::of(kept);
        let fd = loop {
            match open() {
                Err(error) if room.make(error, self.directory.fd.known()) => {}
                Err(libc::EMFILE | libc::ENFILE) if self.give_up_spares() => break open()?,
                Err(libc::ENOENT | libc::EBADF) => {
                    self.make_again()?;
                    break open()?;
                }
                other => break other?,
            }
        };
        self.leave_room();
        File::new(fd, kept)
    }

    /// Gives up the spare descriptors where the process could not open two files more: the writer of a
    /// report has yet to read of threads and memory.
    fn leave_room(&self) {
        let tried = [(); 2].map(|()| self.directory.fd.duplicate());
        if tried.iter().any(|one| one.get().is_err()) {
            self.give_up_spares();
        }
    }

    /// Gives up the spare descriptors, for good; false where there were none.
    fn give_up_spares(&self) -> bool {
        let mut any = false;
        for spare in self.spares.iter().map(VerifiedFd::take) {
            any |= spare.get().is_ok();
            spare.close();
        }
        any
    }

    fn room(&self) -> Option<KnownDescriptor> {
        self.room.as_ref().map(VerifiedFd::known)
    }

    /// Makes the folder and its parents where they were when it was opened, unless they are there, and
    /// from now on means that one.
    fn make_again(&self) -> Result<(), i32> {
        let mut part = [0u8; libc::PATH_MAX as usize];
        let path = self.path.as_bytes();
        for (at, &byte) in path.iter().enumerate() {
            if byte == b'/' && at > 0 {
                // SAFETY: `part` ends with a 0 as long as the path is shorter than it, which the
                // system saw to when it opened it.
                unsafe { libc::mkdir(part.as_ptr().cast(), 0o700) };
            }
            *part.get_mut(at).ok_or(libc::ENAMETOOLONG)? = byte;
        }
        // SAFETY: a C string.
        unsafe { libc::mkdir(self.path.as_ptr(), 0o700) };
        let new = descriptors::open_owned(&self.path, libc::O_RDONLY | libc::O_DIRECTORY)?;
        // Another folder, or a link to one, may have been put in its place since the look.
        let named = FileStat::at(libc::AT_FDCWD, &self.path)?;
        let writers = FileStat::of(new.as_raw_fd())?.other_writers();
        if !self.is_shared && (named.is_strangers() || writers.is_some()) {
            return Err(libc::EACCES);
        }
        self.directory.fd.replace(new)
    }

    /// Renames `from` to `to`, both in this folder. The error is an `errno`.
    pub fn rename(&self, from: &CStr, to: &CStr) -> Result<(), i32> {
        let fd = self.directory.fd.get()?;
        // SAFETY: both names are C strings and the descriptor is open.
        check(unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) })
    }

    /// Removes `name`. The error is an `errno`.
    pub fn remove(&self, name: &CStr) -> Result<(), i32> {
        // SAFETY: `name` is a C string and the descriptor is open.
        check(unsafe { libc::unlinkat(self.directory.fd.get()?, name.as_ptr(), 0) })
    }
}

/// Times that the lock of a new file is tried.
const MAX_LOCK_TRIES: u32 = 20;
