//! Files and folders of this user alone: what another has put in their place is neither read nor written.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns true for a regular file of this user with one name.
pub(crate) fn is_own(meta: &Metadata) -> bool {
    meta.is_file() && meta.uid() == user() && meta.nlink() == 1
}

/// Opens such a file to read it; follows no link and waits for nothing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let own = |meta: Metadata| match is_own(&meta) {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
    };
    // To open a device may do something by itself.
    own(fs::symlink_metadata(path)?)?;
    let mut options = File::options();
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    own(file.metadata()?)?;
    Ok(file)
}

/// Returns true for what another user than root or this one has made.
pub(crate) fn is_strangers(meta: &Metadata) -> bool {
    ![0, user()].contains(&meta.uid())
}

/// Fails for a folder that others may write in, or whose path another's link leads to; names the command that mends it.
pub(crate) fn check_folder(path: &Path) -> io::Result<()> {
    let (named, meta) = (fs::symlink_metadata(path)?, fs::metadata(path)?);
    let fails = |what: &str| {
        let text = format!("{} {what}", path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    };
    match () {
        () if is_strangers(&meta) => fails("belongs to another user"),
        () if is_strangers(&named) => fails("is another user's link"),
        () if meta.mode() & 0o022 != 0 => {
            let path = path.display().to_string().replace('\'', r"'\''");
            fails(&format!(
                "may be written by others (chmod go-w '{path}' mends that)"
            ))
        }
        () => Ok(()),
    }
}
