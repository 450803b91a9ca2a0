//! The SymCache (of the crate symbolic) of a whole debug file: the form in which names and paths are stored, and
//! look-ups.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use symbolic::symcache::{File, Function, SymCache, transform};

use super::dwarf;
use super::names;
use super::symbols::{Named, ObjectSymbols};
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::frame::{Resolved, Source, SourceFrame, bounded};
use crate::symbolicate::lock;
use crate::symbolicate::memo::Memo;

/// Longer chains of inlined functions are damage that runs in a circle.
const MAX_CHAIN: usize = 512;
/// Most decoded names that are kept; a name is some hundred bytes.
const MAX_NAMES: usize = 1 << 17;
/// Most paths that are kept: a large app has some ten thousand source files.
const MAX_PATHS: usize = 1 << 15;
/// Bytes of memory of a name or path.
const TEXT_WEIGHT: usize = 256;
/// Most bytes of names and paths in a table, for each byte of the debug file: real ones take less than one.
const MAX_PER_BYTE: usize = 8;
/// Bytes of names and paths that every table may have, however small its file is.
const MIN_BYTES: usize = 1 << 20;

/// A frame with a name and nothing else, and a symbol's relative address.
type NamedFrame = (SourceFrame, Option<u64>);

thread_local! {
    /// Room for functions, files and lines of one answer.
    static LOCATIONS: Cell<Vec<(Function<'static>, Option<File<'static>>, u32)>> = const { Cell::new(Vec::new()) };
}

/// The table of a whole debug file.
pub(crate) struct FullTable {
    cache: SymCache<'static>,
    /// Count of units with lines that can be read in part only.
    pub damaged: usize,
    base: u64,
    texts: Mutex<SharedTexts>,
    /// The bytes that `cache` reads; dropped last.
    bytes: SharedBytes,
}

/// Names and paths that answers share.
#[derive(Default)]
struct SharedTexts {
    /// Decoded names, by their address in the cache.
    names: Memo<usize, NamedFrame, MAX_NAMES>,
    /// Paths, by their address in the cache.
    paths: Memo<usize, Arc<str>, MAX_PATHS>,
}

impl FullTable {
    /// Parses the bytes that `convert` made. `base` is the image's link-time address.
    pub(crate) fn new(bytes: SharedBytes, damaged: usize, base: u64) -> Option<FullTable> {
        // SAFETY: `bytes` keeps them for as long as `cache` reads them, and they never move: a
        // `SharedBytes` is a part of a mapped file or of a `Vec` that nothing else can change.
        let data: &'static [u8] =
            unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        Some(FullTable {
            cache: SymCache::parse(data).ok()?,
            damaged,
            base,
            texts: Mutex::default(),
            bytes,
        })
    }

    /// The bytes that it reads.
    pub(crate) fn bytes(&self) -> &SharedBytes {
        &self.bytes
    }

    /// Bytes of memory that it takes, roughly: a mapped table costs only its texts.
    pub(crate) fn weight(&self) -> usize {
        let texts = lock(&self.texts);
        (texts.names.len() + texts.paths.len()) * TEXT_WEIGHT
    }

    /// Looks up a link-time address; returns `None` if the table has no function or file for it.
    pub(crate) fn lookup(&self, svma: u64) -> Option<Resolved> {
        let relative = svma.checked_sub(self.base)?;
        // Reading these takes most of the time: it is done before the lock is taken.
        let locations = self.cache.lookup(relative).take(MAX_CHAIN);
        let mut found = LOCATIONS.take();
        found.extend(locations.map(|at| (at.function(), at.file(), at.line())));
        let mut texts = lock(&self.texts);
        let mut entry = None;
        let frames = found.drain(..).map(|(of, file, line)| {
            let (named, symbol) = texts.restore(of.name());
            let own = Some(of.entry_pc()).filter(|&entry| entry != u32::MAX);
            entry = symbol.or(own.map(u64::from));
            let file = file.and_then(|file| texts.path(file.srcsrv_revision()?));
            SourceFrame {
                line: Some(line),
                source: match symbol {
                    Some(_) if file.is_none() => Source::Symbols,
                    _ => Source::DebugInfo,
                },
                file,
                ..named
            }
        });
        let frames = frames.collect();
        LOCATIONS.set(found);
        names::resolved(frames, entry.map(|entry| self.base.wrapping_add(entry)))
    }
}

impl SharedTexts {
    /// A path as frames have it: one text for all frames of a file.
    fn path(&mut self, stored: &str) -> Option<Arc<str>> {
        if stored.is_empty() {
            return None;
        }
        let key = stored.as_ptr() as usize;
        Some(self.paths.get_or_find(&key, || stored.into()))
    }

    /// Restores a name from the form in which it is stored.
    fn restore(&mut self, text: &str) -> NamedFrame {
        let key = text.as_ptr() as usize;
        let restore = || match decode_name(text) {
            Some((name, demangled, symbol)) => (SourceFrame::named(name, demangled), symbol),
            None => NamedFrame::default(),
        };
        self.names.get_or_find(&key, restore)
    }
}

/// Prefixes a symbol's name with its relative address, for [`encode_name`].
pub(super) fn with_entry(symbols: &ObjectSymbols, symbol: &Named<'_>, base: u64) -> String {
    let name = names::of_symbol(symbols, symbol);
    let name = bounded(&name);
    format!("\0{:x}\0{name}", symbol.entry.wrapping_sub(base))
}

/// Encodes a name for the cache: the name in the file, the demangled name if it differs, and the relative address of
/// a symbol. They are separated by zero bytes, which no name has.
fn encode_name(name: &str) -> String {
    let with_entry = name.strip_prefix('\0').unwrap_or_default();
    let (entry, name) = with_entry.split_once('\0').unwrap_or(("", name));
    match names::both_forms(names::unless_number(name).unwrap_or_default()) {
        (name, demangled) if name == demangled => format!("{name}\0\0{entry}"),
        (name, demangled) => format!("{name}\0{demangled}\0{entry}"),
    }
}

/// Decodes what [`encode_name`] returned: the name, its demangled form, and the relative address of a symbol.
fn decode_name(text: &str) -> Option<(&str, &str, Option<u64>)> {
    let mut zeros = memchr::memchr_iter(0, text.as_bytes());
    let (first, second) = (zeros.next()?, zeros.next()?);
    let (name, demangled) = (&text[..first], &text[first + 1..second]);
    let demangled = Some(demangled).filter(|text| !text.is_empty());
    let entry = u64::from_str_radix(&text[second + 1..], 16).ok();
    (first > 0).then_some((name, demangled.unwrap_or(name), entry))
}

/// Bytes of texts that may still be stored. The transformer shares the count with its creator.
#[derive(Clone)]
pub(super) struct TextBudget(Arc<AtomicUsize>);

impl TextBudget {
    /// For a file of so many bytes. Names and paths may share the bytes of one long text in it.
    pub(super) fn of_file(len: usize) -> TextBudget {
        let left = len.saturating_mul(MAX_PER_BYTE).saturating_add(MIN_BYTES);
        TextBudget(Arc::new(AtomicUsize::new(left)))
    }

    /// Returns true once no bytes are left.
    pub(super) fn is_used_up(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    fn take<'t>(&self, text: &'t str) -> &'t str {
        let left = self.0.load(Relaxed).saturating_sub(text.len());
        self.0.store(left, Relaxed);
        if left > 0 { text } else { "" }
    }
}

/// Texts as they are stored: names, and paths joined as the compiler meant them.
pub(super) struct Texts {
    left: TextBudget,
    names: FxHashMap<Box<str>, Box<str>>,
    /// Joined paths, by the addresses and lengths of their parts in the DWARF: compilation directory, folder and file
    /// name.
    paths: FxHashMap<[(usize, usize); 3], Box<str>>,
}

impl Texts {
    pub(super) fn new(left: TextBudget) -> Texts {
        Texts {
            left,
            names: FxHashMap::default(),
            paths: FxHashMap::default(),
        }
    }
}

impl transform::Transformer for Texts {
    fn transform_function<'f>(
        &'f mut self,
        mut function: transform::Function<'f>,
    ) -> transform::Function<'f> {
        // A symbol's was cut when it was with_entry.
        let name = if function.name.starts_with('\0') {
            function.name.to_string()
        } else {
            dwarf::text(function.name.as_bytes()).into_owned()
        };
        if !self.names.contains_key(&*name) && !self.left.take(&name).is_empty() {
            let text = self.left.take(&encode_name(&name)).into();
            self.names.insert((*name).into(), text);
        }
        let text = self.names.get(&*name).map_or("", |text| &**text);
        function.name = Cow::Borrowed(text);
        function
    }

    fn transform_source_location<'f>(
        &'f mut self,
        mut location: transform::SourceLocation<'f>,
    ) -> transform::SourceLocation<'f> {
        let file = &mut location.file;
        let (base, folder) = (file.comp_dir.take(), file.directory.take());
        let name = std::mem::take(&mut file.name);
        let parts = [base.as_ref(), folder.as_ref(), Some(&name)];
        // Text that is not UTF-8 was copied, and another text may get the address of the copy.
        let is_borrowed = |part: &Option<&Cow<'_, str>>| !matches!(part, Some(Cow::Owned(_)));
        let [base, folder, name] = parts.map(|part| part.map_or("", |part| &**part));
        // symbolic returns this text of a file unchanged. It would join the parts at each look-up, and drop `a/..`, which names
        // another file where `a` is a link.
        file.srcsrv_revision = Some(if parts.iter().all(is_borrowed) {
            let key = [base, folder, name].map(|part| (part.as_ptr() as usize, part.len()));
            let path = self.paths.entry(key);
            let make = || self.left.take(&path_of(base, folder, name)).into();
            Cow::Borrowed(path.or_insert_with(make))
        } else {
            Cow::Owned(self.left.take(&path_of(base, folder, name)).to_owned())
        });
        location
    }
}

/// The path that a file's parts make.
fn path_of(base: &str, folder: &str, name: &str) -> String {
    if name.is_empty() {
        return String::new();
    }
    let mut path = base.to_owned();
    // Folder 0 of DWARF 5 repeats the compilation directory, which may be relative.
    if folder != base {
        push(&mut path, folder);
    }
    push(&mut path, name);
    match bounded(&path) {
        Cow::Owned(cut) => cut,
        Cow::Borrowed(_) => path,
    }
}

/// Joins Unix or Windows paths, whatever system this is.
fn push(path: &mut String, part: &str) {
    if part.is_empty() {
        return;
    }
    if is_absolute(part) || path.is_empty() {
        part.clone_into(path);
        return;
    }
    let windows = path.as_bytes().get(1) == Some(&b':') || path.starts_with('\\');
    if !path.ends_with(['/', '\\']) {
        path.push(if windows { '\\' } else { '/' });
    }
    path.push_str(part);
}

fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    matches!(bytes.first(), Some(b'/' | b'\\'))
        || (bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.get(1) == Some(&b':')
            && matches!(bytes.get(2), Some(b'/' | b'\\')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_join_as_the_compiler_meant() {
        let joined = |base: &str, part: &str| {
            let mut path = base.to_owned();
            push(&mut path, part);
            path
        };
        assert_eq!(joined("/build", "src/a.c"), "/build/src/a.c");
        assert_eq!(joined("/build", "/abs/a.c"), "/abs/a.c");
        assert_eq!(joined("C:\\build", "a.c"), "C:\\build\\a.c");
        assert_eq!(joined("", "a.c"), "a.c");
    }

    #[test]
    fn names_come_back_as_they_went() {
        assert_eq!(
            decode_name(&encode_name("main")),
            Some(("main", "main", None))
        );
        let symbol = Some(("main", "main", Some(0xa1)));
        assert_eq!(decode_name(&encode_name("\0a1\0main")), symbol);
        let mangled = "_ZN3foo3barEv";
        let expected = Some((mangled, "foo::bar()", None));
        assert_eq!(decode_name(&encode_name(mangled)), expected);
        let path = path_of("C:\\build", "../src", "a.c");
        assert_eq!(path, "C:\\build\\../src\\a.c");
    }
}
