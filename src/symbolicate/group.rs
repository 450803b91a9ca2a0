//! Which reports are the same stall: by the heaviest stack of each, normalised.
//!
//! A stack is normalised so that builds, compilers and depths of recursion don't tell two reports of
//! one fault apart:
//!
//! - inlined functions count as the frames they are in the source, so that builds which inline
//!   differently agree;
//! - frames of the system, of language runtimes and of run loops are left out, at either end and
//!   between; where nothing else is there, they stay;
//! - what compilers append to a name (`.llvm.123`, `.cold`, a hash, a closure's number) is cut off;
//! - repeated runs of frames (recursion) stand once.
//!
//! Of a stall with samples, the stack is what was on it for more than half of the samples; of anything
//! else, that of the thread in question. A frame without a name is told by its image and its offset,
//! which hold for one build alone: for groups across builds, give the debug files.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::foreign::LAST_EXCEPTION;
use super::frame::{Frame, PhysicalFrame, Stack, Symbolicated, image_file_name};
use super::symbolicator::is_system;
use crate::report::{EventKind, Image, Report};

/// Groups kept at a time: when there are more, the rarer half is dropped and only counted.
const GROUPS: usize = 1 << 16;
/// Versions and devices told apart in a group; further ones are counted together.
const KINDS: usize = 64;
/// Frames of a stack that are compared.
const FRAMES: usize = 128;

/// Groups being counted, in memory that does not grow with the number of reports.
#[derive(Debug, Default)]
pub struct Groups {
    groups: FxHashMap<u128, Group>,
    reports: u64,
    dropped: u64,
}

/// Reports of the same fault.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// Of kind and stack: the same on every machine, for every order of the reports.
    pub key: u128,
    /// What happened.
    pub kind: EventKind,
    /// The normalised stack, innermost first.
    pub stack: Vec<String>,
    /// How many reports.
    pub count: u64,
    /// Sum of the stalls' durations, nanoseconds.
    pub total: u64,
    /// The longest, nanoseconds.
    pub worst: u64,
    /// Where the report with the longest came from; the first, where none has a duration.
    pub example: String,
    /// Reports by version of the app.
    pub versions: BTreeMap<String, u64>,
    /// Reports by device.
    pub devices: BTreeMap<String, u64>,
}

impl Groups {
    /// None yet.
    pub fn new() -> Groups {
        Groups::default()
    }

    /// Counts a report, and says which group it belongs to.
    pub fn add(&mut self, origin: &str, report: &Symbolicated) -> u128 {
        self.reports += 1;
        let kind = report
            .report
            .event
            .as_ref()
            .map_or(EventKind::Other, |event| event.kind);
        let stack = normalised(report);
        let key = key_of(kind, &stack);
        let duration = report
            .report
            .stall_end
            .as_ref()
            .map_or(0, |end| end.duration);
        if !self.groups.contains_key(&key) && self.groups.len() >= GROUPS {
            self.drop_rare();
        }
        let group = self.groups.entry(key).or_insert_with(|| Group {
            key,
            kind,
            stack,
            count: 0,
            total: 0,
            worst: 0,
            example: origin.to_owned(),
            versions: BTreeMap::new(),
            devices: BTreeMap::new(),
        });
        group.count += 1;
        group.total = group.total.saturating_add(duration);
        if duration > group.worst {
            group.worst = duration;
            group.example = origin.to_owned();
        }
        let head = &report.report.head;
        tally(&mut group.versions, &head.app.version);
        tally(
            &mut group.devices,
            head.device.as_deref().unwrap_or("unknown"),
        );
        key
    }

    /// How many reports were counted.
    pub fn reports(&self) -> u64 {
        self.reports
    }

    /// How many of them were in groups too rare to be kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The `n` groups that cost most: by total duration, then by count.
    pub fn top(&self, n: usize) -> Vec<&Group> {
        let mut groups: Vec<&Group> = self.groups.values().collect();
        groups.sort_unstable_by(|a, b| (b.total, b.count, a.key).cmp(&(a.total, a.count, b.key)));
        groups.truncate(n);
        groups
    }

    fn drop_rare(&mut self) {
        let mut counts: Vec<(u64, u128)> = self.groups.values().map(|g| (g.count, g.key)).collect();
        let half = counts.len() / 2;
        counts.select_nth_unstable(half);
        for (count, key) in &counts[..half] {
            self.dropped += count;
            self.groups.remove(key);
        }
    }
}

fn tally(counts: &mut BTreeMap<String, u64>, what: &str) {
    let what = if counts.len() >= KINDS && !counts.contains_key(what) {
        "others"
    } else {
        what
    };
    *counts.entry(what.to_owned()).or_default() += 1;
}

/// FNV-1a of 128 bits: for a hash that must never change, simple enough to be written in any language.
fn key_of(kind: EventKind, stack: &[String]) -> u128 {
    let words = std::iter::once(kind.as_str()).chain(stack.iter().map(String::as_str));
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in words.flat_map(|word| word.bytes().chain([0])) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    hash
}

/// The thread that a report is about, as an index: where an uncaught exception was thrown, else the
/// one that crashed, else the main one, else the first.
pub fn thread_in_question(report: &Report) -> Option<usize> {
    let threads = &report.threads;
    let thrown = report
        .event
        .as_ref()
        .filter(|event| event.kind == EventKind::Exception)
        .and_then(|_| {
            threads
                .iter()
                .position(|t| t.name.as_deref() == Some(LAST_EXCEPTION))
        });
    thrown
        .or_else(|| threads.iter().position(|thread| thread.crashed))
        .or_else(|| threads.iter().position(|thread| thread.main))
        .or(if threads.is_empty() { None } else { Some(0) })
}

/// The normalised heaviest stack, innermost first.
pub fn normalised(report: &Symbolicated) -> Vec<String> {
    if !report.samples.is_empty() {
        let samples = report.report.samples.iter().zip(&report.samples);
        let stacks: Vec<(Vec<String>, u64)> = samples
            .map(|(sample, stack)| (rootward(report, stack), sample.count.max(1)))
            .collect();
        let heaviest = shared(&stacks);
        if !heaviest.is_empty() {
            return heaviest;
        }
    }
    let stack = thread_in_question(&report.report).and_then(|at| report.threads.get(at));
    let mut stack = stack.map_or(Vec::new(), |stack| rootward(report, stack));
    stack.reverse();
    stack
}

/// What stands on more than half of the samples, from the root on; innermost first.
fn shared(stacks: &[(Vec<String>, u64)]) -> Vec<String> {
    let total: u64 = stacks.iter().map(|(_, count)| *count).sum();
    let mut candidates: Vec<&(Vec<String>, u64)> = stacks.iter().collect();
    let mut path: Vec<String> = Vec::new();
    loop {
        let mut weights: FxHashMap<&str, u64> = FxHashMap::default();
        for (stack, count) in &candidates {
            if let Some(name) = stack.get(path.len()) {
                *weights.entry(name).or_default() += count;
            }
        }
        let heaviest = weights
            .into_iter()
            .max_by_key(|(name, weight)| (*weight, *name));
        let Some((name, _)) = heaviest.filter(|(_, weight)| weight * 2 > total) else {
            break;
        };
        let name = name.to_owned();
        candidates.retain(|(stack, _)| stack.get(path.len()) == Some(&name));
        path.push(name);
    }
    if path.is_empty() {
        let heaviest = stacks.iter().max_by_key(|(_, count)| *count);
        path = heaviest.map_or(Vec::new(), |(stack, _)| stack.clone());
    }
    path.reverse();
    path
}

/// A stack normalised, outermost first.
fn rootward(report: &Symbolicated, stack: &Stack) -> Vec<String> {
    let own = names(report, stack, true);
    let names = if own.is_empty() {
        names(report, stack, false)
    } else {
        own
    };
    let mut folded: Vec<String> = Vec::new();
    for name in names {
        folded.push(name);
        // A run that repeats the one before it stands once.
        for period in 1..=8 {
            let len = folded.len();
            if len >= 2 * period && folded[len - period..] == folded[len - 2 * period..len - period]
            {
                folded.truncate(len - period);
                break;
            }
        }
    }
    // The innermost are those that matter.
    if folded.len() > FRAMES {
        folded.drain(..folded.len() - FRAMES);
    }
    folded
}

/// The names of a stack's frames, outermost first; only the app's own where `own` says so.
fn names(report: &Symbolicated, stack: &Stack, own: bool) -> Vec<String> {
    let mut names = Vec::new();
    for physical in stack.frames.iter().rev() {
        let image = report.image(physical);
        if own && !image.is_some_and(|image| is_apps(report, image)) {
            continue;
        }
        if physical.frames.is_empty() {
            names.push(unnamed(physical, image));
        }
        for frame in physical.frames.iter().rev() {
            let Some(name) = frame.function.as_deref() else {
                names.push(unnamed(physical, image));
                continue;
            };
            let name = plain_name(name);
            // Where the app begins is the same in every stack.
            if own && (is_runtime(frame, &name) || (names.is_empty() && is_entry(&name))) {
                continue;
            }
            names.push(name);
        }
    }
    names
}

fn unnamed(physical: &PhysicalFrame, image: Option<&Image>) -> String {
    match image {
        Some(image) => {
            let offset = physical.pc.wrapping_sub(image.base);
            format!("{}+{offset:#x}", image_file_name(&image.name))
        }
        None => "???".to_owned(),
    }
}

/// Whether an image is the app's own, rather than the system's.
pub(crate) fn is_apps(report: &Symbolicated, image: &Image) -> bool {
    if image.name.starts_with('[') || is_system(&image.name) {
        return false;
    }
    if image.name.contains('/') || image.name == report.report.head.app.name {
        return true;
    }
    // MetricKit gives names without paths.
    const FRAMEWORKS: [&str; 22] = [
        "AppKit",
        "AVFCore",
        "AVFAudio",
        "AVFoundation",
        "CFNetwork",
        "Combine",
        "CoreAnimation",
        "CoreData",
        "CoreFoundation",
        "CoreGraphics",
        "CoreLocation",
        "CoreText",
        "Foundation",
        "FrontBoardServices",
        "GraphicsServices",
        "ImageIO",
        "QuartzCore",
        "Security",
        "SwiftUI",
        "UIKit",
        "UIKitCore",
        "WebKit",
    ];
    let name = image.name.as_str();
    let system_library = name.starts_with("lib") && name.ends_with(".dylib");
    !(name == "dyld" || system_library || FRAMEWORKS.contains(&name))
}

/// Functions that languages and this recorder put into every app.
fn is_runtime(frame: &Frame, name: &str) -> bool {
    let from_library = frame.file.as_deref().is_some_and(|file| {
        file.starts_with("/rustc/") || file.contains("/lib/rustlib/src/rust/library/")
    });
    const PREFIXES: [&str; 16] = [
        "std::",
        "core::",
        "alloc::",
        "<core::",
        "<alloc::",
        "<std::",
        "__rust_",
        "rust_begin_unwind",
        "rust_panic",
        "__cxa_",
        "__libc_",
        "wedjat::",
        "<wedjat::",
        "thunk for @",
        "partial apply for",
        "__CFRUNLOOP_IS_",
    ];
    from_library || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn is_entry(name: &str) -> bool {
    matches!(
        name,
        "main" | "_main" | "start" | "_start" | "static" | "thread_start" | "start_thread"
    ) || name.ends_with("::main")
        || name.ends_with(".main()")
        || name.ends_with(".$main() -> ()")
}

/// The name without what a compiler appended.
fn plain_name(name: &str) -> String {
    let mut name = name;
    for mark in [
        ".llvm.",
        ".cold",
        ".isra.",
        ".part.",
        ".constprop.",
        ".lto_priv.",
        " [clone ",
    ] {
        if let Some(at) = name.find(mark).filter(|at| *at > 0) {
            name = &name[..at];
        }
    }
    if let Some((front, hash)) = name.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|c| c.is_ascii_hexdigit())
    {
        name = front;
    }
    if let Some((front, number)) = name.rsplit_once("_block_invoke")
        && number
            .trim_start_matches(['_', '.'])
            .bytes()
            .all(|c| c.is_ascii_digit())
    {
        name = &name[..front.len() + "_block_invoke".len()];
    }
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("{closure#") {
        plain.push_str(&rest[..at]);
        plain.push_str("{closure");
        rest = rest[at + "{closure#".len()..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    plain.push_str(rest);
    plain.replace("{{closure}}", "{closure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compilers_append_is_cut_off() {
        assert_eq!(plain_name("app::freeze.llvm.12345"), "app::freeze");
        assert_eq!(plain_name("app::freeze::h0123456789abcdef"), "app::freeze");
        assert_eq!(
            plain_name("app::run::{closure#3}::go"),
            "app::run::{closure}::go"
        );
        assert_eq!(plain_name("app::run::{{closure}}"), "app::run::{closure}");
        assert_eq!(
            plain_name("__34-[A b]_block_invoke_2"),
            "__34-[A b]_block_invoke"
        );
        assert_eq!(plain_name("a::h"), "a::h");
    }

    #[test]
    fn the_majority_of_the_samples_decides() {
        let stack = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let stacks = [(stack("a b c"), 3), (stack("a b d"), 3), (stack("a x"), 1)];
        assert_eq!(shared(&stacks), ["b", "a"]);
        assert_eq!(shared(&[(stack("a"), 1), (stack("b"), 1)]).len(), 1);
    }
}
