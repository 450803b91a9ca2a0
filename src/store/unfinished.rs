//! Unfinished files of earlier launches, found at install among the first entries of the folder: all of them in a folder
//! of usual size. A file beyond these, or beyond `MAX_CLOSED`, is left to the helper thread, which looks at the whole folder.

use std::io;
use std::sync::MutexGuard;
use std::time::Instant;

use super::{PARTIAL, close_partial, ending, launch};
use crate::platform::directory::Directory;
use crate::platform::forked::{ForkLock, around_forks};
use crate::report::limits;

/// Most entries of the folder that are read, in some 2 ms.
const MAX_ENTRIES: usize = 8_000;
/// Reports that are closed, and records of launches that are read, the last ones first.
const MAX_CLOSED: usize = 32;

/// Bounds on the work that is done at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Files.
    most: usize,
    /// Bytes of a file.
    pub(super) bytes: u64,
    until: Option<Instant>,
}

impl Budget {
    /// The work for which an app that is about to start may wait: bounded in files, bytes and time.
    pub fn at_install() -> Budget {
        Budget {
            most: MAX_CLOSED,
            bytes: limits::INSTALL_BYTES,
            until: Some(Instant::now() + limits::INSTALL_TIME),
        }
    }

    /// All that there is.
    pub fn max() -> Budget {
        Budget {
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

/// Held while a thread of this process reads or closes a file of an earlier launch, which has the file locked then: another
/// thread must not take it for one that is being written.
static CLOSING: ForkLock<()> = ForkLock::new(());

/// Waits until no other thread of this process has such a file. Not signal-safe.
pub(super) fn closing() -> Option<MutexGuard<'static, ()>> {
    around_forks!(CLOSING);
    CLOSING.lock()
}

/// Names of files that an earlier launch may have left unfinished, in order, that is by time.
pub(crate) fn names(folder: &Directory) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    folder.list(MAX_ENTRIES, |name| {
        if matches!(ending(name), Some(PARTIAL | launch::ENDING)) {
            found.push(name.to_owned());
        }
    })?;
    found.sort_unstable();
    Ok(found)
}

/// Closes the reports among these files that are not being written, the last ones first.
pub(crate) fn close(folder: &Directory, left: &[String], budget: Budget) {
    for (done, name) in left.iter().rev().enumerate() {
        if budget.is_spent(done) {
            break;
        }
        let _closing = closing();
        // One that cannot be closed now (gone, or not ours to write) stays for a later launch.
        let _ = match ending(name) {
            Some(PARTIAL) => close_partial(folder, name, budget.bytes).map(drop),
            Some(launch::ENDING) => launch::extract_report(folder, name, budget.bytes),
            _ => Ok(()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::descriptors::ENTRIES;

    /// In a folder of many files, few entries are looked at.
    #[test]
    fn a_large_folder_is_not_read_for_what_was_begun() {
        let temporary = tempfile::tempdir().unwrap();
        for number in 0..2 * MAX_ENTRIES {
            let name = format!("1700000000123456789-{number:08x}.launch");
            std::fs::write(temporary.path().join(name), "").unwrap();
        }
        let before = ENTRIES.get();
        let found = names(&Directory::open(temporary.path()).unwrap()).unwrap();
        assert_eq!(ENTRIES.get() - before, MAX_ENTRIES);
        assert!(found.len() == MAX_ENTRIES && found.is_sorted());
    }
}
