//! A crash report that two threads wrote, each in a file of its own, becomes one.
//!
//! The writer thread has written the first parts (`.partial`, or `.wedjat` where its own crash was closed),
//! the dying thread what was left (`.beside`, the same name otherwise).

use std::io;

use super::{HeldFile, PARTIAL, WHOLE, named};
use crate::platform::directory::Directory;
use crate::report::{self, edit, limits};

/// Joins the file `name` with its fallback file, of at most so many bytes each. `false` where one of them is still
/// being written.
pub(super) fn join(folder: &Directory, name: &str, most: u64) -> io::Result<bool> {
    let whole = named(name, WHOLE);
    let Some(rest) = HeldFile::hold(folder, name, most)?.filter(HeldFile::is_own) else {
        return Ok(false);
    };
    let firsts = [named(name, PARTIAL), whole.clone()];
    let there = |first: &String| folder.own_length(first).is_some();
    let Some(first) = firsts.into_iter().find(there) else {
        // The writer thread had not even begun its file.
        let is_closed = report::survey(&rest.bytes).is_closed;
        let ending = if is_closed { WHOLE } else { PARTIAL };
        folder.rename(name, &named(name, ending))?;
        return Ok(true);
    };
    let Some(found) = HeldFile::hold(folder, &first, most)?.filter(HeldFile::is_own) else {
        return Ok(false);
    };
    match [&found, &rest].map(|held| Some(edit::origin(&held.bytes)?.id)) {
        // Another report of the same name.
        [Some(one), Some(other)] if one != other => return Ok(false),
        [Some(_), Some(_)] => {
            if first != whole && folder.own_length(&whole).is_some() {
                // A launch that joined these died here, or it is another report.
                return remove_joined(folder, &whole, &found, [&first, name]);
            }
            // Put in place at once: a process that dies here loses nothing.
            let joined = edit::join(&found.bytes, &rest.bytes).ok_or(io::ErrorKind::InvalidData)?;
            let fresh = named(name, "joined");
            folder.write(&fresh, &joined)?;
            folder.replace(&fresh, &whole)?;
            if first != whole {
                folder.remove(&first)?;
            }
            folder.remove(name)?;
        }
        // Of the first there is nothing that could be read.
        [None, Some(_)] => folder.replace(name, &first)?,
        [_, None] => folder.remove(name)?,
    }
    Ok(true)
}

/// Removes the two parts of what was joined, where the whole is that.
fn remove_joined(
    folder: &Directory,
    whole: &str,
    found: &HeldFile,
    parts: [&str; 2],
) -> io::Result<bool> {
    let id = |held: &HeldFile| Some(edit::origin(&held.bytes)?.id);
    let joined = HeldFile::hold(folder, whole, limits::REPORT_BYTES as u64)?;
    let is_joined = joined
        .is_some_and(|joined| id(&joined) == id(found) && report::survey(&joined.bytes).is_closed);
    if is_joined {
        parts.iter().try_for_each(|part| folder.remove(part))?;
    }
    Ok(is_joined)
}
