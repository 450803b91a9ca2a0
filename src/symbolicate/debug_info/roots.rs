//! Reads the roots of units, but of these only the attributes that lead to addresses and lines, and of a table of
//! abbreviations only the root's.

use std::sync::Arc;

use addr2line::gimli::{
    self, Abbreviations, AttributeSpecification, AttributeValue, DebugLineOffset, Dwarf,
    Reader as _, Section as _, Unit, UnitHeader, UnitOffset, UnitType,
};
use rustc_hash::FxHashMap;

use super::dwarf::R;

/// Most times that the bytes of abbreviations and lines are read because units share them. addr2line and symbolic
/// keep what they read for each unit.
pub(crate) const MAX_READS: usize = 16;

/// The attributes of a root that lead to addresses and lines, and its language; all others, names first, are skipped.
const WANTED: [gimli::DwAt; 10] = [
    gimli::DW_AT_low_pc,
    gimli::DW_AT_high_pc,
    gimli::DW_AT_ranges,
    gimli::DW_AT_stmt_list,
    gimli::DW_AT_addr_base,
    gimli::DW_AT_GNU_addr_base,
    gimli::DW_AT_rnglists_base,
    gimli::DW_AT_GNU_ranges_base,
    gimli::DW_AT_GNU_dwo_id,
    gimli::DW_AT_language,
];

/// Bytes of a root's abbreviation that do not count toward the limit: many roots may share one.
const SHORT: usize = 256;

/// Attributes of one entry.
pub(crate) type Attributes<'a> = Vec<gimli::Attribute<R<'a>>>;

/// Reads roots one after the other.
pub(crate) struct Roots<'d, 'a> {
    dwarf: &'d Dwarf<R<'a>>,
    /// Wanted attributes of the last root that was read.
    pub attributes: Attributes<'a>,
    /// Its tag.
    pub tag: gimli::DwTag,
    /// Offset in `.debug_abbrev` at which its abbreviation names `DW_AT_stmt_list`.
    pub names_lines_at: Option<usize>,
    /// Offset and tag of each abbreviation that was read, by its table and code.
    abbreviations: FxHashMap<(usize, u64), (usize, gimli::DwTag)>,
    /// Bytes of abbreviations that may still be read.
    bytes_left: usize,
    no_abbreviations: Arc<Abbreviations>,
}

impl<'d, 'a> Roots<'d, 'a> {
    pub(crate) fn new(dwarf: &'d Dwarf<R<'a>>) -> Roots<'d, 'a> {
        Roots {
            dwarf,
            attributes: Vec::new(),
            tag: gimli::DW_TAG_null,
            names_lines_at: None,
            abbreviations: FxHashMap::default(),
            bytes_left: MAX_READS.saturating_mul(dwarf.debug_abbrev.reader().len()),
            no_abbreviations: Arc::default(),
        }
    }

    /// Returns true if units share tables of abbreviations more often than the limit allows. Then the last root is
    /// incomplete.
    pub(crate) fn are_too_long(&self) -> bool {
        self.bytes_left == 0
    }

    /// Returns a unit of which only the root can be read, without its name, and the offset of its lines.
    pub(crate) fn unit(
        &mut self,
        header: UnitHeader<R<'a>>,
    ) -> Option<(Unit<R<'a>>, Option<DebugLineOffset>)> {
        self.read(&header).ok()?;
        let mut unit = Unit {
            abbreviations: self.no_abbreviations.clone(),
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
        let mut low = None;
        let mut lines = None;
        for attribute in &self.attributes {
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
            unit.low_pc = self.dwarf.attr_address(&unit, low).ok()?.unwrap_or(0);
        }
        Some((unit, lines))
    }

    /// Reads the attributes of a root, one by one as its abbreviation names them.
    fn read(&mut self, header: &UnitHeader<R<'a>>) -> gimli::Result<()> {
        self.attributes.clear();
        let root = header.root_offset();
        let mut input = header.range_from(root..)?;
        let all = input.len();
        let code = input.read_uleb128()?;
        let first = UnitOffset(root.0 + (all - input.len()));
        let (mut specs, tag) = self.find(header.debug_abbrev_offset().0, code)?;
        let mut entry = header.entries_raw(&self.no_abbreviations, Some(first))?;
        let begin = specs.len();
        let section_len = self.dwarf.debug_abbrev.reader().len();
        self.tag = tag;
        self.names_lines_at = None;
        loop {
            let at = section_len - specs.len();
            let Some(spec) = specification(&mut specs)? else {
                break;
            };
            if spec.name() == gimli::DW_AT_stmt_list {
                self.names_lines_at = Some(at);
            }
            if WANTED.contains(&spec.name()) {
                self.attributes.push(entry.read_attribute(spec)?);
            } else {
                entry.skip_attributes(&[spec])?;
            }
        }
        let length = begin - specs.len();
        self.bytes_left = self.bytes_left.saturating_sub(length.saturating_sub(SHORT));
        Ok(())
    }

    /// Finds the abbreviation `code` of a table; returns its attributes and its tag.
    fn find(&mut self, table: usize, code: u64) -> gimli::Result<(R<'a>, gimli::DwTag)> {
        let mut specs = *self.dwarf.debug_abbrev.reader();
        let all = specs.len();
        if let Some(&(at, tag)) = self.abbreviations.get(&(table, code)) {
            specs.skip(at)?;
            return Ok((specs, tag));
        }
        specs.skip(table)?;
        let begin = specs.len();
        let mut found = Ok(None);
        while found == Ok(None) && begin - specs.len() < self.bytes_left {
            found = next_abbreviation(&mut specs, Some(code));
        }
        self.bytes_left = self.bytes_left.saturating_sub(begin - specs.len());
        let tag = found?.ok_or(gimli::Error::InvalidAbbreviationCode(code))?;
        self.abbreviations
            .insert((table, code), (all - specs.len(), tag));
        Ok((specs, tag))
    }
}

/// Returns true if a unit has no root, as those that old versions of dsymutil leave: nothing is missing there.
pub(crate) fn is_empty(header: &UnitHeader<R<'_>>) -> bool {
    let root = header.root_offset();
    // At the unit's end there is no range to take.
    root.0 >= header.length_including_self()
        || (header.range_from(root..))
            .is_ok_and(|entries| entries.slice().iter().all(|byte| *byte == 0))
}

/// Reads the next abbreviation. If its code is `wanted`, stops before the attributes and returns the tag; else skips
/// it. Returns an error at the end of the table, too.
fn next_abbreviation(
    specs: &mut R<'_>,
    wanted: Option<u64>,
) -> gimli::Result<Option<gimli::DwTag>> {
    let code = specs.read_uleb128()?;
    if code == 0 {
        return Err(gimli::Error::InvalidAbbreviationCode(0));
    }
    let (tag, _children) = (specs.read_uleb128()?, specs.read_u8()?);
    if wanted == Some(code) {
        return Ok(Some(gimli::DwTag(u16::try_from(tag).unwrap_or(0))));
    }
    while specification(specs)?.is_some() {}
    Ok(None)
}

/// Length in bytes of the table of abbreviations with which `specs` begins, as far as it can be read.
pub(crate) fn table_len(mut specs: R<'_>) -> usize {
    let begin = specs.len();
    while next_abbreviation(&mut specs, None).is_ok() {}
    begin - specs.len()
}

/// Reads the next attribute of an abbreviation; returns `None` at its end.
fn specification(specs: &mut R<'_>) -> gimli::Result<Option<AttributeSpecification>> {
    let (name, form) = (specs.read_uleb128_u16()?, specs.read_uleb128_u16()?);
    let (name, form) = (gimli::DwAt(name), gimli::DwForm(form));
    let constant = match form {
        gimli::DW_FORM_implicit_const => Some(specs.read_sleb128()?),
        _ => None,
    };
    let is_end = name.0 == 0 && form.0 == 0;
    Ok((!is_end).then(|| AttributeSpecification::new(name, form, constant)))
}

/// Returns true for C++, and what contains it.
pub(crate) fn is_cpp(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
            | gimli::DW_LANG_ObjC_plus_plus
    )
}
