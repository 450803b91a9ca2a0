//! The report folder kept as a descriptor, and files in it: create, lock, write, rename.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::descriptors::Opened;
use super::directory::Directory;
use super::kept::{FileFacts, Kept, KnownDescriptor};
use super::room::{NoSizeSignal, Room, allocate};
use super::spares::Spares;
use super::{descriptors, errno, forked, signals};

/// A folder that is written to by descriptor, so that the app may change its working directory, or
/// its root, without a report going astray.
#[derive(Debug)]
pub struct Folder {
    directory: Directory,
    /// True if others may write in it, which the app has allowed.
    is_shared: bool,
    /// Its path, to make it again if it is removed.
    path: CString,
    spares: Spares,
    /// A file without a name that only takes up room, to be given up when the disk is full.
    reserve: Option<Kept>,
    /// The list of files that were begun, open to be added to.
    list: Option<Kept>,
}

impl Folder {
    /// The folder of a directory at `path`, once a file was created, written and removed in it.
    pub fn new(directory: Directory, path: &Path) -> io::Result<Folder> {
        let is_shared = directory.others(path)?.is_some();
        let spares = Spares::of(directory.fd.known());
        let folder = Folder {
            directory,
            is_shared,
            path: CString::new(path.as_os_str().as_bytes())?,
            spares,
            reserve: None,
            list: None,
        };
        forked::install();
        folder.probe()?;
        Ok(folder)
    }

    /// Has the names of files that are begun added to this list.
    #[must_use]
    pub fn with_list(mut self, list: Option<Opened>) -> Folder {
        let list = list.and_then(|list| list.try_clone().ok());
        self.list = list.and_then(|list| Kept::new(list.into()).ok());
        self
    }

    /// The folder itself.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Keeps so many bytes of the disk for files of this folder: they are given up when it is full.
    /// A file system that cannot do that keeps none.
    #[must_use]
    pub fn with_reserve(mut self, bytes: u32) -> Folder {
        if let Ok(name) = passing_name(".reserve")
            && let Ok(file) = self.create(&name)
        {
            let _ = self.remove(&name);
            // A copy outlives `file`, and needs no lock.
            self.reserve = file
                .fd
                .get()
                .ok()
                .filter(|&fd| allocate(fd, bytes))
                .and_then(|_| file.fd.duplicate().ok());
        }
        self
    }

    fn probe(&self) -> io::Result<()> {
        let name = passing_name(".probe")?;
        let from = io::Error::from_raw_os_error;
        let file = self.create(&name).map_err(from)?;
        let written = file.write(b"wedjat").map_err(from);
        drop(file);
        self.remove(&name).map_err(from)?;
        written
    }

    /// Creates `name`, which must not be there, and locks it. The error is an `errno`.
    ///
    /// What stands in the way is helped as far as can be: spare descriptors and reserved room are
    /// given up, a folder that was removed is made again.
    ///
    /// Signal-safe.
    pub fn create(&self, name: &CStr) -> Result<File, i32> {
        let file = self.create_unlocked(name)?;
        // A folder on a file system without locks still takes reports. Another launch may hold the
        // lock for a moment, to see whether the file's writer is gone.
        for _ in 0..LOCK_TRIES {
            if file.lock() || errno() != libc::EWOULDBLOCK {
                break;
            }
            signals::pause(1_000_000);
        }
        self.note(name);
        Ok(file)
    }

    /// Adds to the list that the next launch is to look at this file. Signal-safe.
    pub fn note(&self, name: &CStr) {
        let mut line = [b'\n'; 128];
        let name = name.to_bytes();
        let room = line.get_mut(..name.len());
        let Some(room) = room.filter(|room| room.len() < 127) else {
            return;
        };
        room.copy_from_slice(name);
        if let Some(Ok(fd)) = self.list.as_ref().map(Kept::get) {
            // SAFETY: an open descriptor, and bytes of that length. One write, so that the lines of two
            // processes do not mix.
            unsafe { libc::write(fd, line.as_ptr().cast(), name.len() + 1) };
        }
    }

    fn create_unlocked(&self, name: &CStr) -> Result<File, i32> {
        const FLAGS: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let open = || {
            let fd = descriptors::open_at(self.directory.fd.get()?, name, FLAGS, 0o600);
            if fd < 0 { Err(errno()) } else { Ok(fd) }
        };
        let mut room = Room::of(self.reserve());
        let fd = loop {
            match open() {
                Err(error) if room.make(error, self.directory.fd.known()) => {}
                Err(libc::EMFILE | libc::ENFILE) if self.spares.give_up() => break open()?,
                Err(libc::ENOENT | libc::EBADF) => {
                    self.make_again()?;
                    break open()?;
                }
                other => break other?,
            }
        };
        self.spares.leave_room(fd);
        let fd = KnownDescriptor::of(fd)?;
        forked::keep_from_children(fd);
        Ok(File {
            fd,
            is_owner: true,
            reserve: self.reserve(),
        })
    }

    /// Gives up the spare descriptors where the process could not open two files more: the writer of a
    /// report has yet to read of threads and memory. Signal-safe.
    pub fn leave_room(&self) {
        if let Ok(fd) = self.directory.fd.get() {
            self.spares.leave_room(fd);
        }
    }

    fn reserve(&self) -> Option<KnownDescriptor> {
        self.reserve.as_ref().map(Kept::known)
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
        // SAFETY: a C string, and a descriptor that was just opened and has no other owner.
        let new = unsafe {
            libc::mkdir(self.path.as_ptr(), 0o700);
            let new = descriptors::open(&self.path, libc::O_RDONLY | libc::O_DIRECTORY);
            if new < 0 {
                return Err(errno());
            }
            OwnedFd::from_raw_fd(new)
        };
        if !self.is_shared && FileFacts::of(new.as_raw_fd())?.others().is_some() {
            // Another file may have been put in its place since the look.
            return Err(libc::EACCES);
        }
        self.directory.fd.replace(new)
    }

    /// Renames `from` to `to`, both in this folder. The error is an `errno`.
    ///
    /// Signal-safe.
    pub fn rename(&self, from: &CStr, to: &CStr) -> Result<(), i32> {
        let fd = self.directory.fd.get()?;
        // SAFETY: both names are C strings and the descriptor is open.
        check(unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) })?;
        if !to.to_bytes().ends_with(b".wedjat") {
            self.note(to);
        }
        Ok(())
    }

    /// Removes `name`. The error is an `errno`.
    ///
    /// Signal-safe.
    pub fn remove(&self, name: &CStr) -> Result<(), i32> {
        // SAFETY: `name` is a C string and the descriptor is open.
        check(unsafe { libc::unlinkat(self.directory.fd.get()?, name.as_ptr(), 0) })
    }
}

/// A name that no other process can have taken before.
fn passing_name(front: &str) -> io::Result<CString> {
    let id = u128::from_be_bytes(super::random::id());
    Ok(CString::new(format!("{front}-{id:032x}"))?)
}

/// Times that the lock of a new file is tried.
const LOCK_TRIES: u32 = 20;

/// An open report file, locked against the next launch while it is open. Its folder must outlive
/// it.
#[derive(Debug)]
pub struct File {
    fd: KnownDescriptor,
    /// True if it is closed with this value.
    is_owner: bool,
    /// The folder's.
    reserve: Option<KnownDescriptor>,
}

impl File {
    /// Writes all of `bytes`, or fails with an `errno`; part of them may be written then.
    ///
    /// A file that would become larger than it may is an error, and no death by SIGXFSZ.
    ///
    /// Signal-safe.
    pub fn write(&self, bytes: &[u8]) -> Result<(), i32> {
        let fd = self.fd.get()?;
        self.put(bytes, |rest, _| {
            // SAFETY: the pointer and length are those of a live slice.
            unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) }
        })
    }

    /// Writes all of `bytes` from this offset on, wherever [`File::write`] has come to; else as that.
    ///
    /// Signal-safe.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), i32> {
        let fd = self.fd.get()?;
        self.put(bytes, |rest, done| {
            let offset = offset.saturating_add(done as u64);
            // SAFETY: the pointer and length are those of a live slice; the kernel refuses an offset that
            // no file has.
            unsafe { libc::pwrite(fd, rest.as_ptr().cast(), rest.len(), offset as libc::off_t) }
        })
    }

    /// Has `write` called with what is left, and how much is not, until nothing is.
    fn put(&self, bytes: &[u8], write: impl Fn(&[u8], usize) -> isize) -> Result<(), i32> {
        let _quiet = NoSizeSignal::begin();
        let (mut rest, mut room) = (bytes, Room::of(self.reserve));
        while !rest.is_empty() {
            match write(rest, bytes.len() - rest.len()) {
                n if n > 0 => rest = rest.get(n as usize..).unwrap_or_default(),
                0 => return Err(libc::EIO),
                _ => match errno() {
                    libc::EINTR => {}
                    error if room.make(error, self.fd) => {}
                    error => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Length in bytes. Signal-safe.
    pub fn length(&self) -> Result<u64, i32> {
        Ok(self.fd.length()?.0)
    }

    /// Returns true if nothing has been written to it, and it still has a name. Signal-safe.
    pub(super) fn is_unused(&self) -> bool {
        self.fd.length() == Ok((0, true))
    }

    /// The same file; it and its lock stay open when this is dropped. Signal-safe.
    pub(super) fn borrowed(&self) -> File {
        File {
            is_owner: false,
            ..*self
        }
    }

    /// Returns true if it has this name in `folder`. Signal-safe.
    pub(super) fn has_name(&self, folder: &Folder, name: &CStr) -> bool {
        folder.directory.names(name, self.fd.number)
    }

    /// Cuts the file to `len` bytes and goes on writing there. The error is an `errno`.
    ///
    /// Signal-safe.
    pub fn truncate(&self, len: u64) -> Result<(), i32> {
        let len = i64::try_from(len).map_err(|_| libc::EFBIG)?;
        let fd = self.fd.get()?;
        // SAFETY: plain calls on an open descriptor.
        unsafe {
            check(libc::ftruncate(fd, len))?;
            if libc::lseek(fd, len, libc::SEEK_SET) < 0 {
                return Err(errno());
            }
        }
        Ok(())
    }

    fn lock(&self) -> bool {
        self.fd.get().is_ok_and(descriptors::lock_now)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.is_owner {
            forked::no_longer(self.fd);
            self.fd.close();
        }
    }
}

fn check(result: libc::c_int) -> Result<(), i32> {
    if result == 0 { Ok(()) } else { Err(errno()) }
}
