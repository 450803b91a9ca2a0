//! Files that processes kept for their next crash: what is left of them when the process is gone.

use std::io;
use std::path::Path;

use super::{DAMAGED, Name, is_old};
use crate::platform::{self, descriptors};
use crate::report::{self, EventKind};

/// Gives the report in `path` its name, with this ending, where its process was denied that; removes
/// one that nothing was written to. One whose process lives is left alone.
pub(super) fn settle(path: &Path, ending: &str) -> io::Result<()> {
    let file = descriptors::open_file(path, libc::O_RDWR)?;
    if !platform::file::try_lock(&file) {
        return Ok(());
    }
    let bytes = descriptors::read(path)?;
    if bytes.is_empty() {
        // A young one may not be locked yet.
        return match is_old(&file)? {
            true => std::fs::remove_file(path),
            false => Ok(()),
        };
    }
    let Ok(reading) = report::read(&bytes) else {
        return std::fs::rename(path, path.with_extension(DAMAGED));
    };
    let (head, event) = (reading.report.head, reading.report.event);
    let kind = event.map_or(EventKind::Crash, |event| event.kind);
    let name = Name::new(head.time, kind.as_str(), &head.id, ending);
    std::fs::rename(path, path.with_file_name(name.as_str()))
}
