//! What tells a file or a folder from all others, whatever path leads to it.

use std::path::Path;

pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(path: &Path) -> Option<Identity> {
    Some(identity_in(&std::fs::metadata(path).ok()?))
}

fn identity_in(meta: &std::fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

/// That of standard input or output, where it is a regular file.
pub(crate) fn identity_of_stream(stream: impl std::os::fd::AsFd) -> Option<Identity> {
    let file: std::fs::File = stream.as_fd().try_clone_to_owned().ok()?.into();
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some(identity_in(&meta))
}
