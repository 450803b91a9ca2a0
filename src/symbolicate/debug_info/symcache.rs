//! Answers of a whole debug file, out of symbolic's SymCache.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use symbolic::symcache::{Function, SymCache};

use super::convert::{restored, restored_path};
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::frame::{Frame, Resolved, Source};
use crate::symbolicate::lock;

/// Longer chains of inlined functions are damage that runs in a circle.
const MAX_CHAIN: usize = 512;
/// Most names that are kept as frames have them; a name is some hundred bytes.
const NAMES_KEPT: usize = 1 << 17;

/// Most paths that are kept: a large app has some ten thousand source files.
const PATHS_KEPT: usize = 1 << 15;

/// A frame with a name and nothing else, and a symbol's relative address.
type NamedFrame = (Frame, Option<u64>);

/// The table of a whole debug file.
pub(crate) struct FullTable {
    cache: SymCache<'static>,
    /// Count of units with lines that can be read in part only.
    pub damaged: usize,
    base: u64,
    texts: Mutex<SharedTexts>,
    /// The bytes that `cache` reads; dropped last.
    _bytes: SharedBytes,
}

/// Names and paths that answers share.
#[derive(Default)]
struct SharedTexts {
    /// Names by where they stand in the cache.
    names: FxHashMap<usize, NamedFrame>,
    /// Paths by how they are stored.
    paths: FxHashMap<String, Arc<str>>,
}

impl FullTable {
    /// Over what `convert` makes; `base` is the image's link-time address.
    pub(crate) fn new(bytes: SharedBytes, base: u64) -> Option<FullTable> {
        // SAFETY: `_bytes` keeps them for as long as `cache` reads them, and they never move: a
        // `SharedBytes` is a part of a mapped file or of a `Vec` that nothing else can change.
        let data: &'static [u8] =
            unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        let (data, damaged) = data.split_last_chunk()?;
        Some(FullTable {
            cache: SymCache::parse(data).ok()?,
            damaged: u64::from_le_bytes(*damaged) as usize,
            base,
            texts: Mutex::default(),
            _bytes: bytes,
        })
    }

    /// The answer for a link-time address; `None` where the truth is unknown.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Resolved> {
        let relative = svma.checked_sub(self.base)?;
        // Most of the time goes into reading these, where no other thread waits.
        let locations = self.cache.lookup(relative).take(MAX_CHAIN);
        let found: Vec<_> = locations
            .map(|at| {
                (
                    at.function(),
                    at.file().map(|file| file.full_path()),
                    at.line(),
                )
            })
            .collect();
        let mut texts = lock(&self.texts);
        let mut entry = None;
        let frame = |(index, (of, path, line)): (usize, &(Function<'_>, Option<String>, u32))| {
            let (named, symbol) = texts.named(of.name());
            let own = Some(of.entry_pc()).filter(|&entry| entry != u32::MAX);
            entry = symbol
                .or(own.map(u64::from))
                .filter(|_| named.function.is_some());
            let file = path.as_ref().and_then(|path| texts.path(path));
            Frame {
                // A line of no file says nothing.
                line: Some(*line).filter(|&line| line != 0 && file.is_some()),
                source: match symbol {
                    Some(_) if file.is_none() => Source::Symbols,
                    _ => Source::DebugInfo,
                },
                file,
                inlined: index + 1 < found.len(),
                ..named
            }
        };
        let frames: Arc<[Frame]> = found.iter().enumerate().map(frame).collect();
        let says_something = |frame: &Frame| frame.function.is_some() || frame.file.is_some();
        frames.iter().any(says_something).then(|| Resolved {
            frames,
            entry: entry.map(|entry| self.base.wrapping_add(entry)),
        })
    }
}

impl SharedTexts {
    /// The path that a stored one stands for: one text for all frames of a file.
    fn path(&mut self, stored: &str) -> Option<Arc<str>> {
        if stored.is_empty() {
            return None;
        }
        if let Some(path) = self.paths.get(stored) {
            return Some(path.clone());
        }
        if self.paths.len() >= PATHS_KEPT {
            self.paths.clear();
        }
        let path: Arc<str> = restored_path(stored).into();
        self.paths.insert(stored.into(), path.clone());
        Some(path)
    }

    /// Restores a name from the form in which it is stored.
    fn named(&mut self, text: &str) -> NamedFrame {
        let key = text.as_ptr() as usize;
        if self.names.len() >= NAMES_KEPT {
            self.names.clear();
        }
        let known = self
            .names
            .entry(key)
            .or_insert_with(|| match restored(text) {
                ("", ..) => (Frame::default(), None),
                (name, demangled, symbol) => (Frame::named(name, demangled), symbol),
            });
        known.clone()
    }
}
