//! Ids of the reports that came: an upload that is repeated brings a report twice.

use std::hash::{DefaultHasher, Hasher as _};

use rustc_hash::FxHashSet;

use super::stack::thread_in_question;
use crate::report::time::since_epoch;
use crate::report::{Report, to_bytes};

/// Ids held in each of two halves: of further ones the oldest are forgotten.
const HALF: usize = 1 << 21;

/// The ids of the latest millions of reports, as hashes.
#[derive(Debug, Default)]
pub(crate) struct SeenIds {
    new: FxHashSet<u64>,
    old: FxHashSet<u64>,
    again: u64,
}

impl SeenIds {
    /// Returns true if a report with this [`identity`] comes for the first time. One without is never the same as another.
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

/// A hash that reports have in common if they are one report that came twice; `None` for a report without an id.
///
/// This recorder's ids are random: with the time and the stack of the thread in question, also a copy that was cut is the
/// same. Other recorders' are as good as their writers: there all that was read counts.
pub(crate) fn identity(report: &Report) -> Option<u64> {
    let head = &report.head;
    if head.id == [0; 16] {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    if head.launch == [0; 16] {
        hasher.write(&to_bytes(report));
        return Some(hasher.finish());
    }
    let kind = report
        .event
        .as_ref()
        .map_or("", |event| event.kind.as_str());
    hasher.write(kind.as_bytes());
    hasher.write(&head.id);
    hasher.write_u64(since_epoch(head.time));
    let thread = thread_in_question(report).and_then(|at| report.threads.get(at));
    let frames = thread.map_or(&[][..], |thread| &thread.frames);
    frames.iter().for_each(|frame| hasher.write_u64(frame.pc));
    Some(hasher.finish())
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
    fn of_this_recorder_id_time_and_stack_are_enough() {
        let mut report = Report::default();
        assert_eq!(identity(&report), None);
        report.head.id = [7; 16];
        let mut other = report.clone();
        other.head.app.version = "2".into();
        assert_eq!(identity(&report), identity(&report.clone()));
        assert_ne!(identity(&report), identity(&other));
        (report.head.launch, other.head.launch) = ([1; 16], [1; 16]);
        assert_eq!(identity(&report), identity(&other));
        other.threads.push(crate::report::Thread {
            frames: vec![crate::report::Frame::default()],
            ..Default::default()
        });
        assert_ne!(identity(&report), identity(&other));
    }
}
