//! What earlier launches left unfinished: found at install without a look at the whole folder.
//!
//! The names stand in a list that every process adds to (`platform/unfinished.rs`). Beside those, the
//! first entries of the folder are looked at: all of them in a folder of usual size. What is in neither,
//! and what is more than `MOST`, is left to the helper thread, which looks at the whole folder.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::{FALLBACK, PARTIAL, SPARE, SPARE_FALLBACK, ending, fallback, launch, spare};
use crate::platform::{descriptors, unfinished};

/// So many entries of the folder are read at most.
const MOST_ENTRIES: usize = 1_000;
/// Reports that are closed, and records of launches that are read, the last ones first.
const MOST: usize = 32;

/// The endings of files that are not finished.
const UNFINISHED: [&str; 5] = [PARTIAL, FALLBACK, SPARE, SPARE_FALLBACK, launch::ENDING];

/// Files that an earlier launch may have left unfinished, by name, that is by time.
pub(crate) fn left(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut take = |name: &str| {
        if is_unfinished(name) {
            found.insert(directory.join(name));
        }
    };
    descriptors::list_some(directory, MOST_ENTRIES, |name, is_file| {
        if let Some(name) = name.to_str().filter(|_| is_file) {
            take(name);
        }
    })?;
    unfinished::names(directory)
        .iter()
        .for_each(|name| take(name));
    Ok(found.into_iter().collect())
}

/// The last of those that are records of launches.
pub(crate) fn last_launches(left: &[PathBuf]) -> Vec<PathBuf> {
    let is_launch = |path: &&PathBuf| ending(path) == Some(launch::ENDING);
    let mut launches: Vec<PathBuf> = left.iter().filter(is_launch).cloned().collect();
    launches.drain(..launches.len().saturating_sub(MOST));
    launches
}

fn is_unfinished(name: &str) -> bool {
    let ending = ending(Path::new(name));
    ending.is_some_and(|ending| UNFINISHED.contains(&ending))
}

/// Closes the reports that these files belong to and that are not being written; the last `MOST` of them.
/// Gives how many.
pub(crate) fn close_last(left: &[PathBuf]) -> usize {
    close(left, MOST)
}

/// As [`close_last`], all of them.
pub(super) fn close_all(left: &[PathBuf]) -> usize {
    close(left, usize::MAX)
}

fn close(left: &[PathBuf], most: usize) -> usize {
    let mut reports = BTreeSet::new();
    for path in left {
        match ending(path) {
            Some(PARTIAL | FALLBACK) => drop(reports.insert(path.with_extension(PARTIAL))),
            Some(SPARE) => reports.extend(named(path, PARTIAL)),
            Some(SPARE_FALLBACK) => reports.extend(named(path, FALLBACK)),
            _ => {}
        }
    }
    let mut closed = 0;
    for partial in reports.iter().rev() {
        if closed == most {
            break;
        }
        // First its fallback file: half of it must not be taken for the whole. One that cannot be closed
        // now (gone, or not ours to write) stays for a later launch.
        let joined = fallback::join(&partial.with_extension(FALLBACK)).unwrap_or(false);
        let finished = super::close_partial(partial).unwrap_or(false);
        closed += usize::from(joined || finished);
    }
    closed
}

/// The report that was written to a spare file, if any was, by its name from now on.
fn named(spare: &Path, then: &str) -> Option<PathBuf> {
    // One that cannot be named now stays for a later launch.
    let named = spare::settle(spare, then).ok()??;
    Some(named.with_extension(PARTIAL))
}

/// Takes off the list what is finished.
pub(super) fn shorten_list(directory: &Path) {
    // A list that cannot be shortened now can be later.
    let _ = unfinished::keep(directory, |name| {
        is_unfinished(name) && directory.join(name).exists()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::file::Folder;

    /// In a folder of many files, few entries are looked at, and what this launch began is found.
    #[test]
    fn a_large_folder_is_not_read_for_what_was_begun() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        for number in 0..5 * MOST_ENTRIES {
            std::fs::write(path.join(format!("{number}.wedjat")), "").unwrap();
        }
        let folder = Folder::open(path).unwrap();
        let names = [
            c"1700000000123456789-0a1b2c3d.launch",
            c"2024-02-29T23-59-59.987Z-crash-0a1b2c3d.beside",
            c"2024-02-29T23-59-59.987Z-stall-0a1b2c3d.partial",
        ];
        for name in names {
            folder.create(name).unwrap();
        }
        let before = descriptors::ENTRIES.get();
        let found = left(path).unwrap();
        assert!(descriptors::ENTRIES.get() - before <= MOST_ENTRIES);
        let expected: Vec<PathBuf> = names
            .iter()
            .map(|name| path.join(name.to_str().unwrap()))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(last_launches(&found), &expected[..1]);
        // What is finished stands on the list no longer.
        std::fs::remove_file(&expected[2]).unwrap();
        shorten_list(path);
        assert_eq!(left(path).unwrap(), &expected[..2]);
    }
}
