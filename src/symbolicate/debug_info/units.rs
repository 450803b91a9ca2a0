//! The units of an object's DWARF by the addresses that they claim, out of their root entries alone: no
//! other entry, table of lines or name is read for it.

use addr2line::gimli::{
    self, AttributeValue, DebugLineOffset, Dwarf, Range, Reader as _, Section as _, Unit, UnitType,
};

use super::dwarf::R;
use super::roots::{self, Attributes, MAX_READS, Roots, is_cpp};

/// The units that addr2line may read for an address: those that claim it, and a few that it does not read.
#[derive(Default)]
pub(crate) struct Units {
    /// start, end, unit; by start.
    ranges: Vec<(u64, u64, usize)>,
    /// For each range the highest end of it and all before it.
    reach: Vec<u64>,
    /// Units that state no addresses, and whose lines name none in the code: the linker threw away what
    /// they are of. addr2line reads their rows all the same.
    void: Vec<(usize, DebugLineOffset, u8)>,
    /// Offsets in abbreviations of partial units of DWARF 4 and before at which they name `DW_AT_stmt_list`: dwz leaves
    /// it to them for the files of their declarations. addr2line knows such units by the header of DWARF 5 alone, and
    /// takes their lines for code of theirs.
    pub lines_of_partial: Vec<usize>,
    /// True if the lines of one that states no addresses are damaged.
    pub has_damaged_lines: bool,
    /// True if some are not known: their headers or roots are damaged, or they share more than can be read for each, so
    /// that not one is read.
    pub is_cut: bool,
    /// True if symbolic cannot read them: the entries of some are in another file, or they share more
    /// than can be read for each.
    pub is_partial: bool,
    /// True if one is of C++.
    pub has_cpp: bool,
}

impl Units {
    /// Finds out which units claim which addresses, as addr2line does: by the ranges of the root entry,
    /// else by `.debug_aranges`, else by its lowest and highest address, else by the rows of its lines.
    /// `code` has the ranges of addresses that hold code.
    pub(crate) fn new(dwarf: &Dwarf<R<'_>>, code: &[(u64, u64)]) -> Units {
        let aranges = Aranges::new(dwarf);
        let mut roots = Roots::new(dwarf);
        let mut units = Units::default();
        let mut lines_left = MAX_READS.saturating_mul(dwarf.debug_line.reader().len());
        // An entry of a list takes two bytes or more, mostly 16.
        let lists = dwarf.ranges.debug_ranges().reader().len();
        let lists = lists + dwarf.ranges.debug_rnglists().reader().len();
        let mut ranges_left = lists + dwarf.debug_info.reader().len();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next().transpose() {
            if header.as_ref().is_ok_and(roots::is_empty) {
                continue;
            }
            // A root that cannot be read here addr2line cannot read either.
            let root = header.ok().and_then(|header| {
                let offset = header.debug_info_offset()?;
                Some((header, offset, roots.unit(header)?))
            });
            if roots.are_too_long() {
                return Units::empty();
            }
            let Some((header, offset, (unit, lines))) = root else {
                units.is_cut = true;
                continue;
            };
            let is_cpp = |of: &gimli::Attribute<_>| matches!(of.value(), AttributeValue::Language(of) if is_cpp(of));
            units.has_cpp |= roots.attributes.iter().any(is_cpp);
            if matches!(
                header.type_(),
                UnitType::Partial | UnitType::Type { .. } | UnitType::SplitType { .. }
            ) {
                continue;
            }
            if roots.tag == gimli::DW_TAG_partial_unit {
                units.lines_of_partial.extend(roots.names_lines_at);
                continue;
            }
            let before = units.ranges.len();
            let of_aranges = aranges.of(offset.0);
            let (root, left) = (&roots.attributes, &mut ranges_left);
            let stated = stated_ranges(dwarf, &unit, root, of_aranges, left, |range| {
                units.push(range, offset.0);
            });
            if ranges_left == 0 {
                return Units::empty();
            } else if stated.is_err() {
                units.push(EVERYWHERE, offset.0);
            } else if units.ranges.len() == before {
                let program = lines.and_then(|lines| program_at(dwarf, lines));
                let Some((lines, program)) = lines.zip(program) else {
                    continue;
                };
                let Some(left) = lines_left.checked_sub(program.len()) else {
                    return Units::empty();
                };
                lines_left = left;
                let lines = (offset.0, lines, header.address_size());
                if begins_in(code, program, header.address_size()) {
                    units.read_rows(dwarf, lines);
                } else {
                    units.void.push(lines);
                }
            }
            // A unit of a module (clang's, Swift's) has an id, too, and for a name that of a `.pcm`, but no code.
            units.is_partial |= unit.dwo_id.is_some() && units.ranges.len() > before;
        }
        units.sort();
        units
    }

    /// Of units that are not to be read.
    fn empty() -> Units {
        Units {
            is_cut: true,
            is_partial: true,
            ..Units::default()
        }
    }

    /// Bytes of memory that they take in addr2line, too, roughly.
    pub(crate) fn weight(&self) -> usize {
        self.ranges.len() * UNIT_WEIGHT
    }

    fn push(&mut self, range: Range, unit: usize) {
        if range.begin < range.end {
            self.ranges.push((range.begin, range.end, unit));
        }
    }

    fn sort(&mut self) {
        self.ranges.sort_unstable();
        let mut highest = 0;
        let reach = self.ranges.iter().map(|&(_, end, _)| {
            highest = highest.max(end);
            highest
        });
        self.reach = reach.collect();
    }

    /// The offsets of the units that claim `address`; `dwarf` is what they were found in, needed once.
    pub(crate) fn at<'a>(
        &mut self,
        address: u64,
        dwarf: impl FnOnce() -> Dwarf<R<'a>>,
    ) -> Vec<usize> {
        let units = self.known_at(address);
        if units.is_empty() || self.void.is_empty() {
            return units;
        }
        // addr2line will look into those as well that begin outside the code, and reach over the address.
        let dwarf = dwarf();
        for lines in std::mem::take(&mut self.void) {
            self.read_rows(&dwarf, lines);
        }
        self.sort();
        self.known_at(address)
    }

    fn known_at(&self, address: u64) -> Vec<usize> {
        let mut at = self.ranges.partition_point(|&(start, ..)| start <= address);
        let mut units = Vec::new();
        while at > 0 && self.reach[at - 1] > address {
            at -= 1;
            let (_, end, unit) = self.ranges[at];
            if address < end {
                units.push(unit);
            }
        }
        units
    }

    /// Adds the addresses of a unit that states none.
    fn read_rows(
        &mut self,
        dwarf: &Dwarf<R<'_>>,
        (unit, lines, address_size): (usize, DebugLineOffset, u8),
    ) {
        let program = dwarf.debug_line.program(lines, address_size, None, None);
        let Ok((_, sequences)) = program.and_then(|program| program.sequences()) else {
            self.has_damaged_lines = true;
            return; // addr2line does without them, too
        };
        for sequence in sequences {
            let (begin, end) = (sequence.start, sequence.end);
            self.push(Range { begin, end }, unit);
        }
    }
}

/// A line program with its header.
fn program_at<'a>(dwarf: &Dwarf<R<'a>>, lines: DebugLineOffset) -> Option<R<'a>> {
    let mut program = *dwarf.debug_line.reader();
    program.skip(lines.0).ok()?;
    let (length, _) = program.read_initial_length().ok()?;
    program.truncate(length).ok()?;
    Some(program)
}

/// Returns true if a sequence of a line program begins in `code`, by the instructions alone that set the address:
/// no row is read for it.
fn begins_in(code: &[(u64, u64)], program: R<'_>, address_size: u8) -> bool {
    let set_address = set_address(address_size);
    let mut addresses = set_addresses(program, &set_address, address_size);
    addresses.any(|(_, address)| is_in(code, address))
}

/// The instruction of a line program that sets the address, without its operand of `size` bytes.
pub(in crate::symbolicate) fn set_address(size: u8) -> [u8; 3] {
    [0, size.wrapping_add(1), gimli::DW_LNE_set_address.0]
}

/// Finds bytes that look like [`set_address`]: the offset in `program` of the operand of `size` bytes, and the address.
pub(in crate::symbolicate) fn set_addresses<'p>(
    program: R<'p>,
    set_address: &'p [u8; 3],
    size: u8,
) -> impl Iterator<Item = (usize, u64)> + 'p {
    let hits = memchr::memmem::find_iter(program.slice(), set_address);
    hits.filter_map(move |hit| {
        let at = hit + set_address.len();
        let mut operand = program;
        operand.skip(at).ok()?;
        Some((at, operand.read_address(size).ok()?))
    })
}

/// Returns true if one of the ranges of `code`, which are in order, holds the address.
pub(in crate::symbolicate) fn is_in(code: &[(u64, u64)], address: u64) -> bool {
    let after = code.partition_point(|&(start, _)| start <= address);
    after > 0 && address < code[after - 1].1
}

/// Bytes of memory of a range, its unit's abbreviations among them.
const UNIT_WEIGHT: usize = 512;

const EVERYWHERE: Range = Range {
    begin: 0,
    end: u64::MAX,
};

/// The sets of `.debug_aranges`, by the units that they are of. addr2line can do without a section that
/// is damaged, and does.
struct Aranges<'a>(Vec<(usize, gimli::ArangeHeader<R<'a>>)>);

impl<'a> Aranges<'a> {
    fn new(dwarf: &Dwarf<R<'a>>) -> Aranges<'a> {
        let of_unit = |set: gimli::ArangeHeader<_>| (set.debug_info_offset().0, set);
        let sets = dwarf.debug_aranges.headers();
        let sets: gimli::Result<Vec<_>> = sets.map(|set| set.map(of_unit)).collect();
        let mut sets = sets.unwrap_or_default();
        sets.sort_by_key(|&(unit, _)| unit);
        Aranges(sets)
    }

    /// The ranges of one unit that are not empty.
    fn of(&self, unit: usize) -> impl Iterator<Item = Range> {
        let first = self.0.partition_point(|&(other, _)| other < unit);
        let sets = self.0[first..].iter().take_while(move |set| set.0 == unit);
        let entries = sets.flat_map(|(_, set)| set.entries());
        // An entry that cannot be read ends its set, unless its end alone is out of bounds.
        let sound = entries.flatten().filter(|entry| entry.length() != 0);
        sound.map(|entry| entry.range())
    }
}

/// Runs `work` on each range that addr2line takes from the root or from `.debug_aranges`; an error where it
/// rejects the whole object. Takes the entries of a list from `left`.
fn stated_ranges(
    dwarf: &Dwarf<R<'_>>,
    unit: &Unit<R<'_>>,
    attributes: &Attributes<'_>,
    aranges: impl Iterator<Item = Range>,
    left: &mut usize,
    mut work: impl FnMut(Range),
) -> gimli::Result<()> {
    let (mut low, mut high, mut size, mut list) = (None, None, None, None);
    for attribute in attributes {
        let value = attribute.value();
        match attribute.name() {
            gimli::DW_AT_low_pc => low = dwarf.attr_address(unit, value)?.or(low),
            gimli::DW_AT_high_pc => match value {
                AttributeValue::Udata(value) => size = Some(value),
                value => high = dwarf.attr_address(unit, value)?.or(high),
            },
            gimli::DW_AT_ranges => list = dwarf.attr_ranges_offset(unit, value)?,
            _ => {}
        }
    }
    if let Some(list) = list {
        let mut entries = dwarf.raw_ranges(unit, list)?;
        while *left > 0 && entries.next()?.is_some() {
            *left -= 1;
        }
        let mut list = dwarf.ranges(unit, list)?;
        while let Some(range) = list.next()? {
            work(range);
        }
        return Ok(());
    }
    let mut aranges = aranges.peekable();
    if aranges.peek().is_some() {
        aranges.for_each(work);
    } else if let Some(begin) = low {
        let end = high.or_else(|| Some(begin.wrapping_add(size?)));
        end.into_iter().for_each(|end| work(Range { begin, end }));
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
