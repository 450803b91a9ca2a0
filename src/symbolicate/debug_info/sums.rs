//! MD5 sums of source files, which line tables of DWARF 5 may have.

use std::hash::{Hash as _, Hasher as _};

use addr2line::gimli::{Dwarf, FileEntry, LineProgramHeader, Unit};
use rustc_hash::{FxHashMap, FxHasher};

use super::dwarf::{DwarfSections, R};
use crate::symbolicate::files::object_file::ObjectFile;

/// Files of an object that have sums, at most: 32 MiB of memory.
const FILES: usize = 1 << 20;
/// Bytes of the paths that are read for them.
const PATH_BYTES: usize = 256 << 20;

/// The sums of an object's source files, by hashes of their paths.
pub(crate) struct SourceSums(FxHashMap<u64, Option<[u8; 16]>>);

impl SourceSums {
    /// Reads the line tables' headers of all units.
    pub(crate) fn read(object: &ObjectFile, sup: Option<&ObjectFile>) -> SourceSums {
        let mut sums = SourceSums(FxHashMap::default());
        let Some(sections) = DwarfSections::load(object) else {
            return sums;
        };
        let sup = sup.and_then(DwarfSections::load);
        let dwarf = sections.view(sup.as_ref());
        let (mut units, mut room) = (dwarf.units(), PATH_BYTES);
        while let Ok(Some(header)) = units.next() {
            let unit = Some(header).filter(|header| header.version() >= 5);
            let unit = unit.and_then(|header| dwarf.unit(header).ok());
            if let Some(unit) = unit
                && sums.add(&dwarf, &unit, &mut room).is_none()
            {
                break;
            }
        }
        sums
    }

    /// Adds the files of a unit; `None` if there is no room for more.
    fn add(&mut self, dwarf: &Dwarf<R<'_>>, unit: &Unit<R<'_>>, room: &mut usize) -> Option<()> {
        let header = unit.line_program.as_ref().map(|program| program.header());
        let Some(header) = header.filter(|header| header.file_has_md5()) else {
            return Some(());
        };
        for file in header.file_names() {
            let Some(path) = path(dwarf, unit, header, file) else {
                continue;
            };
            *room = room.checked_sub(path.len())?;
            if self.0.len() >= FILES {
                return None;
            }
            let sum = Some(*file.md5()).filter(|sum| *sum != [0; 16]);
            let known = self.0.entry(key(&path)).or_insert(sum);
            // A file that changed while others were compiled.
            if *known != sum {
                *known = None;
            }
        }
        Some(())
    }

    /// Returns the sum of the file at this path, as frames have it; `None` if there is none, or more than one.
    pub(crate) fn of(&self, path: &str) -> Option<[u8; 16]> {
        self.0.get(&key(path)).copied().flatten()
    }
}

/// The path of a file with its folders, as the compiler has it.
fn path(
    dwarf: &Dwarf<R<'_>>,
    unit: &Unit<R<'_>>,
    header: &LineProgramHeader<R<'_>>,
    file: &FileEntry<R<'_>>,
) -> Option<String> {
    let text = |text| dwarf.attr_string(unit, text).ok();
    // Folder 0 is the one compiled in.
    let folder = Some(file).filter(|file| file.directory_index() != 0);
    let folder = folder.and_then(|file| text(file.directory(header)?));
    let parts = [unit.comp_dir, folder, text(file.path_name())];
    let mut path = String::new();
    for part in parts.into_iter().flatten() {
        let part = part.to_string_lossy();
        if is_absolute(&part) {
            path.clear();
        } else if !path.is_empty() {
            path.push('/');
        }
        path.push_str(&part);
    }
    (!path.is_empty()).then_some(path)
}

fn is_absolute(path: &str) -> bool {
    path.starts_with(['/', '\\']) || path.get(1..3).is_some_and(|mark| mark == ":\\")
}

/// A hash of the parts of a path, without `.` and `..`: the readers of DWARF join them in different ways.
fn key(path: &str) -> u64 {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut hasher = FxHasher::default();
    parts.hash(&mut hasher);
    hasher.finish()
}
