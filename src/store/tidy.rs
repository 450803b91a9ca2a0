//! Keeps the folder within its limits: on the helper's thread, a few files at a time, and never what the
//! app has just been given by [`reports`](super::reports).

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::unfinished::{self, Budget};
use super::{DAMAGED, Limits, Name, REFUSED, StoredReport, WHOLE, ending, is_own_file, list};
use crate::platform::clock;
use crate::platform::directory::Directory;
use crate::platform::folder::Folder;
use crate::platform::forked::{ForkLock, around_forks};
use crate::report::limits;

/// Files that are removed in one step.
const REMOVED_PER_STEP: usize = 64;

/// Reports that the app was given, for as long as it has one of them.
#[derive(Debug)]
pub(super) struct Listing {
    /// Sorted.
    names: Vec<String>,
    /// True if one of them would have been removed.
    spared: AtomicBool,
}

impl Drop for Listing {
    fn drop(&mut self) {
        if self.spared.load(Ordering::Relaxed)
            && let Some(again) = REQUEST_TIDY.get()
        {
            again();
        }
    }
}

/// Requests that the folder is tidied up once more.
static REQUEST_TIDY: OnceLock<fn()> = OnceLock::new();

static LISTINGS: ForkLock<Vec<Weak<Listing>>> = ForkLock::new(Vec::new());

/// Calls `listed` and returns its reports, in order. None of them is removed while any of the results is alive.
pub(super) fn list_and_pin(
    directory: &Path,
    listed: impl FnOnce() -> io::Result<Vec<String>>,
) -> io::Result<Vec<StoredReport>> {
    around_forks!(LISTINGS);
    // While the lock is held nothing is removed. A child of `fork` may not get the lock; it has no helper thread that could
    // remove anything.
    let listings = LISTINGS.lock();
    let names = listed()?;
    let listing = Arc::new(Listing {
        names: names.clone(),
        spared: AtomicBool::new(false),
    });
    if let Some(mut listings) = listings {
        listings.retain(|listing| listing.strong_count() > 0);
        listings.push(Arc::downgrade(&listing));
    }
    let stored = |name| StoredReport {
        path: directory.join(name),
        _listing: listing.clone(),
    };
    Ok(names.into_iter().map(stored).collect())
}

/// Removes a report of ours, unless the app has just been given it.
fn remove(folder: &Directory, name: &str) {
    let Some(listings) = LISTINGS.lock() else {
        return;
    };
    let held = listings.iter().filter_map(Weak::upgrade);
    let mut is_held = false;
    let has = |names: &[String]| {
        names
            .binary_search_by(|held| held.as_str().cmp(name))
            .is_ok()
    };
    for listing in held.filter(|listing| has(&listing.names)) {
        listing.spared.store(true, Ordering::Relaxed);
        is_held = true;
    }
    if !is_held && is_own_file(folder, name) {
        // One that cannot be removed now can be the next time.
        let _ = folder.remove(name);
    }
}

/// Count of files that are named as reports but are larger than any report. The last `begin` found them. They are not
/// removed.
pub(crate) static OVERSIZED: AtomicU64 = AtomicU64::new(0);

/// A name that sorts after all reports of this millisecond: one just written is not taken for one of the future.
fn last_of(time: u64) -> Name {
    Name::new(time, "~", &[0xff; 16], WHOLE)
}

/// Files that are to be removed.
#[derive(Debug)]
pub(crate) struct Tidying {
    folder: Arc<Folder>,
    doomed: std::vec::IntoIter<String>,
}

impl Tidying {
    /// Looks at the whole folder: closes what was left unfinished, and finds the oldest reports beyond the
    /// limits. The newest one always stays. `again` is called, on any thread, once the app no longer holds
    /// reports that should have been removed.
    pub fn begin(folder: Arc<Folder>, limits: Limits, again: fn()) -> io::Result<Tidying> {
        REQUEST_TIDY.get_or_init(|| again);
        let directory = folder.directory();
        unfinished::close(directory, &list(directory)?, Budget::max());
        let (mut reports, mut oversized) = (Vec::new(), 0);
        for name in list(directory)? {
            let (Some(ending), Some(size)) = (ending(&name), directory.own_length(&name)) else {
                continue;
            };
            if size > limits::REPORT_BYTES as u64 {
                oversized += 1;
            } else if [WHOLE, DAMAGED, REFUSED].contains(&ending) {
                reports.push((name, size));
            }
        }
        OVERSIZED.store(oversized, Ordering::Relaxed);
        let mut bytes: u64 = reports.iter().map(|(_, size)| size).sum();
        let (mut count, mut doomed) = (reports.len(), Vec::new());
        // Reports from the future, of a clock that was ahead, are of unknown age: they go first.
        let now = last_of(clock::realtime());
        let first_future = reports.partition_point(|(name, _)| name.as_str() < now.as_str());
        let (past, future) = reports.split_at(first_future);
        for (name, size) in future.iter().chain(past) {
            if count <= 1 || (count <= limits.reports && bytes <= limits.bytes) {
                break;
            }
            doomed.push(name.clone());
            count -= 1;
            bytes -= size;
        }
        let doomed = doomed.into_iter();
        Ok(Tidying { folder, doomed })
    }

    /// Removes a few of them. Returns true if there are more.
    pub fn step(&mut self) -> bool {
        let some = self.doomed.by_ref().take(REMOVED_PER_STEP);
        some.for_each(|name| remove(self.folder.directory(), &name));
        !self.doomed.as_slice().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_this_millisecond_is_not_ahead() {
        let (now, next) = (1_764_000_000_123_000_000, 1_764_000_000_124_000_000);
        for event in ["crash", "live", "panic", "stall"] {
            let of = |time, id| Name::new(time, event, &[id; 16], DAMAGED);
            assert!(of(now, 0xff).as_str() < last_of(now + 1).as_str());
            assert!(of(next, 0).as_str() > last_of(next - 1).as_str());
        }
    }
}
