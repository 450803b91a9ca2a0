//! The stacks taken during a stall: a fixed ring, equal ones folded, and the heaviest of them.
//!
//! Pure: it takes stacks and gives back what to write. Memory is reserved when it is made; nothing
//! allocates later, however long the stall.

use super::chains::KeptChains;
use crate::capture::Captured;
use crate::report::{Omitted, RawChains, RawFrame, ThreadState, WalkEnd};

/// Runs of equal stacks that are kept before the stall is certain; then the oldest make room.
const MAX_RUNS: usize = 32;
/// Innermost and outermost frames that are kept of one stack; those that a deeper one has between are counted.
const INNERMOST: usize = 208;
const OUTERMOST: usize = 48;
const MAX_FRAMES: usize = INNERMOST + OUTERMOST;
/// Async callers that are kept of one stack.
const MAX_CALLERS: usize = 128;
/// Different stacks that are weighed against each other.
const MAX_WEIGHED: usize = 64;

/// The samples of one stall at a time.
#[derive(Debug)]
pub struct Samples {
    runs: Box<[SampleRun]>,
    /// Index of the oldest run, and how many there are.
    first: usize,
    len: usize,
    /// Runs up to here are in the report.
    written: usize,
    /// The stack of the sample that was written last.
    before: SampleRun,
    taken: u64,
    weights: [Weight; MAX_WEIGHED],
    last: Option<(u64, u64)>,
}

/// Equal stacks in a row.
#[derive(Debug, Clone)]
struct SampleRun {
    at: u64,
    state: Option<ThreadState>,
    count: u64,
    /// Samples among them that are in the report.
    reported: u64,
    frames: Box<[RawFrame]>,
    len: usize,
    tasks: KeptChains,
    /// Frames between the innermost and the outermost part that are not kept.
    omitted: u64,
    /// The reason why the walk ended.
    end: WalkEnd,
}

/// Time for which a stack was seen. The key leaves out the pc of the first frame: one call counts as one, wherever in
/// it.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    key: u64,
    time: u64,
}

/// The contents of a `sample` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldedSample<'a> {
    /// Time since the stall's start, nanoseconds.
    pub at: u64,
    /// State of the thread.
    pub state: Option<ThreadState>,
    /// Count of samples in a row.
    pub count: u64,
    /// Count of outermost frames that are those of the section before, including omitted ones.
    pub keep: u64,
    /// The rest, innermost first.
    pub frames: &'a [RawFrame],
    /// The callers that await functions of the whole stack.
    pub tasks: RawChains<'a>,
    /// Place and count of the frames of a deep stack that were left out.
    pub omitted: Option<Omitted>,
    /// The reason why the walk ended.
    pub end: Option<WalkEnd>,
}

impl SampleRun {
    #[inline(never)]
    fn new() -> SampleRun {
        SampleRun {
            at: 0,
            state: None,
            count: 0,
            reported: 0,
            frames: RawFrame::room(MAX_FRAMES),
            len: 0,
            tasks: KeptChains::new(MAX_CALLERS),
            omitted: 0,
            end: WalkEnd::Root,
        }
    }

    fn stack(&self) -> &[RawFrame] {
        self.frames.get(..self.len).unwrap_or_default()
    }

    fn is(&self, stack: &KeptStack<'_>) -> bool {
        let mut both = self.stack().iter().zip(stack.frames());
        (self.omitted, self.end) == (stack.omitted, stack.end)
            && self.len == stack.len()
            && self.tasks.is(stack.tasks)
            && both.all(|(one, other)| one == other)
    }

    /// The same stack once more. What is written of it already keeps its time.
    fn extend(&mut self, at: u64) {
        if self.reported == self.count {
            self.at = at;
        }
        self.count = self.count.saturating_add(1);
    }

    fn set(&mut self, at: u64, state: Option<ThreadState>, stack: &KeptStack<'_>) {
        self.at = at;
        self.state = state;
        self.count = 1;
        self.reported = 0;
        self.len = stack.len().min(MAX_FRAMES);
        self.omitted = stack.omitted;
        self.end = stack.end;
        self.tasks.set(stack.tasks);
        for (to, from) in self.frames.iter_mut().zip(stack.frames()) {
            *to = *from;
        }
    }

    fn copy(&mut self, other: &SampleRun) {
        self.len = other.len;
        self.omitted = other.omitted;
        let frames = self.frames.iter_mut().zip(other.stack());
        frames.for_each(|(to, from)| *to = *from);
    }

    /// Count of the outermost frames that it shares with another.
    fn common(&self, other: &SampleRun) -> usize {
        let same = self.stack().iter().rev().zip(other.stack().iter().rev());
        let same = same.take_while(|(one, other)| one == other).count();
        // Frames inside of a gap are not at the same depth in both.
        match (self.omitted, other.omitted) {
            (0, 0) => same,
            _ => same.min(OUTERMOST),
        }
    }
}

/// As much of a stack as is kept.
#[derive(Debug, Clone, Copy)]
struct KeptStack<'a> {
    innermost: &'a [RawFrame],
    outermost: &'a [RawFrame],
    tasks: RawChains<'a>,
    omitted: u64,
    end: WalkEnd,
}

impl<'a> KeptStack<'a> {
    fn new(captured: &Captured<'a>) -> KeptStack<'a> {
        let (stack, omitted) = (captured.frames, captured.omitted);
        let before = omitted.map_or(0, |gap| gap.count);
        let too_many = stack.len().saturating_sub(MAX_FRAMES);
        let (innermost, outermost) = if too_many > 0 || before > 0 {
            // A gap that is there already lies between the two as well.
            let from = stack.len().saturating_sub(OUTERMOST);
            let to = omitted.map_or(from, |gap| from.min(gap.at as usize));
            (
                stack.get(..to.min(INNERMOST)).unwrap_or_default(),
                stack.get(from..).unwrap_or_default(),
            )
        } else {
            (stack, &[][..])
        };
        let kept = innermost.len() + outermost.len();
        KeptStack {
            innermost,
            outermost,
            // Their frames are counted as the stack is kept.
            tasks: if too_many > 0 {
                RawChains::default()
            } else {
                captured.tasks
            },
            omitted: before.saturating_add(stack.len().saturating_sub(kept) as u64),
            end: captured.end,
        }
    }

    fn frames(&self) -> impl Iterator<Item = &'a RawFrame> + Clone + use<'a> {
        self.innermost.iter().chain(self.outermost)
    }

    fn len(&self) -> usize {
        self.innermost.len() + self.outermost.len()
    }
}

impl Samples {
    /// Reserves and touches the memory.
    pub(crate) fn new() -> Samples {
        Samples {
            runs: (0..MAX_RUNS).map(|_| SampleRun::new()).collect(),
            first: 0,
            len: 0,
            written: 0,
            before: SampleRun::new(),
            taken: 0,
            weights: [Weight::default(); MAX_WEIGHED],
            last: None,
        }
    }

    /// Forgets the stall before.
    pub fn clear(&mut self) {
        self.first = 0;
        self.len = 0;
        self.written = 0;
        self.taken = 0;
        self.before.len = 0;
        self.weights = [Weight::default(); MAX_WEIGHED];
        self.last = None;
    }

    /// Adds a stack that was taken `at` this time.
    pub fn add(&mut self, at: u64, state: Option<ThreadState>, stack: &Captured<'_>) {
        let stack = KeptStack::new(stack);
        self.weigh(at, key(stack.frames()));
        if let Some(run) = self.newest()
            && run.is(&stack)
            && run.state == state
        {
            run.extend(at);
            return;
        }
        if self.len == MAX_RUNS {
            self.first = (self.first + 1) % MAX_RUNS;
            self.len -= 1;
            self.written = self.written.saturating_sub(1);
        }
        let place = (self.first + self.len) % MAX_RUNS;
        self.len += 1;
        if let Some(run) = self.runs.get_mut(place) {
            run.set(at, state, &stack);
        }
    }

    /// Repeats the stack that was added last, without a new observation. Returns `false` if no stack was added.
    pub fn repeat(&mut self, at: u64) -> bool {
        let Some(run) = self.newest() else {
            return false;
        };
        run.extend(at);
        let key = key(run.stack().iter());
        self.weigh(at, key);
        true
    }

    fn newest(&mut self) -> Option<&mut SampleRun> {
        let place = (self.first + self.len.checked_sub(1)?) % MAX_RUNS;
        self.runs.get_mut(place)
    }

    /// Count of samples taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The next section that the report lacks. A run that goes on is written when it begins, and
    /// what is added to it when it is over, or if `all`.
    pub fn next_section(&mut self, all: bool) -> Option<FoldedSample<'_>> {
        while self.written < self.len {
            let place = (self.first + self.written) % MAX_RUNS;
            let newest = self.written + 1 == self.len;
            let run = self.runs.get_mut(place)?;
            let due = run.count - run.reported;
            let begins = run.reported == 0;
            if due == 0 || newest && !begins && !all {
                if newest {
                    return None;
                }
                self.written += 1;
                continue;
            }
            run.reported = run.count;
            let (kept, omitted) = if begins {
                (run.common(&self.before), 0)
            } else {
                (run.len, run.omitted)
            };
            self.before.copy(run);
            let run = self.runs.get(place)?;
            let frames = run.stack().get(..run.len - kept).unwrap_or_default();
            let gap = run.omitted > 0 && !frames.is_empty();
            return Some(FoldedSample {
                at: run.at,
                state: run.state,
                count: due,
                keep: (kept as u64).saturating_add(omitted),
                frames,
                tasks: run.tasks.chains(),
                omitted: gap.then_some(Omitted {
                    at: (run.len - OUTERMOST.min(run.len)) as u64,
                    count: run.omitted,
                }),
                end: Some(run.end),
            });
        }
        None
    }

    /// Returns a key of the heaviest stack in this launch: the calls that took the longest
    /// time together. `None` without samples.
    pub fn heaviest(&self) -> Option<u64> {
        let heaviest = self.weights.iter().max_by_key(|weight| weight.time)?;
        (self.taken > 0).then_some(heaviest.key)
    }

    /// Gives the time since the sample before to the stack that is seen now. When there are too
    /// many, the lightest makes room and leaves its weight, so that a heavy one is never missed
    /// (Metwally, Agrawal, El Abbadi 2005, "space-saving").
    fn weigh(&mut self, at: u64, key: u64) {
        self.taken = self.taken.saturating_add(1);
        let time = match self.last {
            // A first stack counts for what it was taken for: one period or so.
            None => 1,
            Some((before, _)) => at.saturating_sub(before).max(1),
        };
        self.last = Some((at, key));
        let known = self
            .weights
            .iter()
            .position(|weight| weight.time > 0 && weight.key == key);
        let lightest = (0..MAX_WEIGHED)
            .min_by_key(|&index| self.weights[index].time)
            .unwrap_or(0);
        if let Some(weight) = self.weights.get_mut(known.unwrap_or(lightest)) {
            weight.key = key;
            weight.time = weight.time.saturating_add(time);
        }
    }
}

/// FNV-1a over the return addresses: all pcs but the first frame's, which wanders; of a stack of one
/// frame that.
fn key<'a>(stack: impl Iterator<Item = &'a RawFrame> + Clone) -> u64 {
    let only = stack.clone().nth(1).is_none();
    stack
        .skip(usize::from(!only))
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, frame| {
            (hash ^ frame.pc).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

#[cfg(test)]
mod tests;
