//! Opens the program or library at the path that a report names, unless another user could have put it there.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::platform::ownership::open_above;
use crate::symbolicate::Error;
use crate::symbolicate::files::owner::{check_folder, is_strangers};

/// Opens the file; follows no link and waits for nothing. `None` if no file is there.
///
/// # Errors
/// The reason why it is not read.
pub(super) fn open(path: &Path) -> Option<Result<File, Error>> {
    let is_named = path.is_absolute();
    let named = fs::symlink_metadata(path).ok().filter(|_| is_named)?;
    Some(open_checked(path, &named).map_err(|error| Error::io(path, error)))
}

fn open_checked(path: &Path, named: &Metadata) -> io::Result<File> {
    const STICKY: u32 = 0o1000;
    // To open a device may do something by itself.
    check(named)?;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    check(&file.metadata()?)?;
    let folder = path.parent().unwrap_or(path);
    let meta = fs::metadata(folder)?;
    // In a sticky folder only the owner of a file, or of the folder, may replace the file.
    if meta.mode() & STICKY == 0 {
        check_folder(folder)?;
    } else if is_strangers(&meta) || open_above(path).is_some() {
        return Err(io::Error::other("others may put files into its folder"));
    }
    Ok(file)
}

fn check(meta: &Metadata) -> io::Result<()> {
    match () {
        () if !meta.is_file() => Err(io::Error::other("it is a link, or no regular file")),
        () if is_strangers(meta) => Err(io::Error::other("it belongs to another user")),
        () if meta.mode() & 0o022 != 0 => Err(io::Error::other("others may write in it")),
        () => Ok(()),
    }
}
