//! A crash report that two threads wrote, each in a file of its own, becomes one.
//!
//! The writer thread has written the first parts (`.partial`, or `.wedjat` where its own crash was closed),
//! the dying thread what was left (`.beside`, the same name otherwise).

use std::io::{self, Read};
use std::path::Path;

use super::{PARTIAL, WHOLE};
use crate::platform::{self, descriptors};
use crate::report::{self, edit};

/// Joins `path` with its fallback file. `false` where one of them is still being written.
pub(super) fn join(path: &Path) -> io::Result<bool> {
    let whole = path.with_extension(WHOLE);
    let Some(rest) = Locked::open(path)? else {
        return Ok(false);
    };
    let firsts = [path.with_extension(PARTIAL), whole.clone()];
    let Some(first) = firsts.into_iter().find(|first| first.exists()) else {
        // The writer thread had not even begun its file.
        let ending = if rest.is_closed { WHOLE } else { PARTIAL };
        std::fs::rename(path, path.with_extension(ending))?;
        return Ok(true);
    };
    let Some(found) = Locked::open(&first)? else {
        return Ok(false);
    };
    match (found.is_report, rest.is_report) {
        (true, true) => {
            // Put in place at once: a process that dies here loses nothing.
            let joined = edit::join(&found.bytes, &rest.bytes).ok_or(io::ErrorKind::InvalidData)?;
            let fresh = path.with_extension("joined");
            descriptors::write(&fresh, &joined)?;
            std::fs::rename(&fresh, &whole)?;
            if first != whole {
                std::fs::remove_file(&first)?;
            }
            std::fs::remove_file(path)?;
        }
        // Of the first there is nothing that could be read.
        (false, true) => std::fs::rename(path, &first)?,
        (_, false) => std::fs::remove_file(path)?,
    }
    Ok(true)
}

/// A report that is not being written, for as long as this lives.
struct Locked {
    bytes: Vec<u8>,
    /// Whether anything in it can be read.
    is_report: bool,
    /// Whether it was brought to its end.
    is_closed: bool,
    _file: descriptors::Opened,
}

impl Locked {
    /// `None` while it is written, and of what is no report.
    fn open(path: &Path) -> io::Result<Option<Locked>> {
        let mut file = descriptors::open_file(path, libc::O_RDWR)?;
        if !platform::descriptors::try_lock(&file) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if !super::is_own_content(&bytes) {
            return Ok(None);
        }
        Ok(Some(Locked {
            is_report: edit::origin(&bytes).is_some(),
            is_closed: report::survey(&bytes).is_closed,
            bytes,
            _file: file,
        }))
    }
}
