//! Frames that could not be read, put into the one gap that a stack has room for.

use crate::report::model::{Frame, Omitted};
use crate::report::wire::lenient::Gap;

/// Takes frames that could not be read into the gap that the stack tells of: frames between two gaps are given up.
pub(super) fn settle(frames: &mut Vec<Frame>, omitted: &mut Option<Omitted>, unread: Option<Gap>) {
    let Some(Gap { from, to, count }) = unread else {
        return;
    };
    let given_up = frames.drain(from..to).len() as u64;
    let unread = Omitted {
        at: from as u64,
        count: count.saturating_add(given_up),
    };
    let Some(stated) = omitted.replace(unread) else {
        return;
    };
    let (from, to) = (unread.at.min(stated.at), unread.at.max(stated.at));
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(frames.len());
    let given_up = frames.drain(index(from)..index(to)).len() as u64;
    let count = unread
        .count
        .saturating_add(stated.count)
        .saturating_add(given_up);
    *omitted = Some(Omitted { at: from, count });
}
