//! Reads a run's reports in batches, looks their addresses up image by image, so that each debug file is opened once, and
//! hands each batch on with its answers. Cut reports come last ([`cut`](super::cut)).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::cut::{CutReport, CutReports};
use super::inputs::Item;
use super::parsed::{Parsed, parse};
use super::printing::INTERRUPT_POLL;
use super::select::Select;
use super::{faults, interrupt};
use crate::symbolicate::Symbolicator;
use crate::symbolicate::files::search::run_parallel;
use crate::symbolicate::gathered::{GatheredLookups, WantedAddresses};

/// Most frames of the reports that are gathered: their answers take some 50 MB.
const MAX_FRAMES: usize = 1 << 17;
/// Frames of the first ones where output is waited for; each time four times as many.
const FIRST_FRAMES: usize = 1 << 12;
/// Most batches at a time: a batch without frames takes memory, too.
const MAX_BATCHES: usize = 16;
/// Time to wait for more reports where output is waited for.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// How to gather.
pub(super) struct BatchResolver<'a> {
    pub symbolicator: &'a Symbolicator,
    pub select: &'a Select,
    /// Threads to work with.
    pub jobs: usize,
    /// True if nobody waits for the first lines of output.
    pub is_patient: bool,
    /// True if copies of a report count once.
    pub counts_once: bool,
    /// Set when no more is needed.
    pub stop: &'a AtomicBool,
}

impl BatchResolver<'_> {
    /// Passes on the result of `work` on each batch of `items`, in order, and then on the cut reports of their files, until
    /// there are no more or `pass` returns false.
    pub(super) fn run<T: Send>(
        &self,
        items: &Receiver<Vec<Item>>,
        work: impl Fn(Vec<Parsed>, &GatheredLookups) -> T + Sync,
        mut pass: impl FnMut(T) -> bool,
    ) {
        let mut frames = if self.is_patient {
            MAX_FRAMES
        } else {
            FIRST_FRAMES
        };
        let mut cut = CutReports::default();
        while let Some((batches, gathered)) = self.gather(items, &mut cut, frames) {
            frames = MAX_FRAMES.min(frames * 4);
            let results = run_parallel(self.jobs, batches, |batch| {
                (!self.is_over()).then(|| work(batch, &gathered))
            });
            if !results
                .into_iter()
                .all(|result| result.is_some_and(&mut pass))
            {
                return;
            }
        }
    }

    /// Reads batches until their reports have so many `frames`, and looks up what they point to; `None` after the last.
    fn gather(
        &self,
        items: &Receiver<Vec<Item>>,
        cut: &mut CutReports,
        frames: usize,
    ) -> Option<(Vec<Vec<Parsed>>, GatheredLookups)> {
        let (mut wanted, mut reports) = (WantedAddresses::default(), 0);
        let (mut batches, began) = (Vec::new(), Instant::now());
        while wanted.frames() < frames && batches.len() < MAX_BATCHES {
            let patience = match () {
                () if self.is_patient || batches.is_empty() => Duration::MAX,
                () => MAX_WAIT.saturating_sub(began.elapsed()),
            };
            let Some(next) = self.next(items, cut, patience) else {
                break;
            };
            // Those that are there already are read at once.
            let mut round = vec![next];
            while round.len() < self.jobs
                && let Ok(next) = items.try_recv()
            {
                round.push(next);
            }
            for (batch, put_off) in run_parallel(self.jobs, round, |items| self.parse(items)) {
                cut.add(put_off);
                reports += self.note_addresses(&batch, &mut wanted);
                batches.push(batch);
            }
        }
        if batches.is_empty() || self.is_over() {
            return None;
        }
        // A single report needs no help.
        let images = if reports > 1 { wanted.images() } else { 0 };
        let files = self.symbolicator.files();
        let found = run_parallel(self.jobs, (0..images).collect(), |image| {
            let find = || wanted.find(files, image);
            // A fault comes again where the report is named, and is said there.
            (!self.is_over()).then(|| faults::run(find).ok()).flatten()
        });
        Some((batches, found.into_iter().flatten().collect()))
    }

    /// The reports of items, and the cut ones to read again.
    fn parse(&self, items: Vec<Item>) -> (Vec<Parsed>, Vec<CutReport>) {
        let mut cut = Vec::new();
        let parsed = parse(items, self.counts_once.then_some(&mut cut));
        (parsed, cut)
    }

    /// Notes what the reports of a batch point to, and returns how many there are.
    fn note_addresses(&self, batch: &[Parsed], wanted: &mut WantedAddresses) -> usize {
        let mut count = 0;
        for parsed in batch {
            if let Parsed::Report(_, reading) = parsed
                && self.symbolicator.gathers()
                && self.select.wants(reading)
            {
                count += usize::from(faults::run(|| wanted.add(&reading.report)).is_ok());
            }
        }
        count
    }

    /// The next batch; `None` if there is none within that time, and when no more is needed.
    fn next(
        &self,
        items: &Receiver<Vec<Item>>,
        cut: &mut CutReports,
        patience: Duration,
    ) -> Option<Vec<Item>> {
        let until = Instant::now().checked_add(patience);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match items.recv_timeout(left.map_or(INTERRUPT_POLL, |left| left.min(INTERRUPT_POLL))) {
                Ok(batch) => return Some(batch),
                Err(RecvTimeoutError::Disconnected) => {
                    let batch = cut.next_batch()?;
                    return Some(batch.into_iter().map(Item::Cut).collect());
                }
                Err(RecvTimeoutError::Timeout) if self.is_over() => return None,
                Err(RecvTimeoutError::Timeout) if left.is_some_and(|left| left.is_zero()) => {
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || interrupt::is_set()
    }
}
