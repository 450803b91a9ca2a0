//! Copies among the reports that were read. A repeated upload brings a report twice.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use rustc_hash::FxHashSet;

use crate::report::Report;

/// Most hashes that are kept, two or three of a report; then all are forgotten.
const MAX_HASHES: usize = 1 << 22;

/// What copies of a report have in common, as hashes that nobody can foresee: of the id; of id and head (launch, time and
/// process); of head and threads up to the crashed one, or the complement of the second where a report was cut before them.
pub(crate) type Identity = [u64; 3];

/// The identities of the latest million reports.
#[derive(Debug, Default)]
pub(crate) struct SeenIds {
    known: FxHashSet<u64>,
    /// Count of the copies.
    pub copies: u64,
    /// Count of the reports that have the id of an earlier one and are no copies of it.
    pub reused_ids: u64,
}

impl SeenIds {
    /// Returns true unless this is a copy of an earlier report, and always for `None`.
    pub fn is_new(&mut self, identity: Option<Identity>) -> bool {
        identity.is_none_or(|[id, head, threads]| {
            let is_known = |hash| self.known.contains(&hash);
            let is_cut_copy = threads == !head && is_known(head);
            let is_new = !is_known(threads) && !is_known(!head) && !is_cut_copy;
            self.copies += u64::from(!is_new);
            self.reused_ids += u64::from(is_new && is_known(id));
            if self.known.len() >= MAX_HASHES {
                self.known.clear();
            }
            self.known.extend([id, head, threads]);
            is_new
        })
    }
}

/// The identity of a report, which its copies have in common; `None` for a report without an id. A copy may be cut, and a
/// stall may have been uploaded before it ended: of its sections the head and the first threads count.
pub(crate) fn identity(report: &Report, is_damaged: bool) -> Option<Identity> {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let (head, all) = (&report.head, &report.threads);
    let crashed = all.iter().position(|thread| thread.crashed).unwrap_or(0);
    let threads = all.iter().take(1 + crashed);
    let frames = threads.flat_map(|thread| &thread.frames);
    let frames = frames.map(|frame| (frame.pc, frame.image, &frame.name));
    let of_head = KEYS.hash_one((head.id, head.launch, head.time, head.pid));
    // A whole report without threads is no part of another one.
    let is_cut = is_damaged && all.is_empty();
    let whole = KEYS.hash_one((of_head, frames.collect::<Vec<_>>()));
    let threads = [whole, !of_head][usize::from(is_cut)];
    (head.id != [0; 16]).then(|| [KEYS.hash_one(head.id), of_head, threads])
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::report::{Frame, Thread};

    fn report(id: u8, seconds: u64, pcs: &[u64]) -> Report {
        let mut report = Report::default();
        report.head.id = [id; 16];
        report.head.time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let frame = |&pc: &u64| Frame {
            pc,
            ..Frame::default()
        };
        if !pcs.is_empty() {
            report.threads.push(Thread {
                frames: pcs.iter().map(frame).collect(),
                ..Thread::default()
            });
        }
        report
    }

    #[test]
    fn an_id_is_new_once_and_no_id_always() {
        let mut seen = SeenIds::default();
        let all = (0..1000_u128).map(|id| {
            let mut one = report(1, 7, &[1]);
            one.head.id = (id + 1).to_be_bytes();
            identity(&one, false)
        });
        assert_eq!(all.clone().filter(|one| seen.is_new(*one)).count(), 1000);
        assert_eq!(all.filter(|one| seen.is_new(*one)).count(), 0);
        assert!(seen.is_new(None) && seen.is_new(None));
        assert_eq!((seen.copies, seen.reused_ids), (1000, 0));
        assert_eq!(identity(&report(0, 7, &[1]), false), None);
    }

    #[test]
    fn a_copy_has_the_same_head_and_the_same_thread_or_is_cut_before_it() {
        let (whole, cut) = (report(1, 7, &[1, 2]), report(1, 7, &[]));
        for (other, is_damaged, is_copy) in [
            (whole.clone(), false, true),
            (whole.clone(), true, true),
            (cut.clone(), true, true),
            // Reports of others, who know the id.
            (cut, false, false),
            (report(1, 8, &[1, 2]), false, false),
            (report(1, 7, &[1, 3]), false, false),
            (report(1, 7, &[1, 3]), true, false),
            (report(1, 8, &[]), true, false),
        ] {
            for swapped in [false, true] {
                let mut two = [identity(&whole, false), identity(&other, is_damaged)];
                if swapped {
                    two.reverse();
                }
                let mut seen = SeenIds::default();
                assert!(seen.is_new(two[0]));
                assert_eq!(seen.is_new(two[1]), !is_copy, "{other:?}");
                // Copies of either count once.
                assert!(!seen.is_new(two[0]) && !seen.is_new(two[1]));
                assert_eq!(seen.reused_ids, u64::from(!is_copy));
            }
        }
    }
}
