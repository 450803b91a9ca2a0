//! Threads and stacks of a report in the order in which people see them, their weights, and the names of their frames.

use std::cmp::Reverse;
use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::Style;
use crate::report::time::nanos;
use crate::report::{AsyncEnd, EventKind, Thread};
use crate::symbolicate::blame::{Blamed, Owner, all_frames, frames_of, owner};
use crate::symbolicate::frame::{
    Awaiting, PhysicalFrame, SourceFrame, Stack, Symbolicated, image_file_name,
};
use crate::symbolicate::group::{key_names, thread_in_question};
use crate::symbolicate::names::without_clones;

/// Gives each key of a table an index, in order of arrival.
#[derive(Debug)]
pub(super) struct Indices<K>(FxHashMap<K, usize>);

impl<K: Eq + Hash> Indices<K> {
    /// The index of `key`, and true if it is new.
    pub fn index_of(&mut self, key: K) -> (usize, bool) {
        let next = self.0.len();
        let index = *self.0.entry(key).or_insert(next);
        (index, index == next)
    }
}

impl<K> Default for Indices<K> {
    fn default() -> Indices<K> {
        Indices(FxHashMap::default())
    }
}

/// A stack and its weight.
pub(super) struct Weighed<'a> {
    pub stack: &'a Stack,
    /// Index of its thread.
    pub thread: Option<usize>,
    /// Times that it was seen.
    pub count: u64,
    /// Since the stall began, nanoseconds.
    pub at: u64,
}

/// Returns the stacks to show. A report with samples shows each sample; a live report, every thread; any other, the
/// thread that it is about.
pub(super) fn weighed(of: &Symbolicated) -> Vec<Weighed<'_>> {
    let about = thread_in_question(&of.report);
    if !of.report.samples.is_empty() {
        let samples = of.report.samples.iter().zip(&of.samples);
        return samples
            .map(|(sample, stack)| Weighed {
                stack,
                thread: about,
                count: sample.count.max(1),
                at: nanos(sample.at),
            })
            .collect();
    }
    let event = of.report.event.as_ref();
    let live = event.is_some_and(|event| event.kind == EventKind::Live);
    let threads = of.threads.iter().enumerate();
    let shown = threads.filter(|(index, _)| live || about == Some(*index));
    let one = |(index, stack)| Weighed {
        stack,
        thread: Some(index),
        count: 1,
        at: 0,
    };
    shown.map(one).collect()
}

/// Returns the end of the time line of a report's samples, nanoseconds from the stall's beginning: the end of the
/// stall; if that is not known, the last sample is as long as those before it.
pub(super) fn end_of_samples(of: &Symbolicated) -> u64 {
    let samples = &of.report.samples;
    let last = samples.iter().map(|sample| nanos(sample.at)).max();
    let last = last.unwrap_or(0);
    match &of.report.stall_end {
        Some(end) => nanos(end.duration).max(last),
        None => last.saturating_add(last / (samples.len() as u64).max(1)),
    }
}

/// Fewest equal frames after the first one that are folded.
const MIN_REPEATED: usize = 4;

/// A source frame of a stack, and the gaps, repetitions and callers around it.
pub(super) struct StackRow<'a> {
    pub number: usize,
    pub blamed: Blamed<'a>,
    /// Count of the frames that are missing before it.
    pub missing: Option<u64>,
    /// Count of the rows after it that are the same; 0 if they are too few to be folded.
    pub again: usize,
    /// The callers that await the function of this row.
    pub awaiting: Option<&'a Awaiting>,
}

/// Returns every source frame of a stack, innermost first, and the count of frames that are missing after the last.
pub(super) fn rows(stack: &Stack) -> (Vec<StackRow<'_>>, Option<u64>) {
    let mut rows = Vec::new();
    for (index, physical) in stack.frames.iter().enumerate() {
        let gap = stack.omitted.filter(|gap| gap.at == index as u64);
        let mut missing = gap.map(|gap| gap.count);
        let again = repeated(stack, index);
        for blamed in frames_of(physical) {
            rows.push(StackRow {
                number: rows.len(),
                blamed,
                missing: missing.take(),
                again,
                awaiting: None,
            });
        }
        if let Some(last) = rows.last_mut() {
            last.awaiting = stack.awaiting(index);
        }
    }
    let len = stack.frames.len() as u64;
    let after = stack.omitted.filter(|gap| gap.at >= len);
    (rows, after.map(|gap| gap.count))
}

/// The sentence about a chain of async callers that ended before the task's first function.
pub(super) fn chain_ends(tasks: &Awaiting) -> Option<String> {
    match (tasks.end, tasks.callers.is_empty()) {
        (AsyncEnd::Root, _) => None,
        (AsyncEnd::Changed, _) => {
            Some("it may have gone on before they were read: they may be of another moment".into())
        }
        (AsyncEnd::Other, false) => Some("more callers may await; the chain stopped here".into()),
        (AsyncEnd::Unknown | AsyncEnd::Other, true) => Some("who awaits it is not known".into()),
        (end, _) => Some(format!(
            "more callers may await; the chain stopped here: {}",
            end.as_str()
        )),
    }
}

/// Returns the number of frames after the one at `index` that are the same, as in recursion by one call. 0 if it is
/// not the first of them, or if they are too few to be folded.
fn repeated(stack: &Stack, index: usize) -> usize {
    let Some(first) = stack.frames.get(index) else {
        return 0;
    };
    let is_same = |other: &PhysicalFrame| (other.image, other.pc) == (first.image, first.pc);
    if !stack.tasks.is_empty() {
        return 0;
    }
    let gap = stack.omitted.map(|gap| gap.at as usize);
    let before = index.checked_sub(1).and_then(|at| stack.frames.get(at));
    let follows_equal = gap != Some(index) && before.is_some_and(is_same);
    if follows_equal || first.frames.len() > 1 || first.tail_callers.is_some() {
        return 0;
    }
    // A gap ends a run of equal frames.
    let gap = gap.filter(|gap| *gap > index);
    let end = stack.frames.len().min(gap.unwrap_or(usize::MAX));
    let rest = stack.frames[index + 1..end].iter();
    let count = rest.take_while(|other| is_same(other)).count();
    if count < MIN_REPEATED { 0 } else { count }
}

/// The function in which a thread waits for work; `None` for one whose innermost frame is another.
pub(super) fn wait_call(stack: &Stack) -> Option<&str> {
    #[rustfmt::skip]
    const WAITS: [&str; 22] = [
        "mach_msg_trap", "mach_msg2_trap", "mach_msg", "semaphore_wait_trap", "semaphore_timedwait_trap", "kevent",
        "kevent_id", "kevent_qos", "psynch_cvwait", "workq_kernreturn", "semwait_signal", "select", "poll", "ppoll",
        "epoll_wait", "epoll_pwait", "futex", "futex_abstimed_wait_common", "futex_abstimed_wait_common64",
        "pthread_cond_wait", "pthread_cond_timedwait", "clock_nanosleep",
    ];
    let name = frames_of(stack.frames.first()?).find_map(|f| f.frame?.function.as_deref())?;
    let base_name = without_clones(name).split('@').next().unwrap_or(name);
    let base_name = base_name.trim_start_matches('_').trim_start_matches("GI_");
    let base_name = base_name.trim_start_matches('_');
    WAITS.contains(&base_name).then_some(name)
}

/// Every source frame of a stack, outermost first, with its name. Async callers are between the function that they await
/// and the runtime that called it.
pub(super) fn outermost<'a>(
    of: &'a Symbolicated,
    stack: &'a Stack,
    style: &'a Style,
) -> impl Iterator<Item = (String, Option<&'a SourceFrame>, &'a PhysicalFrame)> {
    let frames: Vec<Blamed<'a>> = stack.with_async_callers().flat_map(frames_of).collect();
    frames
        .into_iter()
        .rev()
        .map(move |Blamed { physical, frame }| {
            let name = frame.and_then(|frame| style.name(frame)).map(str::to_owned);
            let name = name.unwrap_or_else(|| unnamed(of, physical));
            (name, frame, physical)
        })
}

fn unnamed(of: &Symbolicated, physical: &PhysicalFrame) -> String {
    let Some(image) = of.image(physical) else {
        return format!("{:#x}", physical.pc);
    };
    let offset = physical.pc.wrapping_sub(image.base);
    format!("{}+{offset:#x}", image_file_name(&image.name))
}

/// Returns the most frequent stack of the path that was seen most often: the index of its first sample; how often the path was
/// seen; and the count of all samples. A path has the frames by which groups are made, so that samples of one function count
/// together, whatever it called.
pub(super) fn heaviest(of: &Symbolicated) -> Option<(usize, u64, u64)> {
    let mut total = 0_u64;
    let mut weights: FxHashMap<Vec<u64>, (usize, u64)> = FxHashMap::default();
    for (index, (sample, stack)) in of.report.samples.iter().zip(&of.samples).enumerate() {
        let count = sample.count.max(1);
        total = total.saturating_add(count);
        let pcs = stack.frames.iter().map(|frame| frame.pc).collect();
        let (_, weight) = weights.entry(pcs).or_insert((index, 0));
        *weight = weight.saturating_add(count);
    }
    let mut paths: FxHashMap<_, (u64, (u64, Reverse<usize>))> = FxHashMap::default();
    for (index, weight) in weights.into_values() {
        let (sum, most) = paths.entry(key_names(of, &of.samples[index])).or_default();
        *sum = sum.saturating_add(weight);
        *most = (weight, Reverse(index)).max(*most);
    }
    let (weight, (_, Reverse(index))) = paths.into_values().max()?;
    Some((index, weight, total))
}

/// What a thread was at, from what people look for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    InQuestion,
    InTheApp,
    Other,
    Idle,
    Recorder,
}

/// The indices of a report's threads in that order.
pub(super) fn in_order(of: &Symbolicated) -> Vec<(usize, Standing)> {
    let about = thread_in_question(&of.report);
    let threads = of.report.threads.iter().zip(&of.threads);
    let standing = |(index, (thread, stack)): (usize, (&Thread, &Stack))| match () {
        () if about == Some(index) || thread.crashed => (index, Standing::InQuestion),
        () => (index, standing(of, thread, stack)),
    };
    let mut all: Vec<_> = threads.enumerate().map(standing).collect();
    all.sort_by_key(|(_, standing)| *standing);
    all
}

fn standing(of: &Symbolicated, thread: &Thread, stack: &Stack) -> Standing {
    let name = thread.name.as_deref().unwrap_or("");
    let has = |wanted: Owner| all_frames(stack).any(|f| owner(of, f.physical, f.frame) == wanted);
    match () {
        () if name.starts_with("wedjat") => Standing::Recorder,
        () if has(Owner::App) => Standing::InTheApp,
        () if has(Owner::Recorder) => Standing::Recorder,
        () if wait_call(stack).is_some() => Standing::Idle,
        () => Standing::Other,
    }
}
