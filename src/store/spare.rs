//! Files that processes kept for their next crash: what is left of them when the process is gone.

use std::io;

use super::{DAMAGED, HeldFile, Name, PARTIAL, named};
use crate::platform::directory::Directory;
use crate::report::{self, EventKind};

/// Gives the report in the file `name` the name that it was denied, and gives that name; removes one that nothing was written to. One whose process lives, that has more than `most` bytes, or that is no report, is left
/// alone.
pub(super) fn settle(folder: &Directory, name: &str, most: u64) -> io::Result<Option<String>> {
    let Some(held) = HeldFile::hold(folder, name, most)? else {
        return Ok(None);
    };
    if held.bytes.is_empty() || !held.is_own() {
        held.remove_if_empty(folder, name)?;
        return Ok(None);
    }
    let Some(origin) = report::edit::origin(&held.bytes) else {
        folder.rename(name, &named(name, DAMAGED))?;
        return Ok(None);
    };
    let kind = origin.kind.unwrap_or(EventKind::Crash);
    let fresh = Name::new(origin.time, kind.as_str(), &origin.id, PARTIAL);
    folder.rename(name, fresh.as_str())?;
    Ok(Some(fresh.as_str().to_owned()))
}
