//! A section of an image: its link-time address (svma), and its bytes.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// Bytes of a section, shared with their owner (a mapped file, a buffer).
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Bytes {
    /// All that `owner` holds.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Bytes {
        let range = 0..(*owner).as_ref().len();
        Bytes { owner, range }
    }

    /// A part of them, by offset; `None` where that lies outside.
    pub fn slice(&self, range: Range<usize>) -> Option<Bytes> {
        self.get(range.clone())?;
        let start = self.range.start.checked_add(range.start)?;
        let end = self.range.start.checked_add(range.end)?;
        Some(Bytes {
            owner: self.owner.clone(),
            range: start..end,
        })
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline(never)]
    fn deref(&self) -> &[u8] {
        (*self.owner)
            .as_ref()
            .get(self.range.clone())
            .unwrap_or(&[])
    }
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::from(Vec::new())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes::new(Arc::new(bytes))
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// A section: its link-time address (svma), and its bytes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Section {
    /// Its link-time address.
    pub svma: u64,
    /// Its contents.
    pub bytes: Bytes,
}

impl Section {
    /// A section at this address in the file.
    pub fn new(svma: u64, bytes: impl Into<Bytes>) -> Section {
        Section {
            svma,
            bytes: bytes.into(),
        }
    }

    /// The part of it from this svma on, of at most `length` bytes.
    pub(crate) fn at(&self, svma: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(svma.checked_sub(self.svma)?).ok()?;
        let rest = self.bytes.get(start..)?;
        Some(rest.get(..length).unwrap_or(rest))
    }
}
