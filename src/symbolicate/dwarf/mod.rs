//! DWARF into lookup tables, a unit at a time.
//!
//! One reading of DWARF serves both ways of answering: the direct one flattens just the units an
//! address needs, the cache flattens them all. So an answer never depends on whether a cache is warm.

mod flatten;
mod functions;
mod lines;
mod names;
mod split;
mod survey;
mod units;

use std::path::PathBuf;

use gimli::{Dwarf, DwarfSections, EndianSlice, RunTimeEndian, SectionId};

use super::bytes::Bytes;
use super::object_file::ObjectFile;

pub(crate) use flatten::{Chain, Function, NONE, UnitTable};
pub(crate) use survey::survey;
pub(crate) use units::{UnitIndex, Walk};

/// How gimli reads here: slices of a mapped file.
pub(crate) type R<'a> = EndianSlice<'a, RunTimeEndian>;

/// The DWARF sections of one object, with those of its dwz file and package of split units.
pub(crate) struct DwarfFile {
    bytes: Bytes,
    sections: DwarfSections<Bytes>,
    sup: Option<DwarfSections<Bytes>>,
    package: Option<gimli::DwarfPackageSections<Bytes>>,
    /// The object's own path, beside which `.dwo` and `.dwp` files are looked for.
    path: PathBuf,
    code: Vec<(u64, u64)>,
    /// Whether a linker of debug information wrote it into a dSYM: see [`Walk::complete_index`].
    is_dsym: bool,
    endian: RunTimeEndian,
}

impl DwarfFile {
    /// Loads (and where needed decompresses) what symbolication reads. `sup` is the dwz file, where
    /// one was found.
    pub(crate) fn load(object: &ObjectFile, sup: Option<&ObjectFile>) -> Option<DwarfFile> {
        if !object.has_dwarf {
            return None;
        }
        let file = object.parse();
        let little = file.as_ref().is_none_or(object::Object::is_little_endian);
        Some(DwarfFile {
            bytes: object.bytes.clone(),
            sections: load_sections(object),
            sup: sup.map(load_sections),
            package: split::package_beside(&object.path),
            path: object.path.clone(),
            code: object.code.clone(),
            is_dsym: object.is_dsym(),
            endian: if little {
                RunTimeEndian::Little
            } else {
                RunTimeEndian::Big
            },
        })
    }

    /// Runs `work` with gimli's view of the sections.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Walk<'_>) -> T) -> T {
        let dwarf: Dwarf<R<'_>> = self.sections.borrow_with_sup(self.sup.as_ref(), |section| {
            EndianSlice::new(section, self.endian)
        });
        work(&Walk::new(self, &dwarf))
    }

    /// Lets the pages of what was read so far go; see [`Bytes::let_go`].
    pub(crate) fn let_go(&self) {
        self.bytes.let_go();
    }

    fn slice<'a>(&self, bytes: &'a Bytes) -> R<'a> {
        EndianSlice::new(bytes, self.endian)
    }
}

/// The sections that lead from an address to names and lines; the others are never touched.
fn load_sections(object: &ObjectFile) -> DwarfSections<Bytes> {
    let load = |id: SectionId| -> Result<Bytes, ()> {
        let wanted = matches!(
            id,
            SectionId::DebugAbbrev
                | SectionId::DebugAddr
                | SectionId::DebugAranges
                | SectionId::DebugInfo
                | SectionId::DebugLine
                | SectionId::DebugLineStr
                | SectionId::DebugStr
                | SectionId::DebugStrOffsets
                | SectionId::DebugRanges
                | SectionId::DebugRngLists
        );
        Ok(if wanted {
            object.section(id.name()).unwrap_or_default()
        } else {
            Bytes::default()
        })
    };
    DwarfSections::load(load).unwrap_or_else(|()| unreachable!("the loader above never fails"))
}
