//! `--scrub`: removes from a symbolicated report what identifies a user.

use std::sync::Arc;

use super::frame::{SourceFrame, Symbolicated};
use super::samples::in_full;
use crate::report::{Redact, redact_names};

/// Redacts as [`report::redact`](crate::report::redact) does, for a report with names. Function names, source
/// files and addresses stay in step. User names are also removed from `origin`, the report's path.
///
/// Symbolicate first: the image of a redacted report may no longer be found by its path.
///
/// ```
/// use wedjat::report::{Report, Redact};
/// use wedjat::symbolicate::{DebugFiles, Symbolicator, redact};
///
/// let symbolicator = Symbolicator::new(DebugFiles::new().no_search());
/// let mut report = symbolicator.symbolicate(Report::default());
/// let mut origin = "/home/alice/reports/1.wedjat".to_owned();
/// redact(&mut report, &mut origin, &Redact::default());
/// assert_eq!(origin, "/home/(user)/reports/1.wedjat");
/// ```
pub fn redact(of: &mut Symbolicated, origin: &mut String, rules: &Redact) {
    let names = redact_names(&mut of.report, rules);
    names.remove_from(origin);
    for missing in &mut of.missing {
        names.remove_from(&mut missing.name);
    }
    of.damage
        .iter_mut()
        .for_each(|text| names.remove_from(text));
    let report = &of.report;
    let threads = report.threads.iter().map(|thread| &thread.frames);
    let samples = in_full(report);
    let samples = samples.iter().map(|thread| &thread.frames);
    let stacks = of.threads.iter_mut().zip(threads);
    for (stack, moved) in stacks.chain(of.samples.iter_mut().zip(samples)) {
        for (frame, moved) in stack.frames.iter_mut().zip(moved) {
            frame.pc = moved.pc;
            // The address as its file states it is the same on every device.
            let frames = frame.frames.iter();
            frame.frames = frames.map(|frame| without(frame, &names)).collect();
            if let Some(callers) = &mut frame.tail_callers {
                *callers = callers.iter().map(|frame| without(frame, &names)).collect();
            }
        }
    }
}

fn without(frame: &SourceFrame, names: &crate::report::UserNames) -> SourceFrame {
    let clean = |text: &Option<Arc<str>>| {
        let text = text.as_ref()?;
        let mut clean = text.to_string();
        names.remove_from(&mut clean);
        let is_same = clean == **text;
        Some(if is_same { text.clone() } else { clean.into() })
    };
    SourceFrame {
        file: clean(&frame.file),
        function: clean(&frame.function),
        mangled: clean(&frame.mangled),
        ..frame.clone()
    }
}
