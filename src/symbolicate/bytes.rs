//! Bytes with an owner: a part of a mapped file, or of memory of our own; cheap to clone.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use super::Error;

/// A shared, read-only run of bytes.
#[derive(Clone)]
pub(crate) struct Bytes {
    owner: Owner,
    range: Range<usize>,
}

#[derive(Clone)]
enum Owner {
    Mapped(Arc<Mmap>),
    Memory(Arc<Vec<u8>>),
}

impl Bytes {
    /// Maps a regular file. Anything else (a FIFO, a device, a folder) is refused, since reading it
    /// could block for ever.
    pub(crate) fn map(path: &Path) -> Result<Bytes, Error> {
        let meta = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
        if !meta.is_file() {
            return Err(Error::bad_file(path, "not a regular file"));
        }
        if meta.len() == 0 {
            return Err(Error::bad_file(path, "the file is empty"));
        }
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        // SAFETY: the mapping is private and read-only. What it cannot rule out is that someone
        // truncates the file while it is mapped; debug files and caches are replaced by rename,
        // which leaves the mapped inode as it was, and this is what every symbolizer relies on.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io(path, e))?;
        let range = 0..map.len();
        Ok(Bytes {
            owner: Owner::Mapped(Arc::new(map)),
            range,
        })
    }

    /// The part `range` of these bytes (relative to them); `None` if it lies outside.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Bytes> {
        if range.start > range.end || range.end > self.range.len() {
            return None;
        }
        let start = self.range.start + range.start;
        Some(Bytes {
            owner: self.owner.clone(),
            range: start..start + range.len(),
        })
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        let range = 0..bytes.len();
        Bytes {
            owner: Owner::Memory(Arc::new(bytes)),
            range,
        }
    }
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::from(Vec::new())
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole: &[u8] = match &self.owner {
            Owner::Mapped(map) => map,
            Owner::Memory(bytes) => bytes,
        };
        // In bounds by construction; an empty slice rather than a panic if that were ever untrue.
        whole.get(self.range.clone()).unwrap_or(&[])
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({} bytes)", self.range.len())
    }
}
