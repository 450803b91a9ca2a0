//! Split DWARF: units whose DIEs lie in a `.dwo` file or in a `.dwp` package.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use gimli::{Dwarf, DwarfPackageSections, DwarfSections, EndianSlice, SectionId, Unit};

use super::units::Walk;
use super::{DwarfFile, R};
use crate::symbolicate::bytes::Bytes;
use crate::symbolicate::object_file::{self, ObjectFile};

/// The package beside a program: `program.dwp`, for `program.debug` also `program.dwp`.
pub(super) fn package_beside(path: &Path) -> Option<DwarfPackageSections<Bytes>> {
    let mut name = OsString::from(path);
    name.push(".dwp");
    let candidates = [PathBuf::from(name), path.with_extension("dwp")];
    let object = candidates
        .iter()
        .filter(|p| p.is_file())
        .find_map(|p| object_file::open(p).ok()?.into_iter().next())?;
    let load = |id: SectionId| -> Result<Bytes, gimli::Error> { Ok(dwo_section(&object, id)) };
    DwarfPackageSections::load(load).ok()
}

/// Where `unit` is the skeleton of a split unit that can be found: runs `work` on that one.
pub(super) fn of_unit<'a, T>(
    walk: &Walk<'a>,
    unit: &Unit<R<'a>>,
    work: impl for<'d> FnOnce(&Walk<'d>, &Unit<R<'d>>) -> T,
) -> Option<T> {
    let id = unit.dwo_id?;
    let name = walk.text(unit, false, unit.dwo_name().ok()??)?;
    if let Some(package) = &walk.file.package {
        let empty = EndianSlice::new(&[][..], walk.file.endian);
        let package = package.borrow(|bytes| walk.file.slice(bytes), empty).ok()?;
        if let Some(dwarf) = package.find_cu(id, walk.dwarf).ok()? {
            return run(walk.file, unit, &dwarf, id, work);
        }
    }
    let mut places = Vec::new();
    if let Some(directory) = unit.comp_dir {
        places.push(Path::new(&*directory.to_string_lossy()).join(&name));
    }
    let beside = walk.file.path.parent()?;
    places.push(beside.join(&name));
    places.push(beside.join(Path::new(&name).file_name()?));
    let object = places
        .iter()
        .filter(|p| p.is_file())
        .find_map(|p| object_file::open(p).ok()?.into_iter().next())?;
    let sections = DwarfSections::load(|id| Ok::<_, ()>(dwo_section(&object, id))).ok()?;
    let mut dwarf = sections.borrow(|bytes| walk.file.slice(bytes));
    dwarf.make_dwo(walk.dwarf);
    run(walk.file, unit, &dwarf, id, work)
}

/// Runs `work` on the unit in `dwarf` that has the skeleton's id.
fn run<'d, T>(
    file: &'d DwarfFile,
    skeleton: &Unit<R<'d>>,
    dwarf: &'d Dwarf<R<'d>>,
    id: gimli::DwoId,
    work: impl FnOnce(&Walk<'d>, &Unit<R<'d>>) -> T,
) -> Option<T> {
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().ok()? {
        let mut unit = dwarf.unit(header).ok()?;
        if unit.dwo_id == Some(id) {
            unit.copy_relocated_attributes(skeleton);
            // A walk of its own, over the split file's sections.
            return Some(work(&Walk::new(file, dwarf), &unit));
        }
    }
    None
}

fn dwo_section(object: &ObjectFile, id: SectionId) -> Bytes {
    id.dwo_name()
        .and_then(|name| object.section(name))
        .unwrap_or_default()
}
