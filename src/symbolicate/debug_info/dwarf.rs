//! The DWARF sections of one object, unpacked once, as gimli and symbolic read them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use addr2line::gimli::{self, EndianSlice, RunTimeEndian, SectionId};
use object::Object as _;
use symbolic::debuginfo::dwarf::{self as symbolic_dwarf, DwarfSection};

use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::object_file::ObjectFile;
use crate::symbolicate::frame::{NAME_BYTES, bounded};
use crate::symbolicate::names::demangle::{MAX_MANGLED, Mangling};

/// The reader that gimli uses here: slices of sections that outlive it.
pub(crate) type R<'a> = EndianSlice<'a, RunTimeEndian>;

/// A reader of sections that are held for as long as they are read.
pub(in crate::symbolicate) type Slice = R<'static>;

/// The sections that lead from an address to names and lines; the others are never touched.
const WANTED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
];
/// Further sections of a `.dwp` package, each unit's part of which its indexes name.
const OF_PACKAGES: [SectionId; 7] = [
    SectionId::DebugCuIndex,
    SectionId::DebugTuIndex,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugTypes,
];

/// Written over the attribute that readers are to ignore: `DW_AT_visibility`, which no root has, one byte long as
/// `DW_AT_stmt_list` is.
const IGNORED: u8 = gimli::DW_AT_visibility.0 as u8;

/// Text of DWARF. It is cut before anything copies it, as many entries may share the bytes of one long text: a mangled name
/// where it is too long to be demangled, any other at [`NAME_BYTES`], with an ellipsis.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    // Nearly all are UTF-8, which is checked by words; `from_utf8_lossy` alone reads byte by byte.
    let read = |bytes| {
        std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
    };
    if bytes.len() <= NAME_BYTES {
        return read(bytes);
    }
    let longest = read(&bytes[..bytes.len().min(MAX_MANGLED + 1)]);
    match (Mangling::of(&longest), longest) {
        (None, Cow::Borrowed(name)) => bounded(name),
        (None, Cow::Owned(name)) => Cow::Owned(bounded(&name).into_owned()),
        (Some(_), name) => name,
    }
}

/// The sections of one object.
pub(crate) struct DwarfSections {
    little: bool,
    parts: Vec<(SectionId, SharedBytes)>,
    /// Sections that are there and cannot be read: packed in an unknown way, or cut off.
    pub unread: usize,
}

impl DwarfSections {
    /// Loads the sections of an image or a dSYM; `None` if it has no DWARF.
    pub(crate) fn load(object: &ObjectFile) -> Option<DwarfSections> {
        object
            .has_dwarf
            .then(|| DwarfSections::sections_by_name(object, &WANTED, |id| Some(id.name())))
    }

    /// Loads the sections of a `.dwo` file or a `.dwp` package.
    pub(crate) fn load_split(object: &ObjectFile) -> DwarfSections {
        let wanted: Vec<SectionId> = WANTED.into_iter().chain(OF_PACKAGES).collect();
        DwarfSections::sections_by_name(object, &wanted, SectionId::dwo_name)
    }

    fn sections_by_name(
        object: &ObjectFile,
        wanted: &[SectionId],
        name: impl Fn(SectionId) -> Option<&'static str>,
    ) -> DwarfSections {
        let load = |&id: &SectionId| Some((id, object.section(name(id)?)?));
        let parts: Vec<_> = wanted.iter().filter_map(load).collect();
        let file = object.parse();
        let is_there = |&id: &SectionId| file.as_ref()?.section_by_name(name(id)?).map(drop);
        let there = wanted.iter().filter_map(is_there).count();
        DwarfSections {
            little: file.as_ref().is_none_or(|file| file.is_little_endian()),
            unread: there.saturating_sub(parts.len()),
            parts,
        }
    }

    /// Returns the same sections without the attributes whose names stand at these offsets of `.debug_abbrev`.
    pub(crate) fn without_attributes(&self, at: &[usize]) -> DwarfSections {
        self.changed(SectionId::DebugAbbrev, |abbreviations| {
            for &at in at {
                if let Some(name) = abbreviations.get_mut(at) {
                    *name = IGNORED;
                }
            }
        })
    }

    /// The same without the lines whose first addresses stand at these places of `.debug_line`, in so many bytes:
    /// they begin at an address that means none.
    pub(crate) fn without_lines(&self, at: &[(usize, u8)]) -> DwarfSections {
        self.changed(SectionId::DebugLine, |lines| {
            for &(at, len) in at {
                if let Some(address) = lines.get_mut(at..at + usize::from(len)) {
                    address.fill(0xff);
                }
            }
        })
    }

    /// The same with each of these stretches of `.debug_line` as one instruction that ends a sequence.
    pub(crate) fn with_sequences_ended(&self, stretches: &[Range<usize>]) -> DwarfSections {
        self.changed(SectionId::DebugLine, |lines| {
            for stretch in stretches {
                let Some(bytes) = lines.get_mut(stretch.clone()) else {
                    continue;
                };
                // What is too short for it holds no row: two of no sequence.
                bytes.fill(gimli::DW_LNS_copy.0);
                let padding = match bytes.len() {
                    0..=2 => continue,
                    length if length < 0x80 => 1,
                    _ => 8,
                };
                // The length of the instruction in so many bytes, after a first one that is 0.
                let mut length = bytes.len() - 1 - padding;
                bytes[0] = 0;
                for (index, byte) in bytes[1..=padding].iter_mut().enumerate() {
                    let more = if index + 1 < padding { 0x80 } else { 0 };
                    *byte = (length & 0x7f) as u8 | more;
                    length >>= 7;
                }
                bytes[1 + padding] = gimli::DW_LNE_end_sequence.0;
            }
        })
    }

    fn changed(&self, id: SectionId, change: impl FnOnce(&mut [u8])) -> DwarfSections {
        let mut bytes = self.bytes(id).to_vec();
        change(&mut bytes);
        let mut parts = self.parts.clone();
        parts.retain(|(other, _)| *other != id);
        parts.push((id, bytes.into()));
        DwarfSections {
            little: self.little,
            unread: self.unread,
            parts,
        }
    }

    fn bytes(&self, id: SectionId) -> &[u8] {
        let part = self.parts.iter().find(|(known, _)| *known == id);
        part.map_or(&[], |(_, bytes)| bytes)
    }

    /// Length of `.debug_info` in bytes.
    pub(crate) fn info_len(&self) -> usize {
        self.bytes(SectionId::DebugInfo).len()
    }

    /// Length of `.debug_line` in bytes.
    pub(crate) fn lines_len(&self) -> usize {
        self.bytes(SectionId::DebugLine).len()
    }

    pub(crate) fn reader(&self, id: SectionId) -> R<'_> {
        let endians = [RunTimeEndian::Big, RunTimeEndian::Little];
        let endian = endians[usize::from(self.little)];
        EndianSlice::new(self.bytes(id), endian)
    }

    /// gimli's view of them, with `sup`, those of the file that dwz made.
    pub(crate) fn view<'a>(&'a self, sup: Option<&'a DwarfSections>) -> gimli::Dwarf<R<'a>> {
        let load = |sections: &'a DwarfSections| {
            gimli::Dwarf::load(|id| Ok::<_, std::convert::Infallible>(sections.reader(id)))
                .unwrap_or_else(|never| match never {})
        };
        let mut dwarf = load(self);
        if let Some(sup) = sup {
            dwarf.set_sup(load(sup));
        }
        dwarf
    }

    /// As [`view`](Self::view), to read each unit, and more than once: with the tables of
    /// abbreviations, of which dsymutil writes one for all units, others one for each. `None` where `check`
    /// fails.
    pub(crate) fn view_all<'a>(
        &'a self,
        sup: Option<&'a DwarfSections>,
        check: impl FnOnce(&gimli::Dwarf<R<'a>>) -> bool,
    ) -> Option<gimli::Dwarf<R<'a>>> {
        let mut dwarf = self.view(sup);
        if !check(&dwarf) {
            return None;
        }
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::All);
        Some(dwarf)
    }
}

/// # Safety
/// What is read of the result must not outlive `sections`.
pub(in crate::symbolicate) unsafe fn forever(
    sections: &Arc<DwarfSections>,
) -> &'static DwarfSections {
    // SAFETY: as this function's own; an `Arc` never moves what it holds.
    unsafe { &*Arc::as_ptr(sections) }
}

impl<'data> symbolic_dwarf::Dwarf<'data> for &'data DwarfSections {
    fn endianity(&self) -> symbolic_dwarf::Endian {
        if self.little {
            symbolic_dwarf::Endian::Little
        } else {
            symbolic_dwarf::Endian::Big
        }
    }

    fn raw_section(&self, name: &str) -> Option<DwarfSection<'data>> {
        let same = |id: SectionId| id.name().strip_prefix('.') == Some(name);
        let (_, bytes) = self.parts.iter().find(|(id, _)| same(*id))?;
        Some(DwarfSection {
            address: 0,
            offset: 0,
            align: 1,
            data: (&**bytes).into(),
        })
    }
}

/// DWARF that tests put together.
#[cfg(test)]
pub(crate) mod assembled {
    use super::*;

    /// These bytes with their length in front.
    pub(crate) fn sized(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32).to_le_bytes()[..], body].concat()
    }

    /// A unit of DWARF 4 with these entries, its abbreviations first in their section.
    pub(crate) fn unit(entries: &[u8]) -> Vec<u8> {
        sized(&[&[4, 0, 0, 0, 0, 0, 8], entries].concat())
    }

    /// gimli's view of these sections.
    pub(crate) fn view<'a>(parts: &[(SectionId, &'a [u8])]) -> gimli::Dwarf<R<'a>> {
        let load = |id| {
            let part = parts.iter().find(|(known, _)| *known == id);
            let bytes = part.map_or(&[][..], |(_, bytes)| bytes);
            Ok::<_, gimli::Error>(EndianSlice::new(bytes, RunTimeEndian::Little))
        };
        gimli::Dwarf::load(load).unwrap()
    }
}
