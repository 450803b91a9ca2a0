//! A whole debug file as symbolic's SymCache: its DWARF, then symbols, each held to its function, where
//! DWARF says nothing.

use std::borrow::Cow;
use std::sync::Arc;

use symbolic::common::{Name, NameMangling};
use symbolic::debuginfo::dwarf::DwarfDebugSession;
use symbolic::debuginfo::{FileInfo, Function, LineInfo, ObjectKind, Symbol, SymbolMap};
use symbolic::symcache::SymCacheConverter;

use super::checked_units;
use super::direct::{Addr2Line, Direct};
use super::dwarf::DwarfSections;
use super::lines;
use super::names::{self, unless_number};
use super::names_by_code::NamesByCode;
use super::symbols::{Named, ObjectSymbols};
use super::symcache::{TextBudget, Texts, with_entry};
use crate::symbolicate::files::object_file::ObjectFile;

/// The reason why no table of a file is made.
pub(crate) type NoTable = &'static str;

/// A SymCache has 32 bits for an address.
const FAR: NoTable = "code lies more than 4 GiB from the image's base";
/// symbolic reads none of them.
const OTHER_FILES: NoTable =
    "parts of its debug information lie in other files, or in a section that cannot be read";
/// symbolic would fail at them, or take too long.
const UNSOUND: NoTable =
    "units nest, refer to each other or share tables as no compiler writes them";
/// It failed.
pub(crate) const UNREADABLE: NoTable = "some of its debug information is damaged";
/// Past the end of the inner one symbolic knows nothing of the outer one.
const OVERLAPS: NoTable = "functions end within others";
/// They share the bytes of long texts.
const LONG_NAMES: NoTable = "its names and paths are far longer than the file";

/// Makes it. Also returns the count of units with damaged lines.
///
/// # Errors
/// The reason why it can't be made.
pub(crate) fn convert(
    object: &ObjectFile,
    sections: &Arc<DwarfSections>,
    symbols: &ObjectSymbols,
) -> Result<(Vec<u8>, usize), NoTable> {
    let end = object.code.last().map_or(0, |&(_, end)| end);
    let reach = end.checked_sub(object.base).map(u32::try_from);
    reach.ok_or(FAR)?.map_err(|_| FAR)?;
    let mended = checked_units::mended(sections, None);
    let damaged = mended.as_ref().map_or(0, |(_, count)| *count);
    let sections = &mended.map_or_else(|| sections.clone(), |(mended, _)| Arc::new(mended));
    let dwarf = checked_units::view_all(sections, None).ok_or(UNSOUND)?;
    let guard = checked_units::all_sound(&dwarf).ok_or(UNSOUND)?;
    let folded = if object.is_mach_o() {
        Vec::new()
    } else {
        lines::folded(&dwarf, &object.code)
    };
    let mut sections = sections.clone();
    if !folded.is_empty() {
        sections = Arc::new(sections.without_lines(&folded));
    }
    let sections = &sections;
    let mut direct = Direct::new(object, sections, None, guard);
    if direct.is_partial {
        return Err(OTHER_FILES);
    }
    let has_cpp = direct.units.has_cpp;
    let names = has_cpp.then(|| NamesByCode::read(&Arc::new(dwarf)));
    let mut builder = SymCacheBuilder {
        object,
        symbols,
        names: names.unwrap_or_default(),
        covered: Vec::new(),
        converter: SymCacheConverter::new(),
        texts: TextBudget::of_file(object.bytes.len().max(object.unpacked as usize)),
    };
    builder
        .converter
        .add_transformer(Texts::new(builder.texts.clone()));
    builder.functions(sections, &mut direct)?;
    builder.rows_alone(direct.read().ok_or(UNREADABLE)?)?;
    builder.gaps()?;
    let mut bytes = Vec::new();
    let written = builder.converter.serialize(&mut bytes);
    written.map_err(|_| UNREADABLE)?;
    Ok((bytes, damaged))
}

struct SymCacheBuilder<'a> {
    object: &'a ObjectFile,
    symbols: &'a ObjectSymbols,
    names: NamesByCode,
    /// Relative addresses that have a function by now: in order, without overlaps.
    covered: Vec<(u64, u64)>,
    converter: SymCacheConverter<'a>,
    texts: TextBudget,
}

impl SymCacheBuilder<'_> {
    fn check_texts(&self) -> Result<(), NoTable> {
        if self.texts.is_used_up() {
            return Err(LONG_NAMES);
        }
        Ok(())
    }

    /// All functions that DWARF describes, each with its name, and with rows for all of its code.
    fn functions(&mut self, sections: &DwarfSections, direct: &mut Direct) -> Result<(), NoTable> {
        let base = self.object.base;
        // Without a symbol map a function keeps the name that DWARF has, also where others were
        // folded onto it.
        let (map, kind) = (SymbolMap::new(), ObjectKind::Debug);
        let session = DwarfDebugSession::parse(&sections, map, base as i64, kind);
        let session = session.map_err(|_| UNREADABLE)?;
        for function in session.functions() {
            self.check_texts()?;
            let mut function = function.map_err(|_| UNREADABLE)?;
            let entry = function.address.wrapping_add(base);
            let Some(limit) = self.object.code_end(entry) else {
                continue; // thrown away by the linker
            };
            function.size = function.size.min(limit - entry);
            self.name_by_code(&mut function, direct, 0);
            self.name_with_scopes(&mut function, 0);
            let language = function.name.language();
            let merged = direct.read_for(entry);
            let merged = merged.and_then(|direct| direct.merged(entry));
            if let Some(name) = merged {
                function.name = Name::new(name, NameMangling::Unknown, language);
            }
            let plain = unless_number(function.name.as_str());
            if let Some(full) = names::in_full(self.symbols, entry, plain) {
                function.name = Name::new(full, NameMangling::Unknown, language);
            }
            let (start, end) = (function.address, function.end_address());
            hold(&mut function, start, end);
            let addr2line = direct.read().ok_or(UNREADABLE)?;
            fill(&mut function, addr2line, base);
            let range = (function.address, function.end_address());
            self.converter.process_symbolic_function(&function);
            self.covered.push(range);
        }
        self.covered.sort_unstable();
        if end_within_others(&self.covered) {
            return Err(OVERLAPS);
        }
        self.covered = merged(std::mem::take(&mut self.covered));
        Ok(())
    }

    /// Names a function, and those inlined into it, by the code that they have, where symbolic finds no name: it follows
    /// fewer references between units than link-time optimization makes.
    fn name_by_code(&self, function: &mut Function<'_>, direct: &mut Direct, depth: usize) {
        if function.name.as_str().is_empty() {
            let address = function.address.wrapping_add(self.object.base);
            let found = direct.lookup(address);
            let frames = found.map_or(Vec::new(), |found| found.frames);
            let frame = frames.into_iter().rev().nth(depth);
            if let Some(name) = frame.and_then(|frame| frame.mangled) {
                let language = function.name.language();
                function.name = Name::new(name.to_string(), NameMangling::Unknown, language);
            }
        }
        for inlined in &mut function.inlinees {
            self.name_by_code(inlined, direct, depth + 1);
        }
    }

    /// Names a function, and those inlined into it, with the scopes of their entries.
    fn name_with_scopes(&self, function: &mut Function<'_>, depth: u32) {
        let address = function.address.wrapping_add(self.object.base);
        let name = function.name.as_str();
        if !names::is_mangled(name)
            && let Some(full) = self.names.of(address, depth, name)
        {
            let language = function.name.language();
            function.name = Name::new(full.to_owned(), NameMangling::Unknown, language);
        }
        for inlined in &mut function.inlinees {
            self.name_with_scopes(inlined, depth + 1);
        }
    }

    /// Code with lines but without a function's entry, as hand-written assembly has it: a function of
    /// the symbol's name, or of none.
    fn rows_alone(&mut self, addr2line: &Addr2Line) -> Result<(), NoTable> {
        let base = self.object.base;
        let mut more = Vec::new();
        for &(start, end) in &self.object.code {
            let Some(range) = start.checked_sub(base).zip(end.checked_sub(base)) else {
                continue;
            };
            for (from, to) in gaps(&self.covered, range) {
                for (from, to, symbol) in pieces(self.symbols, from + base, to + base) {
                    self.check_texts()?;
                    let name = symbol.map(|symbol| with_entry(self.symbols, &symbol, base));
                    let name = name.unwrap_or_default();
                    let mut rows = addr2line.rows(from, to).into_iter().peekable();
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
        self.check_texts()
    }

    /// Symbols, where there is nothing else.
    fn gaps(&mut self) -> Result<(), NoTable> {
        let base = self.object.base;
        for symbol in self.symbols.all() {
            self.check_texts()?;
            let (start, end) = (symbol.start.checked_sub(base), symbol.end.checked_sub(base));
            let Some(range) = start.zip(end) else {
                continue;
            };
            let name = with_entry(self.symbols, &symbol, base);
            for (start, end) in gaps(&self.covered, range) {
                self.converter.process_symbolic_symbol(&Symbol {
                    name: Some(Cow::Borrowed(&name)),
                    address: start,
                    size: end - start,
                });
            }
        }
        self.check_texts()
    }
}

/// Gives the code of a function and of those inlined into it that has no row, as symbolic reads one sequence
/// for each function, the rows of the others or, without such rows, a row of no file. Without one
/// symbolic leaves the inlined function out there, and what is its caller's has the row before.
fn fill<'a>(function: &mut Function<'a>, addr2line: &'a Addr2Line, base: u64) {
    let ends = |rows: &[LineInfo<'_>]| merged(rows.iter().map(span).collect());
    let (start, end) = (function.address, function.end_address());
    let nothing = |(from, to): (u64, u64)| LineInfo {
        address: from,
        size: Some(to - from),
        file: FileInfo::default(),
        line: 0,
    };
    let gaps = gaps(&ends(&function.lines), (start, end));
    for gap in gaps {
        let rows = addr2line.rows(gap.0 + base, gap.1 + base);
        let rows: Vec<_> = rows.iter().map(|row| line_info(row, base)).collect();
        let left = self::gaps(&ends(&rows), gap);
        function.lines.extend(left.into_iter().map(nothing));
        function.lines.extend(rows);
        function.lines.sort_by_key(|row| row.address);
    }
    // Rows that differ in their columns alone.
    function.lines.dedup_by(|next, last| {
        let is_same =
            span(last).1 == next.address && (last.line, &last.file) == (next.line, &next.file);
        if is_same {
            last.size = Some(span(next).1 - last.address);
        }
        is_same
    });
    for inlined in &mut function.inlinees {
        fill(inlined, addr2line, base);
    }
}

/// The addresses of a row.
fn span(row: &LineInfo<'_>) -> (u64, u64) {
    (row.address, row.address + row.size.unwrap_or(1))
}

/// Cuts off what reaches out of `start..end`, also of those inlined: after what reaches out of its caller symbolic knows
/// nothing of that one.
fn hold(function: &mut Function<'_>, start: u64, end: u64) {
    let (from, to) = (function.address.max(start), function.end_address().min(end));
    if (from, to) != (function.address, function.end_address()) {
        function.address = from;
        function.size = to.saturating_sub(from);
        for row in &mut function.lines {
            let stop = span(row).1.min(to);
            row.address = row.address.max(from);
            row.size = Some(stop.saturating_sub(row.address));
        }
        function.lines.retain(|row| row.size != Some(0));
    }
    for inlined in &mut function.inlinees {
        hold(inlined, from, to);
    }
    function.inlinees.retain(|inlined| inlined.size > 0);
}

/// Returns true if one of the ranges, which are in order, ends within another one, as damage makes them.
fn end_within_others(ranges: &[(u64, u64)]) -> bool {
    let mut last = 0;
    ranges.iter().any(|&(start, end)| {
        let is_within = start < last && end != last;
        last = last.max(end);
        is_within
    })
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
fn pieces(symbols: &ObjectSymbols, start: u64, end: u64) -> Vec<(u64, u64, Option<Named<'_>>)> {
    let mut pieces = Vec::new();
    let mut at = start;
    for symbol in symbols.overlapping(start, end) {
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

/// A row of a line table: start, end, file and line.
type LineRow<'a> = (u64, u64, Option<&'a str>, Option<u32>);

fn line_info<'a>(&(start, end, file, line): &LineRow<'a>, base: u64) -> LineInfo<'a> {
    LineInfo {
        address: start - base,
        size: Some(end - start),
        file: FileInfo::from_filename(file.unwrap_or("").as_bytes()),
        line: line.unwrap_or(0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_within_other_ranges_are_found() {
        assert!(end_within_others(&[(0, 10), (10, 20), (18, 22)]));
        assert!(end_within_others(&[(40, 90), (50, 60)]));
        assert!(!end_within_others(&[
            (0, 10),
            (10, 20),
            (40, 90),
            (40, 90),
            (50, 90)
        ]));
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
}
