//! Split DWARF: the other halves of skeleton units, in `.dwo` files or a `.dwp` package.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::SplitDwarfLoad;
use addr2line::gimli::{self, Dwarf, DwarfPackage, EndianSlice, Reader as _, Section, SectionId};
use rustc_hash::FxHashSet;

use super::dwarf::{DwarfSections, Slice, forever};
use super::guard;
use crate::symbolicate::files::object_file;

/// Finds the other halves of skeleton units.
#[derive(Default)]
pub(in crate::symbolicate) struct Split {
    /// The package next to the object, once it was looked for.
    package: Option<Option<DwarfPackage<Slice>>>,
    path: PathBuf,
    /// Ids of those that are not there or not sound: addr2line asks for them again with each address.
    misses: FxHashSet<u64>,
    sections: Vec<Arc<DwarfSections>>,
    /// True once one was needed that is not there, or not sound.
    pub(in crate::symbolicate) is_missing: bool,
}

impl Split {
    /// For the units of the object at `path`.
    pub(in crate::symbolicate) fn new(path: &Path) -> Split {
        Split {
            path: path.to_owned(),
            ..Split::default()
        }
    }

    /// The other half of a unit, if it is there and sound.
    pub(in crate::symbolicate) fn load(
        &mut self,
        load: &SplitDwarfLoad<Slice>,
    ) -> Option<Arc<Dwarf<Slice>>> {
        let id = load.dwo_id.0;
        self.misses.insert(id).then_some(())?;
        let found = self.find(load).filter(guard::all_bounded);
        self.is_missing |= found.is_none();
        let dwarf = found?;
        self.misses.remove(&id);
        Some(Arc::new(dwarf))
    }

    fn find(&mut self, load: &SplitDwarfLoad<Slice>) -> Option<Dwarf<Slice>> {
        if self.package.is_none() {
            self.package = Some(self.open_package());
        }
        if let Some(Some(package)) = &self.package
            && let Ok(Some(dwarf)) = package.find_cu(load.dwo_id, &load.parent)
        {
            return begin_at(dwarf, load.dwo_id);
        }
        let text = |text: &Option<Slice>| Some(text.as_ref()?.to_string_lossy().into_owned());
        let name = text(&load.path)?;
        let mut places = Vec::new();
        places.extend(text(&load.comp_dir).map(|base| Path::new(&base).join(&name)));
        let folder = self.path.parent()?;
        places.push(folder.join(&name));
        places.push(folder.join(Path::new(&name).file_name()?));
        places.iter().find_map(|place| {
            let mut dwarf = self.open(place)?.view(None);
            dwarf.make_dwo(&load.parent);
            begin_at(dwarf, load.dwo_id)
        })
    }

    /// `program.dwp` next to `program`, and for `program.debug`, too.
    fn open_package(&mut self) -> Option<DwarfPackage<Slice>> {
        let mut name = OsString::from(&self.path);
        name.push(".dwp");
        let places = [PathBuf::from(name), self.path.with_extension("dwp")];
        let sections = places.iter().find_map(|place| self.open(place))?;
        let empty = EndianSlice::new(&[][..], sections.reader(SectionId::DebugInfo).endian());
        let section = |id| Ok::<_, gimli::Error>(sections.reader(id));
        DwarfPackage::load(section, empty).ok()
    }

    fn open(&mut self, path: &Path) -> Option<&'static DwarfSections> {
        if !path.is_file() {
            return None;
        }
        let object = object_file::open(path).ok()?.into_iter().next()?;
        let sections = Arc::new(DwarfSections::load_split(&object));
        self.sections.push(sections.clone());
        // SAFETY: held in `self.sections` for as long as this value; what reads them is dropped with
        // `Addr2Line`, whose `context` stands before it.
        Some(unsafe { forever(&sections) })
    }
}

/// Cuts `.debug_info` to begin at the unit of this id, which addr2line takes to be the first: units of
/// types may stand before it. `None` where it has no such unit.
fn begin_at(mut dwarf: Dwarf<Slice>, id: gimli::DwoId) -> Option<Dwarf<Slice>> {
    let mut units = dwarf.units();
    while let Some(header) = units.next().ok()? {
        if dwarf.unit(header).is_ok_and(|unit| unit.dwo_id == Some(id)) {
            let info: &'static [u8] = dwarf.debug_info.reader().slice();
            let endian = dwarf.debug_info.reader().endian();
            let from = info.get(header.debug_info_offset()?.0..)?;
            dwarf.debug_info = EndianSlice::new(from, endian).into();
            return Some(dwarf);
        }
    }
    None
}
