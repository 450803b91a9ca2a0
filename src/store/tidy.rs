//! Keeps the folder within its limits: on the helper's thread, a few files at a time, and never what the
//! app has just been given by [`reports`](super::reports).

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::{DAMAGED, Limits, REFUSED, StoredReport, WHOLE, ending, is_own_file, left, list};
use crate::platform::forked::{ForkLock, around_forks};

/// Files that are removed in one step.
const STEP: usize = 64;

/// Reports that the app was given, for as long as it has one of them.
#[derive(Debug)]
pub(super) struct Listing {
    names: HashSet<OsString>,
    /// Whether one of them would have been removed.
    spared: AtomicBool,
}

impl Drop for Listing {
    fn drop(&mut self) {
        if self.spared.load(Ordering::Relaxed)
            && let Some(again) = AGAIN.get()
        {
            again();
        }
    }
}

/// Requests that the folder is tidied up once more.
static AGAIN: OnceLock<fn()> = OnceLock::new();

static LISTINGS: ForkLock<Vec<Weak<Listing>>> = ForkLock::new(Vec::new());

/// What `listed` gives is not removed while one of the reports lives.
pub(super) fn hold(
    listed: impl FnOnce() -> io::Result<Vec<PathBuf>>,
) -> io::Result<Vec<StoredReport>> {
    around_forks!(LISTINGS);
    // While the lock is held nothing is removed. A child of `fork` without it has no helper that could.
    let listings = LISTINGS.lock();
    let paths = listed()?;
    let names = paths
        .iter()
        .filter_map(|path| path.file_name().map(OsString::from));
    let listing = Arc::new(Listing {
        names: names.collect(),
        spared: AtomicBool::new(false),
    });
    if let Some(mut listings) = listings {
        listings.retain(|listing| listing.strong_count() > 0);
        listings.push(Arc::downgrade(&listing));
    }
    let stored = |path| StoredReport {
        path,
        _listing: listing.clone(),
    };
    Ok(paths.into_iter().map(stored).collect())
}

/// Removes a report of ours, unless the app has just been given it.
fn remove(path: &Path) {
    let Some(listings) = LISTINGS.lock() else {
        return;
    };
    let name = path.file_name().unwrap_or_default();
    let held = listings.iter().filter_map(Weak::upgrade);
    let mut is_held = false;
    for listing in held.filter(|listing| listing.names.contains(name)) {
        listing.spared.store(true, Ordering::Relaxed);
        is_held = true;
    }
    if !is_held && is_own_file(path) {
        // One that cannot be removed now can be the next time.
        let _ = std::fs::remove_file(path);
    }
}

/// What is to be removed.
#[derive(Debug)]
pub(crate) struct Tidying(std::vec::IntoIter<PathBuf>);

impl Tidying {
    /// Looks at the whole folder: closes what was left unfinished, and finds the oldest reports beyond the
    /// limits. The newest one always stays. `again` is called, on any thread, once the app no longer holds
    /// reports that should have been removed.
    pub fn begin(directory: &Path, limits: Limits, again: fn()) -> io::Result<Tidying> {
        AGAIN.get_or_init(|| again);
        left::close_all(&list(directory)?);
        left::shorten_list(directory);
        let mut reports: Vec<(PathBuf, u64)> = Vec::new();
        for path in list(directory)? {
            if ending(&path).is_some_and(|ending| [WHOLE, DAMAGED, REFUSED].contains(&ending)) {
                let size = std::fs::metadata(&path).map_or(0, |data| data.len());
                reports.push((path, size));
            }
        }
        let mut bytes: u64 = reports.iter().map(|(_, size)| size).sum();
        let mut count = reports.len();
        let mut doomed = Vec::new();
        for (path, size) in reports {
            if count <= 1 || (count <= limits.reports && bytes <= limits.bytes) {
                break;
            }
            doomed.push(path);
            count -= 1;
            bytes -= size;
        }
        Ok(Tidying(doomed.into_iter()))
    }

    /// Removes a few of them; whether there are more.
    pub fn step(&mut self) -> bool {
        self.0.by_ref().take(STEP).for_each(|path| remove(&path));
        !self.0.as_slice().is_empty()
    }
}
