//! Places of an image's debug files: its own path, the system's folders, and the targets of links.

use std::path::{Path, PathBuf};

use super::object_file::{self, ObjectFile};
use crate::report::crc32;
use crate::symbolicate::frame::{hex, image_file_name};

/// The folder in which distributions put debug files.
pub(in crate::symbolicate) const SYSTEM: &str = "/usr/lib/debug";

/// `/usr/lib/debug/.build-id/ab/cdef.debug`
pub(in crate::symbolicate) fn build_id_path(root: &Path, id: &[u8]) -> PathBuf {
    let hex = hex(id);
    let (first, rest) = hex.split_at(hex.len().min(2));
    root.join(".build-id")
        .join(first)
        .join(format!("{rest}.debug"))
}

/// Returns the debug file that `object`'s debuginfo link means, the best one first: next to it, in `.debug`, and below
/// the system's folder. It has the same build id or, without one, the CRC-32 that the link states.
pub(in crate::symbolicate) fn linked(object: &ObjectFile) -> Option<ObjectFile> {
    let ((link, crc), folder) = (object.debuglink.as_ref()?, object.path.parent()?);
    // gdb follows links of the image's path, too: /lib may be /usr/lib.
    let real = object.path.canonicalize().ok();
    let mut places = vec![folder.join(link), folder.join(".debug").join(link)];
    for folder in [Some(folder), real.as_deref().and_then(Path::parent)] {
        if let Some(below) = folder.and_then(|folder| folder.strip_prefix("/").ok()) {
            places.push(Path::new(SYSTEM).join(below).join(link));
        }
    }
    let fits = |other: &ObjectFile| match (&object.id[..], &other.id[..]) {
        ([], _) | (_, []) => crc32(0, &other.bytes) == *crc,
        (one, other) => one == other,
    };
    let open = |path: &PathBuf| object_file::open(path).ok()?.into_iter().find(fits);
    let other = |path: &&PathBuf| path.is_file() && **path != object.path;
    places.iter().filter(other).find_map(open)
}

/// The dwz file that a debug file shares with others: the path in its link, next to it, and in the tree
/// that both were unpacked to; `more` are places to look at besides.
pub(in crate::symbolicate) fn dwz_file(
    object: &ObjectFile,
    more: Vec<PathBuf>,
) -> Option<ObjectFile> {
    let (name, id) = object.altlink.as_ref()?;
    let mut places = vec![PathBuf::from(name)];
    if let Some(folder) = object.path.parent() {
        places.push(folder.join(name));
        places.push(folder.join(".dwz").join(image_file_name(name)));
        let below = name.trim_start_matches('/');
        places.extend(folder.ancestors().map(|above| above.join(below)));
    }
    places.extend(more);
    places.push(build_id_path(Path::new(SYSTEM), id));
    let open = |path: &PathBuf| {
        let mut objects = object_file::open(path).ok()?.into_iter();
        objects.find(|object| object.id == *id)
    };
    places.iter().filter(|path| path.is_file()).find_map(open)
}
