//! Versions and producers of an object's units.

use std::collections::BTreeSet;

use addr2line::gimli;

use super::dwarf::DwarfSections;
use super::guard;
use crate::symbolicate::files::object_file::ObjectFile;
use crate::symbolicate::files::search;

/// Counts and names from the units of an object.
#[derive(Debug, Default)]
pub(crate) struct UnitSurvey {
    pub units: usize,
    /// DWARF versions, each once.
    pub versions: BTreeSet<u16>,
    /// `DW_AT_producer`, each once.
    pub producers: BTreeSet<String>,
    /// Units that cannot be read.
    pub unread: usize,
    /// Units with lines that can be read in part only.
    pub damaged: usize,
}

/// Reads the root of every unit; `None` if there is no DWARF.
pub(crate) fn survey(object: &ObjectFile) -> Option<UnitSurvey> {
    let sections = DwarfSections::load(object)?;
    // If dwz took part of it out, its producer may stand there.
    let shared =
        search::dwz_file(object, Vec::new()).and_then(|shared| DwarfSections::load(&shared));
    let dwarf = guard::view_all(&sections, shared.as_ref())?;
    let mut survey = UnitSurvey::default();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        survey.units += 1;
        survey.versions.insert(header.version());
        let Ok(unit) = dwarf.unit(header) else {
            survey.unread += 1;
            continue;
        };
        let mut entries = unit.entries();
        if let Ok(Some(root)) = entries.next_dfs()
            && let Some(producer) = root.attr_value(gimli::DW_AT_producer)
            && let Ok(producer) = dwarf.attr_string(&unit, producer)
        {
            let producer = producer.to_string_lossy();
            survey.producers.insert(producer.into_owned());
        }
    }
    survey.damaged = guard::mended(&sections, shared.as_ref()).map_or(0, |(_, count)| count);
    Some(survey)
}
