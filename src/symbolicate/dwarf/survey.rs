//! What `--inspect` says of an object's DWARF.

use std::collections::BTreeSet;

use super::DwarfFile;
use crate::symbolicate::object_file::ObjectFile;
use crate::symbolicate::search;

/// What the units of an object say of themselves.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub units: usize,
    /// DWARF versions, each once.
    pub versions: BTreeSet<u16>,
    /// `DW_AT_producer`, each once.
    pub producers: BTreeSet<String>,
}

/// Reads the root of every unit; `None` if there is no DWARF.
pub(crate) fn survey(object: &ObjectFile) -> Option<Survey> {
    // Where dwz took part of it out, who made it may stand there.
    let shared = search::dwz_file(object, Vec::new());
    DwarfFile::load(object, shared.as_ref()).map(|dwarf| dwarf.read(|walk| walk.survey()))
}

impl super::Walk<'_> {
    /// Counts units, their versions and who made them.
    fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        for header in self.headers(false) {
            survey.units += 1;
            survey.versions.insert(header.version());
            let Ok(unit) = self.unit(header) else {
                continue;
            };
            let mut root = gimli::DebuggingInformationEntry::null();
            let read = unit
                .entries_raw(None)
                .and_then(|mut entries| entries.read_entry(&mut root));
            if read.is_ok()
                && let Some(producer) = root.attr_value(gimli::DW_AT_producer)
                && let Some(producer) = self.text(&unit, false, producer)
            {
                survey.producers.insert(producer);
            }
        }
        survey
    }
}
