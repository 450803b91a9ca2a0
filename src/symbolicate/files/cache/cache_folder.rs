//! The folder of the tables: one that has the cache's own tag.
//!
//! The tag is a cache directory tag (<https://bford.info/cachedir/>) with a text of ours. Backups skip folders with
//! such a tag. A folder without the tag and not empty is the user's: the tables go to a folder within it. A folder
//! that others may write in is not used.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::symbolicate::files::owner;

const TAG: &str = "CACHEDIR.TAG";
const TAG_TEXT: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n\
    # Lookup tables of wedjat's `symbolicate`. This folder may be removed at any time.\n\
    # What in it has not been written by `symbolicate` is left alone.\n";
/// Name of the cache's folder within a folder that holds other things.
const SUBFOLDER: &str = "wedjat-cache";

/// The folder for a cache in `folder`, if there is one.
pub(super) fn find(folder: &Path) -> Option<PathBuf> {
    let within = folder.join(SUBFOLDER);
    [folder.to_owned(), within]
        .into_iter()
        .find(|folder| has_tag(folder))
        .filter(|found| check(folder, found).is_ok())
}

/// Fails if others may write in `folder`, or in `place`, the folder of the tables.
fn check(folder: &Path, place: &Path) -> io::Result<()> {
    owner::check_folder(folder)?;
    owner::check_folder(place)
}

/// The folder for a cache in `folder`; made and tagged if it is missing.
pub(super) fn make_folder(folder: &Path) -> io::Result<PathBuf> {
    owner::make_folder(folder)?;
    owner::check_folder(folder)?;
    if write_tag(folder)? {
        return Ok(folder.to_owned());
    }
    let within = folder.join(SUBFOLDER);
    owner::make_folder(&within)?;
    check(folder, &within)?;
    if write_tag(&within)? {
        return Ok(within);
    }
    let text = format!("{} holds other things", within.display());
    Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
}

fn has_tag(folder: &Path) -> bool {
    let mut found = Vec::new();
    let read = owner::open(&folder.join(TAG))
        .and_then(|tag| tag.take(TAG_TEXT.len() as u64 + 1).read_to_end(&mut found));
    read.is_ok() && found == TAG_TEXT
}

/// Writes the tag into an empty folder; returns false for one that holds other things.
fn write_tag(folder: &Path) -> io::Result<bool> {
    if has_tag(folder) {
        return Ok(true);
    }
    for entry in fs::read_dir(folder)? {
        if !is_temporary_tag(&entry?.file_name()) {
            // Another process may have tagged it meanwhile, and written there.
            return Ok(has_tag(folder));
        }
    }
    let mut tag = tempfile::Builder::new()
        .prefix(".CACHEDIR.")
        .suffix(".new")
        .tempfile_in(folder)?;
    tag.write_all(TAG_TEXT)?;
    match tag.persist_noclobber(folder.join(TAG)) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(has_tag(folder)),
    }
}

/// Returns true for the name of a tag that another process is about to put in place.
fn is_temporary_tag(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".CACHEDIR.") && name.ends_with(b".new")
}
