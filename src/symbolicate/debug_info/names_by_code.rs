//! A table from address ranges to scoped function names. It covers all functions of one file, inlined copies included.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use addr2line::gimli::{
    self, AttributeValue, Dwarf, Reader as _, Section as _, UnitOffset, UnitRef,
};
use rustc_hash::{FxHashMap, FxHasher};

use super::dwarf::R;
use super::scopes::{Entry, ScopedName, ScopedNames};

/// The names of a whole object.
#[derive(Default)]
pub(crate) struct NamesByCode {
    /// In order of function, then of address.
    all: Vec<(FunctionRange, Arc<str>)>,
    /// Count of ranges that may still be added.
    range_budget: usize,
}

/// The table may hold one range per so many bytes of `.debug_info`. The limit is needed because entries can share a range
/// list.
const MIN_BYTES_PER_RANGE: usize = 4;

/// A range of a function's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FunctionRange {
    /// Number of functions that it is inlined into.
    depth: u32,
    /// Hash of the name without scopes.
    name_hash: u64,
    begin: u64,
    end: u64,
}

impl NamesByCode {
    /// Reads the entries of all functions.
    pub(crate) fn read(dwarf: &Arc<Dwarf<R<'_>>>) -> NamesByCode {
        let mut names = ScopedNames::new(dwarf.clone(), true);
        let mut found = NamesByCode {
            all: Vec::new(),
            range_budget: dwarf.debug_info.reader().len() / MIN_BYTES_PER_RANGE,
        };
        let mut known = FxHashMap::default();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let offset = header.debug_info_offset();
            if let (Some(offset), Ok(unit)) = (offset, dwarf.unit(header)) {
                let unit = UnitRef::new(dwarf, &unit);
                // An error ends the unit. Other readers cannot read past the damage either.
                let _ = found.read_unit(offset.0, unit, &mut names, &mut known);
            }
        }
        found.all.sort_unstable_by_key(|&(code, _)| code);
        found
    }

    /// The name of the function with this plain name that has code at `address`, `depth` functions deep.
    pub(crate) fn of(&self, address: u64, depth: u32, plain: &str) -> Option<&str> {
        if self.all.is_empty() {
            return None;
        }
        let name_hash = hash(plain);
        let key = |code: &FunctionRange| (code.depth, code.name_hash, code.begin);
        let after = self
            .all
            .partition_point(|(code, _)| key(code) <= (depth, name_hash, address));
        let (code, name) = self.all.get(after.checked_sub(1)?)?;
        let is_it = (code.depth, code.name_hash) == (depth, name_hash) && address < code.end;
        is_it.then_some(&**name)
    }

    fn read_unit<'a>(
        &mut self,
        offset: usize,
        unit: UnitRef<'_, R<'a>>,
        names: &mut ScopedNames<'a>,
        known: &mut FxHashMap<usize, Option<ScopedName>>,
    ) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        // Depths of the entries of the functions around, with those of their inlining.
        let mut open: Vec<(isize, u32)> = Vec::new();
        while !entries.is_empty() {
            let (at, depth) = (entries.next_offset(), entries.next_depth());
            while open.pop_if(|(around, _)| *around >= depth).is_some() {}
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            let around = open.last().map(|&(_, inlining)| inlining);
            let inlining = match abbreviation.tag() {
                gimli::DW_TAG_subprogram => 0,
                gimli::DW_TAG_inlined_subroutine => around.map_or(0, |around| around + 1),
                _ => {
                    entries.skip_attributes(abbreviation.attributes())?;
                    continue;
                }
            };
            if abbreviation.has_children() {
                open.push((depth, inlining));
            }
            let (mut target, mut has_code, mut has_linkage) = (at.0 + offset, false, false);
            for &spec in abbreviation.attributes() {
                let attribute = entries.read_attribute(spec)?;
                match (attribute.name(), attribute.value()) {
                    (gimli::DW_AT_low_pc | gimli::DW_AT_ranges, _) => has_code = true,
                    (gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name, _) => {
                        has_linkage = true;
                    }
                    (gimli::DW_AT_abstract_origin | gimli::DW_AT_specification, of) => {
                        target = match of {
                            AttributeValue::UnitRef(to) => offset + to.0,
                            AttributeValue::DebugInfoRef(to) => to.0,
                            _ => target,
                        };
                    }
                    _ => {}
                }
            }
            if !has_code || has_linkage {
                continue;
            }
            let find = || names.of(Entry { unit: offset, at });
            let Some(name) = known.entry(target).or_insert_with(find) else {
                continue;
            };
            self.add(unit, at, inlining, name)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        unit: UnitRef<'_, R<'_>>,
        at: UnitOffset,
        depth: u32,
        name: &ScopedName,
    ) -> gimli::Result<()> {
        let name_hash = hash(&name.plain);
        let mut ranges = unit.die_ranges(&unit.entry(at)?)?;
        while let Some(range) = ranges.next()? {
            let Some(left) = self.range_budget.checked_sub(1) else {
                break;
            };
            self.range_budget = left;
            let code = FunctionRange {
                depth,
                name_hash,
                begin: range.begin,
                end: range.end,
            };
            self.all.push((code, name.full.clone()));
        }
        Ok(())
    }
}

fn hash(plain: &str) -> u64 {
    let mut hasher = FxHasher::default();
    plain.hash(&mut hasher);
    hasher.finish()
}
