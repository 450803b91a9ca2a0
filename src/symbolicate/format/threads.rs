//! The order in which people see threads: the one in question, those in the app's code, others, idle ones, the recorder's own.

use super::facts::value_text;
use super::stacks::paused;
use crate::report::Thread;
use crate::symbolicate::blame::{Owner, each, owner};
use crate::symbolicate::frame::{Stack, Symbolicated};
use crate::symbolicate::group::thread_in_question;
use crate::symbolicate::keys::NUMBER;

/// What a thread was at, from what people look for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    InQuestion,
    InTheApp,
    Other,
    Idle,
    Recorder,
}

/// The number of a thread: the report's own, where another recorder gave it one, else its place.
pub(super) fn number(thread: &Thread, index: usize) -> String {
    let own = thread.extra.iter().find(|(key, _)| key == NUMBER);
    own.map_or_else(|| index.to_string(), |(_, number)| value_text(number))
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
    let has = |wanted: Owner| each(stack).any(|f| owner(of, f.physical, f.frame) == wanted);
    match () {
        () if name.starts_with("wedjat") => Standing::Recorder,
        () if has(Owner::App) => Standing::InTheApp,
        () if has(Owner::Recorder) => Standing::Recorder,
        () if paused(stack).is_some() => Standing::Idle,
        () => Standing::Other,
    }
}
