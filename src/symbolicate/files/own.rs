//! Files and folders of this user alone, and which file a path or a descriptor is: what another user has put in their
//! place is neither read nor written.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns true for a regular file of this user with one name.
pub(crate) fn is_own(meta: &Metadata) -> bool {
    meta.is_file() && meta.uid() == user() && meta.nlink() == 1
}

/// Opens such a file to read it; follows no link and waits for nothing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let own = |meta: Metadata| {
        if is_own(&meta) {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::PermissionDenied))
        }
    };
    // To open a device may do something by itself.
    own(fs::symlink_metadata(path)?)?;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    own(file.metadata()?)?;
    Ok(file)
}

/// Opens such a file to write over it, if it is still the one that has this identity.
pub(crate) fn reopen(path: &Path, same: Identity) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().write(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    let is_it = is_own(&meta) && identity_in(&meta) == same;
    is_it
        .then_some(file)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The folder that a variable of the environment names, if it is an absolute path.
pub(crate) fn absolute_variable(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os(name).map(PathBuf::from);
    path.filter(|path| path.is_absolute())
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
    if let Some(above) = open_above(path) {
        let above = above.display();
        return fails(&format!(
            "lies below {above}, in which others may rename it"
        ));
    }
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

/// The folder on the way to `path` in which all may rename what is not theirs, or the link there that another user has
/// made.
fn open_above(path: &Path) -> Option<PathBuf> {
    const STICKY: u32 = 0o1000;
    let is_open = |above: &&Path| {
        let is_wide = |meta: Metadata| meta.mode() & (STICKY | 0o002) == 0o002;
        let is_link = |named: Metadata| named.is_symlink() && is_strangers(&named);
        fs::metadata(above).is_ok_and(is_wide) || fs::symlink_metadata(above).is_ok_and(is_link)
    };
    let paths = [std::path::absolute(path).ok(), path.canonicalize().ok()];
    let mut above = { paths.iter().flatten() }.flat_map(|path| path.ancestors().skip(1));
    above.find(is_open).map(Path::to_owned)
}

/// Makes a folder, and its parents where they are missing, for this user alone.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let mut maker = fs::DirBuilder::new();
    let made = maker.recursive(true).mode(0o700).create(path);
    made.map_err(|error| match error.kind() {
        // A file, or a link to nothing.
        io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
        _ => error,
    })
}

/// The device and number of a file or folder, which no other shares.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(path: &Path) -> Option<Identity> {
    Some(identity_in(&fs::metadata(path).ok()?))
}

pub(crate) fn identity_in(meta: &Metadata) -> Identity {
    (meta.dev(), meta.ino())
}

/// The identity of standard input or output, if it is a regular file.
pub(crate) fn identity_of_stream(stream: impl std::os::fd::AsFd) -> Option<Identity> {
    let file: File = stream.as_fd().try_clone_to_owned().ok()?.into();
    let meta = file.metadata().ok().filter(Metadata::is_file)?;
    Some(identity_in(&meta))
}

/// The number of the open descriptor that a path is a name of.
pub(crate) fn descriptor(path: &Path) -> Option<u32> {
    let path = path.to_str()?;
    let standard = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];
    if let Some(number) = standard.iter().position(|name| *name == path) {
        return u32::try_from(number).ok();
    }
    let number = path
        .strip_prefix("/dev/fd/")
        .or_else(|| path.strip_prefix("/proc/self/fd/"))?;
    number.parse().ok()
}
