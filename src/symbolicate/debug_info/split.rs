//! Split DWARF: the other halves of skeleton units, in `.dwo` files or a `.dwp` package.
//!
//! Each file is opened once, whatever names it has and however many units name it; of one that has not what is looked for
//! nothing stays in memory but the ids of its units. Of a file the one unit is handed out, no other byte of its entries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::SplitDwarfLoad;
use addr2line::gimli::{
    self, Dwarf, DwarfPackage, EndianSlice, Reader as _, Section, SectionId, UnitType,
};
use rustc_hash::FxHashMap;

use super::checked_units;
use super::dwarf::{DwarfSections, R, Slice, forever};
use super::roots::{self, Roots};
use crate::symbolicate::files::links::is_below;
use crate::symbolicate::files::object_file;
use crate::symbolicate::files::owner::{Identity, identity};

/// Skeletons that have one other half: objects of one source may have been linked twice.
const MAX_USES: u32 = 4;

/// Offsets of units in `.debug_info`, by their ids.
type UnitOffsets = FxHashMap<u64, usize>;

/// A `.dwo` file.
struct DwoFile {
    units: UnitOffsets,
    /// Once one of them was needed.
    sections: Option<&'static DwarfSections>,
}

/// Finds the other halves of skeleton units.
#[derive(Default)]
pub(in crate::symbolicate) struct Split {
    /// The package next to the object, once it was looked for.
    package: Option<Option<DwarfPackage<Slice>>>,
    path: PathBuf,
    /// True if files may lie at any path that a unit names; else next to the object and below.
    is_anywhere: bool,
    /// The files that were opened.
    files: FxHashMap<Identity, DwoFile>,
    /// How often each half was handed out. Of one that is not there or not sound, as of one that too many units want,
    /// addr2line asks for again with each address.
    handed_out: FxHashMap<u64, u32>,
    /// Bytes of abbreviations that may still be read: addr2line keeps them for each unit.
    tables_left: usize,
    sections: Vec<Arc<DwarfSections>>,
    /// True once one was needed that is not there, or not sound.
    pub(in crate::symbolicate) is_missing: bool,
}

impl Split {
    /// For the units of the object at `path`.
    pub(in crate::symbolicate) fn new(path: &Path, is_anywhere: bool) -> Split {
        Split {
            path: path.to_owned(),
            is_anywhere,
            ..Split::default()
        }
    }

    /// The other half of a unit, if it is there and sound.
    pub(in crate::symbolicate) fn load(
        &mut self,
        load: &SplitDwarfLoad<Slice>,
    ) -> Option<Arc<Dwarf<Slice>>> {
        let id = load.dwo_id.0;
        let count = self.handed_out.get(&id).copied().unwrap_or(0);
        if count >= MAX_USES {
            return None;
        }
        let found = self.find(load).filter(|dwarf| self.has_room(dwarf));
        let found = found.filter(checked_units::all_bounded);
        self.is_missing |= found.is_none();
        let next = if found.is_some() { count + 1 } else { MAX_USES };
        self.handed_out.insert(id, next);
        found.map(Arc::new)
    }

    /// Returns true if the abbreviations of the first unit may be read.
    fn has_room(&mut self, dwarf: &Dwarf<Slice>) -> bool {
        let header = dwarf.units().next().ok().flatten();
        let mut table = *dwarf.debug_abbrev.reader();
        let at = header.map(|header| header.debug_abbrev_offset().0);
        let is_there = at.is_some_and(|at| table.skip(at).is_ok());
        let left = self.tables_left.checked_sub(roots::table_len(table));
        self.tables_left = left.unwrap_or(0);
        is_there && left.is_some()
    }

    fn find(&mut self, load: &SplitDwarfLoad<Slice>) -> Option<Dwarf<Slice>> {
        if self.package.is_none() {
            self.package = Some(self.open_package());
        }
        if let Some(Some(package)) = &self.package
            && let Ok(Some(dwarf)) = package.find_cu(load.dwo_id, &load.parent)
        {
            let at = units(&dwarf).get(&load.dwo_id.0).copied();
            return only(dwarf, at?);
        }
        let places = self.places(load)?;
        places.iter().find_map(|place| {
            let (sections, at) = self.unit_in(place, load.dwo_id)?;
            let mut dwarf = sections.view(None);
            dwarf.make_dwo(&load.parent);
            only(dwarf, at)
        })
    }

    /// The paths at which a unit's `.dwo` file may be.
    fn places(&self, load: &SplitDwarfLoad<Slice>) -> Option<Vec<PathBuf>> {
        let text = |text: &Option<Slice>| Some(text.as_ref()?.to_string_lossy().into_owned());
        let name = text(&load.path)?;
        let folder = self.path.parent()?;
        let mut places = Vec::new();
        if self.is_anywhere {
            places.extend(text(&load.comp_dir).map(|base| Path::new(&base).join(&name)));
        }
        if self.is_anywhere || is_below(Path::new(&name)) {
            places.push(folder.join(&name));
        }
        places.push(folder.join(Path::new(&name).file_name()?));
        Some(places)
    }

    /// The sections of the `.dwo` file at `path`, and where the unit of this id begins in it.
    fn unit_in(
        &mut self,
        path: &Path,
        id: gimli::DwoId,
    ) -> Option<(&'static DwarfSections, usize)> {
        let identity = identity(path).filter(|_| path.is_file())?;
        if let Some(file) = self.files.get(&identity) {
            let at = *file.units.get(&id.0)?;
            if let Some(sections) = file.sections {
                return Some((sections, at));
            }
        }
        let sections = load(path);
        let units = sections.as_ref().map(|of| units(&of.view(None)));
        let units = units.unwrap_or_default();
        let at = units.get(&id.0).copied();
        let sections = sections.filter(|_| at.is_some());
        let sections = sections.map(|sections| self.keep(sections));
        self.files.insert(identity, DwoFile { units, sections });
        sections.zip(at)
    }

    /// `program.dwp` next to `program`, and for `program.debug`, too.
    fn open_package(&mut self) -> Option<DwarfPackage<Slice>> {
        let mut name = OsString::from(&self.path);
        name.push(".dwp");
        let places = [PathBuf::from(name), self.path.with_extension("dwp")];
        let sections = places.iter().find_map(|place| load(place))?;
        let sections = self.keep(sections);
        let empty = EndianSlice::new(&[][..], sections.reader(SectionId::DebugInfo).endian());
        let section = |id| Ok::<_, gimli::Error>(sections.reader(id));
        DwarfPackage::load(section, empty).ok()
    }

    fn keep(&mut self, sections: DwarfSections) -> &'static DwarfSections {
        let sections = Arc::new(sections);
        let tables = sections.reader(SectionId::DebugAbbrev).len();
        self.tables_left += tables.saturating_mul(MAX_USES as usize);
        self.sections.push(sections.clone());
        // SAFETY: held in `self.sections` for as long as this value; what reads them is dropped with
        // `Addr2Line`, whose `context` is before it.
        unsafe { forever(&sections) }
    }
}

fn load(path: &Path) -> Option<DwarfSections> {
    let objects = path.is_file().then(|| object_file::open(path).ok())??;
    Some(DwarfSections::load_split(objects.first()?))
}

/// The units that have an id. Those of types have none, and may be before the others.
fn units(dwarf: &Dwarf<R<'_>>) -> UnitOffsets {
    let (mut found, mut headers) = (UnitOffsets::default(), dwarf.units());
    let mut roots = Roots::new(dwarf);
    while let Ok(Some(header)) = headers.next() {
        let at = header.debug_info_offset();
        let id = match header.type_() {
            UnitType::SplitCompilation(id) => Some(id),
            _ => roots.unit(header).and_then(|(unit, _)| unit.dwo_id),
        };
        if roots.are_too_long() {
            break;
        }
        if let Some((id, at)) = id.zip(at) {
            found.entry(id.0).or_insert(at.0);
        }
    }
    found
}

/// Cuts `.debug_info` down to the unit at this offset: addr2line takes the first one.
fn only(mut dwarf: Dwarf<Slice>, at: usize) -> Option<Dwarf<Slice>> {
    let header = dwarf.unit_header(gimli::DebugInfoOffset(at)).ok()?;
    let info: &'static [u8] = dwarf.debug_info.reader().slice();
    let endian = dwarf.debug_info.reader().endian();
    let end = at.checked_add(header.length_including_self())?;
    dwarf.debug_info = EndianSlice::new(info.get(at..end)?, endian).into();
    Some(dwarf)
}
