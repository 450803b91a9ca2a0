//! Unfinished files of earlier launches, found at install without a look at the whole folder.
//!
//! The names stand in a list that every process adds to (`store/unfinished.rs`). Beside those, the first entries of
//! the folder are examined: all of them in a folder of usual size. A file that is in neither, or beyond `MOST`, is left
//! to the helper thread, which looks at the whole folder.

use std::collections::BTreeSet;
use std::io;
use std::time::Instant;

use super::unfinished;
use super::{PARTIAL, ending, launch};
use crate::platform::directory::Directory;
use crate::report::limits;

/// Most entries of the folder that are read.
const MOST_ENTRIES: usize = 1_000;
/// Reports that are closed, and records of launches that are read, the last ones first.
const MOST: usize = 32;

/// Bounds on the work that is done at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Files.
    most: usize,
    /// Bytes of a file.
    pub(super) bytes: u64,
    until: Option<Instant>,
}

impl Effort {
    /// The work for which an app that is about to start may wait: bounded in files, bytes and time.
    pub fn at_install() -> Effort {
        Effort {
            most: MOST,
            bytes: limits::INSTALL_BYTES,
            until: Some(Instant::now() + limits::INSTALL_TIME),
        }
    }

    /// All that there is.
    pub fn all() -> Effort {
        Effort {
            most: usize::MAX,
            bytes: limits::REPORT_BYTES as u64,
            until: None,
        }
    }

    /// Returns true if no more is to be done, after `done` files.
    pub(super) fn is_spent(&self, done: usize) -> bool {
        let is_late = || self.until.is_some_and(|until| Instant::now() > until);
        done >= self.most || done > 0 && is_late()
    }
}

/// Names of files that an earlier launch may have left unfinished, in order, that is by time.
pub(crate) fn left(folder: &Directory) -> io::Result<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut take = |name: &str| {
        if is_unfinished(name) {
            found.insert(name.to_owned());
        }
    };
    folder.list(MOST_ENTRIES, &mut take)?;
    unfinished::names(folder).iter().for_each(|name| take(name));
    Ok(found.into_iter().collect())
}

/// Returns true if it is a name that we give an unfinished file; a path is not.
fn is_unfinished(name: &str) -> bool {
    matches!(ending(name), Some(PARTIAL | launch::ENDING))
}

/// Closes the reports among these files that are not being written, the last ones first.
pub(crate) fn close(folder: &Directory, left: &[String], effort: Effort) {
    for (done, name) in left.iter().rev().enumerate() {
        if effort.is_spent(done) {
            break;
        }
        // One that cannot be closed now (gone, or not ours to write) stays for a later launch.
        let _ = match ending(name) {
            Some(PARTIAL) => super::close_partial(folder, name, effort.bytes).map(drop),
            Some(launch::ENDING) => launch::part(folder, name, effort.bytes),
            _ => Ok(()),
        };
    }
}

/// Takes off the list what is finished.
pub(super) fn shorten_list(folder: &Directory) {
    // A list that cannot be shortened now can be later.
    let _ = unfinished::keep(folder, |name| {
        is_unfinished(name) && folder.own_length(name).is_some()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::descriptors;
    use crate::platform::folder::Folder;

    /// In a folder of many files, few entries are looked at, and what this launch began is found.
    #[test]
    fn a_large_folder_is_not_read_for_what_was_begun() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        for number in 0..5 * MOST_ENTRIES {
            std::fs::write(path.join(format!("{number}.wedjat")), "").unwrap();
        }
        let directory = Directory::open(path).unwrap();
        let list = unfinished::open(&directory);
        let folder = Folder::new(directory, path).unwrap().with_list(list);
        let names = [
            c"1700000000123456789-0a1b2c3d.launch",
            c"2024-02-29T23-59-59.987Z-crash-0a1b2c3d.partial",
            c"2024-02-29T23-59-59.987Z-stall-0a1b2c3d.partial",
        ];
        for name in names {
            folder.create(name).unwrap();
        }
        let before = descriptors::ENTRIES.get();
        let directory = folder.directory();
        let found = left(directory).unwrap();
        assert!(descriptors::ENTRIES.get() - before <= MOST_ENTRIES);
        let expected = names.map(|name| name.to_str().unwrap());
        assert_eq!(found, expected);
        // A finished file is no longer on the list.
        std::fs::remove_file(path.join(expected[2])).unwrap();
        shorten_list(directory);
        assert_eq!(left(directory).unwrap(), &expected[..2]);
    }
}
