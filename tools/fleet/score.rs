//! How well reports are grouped: over all pairs of them, how many of those put together belong
//! together (precision), and how many of those that belong together were put together (recall).

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use wedjat::report::ReportReader;
use wedjat::symbolicate::group::Member;
use wedjat::symbolicate::{DebugFiles, Symbolicated, Symbolicator};

/// How many reports of each stall are in each group.
type Counts = HashMap<(u128, u32), u64>;

/// How good the groups are, over all pairs of reports.
#[derive(Debug, Clone, Copy)]
pub struct Score {
    /// Of the pairs put together, how many belong together.
    pub precision: f64,
    /// Of the pairs that belong together, how many were put together.
    pub recall: f64,
}

pub fn score(folder: &Path) -> Result<Score, Box<dyn Error>> {
    let mut truth: HashMap<u128, u32> = HashMap::new();
    for line in BufReader::new(File::open(folder.join("truth.tsv"))?).lines() {
        let line = line?;
        let (id, stall) = line
            .split_once('\t')
            .ok_or("a line of truth.tsv without a tab")?;
        truth.insert(u128::from_str_radix(id, 16)?, stall.parse()?);
    }
    let mut files = DebugFiles::new().no_search();
    files.add(&folder.join("debug"))?;
    let symbolicator = Symbolicator::new(files);
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder.join("reports"))? {
        folders.push(entry?.path());
    }
    let next = AtomicUsize::new(0);
    let jobs = std::thread::available_parallelism()?.get();
    let mut counts = Counts::new();
    let (mut unread, mut unknown, mut without_stack) = (0, 0, 0);
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let workers: Vec<_> = (0..jobs)
            .map(|_| scope.spawn(|| count(&folders, &next, &symbolicator, &truth)))
            .collect();
        for worker in workers {
            let part = worker.join().map_err(|_| "a worker panicked")??;
            unread += part.unread;
            unknown += part.unknown;
            without_stack += part.without_stack;
            for (key, count) in part.counts {
                *counts.entry(key).or_default() += count;
            }
        }
        Ok(())
    })?;
    println!(
        "{unread} could not be read, {unknown} have lost their id, {without_stack} their stack"
    );
    Ok(print(&counts))
}

#[derive(Default)]
struct Part {
    counts: Counts,
    /// Reports of which nothing could be read.
    unread: u64,
    /// Reports whose id is lost.
    unknown: u64,
    /// Reports that were cut before their images: nothing shows which functions were on their stacks.
    without_stack: u64,
}

fn count(
    folders: &[PathBuf],
    next: &AtomicUsize,
    symbolicator: &Symbolicator,
    truth: &HashMap<u128, u32>,
) -> std::io::Result<Part> {
    let mut part = Part::default();
    while let Some(folder) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
        for entry in std::fs::read_dir(folder)? {
            for reading in ReportReader::new(File::open(entry?.path())?) {
                let Ok(reading) = reading else {
                    part.unread += 1;
                    continue;
                };
                let report = symbolicator.symbolicate_reading(reading);
                let id = u128::from_be_bytes(report.report.head.id);
                match truth.get(&id) {
                    Some(_) if !has_stack(&report) => part.without_stack += 1,
                    Some(stall) => {
                        let key = Member::new("", &report).key;
                        *part.counts.entry((key, *stall)).or_default() += 1;
                    }
                    None => part.unknown += 1,
                }
            }
        }
    }
    Ok(part)
}

/// Whether any frame lies in a known image.
fn has_stack(report: &Symbolicated) -> bool {
    let stacks = report.threads.iter().chain(&report.samples);
    stacks
        .flat_map(|stack| &stack.frames)
        .any(|frame| frame.image.is_some())
}

fn print(counts: &Counts) -> Score {
    let mut groups: HashMap<u128, u64> = HashMap::new();
    let mut stalls: HashMap<u32, u64> = HashMap::new();
    let mut best: HashMap<u128, u64> = HashMap::new();
    for ((group, stall), count) in counts {
        *groups.entry(*group).or_default() += count;
        *stalls.entry(*stall).or_default() += count;
        let most = best.entry(*group).or_default();
        *most = (*most).max(*count);
    }
    let pairs = |count: u64| count as f64 * (count as f64 - 1.0) / 2.0;
    let both: f64 = counts.values().copied().map(pairs).sum();
    let together: f64 = groups.values().copied().map(pairs).sum();
    let belong: f64 = stalls.values().copied().map(pairs).sum();
    let reports: u64 = groups.values().sum();
    let right: u64 = best.values().sum();
    println!(
        "{reports} reports of {} stalls in {} groups",
        stalls.len(),
        groups.len()
    );
    let score = Score {
        precision: both / together.max(1.0),
        recall: both / belong.max(1.0),
    };
    println!("precision {:.4} of the pairs put together", score.precision);
    println!(
        "recall    {:.4} of the pairs that belong together",
        score.recall
    );
    println!(
        "purity    {:.4} of the reports are of their group's most frequent stall",
        right as f64 / reports.max(1) as f64
    );
    score
}
