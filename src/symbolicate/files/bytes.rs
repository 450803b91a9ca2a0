//! Bytes with an owner: a part of a mapped file, or of memory of our own; cheap to clone.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::{Deref, Range};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::symbolicate::Error;

/// A shared, read-only run of bytes.
#[derive(Clone)]
pub(crate) struct SharedBytes {
    owner: Backing,
    range: Range<usize>,
}

#[derive(Clone)]
enum Backing {
    Mapped(Arc<Mapped>),
    Memory(Arc<Vec<u8>>),
}

struct Mapped {
    map: Mmap,
    stamp: [u64; 5],
}

/// Facts by which the system tells that a part of a file is still what it was: device, number, size, times of change of
/// content and of anything (nanoseconds), start and length of the part.
pub(crate) type FileStamp = [u64; 7];

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl SharedBytes {
    /// Maps a regular file: for debug files and tables, which are large and of which little is read.
    ///
    /// A file that is made shorter in place while it is mapped (rather than replaced, as linkers and
    /// copying tools do) ends the process with SIGBUS; the command says so in words.
    pub(crate) fn map(path: &Path) -> Result<SharedBytes, Error> {
        let (file, len) = open(path)?;
        if len == 0 {
            return Err(Error::bad_file(path, "the file is empty"));
        }
        SharedBytes::map_open(&file, path)
    }

    /// The same of one that is open, and has this path.
    pub(crate) fn map_open(file: &File, path: &Path) -> Result<SharedBytes, Error> {
        // SAFETY: the mapping is private and read-only. What it cannot rule out is that someone
        // truncates the file while it is mapped; debug files and caches are replaced by rename,
        // which leaves the mapped inode as it was, and this is what every symbolizer relies on.
        let map = unsafe { Mmap::map(file) }.map_err(|e| Error::io(path, e))?;
        let meta = file.metadata().map_err(|e| Error::io(path, e))?;
        let time = |seconds: i64, rest: i64| seconds.wrapping_mul(1_000_000_000) + rest;
        let changed = time(meta.mtime(), meta.mtime_nsec());
        let status_changed = time(meta.ctime(), meta.ctime_nsec());
        let times = [changed, status_changed].map(i64::cast_unsigned);
        let stamp = [meta.dev(), meta.ino(), meta.size(), times[0], times[1]];
        Ok(SharedBytes {
            range: 0..map.len(),
            owner: Backing::Mapped(Arc::new(Mapped { map, stamp })),
        })
    }

    /// Writes bytes to a file that has no name, and maps it: the system can take its pages out of memory.
    pub(crate) fn unnamed(bytes: &[u8]) -> Option<SharedBytes> {
        let mut file = tempfile::tempfile().ok()?;
        file.write_all(bytes).ok()?;
        SharedBytes::map_open(&file, Path::new("a table")).ok()
    }

    /// Reads a regular file of at most `most` bytes into memory: for reports, which may be written to
    /// or cut while they are read.
    pub(crate) fn read(path: &Path, most: u64) -> Result<SharedBytes, Error> {
        let (file, len) = open(path)?;
        let wanted = most.saturating_add(1) * u64::from(len <= most);
        let mut bytes = Vec::with_capacity(usize::try_from(len.min(wanted)).unwrap_or(0));
        let read = file.take(wanted).read_to_end(&mut bytes);
        read.map_err(|e| Error::io(path, e))?;
        if len.max(bytes.len() as u64) > most {
            let what = format!("longer than the {most} bytes that are read in one piece");
            return Err(Error::bad_file(path, what));
        }
        Ok(SharedBytes::from(bytes))
    }

    /// The stamp that the file had when it was mapped; `None` for memory of our own.
    pub(crate) fn stamp(&self) -> Option<FileStamp> {
        let Backing::Mapped(mapped) = &self.owner else {
            return None;
        };
        let part = [self.range.start as u64, self.range.len() as u64];
        let mut all = mapped.stamp.into_iter().chain(part);
        Some(std::array::from_fn(|_| all.next().unwrap_or(0)))
    }

    /// Tells the system that what was read of a mapped file need not stay in memory: what is read again
    /// comes back from its cache. Bounds what a process holds of a large file; never changes an answer.
    pub(crate) fn drop_resident_pages(&self) {
        self.drop_pages_of(0..self.range.len());
    }

    /// The same for a part of them; it may reach past their end.
    pub(crate) fn drop_pages_of(&self, part: Range<usize>) {
        if let Backing::Mapped(mapped) = &self.owner {
            let start = self.range.start.saturating_add(part.start);
            let end = self.range.start.saturating_add(part.end);
            let length = end.min(self.range.end).saturating_sub(start);
            let advice = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: dropping pages loses what was written to them; a private, read-only mapping of
            // a file has no such pages, so that every later read returns the file's bytes, as before.
            let _ = unsafe { mapped.map.unchecked_advise_range(advice, start, length) };
        }
    }

    /// The part `range` of these bytes (relative to them); `None` if it lies outside.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<SharedBytes> {
        if range.start > range.end || range.end > self.range.len() {
            return None;
        }
        let start = self.range.start + range.start;
        Some(SharedBytes {
            owner: self.owner.clone(),
            range: start..start + range.len(),
        })
    }
}

/// Opens a regular file, and says how long it is. Anything else (a FIFO, a device, a folder) is refused,
/// since reading it could block for ever; opening one does not block either.
fn open(path: &Path) -> Result<(File, u64), Error> {
    let mut options = File::options();
    options.read(true);
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let refused = |kind: std::fs::FileType| {
        let kind = kind_word(kind);
        Error::bad_file(path, format_args!("not a regular file, but {kind}"))
    };
    let file = options.open(path).map_err(|error| {
        // A socket can't be opened at all.
        match std::fs::metadata(path) {
            Ok(meta) if !meta.is_file() => refused(meta.file_type()),
            _ => Error::io(path, error),
        }
    })?;
    let meta = file.metadata().map_err(|e| Error::io(path, e))?;
    if !meta.is_file() {
        return Err(refused(meta.file_type()));
    }
    Ok((file, meta.len()))
}

/// Names the kind of a file that is not a regular one.
fn kind_word(kind: std::fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ if kind.is_dir() => "a folder",
        _ => "something else",
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> SharedBytes {
        SharedBytes {
            range: 0..bytes.len(),
            owner: Backing::Memory(Arc::new(bytes)),
        }
    }
}

impl Default for SharedBytes {
    fn default() -> SharedBytes {
        SharedBytes::from(Vec::new())
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole: &[u8] = match &self.owner {
            Backing::Mapped(mapped) => &mapped.map,
            Backing::Memory(bytes) => bytes,
        };
        // In bounds by construction; an empty slice rather than a panic if that were ever untrue.
        whole.get(self.range.clone()).unwrap_or(&[])
    }
}

impl std::fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({} bytes)", self.range.len())
    }
}
