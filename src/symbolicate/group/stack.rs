//! The stack that stands for a report: the heaviest one, normalised.

use rustc_hash::FxHashMap;

use super::names::{is_entry, is_runtime, plain_name};
use crate::report::{EventKind, Image, Report};
use crate::symbolicate::foreign::LAST_EXCEPTION;
use crate::symbolicate::frame::{PhysicalFrame, Stack, Symbolicated, image_file_name};
use crate::symbolicate::symbolicator::is_system;

/// Frames of a stack that are compared.
const FRAMES: usize = 128;

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
    // Counts are a stranger's: wide sums, so that they can't overflow.
    let total: u128 = stacks.iter().map(|(_, count)| u128::from(*count)).sum();
    let mut candidates: Vec<&(Vec<String>, u64)> = stacks.iter().collect();
    let mut path: Vec<String> = Vec::new();
    loop {
        let mut weights: FxHashMap<&str, u128> = FxHashMap::default();
        for (stack, count) in &candidates {
            if let Some(name) = stack.get(path.len()) {
                *weights.entry(name).or_default() += u128::from(*count);
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
        if own && !is_own(report, physical) {
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

/// Whether a frame lies in an image of the app's own.
pub(crate) fn is_own(report: &Symbolicated, physical: &PhysicalFrame) -> bool {
    report
        .image(physical)
        .is_some_and(|image| is_apps(report, image))
}

/// Whether an image is the app's own, rather than the system's.
fn is_apps(report: &Symbolicated, image: &Image) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_of_the_samples_decides() {
        let stack = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let stacks = [(stack("a b c"), 3), (stack("a b d"), 3), (stack("a x"), 1)];
        assert_eq!(shared(&stacks), ["b", "a"]);
        assert_eq!(shared(&[(stack("a"), 1), (stack("b"), 1)]).len(), 1);
    }
}
