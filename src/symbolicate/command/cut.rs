//! Reports that are cut, read again after all others: of copies with one id a whole one counts first, then the larger one.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use rustc_hash::FxHashMap;

use crate::report::{self, Reading};
use crate::symbolicate::group::identity;

/// Reports of a batch.
const MAX_BATCH: usize = 64;

/// The place of a cut report.
#[derive(Debug)]
pub(super) struct CutReport {
    pub path: PathBuf,
    /// Index among the reports of the file.
    pub index: usize,
    /// A hash of the report's id.
    identity: u64,
    /// Bytes of all that was read of it.
    size: usize,
}

impl CutReport {
    /// The place of a report of a file, if it is cut. A report without an id has no copies.
    pub fn of(path: &Path, index: usize, reading: &Reading) -> Option<CutReport> {
        let identity = identity(&reading.report, true).filter(|_| !reading.damage.is_empty())?;
        Some(CutReport {
            path: path.to_owned(),
            index,
            identity: identity[0],
            // Neither packing nor what else is in the file counts.
            size: report::to_bytes(&reading.report).len(),
        })
    }
}

/// The cut reports of a run: a path each, however large they are.
#[derive(Debug, Default)]
pub(super) struct CutReports {
    found: Vec<CutReport>,
    /// Those of them that are still to be read, in order.
    next: IntoIter<CutReport>,
}

impl CutReports {
    pub fn add(&mut self, reports: Vec<CutReport>) {
        self.found.extend(reports);
    }

    /// Takes the next ones, once all were added; `None` if there are no more.
    pub fn next_batch(&mut self) -> Option<Vec<CutReport>> {
        if !self.found.is_empty() {
            self.next = in_order(std::mem::take(&mut self.found)).into_iter();
        }
        let batch: Vec<CutReport> = self.next.by_ref().take(MAX_BATCH).collect();
        (!batch.is_empty()).then_some(batch)
    }
}

/// Puts the copies of a report in the place of the first of them, the largest before the others.
fn in_order(mut reports: Vec<CutReport>) -> Vec<CutReport> {
    let mut first = FxHashMap::default();
    for (at, report) in reports.iter().enumerate() {
        first.entry(report.identity).or_insert(at);
    }
    let place = |report: &CutReport| first.get(&report.identity).copied();
    reports.sort_by_key(|report| (place(report), Reverse(report.size)));
    reports
}
