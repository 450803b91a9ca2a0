//! Ids of the reports that were read. A repeated upload brings a report twice.

use rustc_hash::FxHashSet;

use crate::report::Report;

/// Most ids in each of two halves. When the new half is full, the old half is forgotten.
const HALF: usize = 1 << 21;

/// The ids of the latest millions of reports, as hashes.
#[derive(Debug, Default)]
pub(crate) struct SeenIds {
    new: FxHashSet<u64>,
    old: FxHashSet<u64>,
    again: u64,
}

impl SeenIds {
    /// Returns true if a report with this [`identity`] comes for the first time, and always for `None`.
    pub fn is_new(&mut self, identity: Option<u64>) -> bool {
        let Some(hash) = identity else {
            return true;
        };
        let is_new = !self.old.contains(&hash) && self.new.insert(hash);
        self.again += u64::from(!is_new);
        if self.new.len() >= HALF {
            self.old = std::mem::take(&mut self.new);
        }
        is_new
    }

    /// Count of the reports whose id had come before.
    pub fn again(&self) -> u64 {
        self.again
    }
}

/// A hash of the report's id, which its copies have in common; `None` for a report without an id. A copy may be cut, and a
/// stall may have been uploaded before it ended: the id alone counts.
pub(crate) fn identity(report: &Report) -> Option<u64> {
    let id = &report.head.id;
    (*id != [0; 16]).then(|| spread(id))
}

/// A hash of an id. Ids may count up: the finalizer of SplitMix64 spreads them.
pub(super) fn spread(id: &[u8; 16]) -> u64 {
    let words = u128::from_be_bytes(*id);
    let mut hash = (words as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (words >> 64) as u64;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_new_once_and_no_id_always() {
        let mut seen = SeenIds::default();
        let ids = (1..=1000_u128).map(|id| Some(spread(&id.to_be_bytes())));
        assert_eq!(ids.clone().filter(|id| seen.is_new(*id)).count(), 1000);
        assert_eq!(ids.filter(|id| seen.is_new(*id)).count(), 0);
        assert!(seen.is_new(None) && seen.is_new(None));
        assert_eq!(seen.again(), 1000);
    }

    #[test]
    fn the_id_alone_counts_and_zeros_are_none() {
        let mut report = Report::default();
        assert_eq!(identity(&report), None);
        report.head.id = [7; 16];
        let mut cut = report.clone();
        cut.threads.push(crate::report::Thread::default());
        assert_eq!(identity(&report), identity(&cut));
        cut.head.id = [8; 16];
        assert_ne!(identity(&report), identity(&cut));
    }
}
