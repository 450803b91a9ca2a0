//! Answers of a whole debug file, out of symbolic's SymCache.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use symbolic::symcache::SymCache;

use super::bytes::Bytes;
use super::convert::{restored, restored_path};
use super::frame::{Answer, Frame, Source};
use super::lock;

/// Longer chains of inlined functions are damage that runs in a circle.
const MAX_CHAIN: usize = 512;
/// So many names are kept as frames have them; a name is some hundred bytes.
const NAMES_KEPT: usize = 1 << 17;

/// So many paths are kept: a large app has some ten thousand source files.
const PATHS_KEPT: usize = 1 << 15;

/// A frame with a name and nothing else, and a symbol's relative address.
type NamedFrame = (Frame, Option<u64>);

/// The table of a whole debug file.
pub(crate) struct FullTable {
    cache: SymCache<'static>,
    base: u64,
    /// Names by where they stand in the cache.
    names: Mutex<FxHashMap<usize, NamedFrame>>,
    /// Paths by how they are stored.
    paths: Mutex<FxHashMap<String, Arc<str>>>,
    /// What `cache` reads; dropped last.
    _bytes: Bytes,
}

impl FullTable {
    /// Over the bytes of a SymCache; `base` is the image's link-time address.
    pub(crate) fn new(bytes: Bytes, base: u64) -> Option<FullTable> {
        // SAFETY: `_bytes` keeps them for as long as `cache` reads them, and they never move: a
        // `Bytes` is a part of a mapped file or of a `Vec` that nothing else can change.
        let data: &'static [u8] =
            unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        Some(FullTable {
            cache: SymCache::parse(data).ok()?,
            base,
            names: Mutex::default(),
            paths: Mutex::default(),
            _bytes: bytes,
        })
    }

    /// The answer for a link-time address; `None` where the truth is unknown.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Answer> {
        let relative = svma.checked_sub(self.base)?;
        let mut frames: Vec<Frame> = Vec::new();
        let mut entry = None;
        for location in self.cache.lookup(relative).take(MAX_CHAIN) {
            let function = location.function();
            let (mut frame, symbol) = self.named(function.name());
            frame.file = location.file().and_then(|file| self.path(file.full_path()));
            // A line of no file says nothing.
            frame.line = Some(location.line()).filter(|&line| line != 0 && frame.file.is_some());
            frame.inlined = true;
            if symbol.is_some() && frame.file.is_none() {
                frame.source = Source::Symbols;
            }
            let own = Some(function.entry_pc()).filter(|&entry| entry != u32::MAX);
            entry = symbol
                .or(own.map(u64::from))
                .filter(|_| frame.function.is_some());
            frames.push(frame);
        }
        frames.last_mut()?.inlined = false;
        let says_something = |frame: &Frame| frame.function.is_some() || frame.file.is_some();
        frames.iter().any(says_something).then(|| Answer {
            frames: frames.into(),
            entry: entry.map(|entry| self.base.wrapping_add(entry)),
        })
    }

    /// The path that a stored one stands for: one text for all frames of a file.
    fn path(&self, stored: String) -> Option<Arc<str>> {
        if stored.is_empty() {
            return None;
        }
        let mut paths = lock(&self.paths);
        if let Some(path) = paths.get(&stored) {
            return Some(path.clone());
        }
        if paths.len() >= PATHS_KEPT {
            paths.clear();
        }
        let path: Arc<str> = restored_path(&stored).into();
        paths.insert(stored, path.clone());
        Some(path)
    }

    /// What stands for a name as it is stored.
    fn named(&self, text: &str) -> NamedFrame {
        let key = text.as_ptr() as usize;
        let mut names = lock(&self.names);
        if names.len() >= NAMES_KEPT {
            names.clear();
        }
        let known = names.entry(key).or_insert_with(|| match restored(text) {
            ("", ..) => (Frame::default(), None),
            (name, demangled, symbol) => (Frame::named(name, demangled), symbol),
        });
        known.clone()
    }
}
