//! A whole debug file as symbolic's SymCache: its DWARF, then symbols, each held to its function, where
//! DWARF says nothing.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashMap;
use symbolic::common::{Language, Name, NameMangling};
use symbolic::debuginfo::dwarf::DwarfDebugSession;
use symbolic::debuginfo::{FileInfo, Function, LineInfo, ObjectKind, Symbol, SymbolMap};
use symbolic::symcache::{SymCacheConverter, transform};

use super::direct::{Direct, Reading, is_hidden, is_hidden_file};
use super::dwarf::Sections;
use super::guard;
use super::names;
use super::object_file::ObjectFile;
use super::symbols::{Named, Symbols};

/// Makes it; `None` where symbolic cannot read all of the DWARF: damage, entries that nest without end,
/// and what lies in other files; or once `stop` is set.
pub(crate) fn convert(
    object: &ObjectFile,
    sections: &Arc<Sections>,
    symbols: &Symbols,
    stop: &AtomicBool,
) -> Option<Vec<u8>> {
    let mut direct = Direct::new(&object.path, sections, None);
    if direct.is_partial || !guard::all_sound(&sections.view_all(None)) {
        return None;
    }
    let mut making = Making {
        object,
        symbols,
        covered: Vec::new(),
        converter: SymCacheConverter::new(),
        stop,
    };
    making.converter.add_transformer(Texts::default());
    making.functions(sections, &mut direct)?;
    making.rows_alone(direct.read()?)?;
    making.gaps();
    let mut bytes = Vec::new();
    making.converter.serialize(&mut bytes).ok()?;
    Some(bytes)
}

struct Making<'a> {
    object: &'a ObjectFile,
    symbols: &'a Symbols,
    /// Relative addresses that have a function by now: in order, without overlaps.
    covered: Vec<(u64, u64)>,
    converter: SymCacheConverter<'a>,
    stop: &'a AtomicBool,
}

impl Making<'_> {
    fn goes_on(&self) -> Option<()> {
        (!self.stop.load(Ordering::Relaxed)).then_some(())
    }

    /// All functions that DWARF describes.
    fn functions(&mut self, sections: &Sections, direct: &mut Direct) -> Option<()> {
        let base = self.object.base;
        // Without a symbol map a function keeps the name that DWARF has, also where others were
        // folded onto it.
        let (map, kind) = (SymbolMap::new(), ObjectKind::Debug);
        let session = DwarfDebugSession::parse(&sections, map, base as i64, kind).ok()?;
        for function in session.functions() {
            self.goes_on()?;
            // A damaged unit is left out.
            let Ok(mut function) = function else { continue };
            let entry = function.address.wrapping_add(base);
            let Some(limit) = self.object.code_end(entry) else {
                continue; // thrown away by the linker
            };
            function.size = function.size.min(limit - entry);
            let line = function.lines.first();
            let line = line.and_then(|row| u32::try_from(row.line).ok());
            if let Some(name) = line.and_then(|line| direct.unfolded(entry, line)) {
                let mangling = match names::is_mangled(&name) {
                    true => NameMangling::Mangled,
                    false => NameMangling::Unmangled,
                };
                function.name = Name::new(name, mangling, function.name.language());
            }
            let name = &function.name;
            let is_plain = name.mangling() == NameMangling::Unmangled && mangles(name.language());
            let known = Some(name.as_str()).filter(|name| !is_hidden(name));
            if (is_plain || known.is_none_or(str::is_empty))
                && let Some(full) = names::in_full(self.symbols, entry, known.unwrap_or_default())
            {
                function.name = Name::new(full, NameMangling::Unknown, name.language());
            }
            self.converter.process_symbolic_function(&function);
            self.covered
                .push((function.address, function.end_address()));
        }
        self.covered = merged(std::mem::take(&mut self.covered));
        Some(())
    }

    /// Code with lines but without a function's entry, as hand-written assembly has it: a function of
    /// the symbol's name, or of none.
    fn rows_alone(&mut self, reading: &Reading) -> Option<()> {
        let base = self.object.base;
        let mut more = Vec::new();
        for &(start, end) in &self.object.code {
            let Some(range) = start.checked_sub(base).zip(end.checked_sub(base)) else {
                continue;
            };
            for (from, to) in gaps(&self.covered, range) {
                for (from, to, symbol) in pieces(self.symbols, from + base, to + base) {
                    self.goes_on()?;
                    let name = symbol.map_or(String::new(), |symbol| marked(&symbol, base));
                    let mut rows = reading.rows(from, to).into_iter().peekable();
                    while let Some(first) = rows.next() {
                        let (start, mut end) = (first.0, first.1);
                        let mut lines = vec![line_info(&first, base)];
                        while let Some(next) = rows.next_if(|next| next.0 == end) {
                            end = next.1;
                            lines.push(line_info(&next, base));
                        }
                        let (address, size) = (start - base, end - start);
                        self.converter.process_symbolic_function(&Function {
                            address,
                            size,
                            name: Name::from(&name),
                            compilation_dir: b"",
                            lines,
                            inlinees: Vec::new(),
                            inline: false,
                        });
                        more.push((address, address + size));
                    }
                }
            }
        }
        more.append(&mut self.covered);
        self.covered = merged(more);
        self.goes_on()
    }

    /// Symbols, where there is nothing else.
    fn gaps(&mut self) {
        let base = self.object.base;
        for symbol in self.symbols.all() {
            let Some(range) = symbol
                .start
                .checked_sub(base)
                .zip(symbol.end.checked_sub(base))
            else {
                continue;
            };
            let name = marked(&symbol, base);
            for (start, end) in gaps(&self.covered, range) {
                self.converter.process_symbolic_symbol(&Symbol {
                    name: Some(Cow::Borrowed(&name)),
                    address: start,
                    size: end - start,
                });
            }
        }
    }
}

/// The same ranges in order, those that touch or overlap as one.
fn merged(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touch = next.0 <= last.1;
        if touch {
            last.1 = last.1.max(next.1);
        }
        touch
    });
    ranges
}

/// The parts of `range` that none of `covered` holds.
fn gaps(covered: &[(u64, u64)], range: (u64, u64)) -> Vec<(u64, u64)> {
    let (mut at, end) = range;
    let mut gaps = Vec::new();
    for &(start, stop) in &covered[covered.partition_point(|&(_, stop)| stop <= at)..] {
        if start >= end {
            break;
        }
        if start > at {
            gaps.push((at, start));
        }
        at = stop;
    }
    if at < end {
        gaps.push((at, end));
    }
    gaps
}

/// `start..end`, cut where another symbol begins or one ends.
fn pieces(symbols: &Symbols, start: u64, end: u64) -> Vec<(u64, u64, Option<Named<'_>>)> {
    let mut pieces = Vec::new();
    let mut at = start;
    for symbol in symbols.within(start, end) {
        if at < symbol.start {
            pieces.push((at, symbol.start, None));
            at = symbol.start;
        }
        let stop = symbol.end.min(end);
        if at < stop {
            pieces.push((at, stop, Some(symbol)));
            at = stop;
        }
    }
    if at < end {
        pieces.push((at, end, None));
    }
    pieces
}

/// Whether a language mangles the names of its functions. In C and assembly a plain name is all of it.
fn mangles(language: Language) -> bool {
    !matches!(language, Language::C | Language::ObjC)
}

/// A row of a line table: start, end, file and line.
type Row<'a> = (u64, u64, Option<&'a str>, Option<u32>);

fn line_info<'a>(&(start, end, file, line): &Row<'a>, base: u64) -> LineInfo<'a> {
    LineInfo {
        address: start - base,
        size: Some(end - start),
        file: FileInfo::from_filename(file.unwrap_or("").as_bytes()),
        line: line.unwrap_or(0).into(),
    }
}

/// A symbol's name with the mark that [`stored`] knows it by, and its relative address.
fn marked(symbol: &Named<'_>, base: u64) -> String {
    format!("\0{:x}\0{}", symbol.entry.wrapping_sub(base), symbol.name)
}

/// A name as it lies in the cache: as the file has it, then demangled if that differs, then for a
/// symbol its relative address; with a zero between them, which no name has.
fn stored(name: &str) -> String {
    let marked = name
        .strip_prefix('\0')
        .and_then(|rest| rest.split_once('\0'));
    let (entry, name) = marked.map_or((None, name), |(entry, name)| (Some(entry), name));
    if is_hidden(name) {
        return String::new();
    }
    match (names::demangle(name), entry) {
        (Cow::Borrowed(_), None) => name.to_owned(),
        (Cow::Borrowed(_), Some(entry)) => format!("{name}\0\0{entry}"),
        (Cow::Owned(demangled), None) => format!("{name}\0{demangled}"),
        (Cow::Owned(demangled), Some(entry)) => format!("{name}\0{demangled}\0{entry}"),
    }
}

/// The name, its demangled form and where a symbol lies, of what [`stored`] gave.
pub(crate) fn restored(text: &str) -> (&str, &str, Option<u64>) {
    let mut parts = text.split('\0');
    let name = parts.next().unwrap_or_default();
    let demangled = parts.next().filter(|text| !text.is_empty());
    let entry = parts.next().map(|text| u64::from_str_radix(text, 16));
    (name, demangled.unwrap_or(name), entry.and_then(Result::ok))
}

/// What is stored of names and of paths: the latter joined as the compiler meant them.
#[derive(Default)]
struct Texts {
    names: FxHashMap<Box<str>, Box<str>>,
    /// By where the folder compiled in, the folder and the file's name stand in the DWARF.
    paths: FxHashMap<[(usize, usize); 3], Box<str>>,
}

/// In place of `/` and `\` in a stored path: symbolic would resolve `..`, which a link makes another file of.
const SLASHES: [(char, char); 2] = [('/', '\u{1}'), ('\\', '\u{2}')];

impl transform::Transformer for Texts {
    fn transform_function<'f>(
        &'f mut self,
        mut function: transform::Function<'f>,
    ) -> transform::Function<'f> {
        if !self.names.contains_key(&*function.name) {
            let text = stored(&function.name).into();
            self.names.insert((*function.name).into(), text);
        }
        function.name = Cow::Borrowed(&self.names[&*function.name]);
        function
    }

    fn transform_source_location<'f>(
        &'f mut self,
        mut location: transform::SourceLocation<'f>,
    ) -> transform::SourceLocation<'f> {
        let file = &mut location.file;
        let (base, folder) = (file.comp_dir.take(), file.directory.take());
        let parts = [base.as_ref(), folder.as_ref(), Some(&file.name)];
        // What is no UTF-8 stands in memory of its own, of which another text may take the place.
        let kept = |part: &Option<&Cow<'_, str>>| !matches!(part, Some(Cow::Owned(_)));
        let [base, folder, name] = parts.map(|part| part.map_or("", |part| &**part));
        if parts.iter().all(kept) {
            let key = [base, folder, name].map(|part| (part.as_ptr() as usize, part.len()));
            let path = self.paths.entry(key);
            let path = path.or_insert_with(|| stored_path(base, folder, name).into());
            file.name = Cow::Borrowed(path);
        } else {
            file.name = Cow::Owned(stored_path(base, folder, name));
        }
        location
    }
}

fn stored_path(base: &str, folder: &str, name: &str) -> String {
    if name.is_empty() || is_hidden_file(name) {
        return String::new();
    }
    let mut path = base.to_owned();
    // Folder 0 of DWARF 5 is the one compiled in, again: it may be a relative one.
    if folder != base {
        push(&mut path, folder);
    }
    push(&mut path, name);
    let slash = |at: char| SLASHES.iter().find(|(slash, _)| *slash == at);
    let stored = path.chars().map(|at| slash(at).map_or(at, |found| found.1));
    stored.collect()
}

/// The path that a stored one stands for.
pub(crate) fn restored_path(path: &str) -> String {
    let slash = |at: char| SLASHES.iter().find(|(_, instead)| *instead == at);
    let restored = path.chars().map(|at| slash(at).map_or(at, |found| found.0));
    restored.collect()
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
    fn gaps_are_what_nothing_covers() {
        let covered = merged(vec![(20, 25), (10, 20), (12, 14), (30, 40)]);
        assert_eq!(covered, [(10, 25), (30, 40)]);
        assert_eq!(gaps(&covered, (0, 50)), [(0, 10), (25, 30), (40, 50)]);
        assert_eq!(gaps(&covered, (13, 22)), []);
        assert_eq!(gaps(&covered, (22, 35)), [(25, 30)]);
        assert_eq!(gaps(&[], (1, 2)), [(1, 2)]);
    }

    #[test]
    fn names_come_back_as_they_went() {
        assert_eq!(restored(&stored("main")), ("main", "main", None));
        assert_eq!(
            restored(&stored("\0a1\0main")),
            ("main", "main", Some(0xa1))
        );
        let mangled = "_ZN3foo3barEv";
        assert_eq!(restored(&stored(mangled)), (mangled, "foo::bar()", None));
        let path = stored_path("C:\\build", "../src", "a.c");
        assert_eq!(restored_path(&path), "C:\\build\\../src\\a.c");
    }
}
