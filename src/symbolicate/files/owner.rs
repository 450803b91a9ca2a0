//! Files and folders of this user alone, and which file a path or a descriptor is: what another user has put in their
//! place is neither read nor written.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub(crate) use crate::platform::ownership::make_folder;
use crate::platform::ownership::{self, FileStat, OtherWriters, open_above};
use crate::symbolicate::Error;

/// Returns true for a regular file of this user with one name.
pub(crate) fn is_own(meta: &Metadata) -> bool {
    FileStat::from(meta).is_own()
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
    FileStat::from(meta).is_strangers()
}

/// Fails for a folder that others may write in, or whose path another's link leads to; names the command that fixes it.
pub(crate) fn check_folder(path: &Path) -> io::Result<()> {
    let Some(kind) = ownership::other_writers(path, &FileStat::from(&fs::metadata(path)?))? else {
        return Ok(());
    };
    let what = match kind {
        OtherWriters::Own => "belongs to another user",
        OtherWriters::Link => "is another user's link",
        OtherWriters::Above => "lies below a folder in which others may rename it",
        OtherWriters::Write => "may be written by others",
    };
    let text = format!(
        "{} {what} ({} fixes that)",
        path.display(),
        kind.repair(path)
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
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

/// Opens the program or library at the path that a report names, unless another user could have put it there. Follows no link
/// and waits for nothing. `None` if no file is there.
///
/// # Errors
/// The reason why it is not read.
pub(crate) fn open_named(path: &Path) -> Option<Result<File, Error>> {
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
