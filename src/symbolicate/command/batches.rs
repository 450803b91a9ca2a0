//! The answers for the reports of a run, gathered by image: between what reads the items and what prints the reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::cut::{CutReport, CutReports};
use super::inputs::Item;
use super::parsed::{Parsed, parse};
use super::printing::TICK;
use super::select::Select;
use super::{faults, interrupt};
use crate::symbolicate::gathered::{Gathered, Wanted};
use crate::symbolicate::{Symbolicator, lock};

/// Most frames of the reports that are gathered: their answers take some 50 MB.
const MOST_FRAMES: usize = 1 << 17;
/// Frames of the first ones where output is waited for; each time four times as many.
const FIRST_FRAMES: usize = 1 << 12;
/// Most batches at a time: a batch without frames takes memory, too.
const MOST_BATCHES: usize = 16;
/// Time to wait for more reports where output is waited for.
const PATIENCE: Duration = Duration::from_millis(50);
/// The reports of a batch, and the answers for it and for others.
pub(super) type Answered = (Vec<Parsed>, Arc<Gathered>);

/// How to gather.
pub(super) struct Answering<'a> {
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

impl Answering<'_> {
    /// Passes on each batch of `items`, in order, and then the cut reports of their files, until there are no more or `pass`
    /// says `false`.
    pub(super) fn run(&self, items: &Receiver<Vec<Item>>, pass: &mut dyn FnMut(Answered) -> bool) {
        let mut frames = if self.is_patient {
            MOST_FRAMES
        } else {
            FIRST_FRAMES
        };
        let mut cut = CutReports::default();
        while let Some((batches, gathered)) = self.gather(items, &mut cut, frames) {
            frames = MOST_FRAMES.min(frames * 4);
            let gathered = Arc::new(gathered);
            for batch in batches {
                if !pass((batch, gathered.clone())) {
                    return;
                }
            }
        }
    }

    /// Reads batches until their reports have so many `frames`, and looks up what they point to; `None` after the last.
    fn gather(
        &self,
        items: &Receiver<Vec<Item>>,
        cut: &mut CutReports,
        frames: usize,
    ) -> Option<(Vec<Vec<Parsed>>, Gathered)> {
        let (mut wanted, mut reports) = (Wanted::default(), 0);
        let (mut batches, began) = (Vec::new(), Instant::now());
        while wanted.frames() < frames && batches.len() < MOST_BATCHES {
            let patience = match () {
                () if self.is_patient || batches.is_empty() => Duration::MAX,
                () => PATIENCE.saturating_sub(began.elapsed()),
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
            for (batch, put_off) in each(self.jobs, round, |items| self.parse(items)) {
                cut.add(put_off);
                reports += self.note(&batch, &mut wanted);
                batches.push(batch);
            }
        }
        if batches.is_empty() || self.is_over() {
            return None;
        }
        // A single report needs no help.
        let images = if reports > 1 { wanted.images() } else { 0 };
        let files = self.symbolicator.files();
        let found = each(self.jobs, (0..images).collect(), |image| {
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
    fn note(&self, batch: &[Parsed], wanted: &mut Wanted) -> usize {
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
            match items.recv_timeout(left.map_or(TICK, |left| left.min(TICK))) {
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
        self.stop.load(Ordering::SeqCst) || interrupt::came()
    }
}

/// Runs `work` on each input, by so many threads. The results are in the order of the inputs.
fn each<I: Send, T: Send>(jobs: usize, inputs: Vec<I>, work: impl Fn(I) -> T + Sync) -> Vec<T> {
    if jobs.min(inputs.len()) <= 1 {
        return inputs.into_iter().map(work).collect();
    }
    let threads = jobs.min(inputs.len());
    let inputs = Mutex::new(inputs.into_iter().enumerate());
    let results = Mutex::new(Vec::new());
    let run = || {
        loop {
            let next = lock(&inputs).next();
            let Some((at, input)) = next else {
                return;
            };
            let result = work(input);
            lock(&results).push((at, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|&(at, _)| at);
    results.into_iter().map(|(_, result)| result).collect()
}
