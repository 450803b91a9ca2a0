//! The units of an object's DWARF by the addresses that they claim, out of their root entries alone: no
//! other entry, table of lines or name is read for it.

use std::sync::Arc;

use addr2line::gimli::{
    self, Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugLineOffset, Dwarf,
    Range, Reader as _, Section as _, Unit, UnitHeader, UnitType,
};
use rustc_hash::FxHashMap;

use super::dwarf::R;

/// Which units addr2line may read for an address: those, and a few that it does not read.
pub(crate) struct Units {
    /// start, end, unit; by start.
    ranges: Vec<(u64, u64, usize)>,
    /// For each range the highest end of it and all before it.
    reach: Vec<u64>,
    /// Units that state no addresses, and where their lines stand: their rows tell, once an address needs
    /// them.
    unstated: Vec<(usize, DebugLineOffset, u8)>,
    /// Whether a unit's entries lie in another file.
    pub has_skeletons: bool,
}

impl Units {
    /// Finds out which units claim which addresses, as addr2line does: by the ranges of the root entry,
    /// else by `.debug_aranges`, else by its lowest and highest address, else by the rows of its lines.
    pub(crate) fn new(dwarf: &Dwarf<R<'_>>) -> Units {
        let by_aranges = aranges(dwarf).unwrap_or_default();
        let mut units = Units {
            ranges: Vec::new(),
            reach: Vec::new(),
            unstated: Vec::new(),
            has_skeletons: false,
        };
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Some(offset) = header.debug_info_offset() else {
                continue;
            };
            // What cannot be read addr2line cannot read either.
            let Some((unit, lines)) = root_alone(dwarf, header) else {
                continue;
            };
            units.has_skeletons |= unit.dwo_id.is_some();
            if matches!(
                header.type_(),
                UnitType::Partial | UnitType::Type { .. } | UnitType::SplitType { .. }
            ) {
                continue;
            }
            let before = units.ranges.len();
            let of_aranges = by_aranges.get(&offset.0).map_or(&[][..], Vec::as_slice);
            let stated = stated_ranges(dwarf, &unit, of_aranges, |range| {
                units.push(range, offset.0);
            });
            if stated.is_err() {
                units.push(EVERYWHERE, offset.0);
            } else if units.ranges.len() == before {
                let lines = lines.map(|lines| (offset.0, lines, header.address_size()));
                units.unstated.extend(lines);
            }
        }
        units.sort();
        units
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

    /// The offsets of the units that claim `address`.
    pub(crate) fn at(&mut self, dwarf: &Dwarf<R<'_>>, address: u64) -> Vec<usize> {
        if !self.unstated.is_empty() {
            self.read_rows(dwarf);
        }
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

    /// Adds the addresses of units that state none.
    fn read_rows(&mut self, dwarf: &Dwarf<R<'_>>) {
        for (unit, lines, address_size) in std::mem::take(&mut self.unstated) {
            let program = dwarf.debug_line.program(lines, address_size, None, None);
            let Ok((_, sequences)) = program.and_then(|program| program.sequences()) else {
                continue; // addr2line does without them, too
            };
            for sequence in sequences {
                let (begin, end) = (sequence.start, sequence.end);
                self.push(Range { begin, end }, unit);
            }
        }
        self.sort();
    }
}

const EVERYWHERE: Range = Range {
    begin: 0,
    end: u64::MAX,
};

/// What `.debug_aranges` has for each unit. addr2line can do without one that is damaged, and does.
fn aranges(dwarf: &Dwarf<R<'_>>) -> gimli::Result<FxHashMap<usize, Vec<Range>>> {
    let mut by_unit: FxHashMap<usize, Vec<Range>> = FxHashMap::default();
    let mut sets = dwarf.debug_aranges.headers();
    while let Some(set) = sets.next()? {
        let of_unit = by_unit.entry(set.debug_info_offset().0).or_default();
        let mut entries = set.entries();
        while let Some(entry) = entries.next().transpose() {
            let entry = entry.iter().filter(|entry| entry.length() != 0);
            of_unit.extend(entry.map(gimli::ArangeEntry::range));
        }
    }
    Ok(by_unit)
}

/// A unit of which only the root can be read, without its name, and where its lines stand.
fn root_alone<'a>(
    dwarf: &Dwarf<R<'a>>,
    header: UnitHeader<R<'a>>,
) -> Option<(Unit<R<'a>>, Option<DebugLineOffset>)> {
    let mut unit = Unit {
        abbreviations: Arc::new(Abbreviations::default()),
        name: None,
        comp_dir: None,
        low_pc: 0,
        str_offsets_base: gimli::DebugStrOffsetsBase(0),
        addr_base: gimli::DebugAddrBase(0),
        loclists_base: gimli::DebugLocListsBase(0),
        rnglists_base: gimli::DebugRngListsBase(0),
        line_program: None,
        dwo_id: match header.type_() {
            UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
            _ => None,
        },
        header,
    };
    let first = first_abbreviation(&dwarf.debug_abbrev, header.debug_abbrev_offset());
    unit.abbreviations = Arc::new(first.unwrap_or_default());
    if !matches!(unit.entries().next_dfs(), Ok(Some(_))) {
        // The root has another abbreviation than the first of its table.
        unit.abbreviations = dwarf.abbreviations(&header).ok()?;
    }
    let abbreviations = unit.abbreviations.clone();
    let mut entries = header.entries(&abbreviations);
    let root = entries.next_dfs().ok()??;
    let (mut low, mut lines) = (None, None);
    for attribute in root.attrs() {
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_low_pc, value) => low = Some(value),
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(at)) => lines = Some(at),
            (
                gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base,
                AttributeValue::DebugAddrBase(base),
            ) => unit.addr_base = base,
            (
                gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base,
                AttributeValue::DebugRngListsBase(base),
            ) => unit.rnglists_base = base,
            (gimli::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) => {
                unit.dwo_id = unit.dwo_id.or(Some(id));
            }
            _ => {}
        }
    }
    if let Some(low) = low {
        unit.low_pc = dwarf.attr_address(&unit, low).ok()?.unwrap_or(0);
    }
    Some((unit, lines))
}

/// The first abbreviation of a table: nearly always that of the root.
fn first_abbreviation(
    section: &DebugAbbrev<R<'_>>,
    table: DebugAbbrevOffset,
) -> gimli::Result<Abbreviations> {
    let mut rest = *section.reader();
    rest.skip(table.0)?;
    let mut first = rest;
    let (_code, _tag, _children) = (rest.read_uleb128()?, rest.read_uleb128()?, rest.read_u8()?);
    loop {
        let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
        if form == u64::from(gimli::DW_FORM_implicit_const.0) {
            rest.read_sleb128()?;
        }
        if (name, form) == (0, 0) {
            break;
        }
    }
    first.truncate(rest.offset_from(first))?;
    DebugAbbrev::from(first).abbreviations(DebugAbbrevOffset(0))
}

/// Runs `work` on each range that addr2line takes from the root or from `.debug_aranges`; an error where it
/// gives the whole object up.
fn stated_ranges(
    dwarf: &Dwarf<R<'_>>,
    unit: &Unit<R<'_>>,
    aranges: &[Range],
    mut work: impl FnMut(Range),
) -> gimli::Result<()> {
    let (mut low, mut high, mut size, mut list) = (None, None, None, None);
    let mut entries = unit.entries();
    for attribute in entries
        .next_dfs()?
        .into_iter()
        .flat_map(|root| root.attrs())
    {
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
        let mut list = dwarf.ranges(unit, list)?;
        while let Some(range) = list.next()? {
            work(range);
        }
    } else if !aranges.is_empty() {
        aranges.iter().copied().for_each(work);
    } else if let Some(begin) = low {
        let end = high.or_else(|| Some(begin.wrapping_add(size?)));
        end.into_iter().for_each(|end| work(Range { begin, end }));
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::symbolicate::dwarf::Sections;
    use crate::symbolicate::object_file;
    use addr2line::{Context, LookupResult};

    /// This very program: some of its units state ranges, some have empty lists, some declare alone.
    #[test]
    fn each_address_that_addr2line_knows_some_unit_claims() {
        let path = std::env::current_exe().unwrap();
        let object = &object_file::open(&path).unwrap()[0];
        let sections = Sections::load(object).expect("tests are built with debug information");
        let context = Context::from_dwarf(sections.view_all(None)).unwrap();
        let dwarf = sections.view(None);
        let mut units = Units::new(&dwarf);
        let (mut known, mut unknown) = (0, 0);
        for &(start, end) in &object.code {
            let step = ((end - start) / 300).max(1) as usize;
            for address in (start..end).step_by(step) {
                let claimed = !units.at(&dwarf, address).is_empty();
                let LookupResult::Output(frames) = context.find_frames(address) else {
                    panic!("split DWARF");
                };
                let is_known = frames.unwrap().next().unwrap().is_some();
                assert!(claimed || !is_known, "{address:#x}");
                known += usize::from(is_known);
                unknown += usize::from(!claimed);
            }
        }
        assert!(known > 200, "{known}");
        assert!(unknown > 0, "the start-up code of C has no DWARF");
    }
}
