//! Checks of DWARF before addr2line and symbolic read it: both recurse into nested functions,
//! symbolic also along references, and both copy a list of ranges for each function that names it.

use addr2line::gimli::{
    self, AttributeValue, Dwarf, Reader as _, Section as _, Unit, UnitOffset, UnitRef,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::dwarf::{DwarfSections, R};
use super::lines;
use super::roots::{self, MAX_READS};

/// Functions inlined into one another deeper than this are damage. Real ones have been seen 60 deep.
pub(crate) const MAX_INLINE_DEPTH: usize = 250;
/// References from one entry to the next in a row; DWARF of compilers has three.
const MAX_REFERENCES: usize = 16;
/// Most ranges in all, for each byte of the unit that has them: an entry with a list takes some bytes,
/// and most lists have a handful.
const MAX_RANGES_PER_BYTE: usize = 16;
/// symbolic tries every sequence of a unit's lines for every function of it: so many tries, over all
/// units. The largest program that was tried takes a hundredth of it.
const MAX_TRIES: u64 = 1 << 34;

/// Most bytes of paths, for each byte of the sections that state them: addr2line writes out the path of each file, and paths
/// may share the bytes of one long text. Compilers' take a few.
const MAX_PATHS_PER_BYTE: usize = 32;
/// Most bytes of functions' names, for each byte of the sections that state them, each counted as often as functions refer to
/// it: symbolic reads them all. Compilers' take a few.
const MAX_NAMES_PER_BYTE: usize = 128;
/// Shorter names count as if they had this length.
const MIN_NAME: usize = 256;
/// Bytes of paths or names that any object may have.
const MIN_PATH_LIMIT: usize = 1 << 20;

/// Bytes that addr2line keeps for each byte of entries and lines: a row of lines takes 24, and two bytes in the file.
const MAX_PARSED_PER_BYTE: usize = 8;

/// A function's entry: the offset of its unit, and that in the unit.
pub(crate) type FunctionEntry = (usize, UnitOffset);

/// The units that addr2line may read, as far as they were checked.
#[derive(Debug, Default)]
pub(crate) struct CheckedUnits {
    /// Bytes of the lines of all checked units.
    lines: usize,
    /// Bytes of their files' paths, and of their entries.
    paths: usize,
    entries: usize,
    checked: FxHashMap<usize, bool>,
    /// True once the lines of one of them were found damaged.
    pub has_damaged_lines: bool,
    /// Addresses where several functions begin because the linker folded them, each with the entries of those functions (unit,
    /// offset in it).
    folded: FxHashMap<u64, Vec<FunctionEntry>>,
}

impl CheckedUnits {
    /// Returns true if all of `units`, by their offsets, are sound.
    pub(crate) fn allows(&mut self, dwarf: &Dwarf<R<'_>>, units: &[usize]) -> bool {
        units.iter().all(|&offset| {
            let known = self.checked.get(&offset).copied();
            known.unwrap_or_else(|| self.check(dwarf, offset))
        })
    }

    /// The entries of functions that the linker folded into the one that begins at `address`, if it
    /// did, of the units checked so far.
    pub(crate) fn folded(&self, address: u64) -> &[FunctionEntry] {
        self.folded.get(&address).map_or(&[], Vec::as_slice)
    }

    /// Bytes of memory that addr2line needs for the units checked so far, roughly.
    pub(crate) fn weight(&self) -> usize {
        self.paths + (self.lines + self.entries) * MAX_PARSED_PER_BYTE
    }

    /// Returns the number of units, of those checked so far, that are not read.
    pub(crate) fn refused(&self) -> usize {
        self.checked.values().filter(|is_sound| !**is_sound).count()
    }

    fn check(&mut self, dwarf: &Dwarf<R<'_>>, offset: usize) -> bool {
        let header = dwarf.unit_header(gimli::DebugInfoOffset(offset));
        let unit = header.and_then(|header| dwarf.unit(header)).ok();
        let length = |unit: &Unit<R<'_>>| unit.header.length_including_self();
        self.entries = self.entries.saturating_add(unit.as_ref().map_or(0, length));
        let program = unit.as_ref().and_then(|unit| unit.line_program.as_ref());
        let lines = program.map_or(0, |program| program.header().raw_program_buf().len());
        self.lines = self.lines.saturating_add(lines);
        let is_bounded = self.lines <= MAX_READS.saturating_mul(dwarf.debug_line.reader().len());
        let unit = unit.filter(|unit| is_bounded && take_paths(dwarf, unit, &mut self.paths));
        let is_damaged = |unit| !lines::damage(dwarf, unit).is_empty();
        self.has_damaged_lines |= unit.as_ref().is_some_and(is_damaged);
        let begins = unit.and_then(|unit| functions(dwarf, &unit));
        self.checked.insert(offset, false);
        begins.is_some_and(|begins| self.add(offset, begins))
    }

    /// Adds a unit that is sound, with its functions by where they begin.
    fn add(&mut self, offset: usize, mut begins: Vec<(u64, UnitOffset)>) -> bool {
        self.checked.insert(offset, true);
        begins.sort_unstable();
        for same in begins.chunk_by(|one, other| one.0 == other.0) {
            if let [(address, _), _, ..] = same {
                let entries = same.iter().map(|&(_, entry)| (offset, entry));
                self.folded.entry(*address).or_default().extend(entries);
            }
        }
        true
    }
}

/// Adds the bytes of the paths of a unit's files; returns false where they are more than any compiler writes.
fn take_paths(dwarf: &Dwarf<R<'_>>, unit: &Unit<R<'_>>, taken: &mut usize) -> bool {
    let texts = [
        dwarf.debug_info.reader(),
        dwarf.debug_line.reader(),
        dwarf.debug_str.reader(),
        dwarf.debug_line_str.reader(),
    ];
    let stated: usize = texts.iter().map(|section| section.len()).sum();
    let most = stated
        .saturating_mul(MAX_PATHS_PER_BYTE)
        .saturating_add(MIN_PATH_LIMIT);
    *taken += lines::path_bytes(dwarf, unit, most.saturating_sub(*taken));
    *taken < most
}

/// Runs `work` on each unit that can be read, with its offset, for as long as it returns true. Returns true if that was
/// each unit.
fn for_each_unit<'a>(
    dwarf: &Dwarf<R<'a>>,
    mut work: impl FnMut(usize, &Unit<R<'a>>) -> bool,
) -> bool {
    let (mut headers, mut all) = (dwarf.units(), true);
    while let Some(header) = headers.next().transpose() {
        if header.as_ref().is_ok_and(roots::is_empty) {
            continue;
        }
        let unit = header.and_then(|header| Ok((header.debug_info_offset(), dwarf.unit(header)?)));
        match unit {
            Ok((Some(offset), unit)) if !work(offset.0, &unit) => return false,
            Ok(_) => {}
            Err(_) => all = false,
        }
    }
    all
}

/// `sections` with an end of a sequence in place of each damage in `.debug_line`, and how many units have such
/// lines; `None` where none is found.
pub(crate) fn mended(
    sections: &DwarfSections,
    shared: Option<&DwarfSections>,
) -> Option<(DwarfSections, usize)> {
    let dwarf = view_all(sections, shared)?;
    let mut left = MAX_READS.saturating_mul(dwarf.debug_line.reader().len());
    let (mut all, mut units, mut known) = (Vec::new(), 0, FxHashSet::default());
    for_each_unit(&dwarf, |_, unit| {
        let header = unit.line_program.as_ref().map(|program| program.header());
        let Some(header) = header.filter(|header| known.insert(header.offset().0)) else {
            return true;
        };
        let Some(rest) = left.checked_sub(header.raw_program_buf().len()) else {
            return false;
        };
        left = rest;
        let found = lines::damage(&dwarf, unit);
        units += usize::from(!found.is_empty());
        all.extend(found);
        true
    });
    (units > 0).then(|| (sections.with_sequences_ended(&all), units))
}

/// gimli's view of `sections`, to read each unit; `None` where its tables are more than any compiler writes.
pub(crate) fn view_all<'a>(
    sections: &'a DwarfSections,
    sup: Option<&'a DwarfSections>,
) -> Option<Dwarf<R<'a>>> {
    sections.view_all(sup, tables_are_bounded)
}

/// Returns true if all tables of abbreviations can be read within bounds: they may lie within one another.
fn tables_are_bounded(dwarf: &Dwarf<R<'_>>) -> bool {
    let section = *dwarf.debug_abbrev.reader();
    let mut left = MAX_READS.saturating_mul(section.len());
    let mut known = FxHashSet::default();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let at = header.debug_abbrev_offset().0;
        let mut table = section;
        if known.insert(at) && table.skip(at).is_ok() {
            let Some(rest) = left.checked_sub(roots::table_len(table)) else {
                return false;
            };
            left = rest;
        }
    }
    dwarf.sup().is_none_or(tables_are_bounded)
}

/// The functions of a unit by where they begin; `None` where addr2line cannot read it within bounds.
fn functions(dwarf: &Dwarf<R<'_>>, unit: &Unit<R<'_>>) -> Option<Vec<(u64, UnitOffset)>> {
    scan(dwarf, unit, None)
}

/// Returns true if addr2line can read all units, and within bounds.
pub(crate) fn all_bounded(dwarf: &Dwarf<R<'_>>) -> bool {
    tables_are_bounded(dwarf) && for_each_unit(dwarf, |_, unit| functions(dwarf, unit).is_some())
}

/// Checks all units; `None` if symbolic cannot read them within bounds.
pub(crate) fn all_sound(dwarf: &Dwarf<R<'_>>) -> Option<CheckedUnits> {
    let (mut links, mut tries, mut paths) = (Links::default(), 0u64, 0);
    let mut checked = CheckedUnits::default();
    let sound = for_each_unit(dwarf, |offset, unit| {
        let functions = scan(dwarf, unit, Some((offset, &mut links)));
        let program = unit.line_program.as_ref();
        let lines = program.map_or(0, |program| program.header().raw_program_buf().len());
        // A sequence takes at least 16 bytes: two opcodes of three bytes or more, and an address.
        let sequences = (lines as u64 / 16).max(1);
        let count = functions.as_ref().map_or(0, |entries| entries.len() as u64);
        tries = tries.saturating_add(count.saturating_mul(sequences));
        let is_sound = tries < MAX_TRIES && take_paths(dwarf, unit, &mut paths);
        is_sound && functions.is_some_and(|functions| checked.add(offset, functions))
    });
    let texts = [dwarf.debug_info.reader(), dwarf.debug_str.reader()];
    let stated: usize = texts.iter().map(|section| section.len()).sum();
    let most = stated.saturating_mul(MAX_NAMES_PER_BYTE);
    let is_short = links.name_bytes(most) < most.saturating_add(MIN_PATH_LIMIT);
    (sound && links.end() && is_short).then_some(checked)
}

/// References from entries without a name: their offsets in `.debug_info`.
#[derive(Default)]
struct Links {
    from_to: Vec<(usize, usize)>,
    targets: FxHashSet<usize>,
    /// Bytes of functions' names that are not short, by their offsets.
    long_names: FxHashMap<usize, usize>,
}

impl Links {
    /// Those from an entry to which another one leads.
    fn next(&self) -> FxHashMap<usize, usize> {
        let of_targets = self.from_to.iter().filter(|l| self.targets.contains(&l.0));
        of_targets.copied().collect()
    }

    /// Bytes of the long names that readers read, each for each entry that leads to it; not counted on from `most`.
    fn name_bytes(&self, most: usize) -> usize {
        let mut bytes = self
            .long_names
            .values()
            .fold(0usize, |sum, len| sum.saturating_add(*len));
        if bytes == 0 {
            return 0;
        }
        let next = self.next();
        for &(_, target) in &self.from_to {
            let mut target = Some(target);
            for _ in 0..MAX_REFERENCES {
                let Some(at) = target else { break };
                bytes = bytes.saturating_add(self.long_names.get(&at).copied().unwrap_or(0));
                target = next.get(&at).copied();
            }
            if bytes >= most {
                break;
            }
        }
        bytes
    }

    /// Returns true if none of them leads on for long, or in a circle.
    fn end(&self) -> bool {
        let next = self.next();
        next.keys().all(|&start| {
            let mut at = start;
            (0..MAX_REFERENCES).any(|_| match next.get(&at) {
                Some(&further) => {
                    at = further;
                    false
                }
                None => true,
            })
        })
    }
}

/// Reads a unit's entries in one pass: where functions begin, and into `links`, with the unit's offset, where entries without
/// a name lead; `None` where they nest too deeply, or have too many ranges. What is after damage no reader reaches either.
///
/// Of entries that are of no interest nothing is read but their abbreviation: most of them are types and variables.
fn scan(
    dwarf: &Dwarf<R<'_>>,
    unit: &Unit<R<'_>>,
    mut links: Option<(usize, &mut Links)>,
) -> Option<Vec<(u64, UnitOffset)>> {
    let (mut functions, mut open) = (Vec::new(), Vec::new());
    let mut most_ranges = unit.header.length_including_self() * MAX_RANGES_PER_BYTE;
    let Ok(mut entries) = unit.entries_raw(None) else {
        return Some(functions);
    };
    while !entries.is_empty() {
        let depth = entries.next_depth();
        let entry = entries.next_offset();
        let abbreviation = match entries.read_abbreviation() {
            Ok(Some(abbreviation)) => abbreviation,
            Ok(None) => continue,
            Err(_) => break,
        };
        let is_subprogram = abbreviation.tag() == gimli::DW_TAG_subprogram;
        let is_function = is_subprogram || abbreviation.tag() == gimli::DW_TAG_inlined_subroutine;
        let specs = abbreviation.attributes();
        while open.last().is_some_and(|&around| around >= depth) {
            open.pop();
        }
        if is_function {
            open.push(depth);
            if open.len() > MAX_INLINE_DEPTH {
                return None;
            }
        } else if links.is_none() {
            if entries.skip_attributes(specs).is_err() {
                break;
            }
            continue;
        }
        let (mut target, mut from) = (None, 0);
        for (at, &spec) in specs.iter().enumerate() {
            let matters = match spec.name() {
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => links.is_some(),
                gimli::DW_AT_ranges => is_function,
                gimli::DW_AT_low_pc => is_subprogram,
                name if is_name(name) => is_subprogram && links.is_some(),
                _ => false,
            };
            if !matters {
                continue;
            }
            let skipped = entries.skip_attributes(&specs[from..at]);
            let Ok(attribute) = skipped.and_then(|()| entries.read_attribute(spec)) else {
                return Some(functions);
            };
            from = at + 1;
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_ranges, value) => {
                    let list = UnitRef::new(dwarf, unit).attr_ranges(value);
                    let Ok(Some(mut list)) = list else { continue };
                    while let Ok(Some(_)) = list.next() {
                        most_ranges = most_ranges.checked_sub(1)?;
                    }
                }
                (gimli::DW_AT_low_pc, value) => {
                    let begin = dwarf.attr_address(unit, value).ok().flatten();
                    // Nought and the top are what the linker threw away.
                    let begin = begin.filter(|&at| at != 0 && at < u64::MAX - 1);
                    functions.extend(begin.map(|at| (at, entry)));
                }
                (name, value) if is_name(name) => {
                    let name = dwarf.attr_string(unit, value).map_or(0, |name| name.len());
                    if let Some((base, links)) = &mut links
                        && name > MIN_NAME
                    {
                        *links.long_names.entry(*base + entry.0).or_default() += name;
                    }
                }
                (_, AttributeValue::UnitRef(to)) => {
                    target = links.as_ref().map(|(base, _)| base + to.0)
                }
                (_, AttributeValue::DebugInfoRef(to)) => target = Some(to.0),
                _ => {}
            }
        }
        if entries.skip_attributes(&specs[from..]).is_err() {
            break;
        }
        if let Some((base, links)) = &mut links
            && let Some(target) = target
            && !specs.iter().any(|spec| is_name(spec.name()))
        {
            links.targets.insert(target);
            links.from_to.push((*base + entry.0, target));
        }
    }
    Some(functions)
}

/// Returns true for an attribute with the name of an entry.
fn is_name(attribute: gimli::DwAt) -> bool {
    matches!(
        attribute,
        gimli::DW_AT_name | gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolicate::debug_info::dwarf::assembled;
    use addr2line::gimli::SectionId;

    /// Offset in `.debug_info` of the first entry below the root.
    const FIRST: u32 = 12;

    /// Returns true if a unit with these entries below its root is sound. Entries of kind 2 are functions with
    /// children, those of kind 3 have none and refer to an abstract origin.
    fn is_sound(entries: &[u8]) -> bool {
        let abbreviations = [
            1, 0x11, 1, 0, 0, 2, 0x2e, 1, 0, 0, 3, 0x2e, 0, 0x31, 0x13, 0, 0, 0,
        ];
        let info = assembled::unit(&[&[1], entries, &[0]].concat());
        let parts = [
            (SectionId::DebugInfo, &info[..]),
            (SectionId::DebugAbbrev, &abbreviations),
        ];
        all_sound(&assembled::view(&parts)).is_some()
    }

    fn nested(depth: usize) -> Vec<u8> {
        [vec![2; depth], vec![0; depth]].concat()
    }

    /// Entries that refer to these.
    fn referring(to: impl Iterator<Item = u32>) -> Vec<u8> {
        let entry = |to: u32| [vec![3], to.to_le_bytes().to_vec()].concat();
        to.flat_map(entry).collect()
    }

    #[test]
    fn functions_in_functions_without_end_are_not_read() {
        assert!(is_sound(&nested(MAX_INLINE_DEPTH)));
        assert!(!is_sound(&nested(MAX_INLINE_DEPTH + 1)));
        assert!(!is_sound(&nested(400_000)));
    }

    #[test]
    fn references_in_a_circle_or_without_end_are_not_read() {
        let nth = |index: u32| FIRST + 5 * index;
        let chain = |len: u32| [referring((1..=len).map(nth)), nested(1)].concat();
        assert!(is_sound(&chain(3)));
        assert!(!is_sound(&chain(400_000)));
        for len in [1, 2, 3, 7] {
            assert!(
                !is_sound(&referring((1..=len).map(|next| nth(next % len)))),
                "{len}"
            );
        }
    }
}
