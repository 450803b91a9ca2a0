//! One section into a buffer: its bytes, what did not fit, and its own check.

use std::time::Duration;

use serde::Serialize;

use super::fit::FixedSerializer;
pub use super::part::Rules;
use super::part::{Part, TrimmedStack, may_fit};
use crate::report::checksum::crc32;
use crate::report::model::*;

/// Bytes that each section keeps free for its last two keys: `dropped` and `check`.
const TAIL: usize = (8 + 9) + (6 + 5) + 4;

/// The result of encoding a section.
#[derive(Debug, Clone, Copy, Default)]
pub struct Encoded {
    /// Bytes of the section; 0 where not even its frame fits.
    pub len: usize,
    /// Entries and elements that were omitted, or shortened.
    pub dropped: u64,
    /// Bytes before the last two keys.
    body: usize,
}

/// A section of the format. What does not fit into the buffer is omitted in the section's own way.
pub trait WriteSection: Serialize {
    /// Its kind.
    const KIND: &'static str;

    /// Its bytes, from the buffer's start on. Signal-safe.
    fn encode(&self, buffer: &mut [u8], rules: Rules) -> Encoded;
}

macro_rules! sections {
    ($($name:ident, $view:ty: $kind:literal by $encode:ident;)*) => {
        $(sections!(@ $name: $kind by $encode);
        sections!(@ $view: $kind by $encode);)*

        /// Returns true if this version knows the kind.
        pub(crate) fn is_known(kind: &str) -> bool {
            matches!(kind, $($kind)|*)
        }
    };
    (@ $section:ty: $kind:literal by $encode:ident) => {
        impl WriteSection for $section {
            const KIND: &'static str = $kind;

            fn encode(&self, buffer: &mut [u8], rules: Rules) -> Encoded {
                $encode(self, buffer, rules)
            }
        }
    };
}

sections! {
    Head, HeadView<'_>: "head" by whole;
    Event, EventView<'_>: "event" by whole;
    Thread, ThreadView<'_>: "thread" by with_its_stack;
    Image, ImageView<'_>: "image" by whole;
    Sample, SampleView<'_>: "sample" by with_its_stack;
    Vitals, VitalsView<'_>: "vitals" by whole;
    AppContext, AppContextView<'_>: "context" by with_newest;
    NearMemory, NearMemoryView<'_>: "memory" by whole;
    StallEnd, StallEndView<'_>: "stall_end" by whole;
    Capture, CaptureView: "capture" by whole;
    Loss, LossView<'_>: "loss" by whole;
    End, EndView<'_>: "end" by whole;
}

fn whole<S: WriteSection>(section: &S, buffer: &mut [u8], rules: Rules) -> Encoded {
    encode(buffer, S::KIND, rules, section)
}

/// `value`, the map of a section, into `buffer`.
pub(crate) fn encode<T: Serialize + ?Sized>(
    buffer: &mut [u8],
    kind: &str,
    rules: Rules,
    value: &T,
) -> Encoded {
    encode_part(buffer, kind, rules, value, Part::default())
}

fn encode_part<T: Serialize + ?Sized>(
    buffer: &mut [u8],
    kind: &str,
    rules: Rules,
    value: &T,
    part: Part<'_>,
) -> Encoded {
    let mut fit = FixedSerializer::new(buffer, TAIL, rules, part);
    let is_begun = fit.out().push(&[0x92]) && kind.serialize(&mut fit).is_ok();
    let map = fit.len();
    if !is_begun || value.serialize(&mut fit).is_err() {
        return Encoded {
            dropped: fit.dropped,
            ..Encoded::default()
        };
    }
    let (body, dropped) = (fit.len(), fit.dropped);
    if let Some(mut entries) = fit.reopen(map) {
        if dropped > 0 {
            entries.field("dropped", &dropped);
        }
        if rules.checked {
            // Room for the value first, so that the map's header is final when the bytes are summed.
            entries.field("check", &u32::MAX);
        }
    }
    let len = fit.len();
    if rules.checked && fit.dropped == dropped {
        let at = len.saturating_sub(5);
        let check = crc32(0, buffer.get(..at).unwrap_or_default());
        let [a, b, c, d] = check.to_be_bytes();
        if let Some(to) = buffer.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *to = [0xce, a, b, c, d];
        }
    }
    Encoded { len, dropped, body }
}

/// A section that has a stack.
pub(crate) trait Stacked: WriteSection {
    /// It, and its gap.
    fn stack(&self) -> (&impl Frames, Option<Omitted>);
}

/// A section, with `frames` for its stack: its own, or others in their place.
fn encode_stack<S: Stacked>(
    section: &S,
    frames: &impl Frames,
    is_own: bool,
    buffer: &mut [u8],
    rules: Rules,
) -> Encoded {
    /// `frames` with its longest header, and the map's widening.
    const OVERHEAD: usize = (7 + 5) + 4;
    let (_, omitted) = section.stack();
    let may_fit = may_fit(frames, buffer.len());
    let room = buffer.len().saturating_sub(TAIL + Part::GAP);
    let mut with = |stack, dropped| {
        let part = Part {
            dropped,
            stack,
            skipped: 0,
        };
        encode_part(buffer, S::KIND, rules, section, part)
    };
    if may_fit {
        let whole = with((!is_own).then(|| TrimmedStack::whole(frames, omitted)), 0);
        if whole.dropped == 0 {
            return whole;
        }
    }
    // Frames are worth more than registers.
    let least = with(Some(TrimmedStack::empty(frames, false)), 0);
    let full = with(Some(TrimmedStack::empty(frames, true)), 0);
    let bytes = full.body.saturating_sub(least.body);
    let is_small = full.dropped == least.dropped && bytes <= room.saturating_sub(least.body) / 2;
    let has_registers = is_small || frames.len() == 0;
    let least = if has_registers { full.body } else { least.body };
    let room = room.saturating_sub(least).saturating_sub(OVERHEAD);
    let (stack, cut) = TrimmedStack::empty(frames, has_registers).trimmed_to(room, omitted);
    with(Some(stack), cut.saturating_add(u64::from(!has_registers)))
}

fn with_its_stack<S: Stacked>(section: &S, buffer: &mut [u8], rules: Rules) -> Encoded {
    encode_stack(section, section.stack().0, true, buffer, rules)
}

macro_rules! stacked {
    ($($section:ty),*) => {
        $(impl Stacked for $section {
            fn stack(&self) -> (&impl Frames, Option<Omitted>) {
                (&self.frames, self.omitted)
            }
        })*
    };
}

stacked!(Thread, ThreadView<'_>, Sample, SampleView<'_>);

/// A section with other frames than its own.
pub(crate) struct With<'s, S, F>(pub(crate) &'s S, pub(crate) F);

impl<S: Stacked, F: Frames> WriteSection for With<'_, S, F> {
    const KIND: &'static str = S::KIND;

    fn encode(&self, buffer: &mut [u8], rules: Rules) -> Encoded {
        encode_stack(self.0, &self.1, false, buffer, rules)
    }
}

impl<S: Serialize, F> Serialize for With<'_, S, F> {
    fn serialize<R: serde::Serializer>(&self, s: R) -> Result<R::Ok, R::Error> {
        self.0.serialize(s)
    }
}

/// A section that has breadcrumbs, oldest first.
trait Breadcrumbs: WriteSection {
    fn breadcrumbs(&self) -> &[(Duration, impl AsRef<str>)];
}

impl Breadcrumbs for AppContext {
    fn breadcrumbs(&self) -> &[(Duration, impl AsRef<str>)] {
        &self.breadcrumbs
    }
}

impl Breadcrumbs for AppContextView<'_> {
    fn breadcrumbs(&self) -> &[(Duration, impl AsRef<str>)] {
        self.breadcrumbs
    }
}

/// A context; of breadcrumbs that do not all fit, the newest.
fn with_newest<C: Breadcrumbs>(context: &C, buffer: &mut [u8], rules: Rules) -> Encoded {
    let whole = whole(context, buffer, rules);
    if whole.dropped == 0 {
        return whole;
    }
    let room = buffer.len().saturating_sub(TAIL);
    let mut without = |skipped, dropped: usize| {
        let part = Part {
            skipped,
            dropped: dropped as u64,
            ..Part::default()
        };
        encode_part(buffer, AppContext::KIND, rules, context, part)
    };
    let least = without(usize::MAX, 0);
    // The newest are worth most: leave out from the oldest on until the rest fits.
    let sizes = || {
        let breadcrumbs = context.breadcrumbs().iter();
        breadcrumbs.map(|(_, text)| text.as_ref().len().saturating_add(1 + 9 + 5))
    };
    let bytes = sizes().fold(0, usize::saturating_add);
    let mut excess = bytes.saturating_sub(room.saturating_sub(least.body).saturating_sub(24));
    let is_excess = |size: &usize| {
        let before = excess;
        excess = excess.saturating_sub(*size);
        before > 0
    };
    let left_out = sizes().take_while(is_excess).count();
    let is_all = left_out == sizes().count();
    without(if is_all { usize::MAX } else { left_out }, left_out)
}
