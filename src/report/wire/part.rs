//! Rules for writing a section, and the part of it to write when there is no room for all.

use serde::ser::{Serialize, Serializer};

use super::fields::frames;
use crate::report::limits;
use crate::report::model::{Found, Frames, Omitted};

/// Rules by which a section is encoded.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// True if the section carries its own `check`.
    pub checked: bool,
    /// Longer texts are cut.
    pub text_bytes: usize,
    /// True if texts of the app's own keys are cut too.
    pub cuts_values: bool,
}

impl Rules {
    pub(crate) const RECORDER: Rules = Rules {
        checked: true,
        text_bytes: limits::WRITTEN_TEXT_BYTES,
        cuts_values: true,
    };
}

/// The part of a section that is written; by default all of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Part<'s> {
    /// Entries and elements that were omitted before.
    pub(super) dropped: u64,
    /// The stack in place of the section's own.
    pub(super) stack: Option<TrimmedStack<'s>>,
    /// Count of the oldest breadcrumbs to leave out; [`usize::MAX`] for all.
    pub(super) skipped: usize,
}

impl Part<'_> {
    /// Most bytes of the field `omitted`. They are reserved from the start, so that a gap is always recorded.
    pub(super) const GAP: usize = (8 + 1 + 9 + 9) + 4;

    /// Returns true if not all of the section is written.
    pub(super) fn is_partial(&self) -> bool {
        self.stack.is_some() || self.skipped > 0
    }

    /// Bytes reserved for the field `omitted`.
    pub(super) fn held(&self) -> usize {
        self.stack.map_or(0, |_| Part::GAP)
    }
}

/// A stack that is written in place of a section's own, and what else of that section depends on it.
#[derive(Clone, Copy)]
pub(super) struct TrimmedStack<'s> {
    frames: &'s dyn Frames,
    /// Count of innermost frames that are written.
    inner: usize,
    /// Index of the first outermost frame that is written.
    outer: usize,
    /// The section's gap.
    pub(super) omitted: Option<Omitted>,
    /// True if the section has its registers.
    pub(super) has_registers: bool,
}

impl Frames for TrimmedStack<'_> {
    fn len(&self) -> usize {
        self.inner
            .saturating_add(self.frames.len().saturating_sub(self.outer))
    }

    fn at(&self, index: usize) -> Option<(u64, Found, Option<u32>, Option<&str>)> {
        match index.checked_sub(self.inner) {
            None => self.frames.at(index),
            Some(index) => self.frames.at(self.outer.saturating_add(index)),
        }
    }
}

impl Serialize for TrimmedStack<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        frames::serialize(self, s)
    }
}

impl<'s> TrimmedStack<'s> {
    /// The whole stack.
    pub(super) fn whole(frames: &'s dyn Frames, omitted: Option<Omitted>) -> Self {
        TrimmedStack {
            frames,
            inner: frames.len(),
            outer: frames.len(),
            omitted,
            has_registers: true,
        }
    }

    /// No frames, and no gap.
    pub(super) fn empty(frames: &'s dyn Frames, has_registers: bool) -> Self {
        TrimmedStack {
            inner: 0,
            has_registers,
            ..TrimmedStack::whole(frames, None)
        }
    }

    /// Trims the stack to `room` bytes, three innermost frames for each outermost one. Also returns the count of frames
    /// omitted.
    pub(super) fn trimmed_to(self, room: usize, omitted: Option<Omitted>) -> (Self, u64) {
        let (frames, count) = (self.frames, self.frames.len());
        let (mut inner, mut outer) = (0, count);
        let mut bytes = 0usize;
        for taken in 0..count.min(limits::FRAMES) {
            let outwards = taken % 4 == 3;
            let next = if outwards {
                outer.saturating_sub(1)
            } else {
                inner
            };
            bytes = bytes.saturating_add(frame_len(frames, next));
            if bytes > room {
                break;
            }
            if outwards {
                outer = next;
            } else {
                inner = inner.saturating_add(1);
            }
        }
        if let Some(before) = omitted
            && inner < outer
        {
            // A stack can have one gap only: it grows to include the earlier one.
            let at = usize::try_from(before.at).unwrap_or(usize::MAX).min(count);
            inner = inner.min(at);
            outer = outer.max(at);
        }
        let cut = outer.saturating_sub(inner) as u64;
        let before = omitted.map_or(0, |omitted| omitted.count);
        let gap = Omitted {
            at: inner as u64,
            count: before.saturating_add(cut),
        };
        let part = TrimmedStack {
            inner,
            outer,
            omitted: if cut == 0 { omitted } else { Some(gap) },
            ..self
        };
        (part, cut)
    }
}

/// Returns true if all frames may fit into a section of `room` bytes.
pub(super) fn may_fit(frames: &(impl Frames + ?Sized), room: usize) -> bool {
    let mut indices = 0..frames.len();
    frames.len() <= limits::FRAMES
        && indices
            .try_fold(room, |room, index| {
                room.checked_sub(frame_len(frames, index))
            })
            .is_some()
}

/// Bytes that frame `index` takes.
fn frame_len(frames: &(impl Frames + ?Sized), index: usize) -> usize {
    let Some((pc, found, image, name)) = frames.at(index) else {
        return 0;
    };
    let image = image.map_or(1, |image| unsigned_len(u64::from(image)));
    let name = name.map_or(0, |name| name.len().saturating_add(5));
    [
        unsigned_len(pc),
        unsigned_len(found.code().into()),
        image,
        name,
    ]
    .into_iter()
    .fold(1, usize::saturating_add)
}

/// Bytes that an unsigned integer takes.
fn unsigned_len(value: u64) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0xff => 2,
        0x100..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}
