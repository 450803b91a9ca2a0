//! The stack that stands for a report: the heaviest one, normalised.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::report::{Report, Sample, Thread};
use crate::symbolicate::blame::{Blamed, Owner, candidates, owner, unscoped};
use crate::symbolicate::frame::{SourceFrame, Stack, Symbolicated};
use crate::symbolicate::names::{Name, holder_of_closure, name};

/// See [`long_way`].
const MIN_LONG_WAY: usize = 3;
/// Frames of a stack that are compared.
const MAX_FRAMES: usize = 128;

/// Returns the index of the thread that a report is about. It is the one where an uncaught exception was thrown, else the
/// one that crashed. Failing these it is the main one, else the first. Of several exceptions it is the last: a
/// script's, which made the others.
pub fn thread_in_question(report: &Report) -> Option<usize> {
    let threads = &report.threads;
    let first = |is_it: fn(&Thread) -> bool| threads.iter().position(is_it);
    let is_thrown = |thread: &Thread| thread.name.as_deref() == Some(Thread::LAST_EXCEPTION);
    let thrown = threads.iter().rposition(is_thrown);
    thrown
        .or_else(|| first(|thread| thread.crashed))
        .or_else(|| {
            let id = report.event.as_ref()?.thread?;
            threads.iter().position(|thread| thread.id == id)
        })
        .or_else(|| first(|thread| thread.main))
        .or_else(|| first(|_| true))
}

/// The normalised heaviest stack, innermost first.
pub fn normalised(report: &Symbolicated) -> Box<[Arc<str>]> {
    let stack = thread_in_question(&report.report).and_then(|at| report.threads.get(at));
    let stack = stack.map_or(Vec::new(), |stack| key_names(report, stack));
    if report.samples.is_empty() {
        return stack.into_iter().rev().collect();
    }
    let samples = report.report.samples.iter().zip(&report.samples);
    let twice = |sample: &Sample| sample.count.max(1).saturating_mul(2);
    let weighed = samples.map(|(sample, stack)| (key_names(report, stack), twice(sample)));
    let mut stacks: Vec<_> = weighed.collect();
    // The thread's own stack, from when the stall was sure, counts as an average sample, and a little
    // more: it tells two ways of the same weight apart.
    let total: u128 = stacks.iter().map(|(_, count)| u128::from(*count)).sum();
    let average = u64::try_from(total / stacks.len() as u128).unwrap_or(u64::MAX);
    stacks.push((stack, average.saturating_add(1)));
    stacks.retain(|(stack, _)| !stack.is_empty());
    shared(&stacks)
}

/// From the outermost frame on the way that most of the samples went, as far as it is clear; innermost
/// first.
fn shared(stacks: &[(Vec<Arc<str>>, u64)]) -> Box<[Arc<str>]> {
    let mut candidates: Vec<&(Vec<Arc<str>>, u64)> = stacks.iter().collect();
    let mut common: Vec<Arc<str>> = Vec::new();
    // Counts are a stranger's: wide sums, so that they can't overflow.
    let mut weights: FxHashMap<Option<&Arc<str>>, u128> = FxHashMap::default();
    loop {
        for (stack, count) in &candidates {
            *weights.entry(stack.get(common.len())).or_default() += u128::from(*count);
        }
        let total: u128 = weights.values().sum();
        let mut ways: Vec<_> = weights.drain().collect();
        ways.sort_unstable_by_key(|(name, weight)| (std::cmp::Reverse(*weight), *name));
        let second = ways.get(1).map_or(0, |(_, weight)| *weight);
        // Samples that end here are a way of their own.
        let name = match ways.first() {
            Some(&(name, weight)) if weight * 2 > total || weight >= second * 2 => name,
            _ => long_way(&ways, &candidates, common.len()),
        };
        let Some(name) = name else {
            break;
        };
        candidates.retain(|(stack, _)| stack.get(common.len()) == Some(name));
        common.push(name.clone());
    }
    if common.is_empty() {
        let heaviest = stacks.iter().max_by_key(|(_, count)| *count);
        common = heaviest.map_or(Vec::new(), |(stack, _)| stack.clone());
    }
    common.into_iter().rev().collect()
}

/// Returns the branch that most samples took, if all of these went on by the same
/// [`MIN_LONG_WAY`] frames: samples of one stall do not part so far from its end by chance, those of another stall do.
fn long_way<'a>(
    ways: &[(Option<&'a Arc<str>>, u128)],
    candidates: &[&(Vec<Arc<str>>, u64)],
    depth: usize,
) -> Option<&'a Arc<str>> {
    // The frames by which all samples of a branch went on; empty where they parted, or ended.
    let mut rests: FxHashMap<Option<&Arc<str>>, &[Arc<str>]> = FxHashMap::default();
    for (stack, _) in candidates {
        let rest = stack.get(depth..depth + MIN_LONG_WAY).unwrap_or_default();
        let known = rests.entry(stack.get(depth)).or_insert(rest);
        if *known != rest {
            *known = &[];
        }
    }
    let mut long = ways.iter().filter(|(name, _)| !rests[name].is_empty());
    let &(name, weight) = long.next()?;
    let is_first = long.next().is_none_or(|&(_, second)| second < weight);
    name.filter(|_| is_first)
}

/// A stack normalised, outermost first.
pub(crate) fn key_names(report: &Symbolicated, stack: &Stack) -> Vec<Arc<str>> {
    let unscoped = |of: &Blamed<'_>| of.frame.is_some_and(|frame| unscoped(of.physical, frame));
    let frames = || candidates(report, stack).filter(|frame| !unscoped(frame));
    // Where nothing is known but throwing, and code that may be of one of several functions, that.
    let any_other = frames().any(|frame| frame.counts());
    let frames = frames().filter(|frame| !any_other || frame.counts());
    let owned = |frame: Blamed<'_>| owner(report, frame.physical, frame.frame);
    let mut all: Vec<_> = frames.map(|frame| (frame, owned(frame))).collect();
    all.reverse();
    let (app, with_libraries) = (&[Owner::App][..], &[Owner::App, Owner::Library][..]);
    let levels = [Some(app), Some(with_libraries), None];
    let mut levels = levels.into_iter().map(|owners| names(report, &all, owners));
    let mut found = levels.find(|names| !names.is_empty()).unwrap_or_default();
    let mut len = 0;
    for at in 0..found.len() {
        found.swap(len, at);
        len += 1;
        // A run that repeats the one before it stands once.
        let is_again = |period: &usize| {
            len >= 2 * period && found[len - period..len] == found[len - 2 * period..len - period]
        };
        len -= (1..=8).find(is_again).unwrap_or(0);
    }
    found.truncate(len);
    // The innermost are those that matter.
    found.drain(..len.saturating_sub(MAX_FRAMES));
    found
}

/// The names of frames, outermost first; only those of these owners, without where the program
/// begins, which is the same in every stack.
fn names(
    report: &Symbolicated,
    frames: &[(Blamed<'_>, Owner)],
    owners: Option<&[Owner]>,
) -> Vec<Arc<str>> {
    let wanted = |(_, owner): &&(_, Owner)| owners.is_none_or(|owners| owners.contains(owner));
    let frames = || frames.iter().filter(wanted).map(|(frame, _)| frame);
    let any_named = frames().any(|frame| named_source(frame).is_some());
    let mut names: Vec<Arc<str>> = Vec::with_capacity(frames().count());
    let mut entry = None;
    for frame in frames() {
        match named_source(frame) {
            Some(source) => {
                let name = name(source);
                if owners.is_some() && names.is_empty() && name.is_entry {
                    entry = Some(name.plain.clone());
                } else if !is_within(&name.plain, names.last().map(|name| &**name)) {
                    names.push(placed(&name, frame));
                }
            }
            // An address holds for one build: it counts only where there is nothing else.
            None => names.push(unnamed(report, frame, !any_named).into()),
        }
    }
    names.extend(entry.filter(|_| names.is_empty()));
    names
}

/// Returns true for a closure of Swift or a lambda of C++ called within the function in which it is written: a build that inlines
/// it, without debug information, has that function alone.
fn is_within(name: &str, caller: Option<&str>) -> bool {
    let of_lambda = || name.strip_suffix("::{lambda}::operator()");
    let holder = holder_of_closure(name).or_else(of_lambda);
    holder.is_some() && holder == caller
}

/// The name; where it says nothing, with the file: inlined closures and async functions have no path in their names where
/// the debug information holds line tables alone.
fn placed(name: &Name, frame: &Blamed<'_>) -> Arc<str> {
    if !name.says_nothing {
        return name.plain.clone();
    }
    match frame.frame.and_then(|frame| frame.file.as_deref()) {
        Some(file) => format!("{} ({})", name.plain, file_words(file)).into(),
        None => name.plain.clone(),
    }
}

/// Finds the frame with this normalised name, or of a closure that counts as this function: in the thread's own stack, else in
/// the first sample that has one.
pub(crate) fn frame_named<'a>(report: &'a Symbolicated, wanted: &str) -> Option<&'a SourceFrame> {
    let thread = thread_in_question(&report.report).and_then(|at| report.threads.get(at));
    let stacks = thread.into_iter().chain(&report.samples);
    let mut frames = stacks.flat_map(|stack| candidates(report, stack));
    let is_it = |frame: &Blamed<'_>| {
        let name = named_source(frame).map(|named| placed(&name(named), frame));
        name.is_some_and(|name| *name == *wanted || is_within(&name, Some(wanted)))
    };
    frames.find(is_it)?.frame
}

fn named_source<'a>(frame: &Blamed<'a>) -> Option<&'a SourceFrame> {
    frame.frame.filter(|frame| frame.function.is_some())
}

/// `get.rs`; of a file that many folders have, the folder too: `cmd/mod.rs`.
fn file_words(path: &str) -> &str {
    const COMMON: [&str; 4] = ["mod.rs", "lib.rs", "main.rs", "index.js"];
    let slash = |path: &str| path.rfind(['/', '\\']).map_or(0, |at| at + 1);
    let at = slash(path);
    if at > 0 && COMMON.contains(&&path[at..]) {
        return &path[slash(&path[..at - 1])..];
    }
    &path[at..]
}

fn unnamed(report: &Symbolicated, frame: &Blamed<'_>, with_offset: bool) -> String {
    let image = report.image(frame.physical).filter(|_| with_offset);
    let offset = image.map(|image| frame.physical.pc.wrapping_sub(image.base));
    let offset = offset.map_or(String::new(), |offset| format!("+{offset:#x}"));
    frame.name(report).to_owned() + &offset
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a build without debug information inlines is in no frame.
    #[test]
    fn a_closure_within_its_function_is_that_function() {
        let caller = Some("checkout(_:)");
        assert!(is_within("closure in checkout(_:)", caller));
        assert!(!is_within("closure in refund(_:)", caller));
        assert!(!is_within("closure in checkout(_:)", None));
        assert!(!is_within("checkout(_:)", caller));
        let caller = Some("till::pay");
        assert!(is_within("till::pay::{lambda}::operator()", caller));
        assert!(!is_within("till::refund::{lambda}::operator()", caller));
        assert!(!is_within("operator()", caller));
    }

    #[test]
    fn files_that_many_folders_have_stand_with_their_folder() {
        assert_eq!(file_words("/Users/ann/redis/src/cmd/get.rs"), "get.rs");
        assert_eq!(file_words("/Users/ann/redis/src/cmd/mod.rs"), "cmd/mod.rs");
        assert_eq!(file_words("src\\main.rs"), "src\\main.rs");
        assert_eq!(file_words("main.rs"), "main.rs");
    }

    #[test]
    fn the_majority_of_the_samples_decides() {
        let stack = |text: &str| text.split(' ').map(Arc::from).collect::<Vec<_>>();
        let stacks = [(stack("a b c"), 3), (stack("a b d"), 3), (stack("a x"), 1)];
        assert_eq!(*shared(&stacks), ["b", "a"].map(Arc::<str>::from));
        assert_eq!(shared(&[(stack("a"), 1), (stack("b"), 1)]).len(), 1);
        // A leaf that is seen a little more often than another does not decide …
        let leaves = [(stack("a b c"), 4), (stack("a b d"), 3), (stack("a b"), 3)];
        assert_eq!(*shared(&leaves), ["b", "a"].map(Arc::<str>::from));
        // … but a long way that some samples have in common is no chance.
        let ways = [
            (stack("a b c d"), 2),
            (stack("a x y z"), 1),
            (stack("a v w"), 1),
        ];
        assert_eq!(*shared(&ways), ["d", "c", "b", "a"].map(Arc::<str>::from));
    }
}
