//! Files that processes kept for their next crash: what is left of them when the process is gone.

use std::io;
use std::path::{Path, PathBuf};

use super::{DAMAGED, Name, is_old, is_own_content};
use crate::platform::{self, descriptors};
use crate::report::{self, EventKind};

/// Gives the report in `path` its name, with this ending, where its process was denied that, and gives its
/// path then; removes one that nothing was written to. One whose process lives, and what is no report, is
/// left alone.
pub(super) fn settle(path: &Path, ending: &str) -> io::Result<Option<PathBuf>> {
    let file = descriptors::open_file(path, libc::O_RDWR)?;
    if !platform::descriptors::try_lock(&file) {
        return Ok(None);
    }
    let bytes = descriptors::read(path)?;
    if bytes.is_empty() {
        // A young one may not be locked yet.
        if is_old(&file) {
            std::fs::remove_file(path)?;
        }
        return Ok(None);
    }
    if !is_own_content(&bytes) {
        return Ok(None);
    }
    let Some(origin) = report::edit::origin(&bytes) else {
        std::fs::rename(path, path.with_extension(DAMAGED))?;
        return Ok(None);
    };
    let kind = origin.kind.unwrap_or(EventKind::Crash);
    let name = Name::new(origin.time, kind.as_str(), &origin.id, ending);
    let named = path.with_file_name(name.as_str());
    std::fs::rename(path, &named)?;
    Ok(Some(named))
}
