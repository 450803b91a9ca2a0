//! Which units hold an address, and which unit holds a DIE.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use gimli::{Abbreviations, DebugInfoOffset, Dwarf, Unit, UnitHeader};
use rustc_hash::{FxHashMap, FxHashSet};

use super::names::Names;
use super::{DwarfFile, R};
use crate::symbolicate::object_file::code_end;

/// Ranges of stated addresses with the offset of the unit that claims them, in order of address.
/// Plain data: kept beside the file, needs no borrow.
#[derive(Debug, Default)]
pub(crate) struct UnitIndex {
    /// start, end, offset of the unit in `.debug_info`
    ranges: Vec<(u64, u64, usize)>,
    /// For each range the highest end of it and all before it.
    reach: Vec<u64>,
    /// Whether `.debug_aranges` alone was read, and the units themselves may know more.
    partial: bool,
}

impl UnitIndex {
    fn new(mut ranges: Vec<(u64, u64, usize)>, partial: bool) -> UnitIndex {
        ranges.sort_unstable();
        ranges.dedup();
        let mut highest = 0;
        let reach = ranges.iter().map(|&(_, end, _)| {
            highest = highest.max(end);
            highest
        });
        UnitIndex {
            reach: reach.collect(),
            ranges,
            partial,
        }
    }

    /// Whether a complete index could know more than this one.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    /// Offsets of the units that claim `address`, the lowest first.
    pub(crate) fn units_at(&self, address: u64) -> Vec<usize> {
        let mut found = Vec::new();
        let mut at = self.ranges.partition_point(|&(start, ..)| start <= address);
        while at > 0 && self.reach[at - 1] > address {
            at -= 1;
            let (_, end, unit) = self.ranges[at];
            if address < end {
                found.push(unit);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

type SharedUnit<'a> = Rc<Unit<R<'a>>>;

/// A reading of one file's DWARF: gimli's view, and what was parsed so far. Not shared between
/// threads; each makes its own.
pub(crate) struct Walk<'a> {
    pub(super) file: &'a DwarfFile,
    pub(super) dwarf: &'a Dwarf<R<'a>>,
    abbreviations: RefCell<FxHashMap<usize, Arc<Abbreviations>>>,
    headers: OnceCell<Vec<UnitHeader<R<'a>>>>,
    sup_headers: OnceCell<Vec<UnitHeader<R<'a>>>>,
    units: RefCell<FxHashMap<(bool, usize), SharedUnit<'a>>>,
    /// Names of DIEs by (in the dwz file, offset in `.debug_info`).
    pub(super) names: RefCell<FxHashMap<(bool, usize), Names>>,
}

/// After so many units' headers their pages are let go: they lie all over the file, and the system
/// maps 16 pages around each.
const HEADERS_HELD: usize = 32;
/// So many parsed units are kept for references from other units.
const UNITS_KEPT: usize = 64;

impl<'a> Walk<'a> {
    pub(super) fn new(file: &'a DwarfFile, dwarf: &'a Dwarf<R<'a>>) -> Walk<'a> {
        Walk {
            file,
            dwarf,
            abbreviations: RefCell::default(),
            headers: OnceCell::new(),
            sup_headers: OnceCell::new(),
            units: RefCell::default(),
            names: RefCell::default(),
        }
    }

    /// Offsets of all units with code, in order.
    pub(crate) fn unit_offsets(&self) -> Vec<usize> {
        self.headers(false)
            .iter()
            .filter_map(|header| Some(header.debug_info_offset()?.0))
            .collect()
    }

    /// The quick index: `.debug_aranges` alone, where there is one.
    pub(crate) fn quick_index(&self) -> UnitIndex {
        UnitIndex::new(self.aranges().0, true)
    }

    /// What `.debug_aranges` says, and the units whose part of it is whole.
    fn aranges(&self) -> (Vec<(u64, u64, usize)>, FxHashSet<usize>) {
        let (mut ranges, mut whole) = (Vec::new(), FxHashSet::default());
        let mut sets = self.dwarf.debug_aranges.headers();
        while let Ok(Some(set)) = sets.next() {
            let unit = set.debug_info_offset().0;
            let mut entries = set.entries();
            let end = loop {
                match entries.next() {
                    Ok(Some(entry)) => self.push(&mut ranges, entry.range(), unit),
                    end => break end,
                }
            };
            if end.is_ok() {
                whole.insert(unit);
            }
        }
        (ranges, whole)
    }

    /// The complete index: what the units' own root DIEs say, and for units that say nothing, their
    /// functions.
    ///
    /// In a dSYM with `.debug_aranges` that section is believed: dsymutil makes it out of the
    /// functions that it linked, one by one, where the root DIE has but the lowest and the highest
    /// address of them all, between which lie most other units' functions, and all that have no
    /// DWARF. A unit that neither says anything of holds types alone.
    pub(crate) fn complete_index(&self) -> UnitIndex {
        let (mut ranges, told) = match self.file.is_dsym {
            true => self.aranges(),
            false => Default::default(),
        };
        for (index, header) in self.headers(false).iter().enumerate() {
            if index % HEADERS_HELD == 0 {
                self.file.let_go();
            }
            let Some(offset) = header.debug_info_offset() else {
                continue;
            };
            if told.contains(&offset.0) {
                continue;
            }
            let Ok(unit) = self.unit(header) else {
                continue;
            };
            let before = ranges.len();
            if let Ok(mut of_unit) = self.dwarf.unit_ranges(&unit) {
                while let Ok(Some(range)) = of_unit.next() {
                    self.push(&mut ranges, range, offset.0);
                }
            }
            if ranges.len() == before && told.is_empty() {
                for segment in self.flatten(offset.0, None).segments {
                    ranges.push((segment.start, segment.end, offset.0));
                }
            }
        }
        UnitIndex::new(ranges, false)
    }

    /// Adds a range, unless it is one that the linker threw away.
    fn push(&self, ranges: &mut Vec<(u64, u64, usize)>, range: gimli::Range, unit: usize) {
        if range.begin < range.end && self.is_code(range.begin) {
            ranges.push((range.begin, range.end, unit));
        }
    }

    /// Whether `address` lies in a code section: what the linker threw away lies at 0 or at the top.
    pub(super) fn is_code(&self, address: u64) -> bool {
        code_end(&self.file.code, address).is_some()
    }

    pub(super) fn unit(&self, header: &UnitHeader<R<'a>>) -> gimli::Result<Unit<R<'a>>> {
        self.unit_of(self.dwarf, header)
    }

    fn unit_of(
        &self,
        dwarf: &Dwarf<R<'a>>,
        header: &UnitHeader<R<'a>>,
    ) -> gimli::Result<Unit<R<'a>>> {
        if !std::ptr::eq(dwarf, self.dwarf) {
            return dwarf.unit(*header);
        }
        let offset = header.debug_abbrev_offset();
        let mut known = self.abbreviations.borrow_mut();
        let abbreviations = match known.get(&offset.0) {
            Some(abbreviations) => abbreviations.clone(),
            None => {
                let parsed = Arc::new(header.abbreviations(&dwarf.debug_abbrev)?);
                known.insert(offset.0, parsed.clone());
                parsed
            }
        };
        Unit::new_with_abbreviations(dwarf, *header, abbreviations)
    }

    /// The unit at `offset`, as it begins there.
    pub(super) fn unit_at(&self, offset: usize) -> gimli::Result<Unit<R<'a>>> {
        self.unit(&self.dwarf.unit_header(DebugInfoOffset(offset))?)
    }

    /// The unit that holds the DIE at `offset` in `.debug_info` (of the dwz file, if `sup`).
    pub(super) fn unit_around(&self, sup: bool, offset: usize) -> Option<Rc<Unit<R<'a>>>> {
        let headers = self.headers(sup);
        let after =
            headers.partition_point(|h| h.debug_info_offset().is_some_and(|o| o.0 <= offset));
        let header = headers.get(after.checked_sub(1)?)?;
        let key = (sup, header.debug_info_offset()?.0);
        if let Some(unit) = self.units.borrow().get(&key) {
            return Some(unit.clone());
        }
        let dwarf = if sup { self.dwarf.sup()? } else { self.dwarf };
        let unit = Rc::new(self.unit_of(dwarf, header).ok()?);
        let mut units = self.units.borrow_mut();
        if units.len() >= UNITS_KEPT {
            units.clear();
        }
        units.insert(key, unit.clone());
        Some(unit)
    }

    pub(super) fn headers(&self, sup: bool) -> &[UnitHeader<R<'a>>] {
        let (cell, dwarf) = match (sup, self.dwarf.sup()) {
            (false, _) => (&self.headers, Some(self.dwarf)),
            (true, sup) => (&self.sup_headers, sup),
        };
        cell.get_or_init(|| {
            let mut headers = Vec::new();
            if let Some(dwarf) = dwarf {
                let mut units = dwarf.units();
                while let Ok(Some(header)) = units.next() {
                    headers.push(header);
                    if headers.len() % HEADERS_HELD == 0 {
                        self.file.let_go();
                    }
                }
            }
            headers
        })
    }
}
