//! What a function's DIE calls it, through abstract origins and specifications, over unit borders.

use gimli::{AttributeValue, DebuggingInformationEntry, Unit, UnitOffset};

use super::R;
use super::units::Walk;

/// The names of a function's DIE.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// `DW_AT_linkage_name`
    pub linkage: Option<String>,
    /// `DW_AT_name`
    pub name: Option<String>,
    /// `DW_AT_decl_line`
    pub line: Option<u64>,
}

impl Names {
    fn is_complete(&self) -> bool {
        self.linkage.is_some() && self.name.is_some() && self.line.is_some()
    }
}

/// References are followed so far: damaged ones may run in a circle.
const HOPS: usize = 8;

/// Where a reference leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Within the unit.
    Here(UnitOffset),
    /// An offset in `.debug_info`, of the dwz file if the flag is set.
    Elsewhere(bool, usize),
}

pub(super) fn target(value: AttributeValue<R<'_>>, in_sup: bool) -> Option<Target> {
    match value {
        AttributeValue::UnitRef(offset) => Some(Target::Here(offset)),
        AttributeValue::DebugInfoRef(offset) => Some(Target::Elsewhere(in_sup, offset.0)),
        AttributeValue::DebugInfoRefSup(offset) => Some(Target::Elsewhere(true, offset.0)),
        _ => None,
    }
}

impl<'a> Walk<'a> {
    /// The names of the DIE at `target`, seen from `unit` (which lies in the dwz file if `in_sup`).
    pub(super) fn names_of(&self, unit: &Unit<R<'a>>, in_sup: bool, target: Target) -> Names {
        let key = match target {
            Target::Here(offset) => match offset.to_debug_info_offset(&unit.header) {
                Some(offset) => (in_sup, offset.0),
                None => return Names::default(),
            },
            Target::Elsewhere(sup, offset) => (sup, offset),
        };
        // Split units lie in another file, whose offsets mean other DIEs.
        let cached = unit.header.type_() == gimli::UnitType::Compilation
            || !matches!(target, Target::Here(_));
        if cached && let Some(names) = self.names.borrow().get(&key) {
            return names.clone();
        }
        let mut names = Names::default();
        self.collect(unit, in_sup, target, &mut names, HOPS);
        if cached {
            self.names.borrow_mut().insert(key, names.clone());
        }
        names
    }

    fn collect(
        &self,
        unit: &Unit<R<'a>>,
        in_sup: bool,
        target: Target,
        names: &mut Names,
        hops: usize,
    ) {
        let Some(hops) = hops.checked_sub(1) else {
            return;
        };
        match target {
            Target::Here(offset) => {
                let Ok(entry) = unit.entry(offset) else {
                    return;
                };
                self.take(unit, in_sup, &entry, names);
                for reference in [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification] {
                    if names.is_complete() {
                        return;
                    }
                    if let Some(next) = entry
                        .attr_value(reference)
                        .and_then(|value| super::names::target(value, in_sup))
                    {
                        self.collect(unit, in_sup, next, names, hops);
                    }
                }
            }
            Target::Elsewhere(sup, offset) => {
                let Some(other) = self.unit_around(sup, offset) else {
                    return;
                };
                if let Some(offset) = gimli::DebugInfoOffset(offset).to_unit_offset(&other.header) {
                    self.collect(&other, sup, Target::Here(offset), names, hops);
                }
            }
        }
    }

    fn take(
        &self,
        unit: &Unit<R<'a>>,
        in_sup: bool,
        entry: &DebuggingInformationEntry<R<'a>>,
        names: &mut Names,
    ) {
        if names.linkage.is_none() {
            let value = entry
                .attr_value(gimli::DW_AT_linkage_name)
                .or_else(|| entry.attr_value(gimli::DW_AT_MIPS_linkage_name));
            names.linkage = value.and_then(|value| self.text(unit, in_sup, value));
        }
        if names.name.is_none() {
            names.name = entry
                .attr_value(gimli::DW_AT_name)
                .and_then(|value| self.text(unit, in_sup, value));
        }
        if names.line.is_none() {
            names.line = entry
                .attr_value(gimli::DW_AT_decl_line)
                .and_then(|value| value.udata_value());
        }
    }

    /// A string attribute; `None` where it is empty or lies outside its section.
    pub(super) fn text(
        &self,
        unit: &Unit<R<'a>>,
        in_sup: bool,
        value: AttributeValue<R<'a>>,
    ) -> Option<String> {
        let dwarf = if in_sup {
            self.dwarf.sup()?
        } else {
            self.dwarf
        };
        let text = dwarf.attr_string(unit, value).ok()?;
        let text = text.to_string_lossy();
        (!text.is_empty()).then(|| text.into_owned())
    }
}
