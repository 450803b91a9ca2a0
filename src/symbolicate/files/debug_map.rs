//! Mach-O images whose debug information is still in the object files that they were linked of, by a debug map of
//! `N_OSO` symbols, as cargo's and Xcode's debug builds leave it: `dsymutil` makes a dSYM of it.

use std::path::Path;

use object::Object as _;

use super::apple_places::beside;
use super::archives::quoted;
use super::object_file;

/// Says what to do with the image at `path` if it has a debug map, no debug information of its own, and no dSYM beside it.
pub(crate) fn hint(path: &Path) -> Option<String> {
    let objects = object_file::open(path).ok()?;
    let is_without = |object: &&object_file::ObjectFile| object.is_mach_o() && !object.has_dwarf;
    let files = objects.iter().filter(is_without).map(object_files);
    let count = files.max().filter(|&count| count > 0)?;
    let (shown, command) = (path.display(), quoted(&path.display().to_string()));
    let files = if count == 1 { "file" } else { "files" };
    beside(path).is_empty().then(|| {
        format!("{shown}: its debug information lies in {count} object {files}; make a dSYM of it: dsymutil {command}")
    })
}

/// Counts the object files that the debug map of an image names.
fn object_files(object: &object_file::ObjectFile) -> usize {
    object
        .parse()
        .map_or(0, |file| file.object_map().objects().len())
}
