//! The identity of a file or folder, which no other shares, and the names of open descriptors.

use std::path::Path;

pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(path: &Path) -> Option<Identity> {
    Some(identity_in(&std::fs::metadata(path).ok()?))
}

fn identity_in(meta: &std::fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

/// The identity of standard input or output, if it is a regular file.
pub(crate) fn identity_of_stream(stream: impl std::os::fd::AsFd) -> Option<Identity> {
    let file: std::fs::File = stream.as_fd().try_clone_to_owned().ok()?.into();
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
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
