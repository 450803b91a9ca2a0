//! The folder of the tables: one that is marked as the cache's own.
//!
//! The mark is a cache directory tag (<https://bford.info/cachedir/>) with a text of ours. Backups skip folders with
//! such a tag. A folder that is not marked and not empty is the user's: the tables go to a folder within it. A folder
//! that others may write in is not used.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::symbolicate::files::owner;

const TAG: &str = "CACHEDIR.TAG";
const MARK: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n\
    # Lookup tables of wedjat's `symbolicate`. This folder may be removed at any time.\n\
    # What in it has not been written by `symbolicate` is left alone.\n";
/// Name of the cache's folder within a folder that holds other things.
const WITHIN: &str = "wedjat-cache";

/// The folder for a cache in `folder`, if there is one.
pub(super) fn find(folder: &Path) -> Option<PathBuf> {
    let within = folder.join(WITHIN);
    [folder.to_owned(), within]
        .into_iter()
        .find(|folder| is_marked(folder))
        .filter(|found| check(folder, found).is_ok())
}

/// Fails if others may write in `folder`, or in `place`, the folder of the tables.
fn check(folder: &Path, place: &Path) -> io::Result<()> {
    owner::check_folder(folder)?;
    owner::check_folder(place)
}

/// The folder for a cache in `folder`; made and marked if it is missing.
pub(super) fn make(folder: &Path) -> io::Result<PathBuf> {
    owner::make_folder(folder)?;
    owner::check_folder(folder)?;
    if mark(folder)? {
        return Ok(folder.to_owned());
    }
    let within = folder.join(WITHIN);
    owner::make_folder(&within)?;
    check(folder, &within)?;
    if mark(&within)? {
        return Ok(within);
    }
    let text = format!("{} holds other things", within.display());
    Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
}

fn is_marked(folder: &Path) -> bool {
    let mut found = Vec::new();
    let read = owner::open(&folder.join(TAG))
        .and_then(|tag| tag.take(MARK.len() as u64 + 1).read_to_end(&mut found));
    read.is_ok() && found == MARK
}

/// Marks an empty folder; false for one that holds other things.
fn mark(folder: &Path) -> io::Result<bool> {
    if is_marked(folder) {
        return Ok(true);
    }
    for entry in fs::read_dir(folder)? {
        if !is_fresh_tag(&entry?.file_name()) {
            // Another process may have marked it meanwhile, and written there.
            return Ok(is_marked(folder));
        }
    }
    let mut tag = tempfile::Builder::new()
        .prefix(".CACHEDIR.")
        .suffix(".new")
        .tempfile_in(folder)?;
    tag.write_all(MARK)?;
    match tag.persist_noclobber(folder.join(TAG)) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(is_marked(folder)),
    }
}

/// Returns true for the name of a mark that another process is about to put in place.
fn is_fresh_tag(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".CACHEDIR.") && name.ends_with(b".new")
}
