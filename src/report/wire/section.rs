//! One section into a buffer: its bytes, what did not fit, and its own check.

use std::time::Duration;

use serde::Serialize;

use super::fit::Fit;
use crate::report::checksum::crc32;
use crate::report::limits;
use crate::report::model::{
    Borrowed, Breadcrumbs, Capture, Context, End, Event, Found, Frames, Head, Hold, Image,
    Iterators, Loss, NearMemory, Nothing, Omitted, Sample, StallEnd, Thread, Vitals,
};

/// Bytes that each section keeps free for its last two keys: `dropped` and `check`.
const TAIL: usize = (8 + 9) + (6 + 5) + 4;
/// Bytes that `omitted` may take: they are held from the start, so that a gap is always recorded.
const GAP: usize = (8 + 1 + 9 + 9) + 4;

/// How a section is encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Whether the section carries its own `check`.
    pub checked: bool,
    /// Longer texts are cut.
    pub text_bytes: usize,
    /// Whether texts of the app's own keys are cut too.
    pub cuts_values: bool,
}

impl Rules {
    pub(crate) const RECORDER: Rules = Rules {
        checked: true,
        text_bytes: limits::WRITTEN_TEXT_BYTES,
        cuts_values: true,
    };
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Encoded {
    /// Bytes of the section; 0 where not even its frame fits.
    pub len: usize,
    /// Entries and elements that were left out, or shortened.
    pub dropped: u64,
    /// Bytes before the last two keys.
    body: usize,
}

/// A section of the format. What does not fit into the buffer is left out in the section's own way.
pub(crate) trait Section: Serialize {
    const KIND: &'static str;

    /// Signal-safe.
    fn encode(&self, buffer: &mut [u8], rules: Rules) -> Encoded {
        encode(buffer, Self::KIND, rules, self, 0, 0)
    }
}

macro_rules! sections {
    ($($name:ident: $kind:literal),* $(,)?) => {
        $(impl<H: Hold> Section for $name<H> {
            const KIND: &'static str = $kind;
        })*
    };
}

sections! {
    Head: "head", Event: "event", Image: "image", Vitals: "vitals", NearMemory: "memory",
    StallEnd: "stall_end", Capture: "capture", Loss: "loss", End: "end",
}

/// `value`, the map of a section, into `buffer`. `held` bytes are for its field `omitted` alone, and
/// `dropped` of it was left out before.
pub(crate) fn encode<T: Serialize + ?Sized>(
    buffer: &mut [u8],
    kind: &str,
    rules: Rules,
    value: &T,
    held: usize,
    dropped: u64,
) -> Encoded {
    let mut fit = Fit::new(buffer, TAIL, held, rules.text_bytes, rules.cuts_values);
    fit.dropped = dropped;
    let is_begun = fit.put(&[0x92]) && kind.serialize(&mut fit).is_ok();
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
        if let Some(to) = buffer.get_mut(at..len) {
            to.copy_from_slice(&[0xce, a, b, c, d]);
        }
    }
    Encoded { len, dropped, body }
}

/// Both ends of a stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ends<'a, F> {
    frames: &'a F,
    /// So many from the innermost on.
    inner: usize,
    /// Those from this index on.
    outer: usize,
}

impl<F: Frames> Frames for Ends<'_, F> {
    fn len(&self) -> usize {
        self.inner
            .saturating_add(self.frames.len().saturating_sub(self.outer))
    }

    fn at(&self, index: usize) -> Option<(u64, Found, Option<u32>, Option<&str>)> {
        match index.checked_sub(self.inner) {
            None => self.frames.at(index),
            Some(behind) => self.frames.at(self.outer.saturating_add(behind)),
        }
    }
}

impl<'a, F: Frames> Ends<'a, F> {
    fn none(frames: &'a F) -> Self {
        Ends {
            frames,
            inner: 0,
            outer: frames.len(),
        }
    }

    /// What of a stack goes into `room` bytes: three innermost frames for each outermost one.
    fn within(frames: &'a F, room: usize, omitted: Option<Omitted>) -> Self {
        let count = frames.len();
        let (mut inner, mut outer) = (0, count);
        let mut bytes = 0usize;
        while inner < outer && inner + (count - outer) < limits::FRAMES {
            let outwards = (inner + (count - outer)) % 4 == 3;
            let next = if outwards { outer - 1 } else { inner };
            bytes = bytes.saturating_add(frame_len(frames, next));
            if bytes > room {
                break;
            }
            if outwards {
                outer -= 1;
            } else {
                inner += 1;
            }
        }
        if let (Some(before), true) = (omitted, inner < outer) {
            // A stack has room for one gap: grow it to take in the one that was there before.
            let at = usize::try_from(before.at).unwrap_or(usize::MAX).min(count);
            inner = inner.min(at);
            outer = outer.max(at);
        }
        Ends {
            frames,
            inner,
            outer,
        }
    }

    /// The gap between the ends, and how many frames of `self` are in it.
    fn gap(&self, omitted: Option<Omitted>) -> (Option<Omitted>, u64) {
        let cut = (self.outer - self.inner) as u64;
        let before = omitted.map_or(0, |omitted| omitted.count);
        let gap = Omitted {
            at: self.inner as u64,
            count: before.saturating_add(cut),
        };
        (if cut == 0 { omitted } else { Some(gap) }, cut)
    }
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

/// Bytes that frame `index` takes.
fn frame_len<F: Frames>(frames: &F, index: usize) -> usize {
    let Some((pc, found, image, name)) = frames.at(index) else {
        return 0;
    };
    let image = image.map_or(1, |image| unsigned_len(u64::from(image)));
    let name = name.map_or(0, |name| name.len().saturating_add(5));
    (1 + unsigned_len(pc) + unsigned_len(u64::from(found.code())) + image).saturating_add(name)
}

/// Whether all frames may go into a section of so many bytes.
fn may_fit<F: Frames>(frames: &F, mut room: usize) -> bool {
    frames.len() <= limits::FRAMES
        && (0..frames.len()).all(|index| {
            let rest = room.checked_sub(frame_len(frames, index));
            room = rest.unwrap_or_default();
            rest.is_some()
        })
}

/// A section all of which fits, with these frames.
fn whole<F: Frames, S: Section>(
    section: &S,
    frames: &F,
    buffer: &mut [u8],
    rules: Rules,
) -> Option<Encoded> {
    let whole =
        may_fit(frames, buffer.len()).then(|| encode(buffer, S::KIND, rules, section, 0, 0));
    whole.filter(|whole| whole.dropped == 0)
}

/// What of a stack fits into `room` bytes, next to the `bare` ones of the rest of its section; the gap that this
/// leaves, and how many frames of `frames` are in it.
fn part_of<F: Frames>(
    frames: &F,
    room: usize,
    bare: usize,
    omitted: Option<Omitted>,
) -> (Ends<'_, F>, Option<Omitted>, u64) {
    /// `frames` with its longest header, and the map's widening.
    const OVERHEAD: usize = (7 + 5) + 4;
    let room = room.saturating_sub(bare).saturating_sub(OVERHEAD);
    let ends = Ends::within(frames, room, omitted);
    let (omitted, cut) = ends.gap(omitted);
    (ends, omitted, cut)
}

impl<H: Hold> Thread<H> {
    /// The same with another stack, and without registers where they are not wanted.
    #[expect(clippy::type_complexity, reason = "it says what is borrowed of what")]
    pub(crate) fn with_frames<F: Frames>(
        &self,
        frames: F,
        omitted: Option<Omitted>,
        registers: bool,
    ) -> Thread<Borrowed<'_, F, Option<&H::Numbers>, &H::Extra>> {
        Thread {
            id: self.id,
            main: self.main,
            crashed: self.crashed,
            name: self.name.as_ref().map(AsRef::as_ref),
            state: self.state.as_ref().map(AsRef::as_ref),
            syscall: self.syscall.as_ref().map(AsRef::as_ref),
            cpu: self.cpu,
            end: self.end,
            registers: registers.then_some(&self.registers),
            frames,
            omitted,
            extra: &self.extra,
        }
    }
}

impl<H: Hold> Section for Thread<H> {
    const KIND: &'static str = "thread";

    fn encode(&self, buffer: &mut [u8], rules: Rules) -> Encoded {
        if let Some(whole) = whole(self, &self.frames, buffer, rules) {
            return whole;
        }
        let room = buffer.len().saturating_sub(TAIL + GAP);
        // Frames are worth more than registers.
        let mut with = |ends, omitted, registers, left_out| {
            let part = self.with_frames(ends, omitted, registers);
            encode(buffer, Self::KIND, rules, &part, GAP, left_out)
        };
        let bare = with(Ends::none(&self.frames), None, false, 0);
        let full = with(Ends::none(&self.frames), None, true, 0);
        let bytes = full.body.saturating_sub(bare.body);
        let is_small = full.dropped == bare.dropped && bytes <= room.saturating_sub(bare.body) / 2;
        let registers = is_small || self.frames.is_empty();
        let bare = if registers { full.body } else { bare.body };
        let (ends, omitted, cut) = part_of(&self.frames, room, bare, self.omitted);
        let left_out = cut.saturating_add(u64::from(!registers));
        with(ends, omitted, registers, left_out)
    }
}

impl<H: Hold> Sample<H> {
    /// The same with another stack.
    pub(crate) fn with_frames<F: Frames>(
        &self,
        frames: F,
        omitted: Option<Omitted>,
    ) -> Sample<Borrowed<'_, F, Nothing, &H::Extra>> {
        Sample {
            at: self.at,
            count: self.count,
            keep: self.keep,
            end: self.end,
            state: self.state.as_ref().map(AsRef::as_ref),
            frames,
            omitted,
            extra: &self.extra,
        }
    }
}

impl<H: Hold> Section for Sample<H> {
    const KIND: &'static str = "sample";

    fn encode(&self, buffer: &mut [u8], rules: Rules) -> Encoded {
        if let Some(whole) = whole(self, &self.frames, buffer, rules) {
            return whole;
        }
        let room = buffer.len().saturating_sub(TAIL + GAP);
        let mut with = |ends, omitted, left_out| {
            let part = self.with_frames(ends, omitted);
            encode(buffer, Self::KIND, rules, &part, GAP, left_out)
        };
        let bare = with(Ends::none(&self.frames), None, 0).body;
        let (ends, omitted, cut) = part_of(&self.frames, room, bare, self.omitted);
        with(ends, omitted, cut)
    }
}

/// Breadcrumbs without the oldest.
#[derive(Debug, Clone, Copy)]
struct Newest<'a, B> {
    all: &'a B,
    left_out: usize,
}

impl<B: Breadcrumbs> Breadcrumbs for Newest<'_, B> {
    fn breadcrumbs(&self) -> impl Iterator<Item = (Duration, impl AsRef<str>)> {
        self.all.breadcrumbs().skip(self.left_out)
    }
}

impl<H: Hold> Section for Context<H> {
    const KIND: &'static str = "context";

    fn encode(&self, buffer: &mut [u8], rules: Rules) -> Encoded {
        let whole = encode(buffer, Self::KIND, rules, self, 0, 0);
        if whole.dropped == 0 {
            return whole;
        }
        let room = buffer.len().saturating_sub(TAIL);
        let mut with = |left_out| {
            let part: Context<Iterators<_, _, _, _, _>> = Context {
                keys: &self.keys,
                gauges: &self.gauges,
                marks: &self.marks,
                breadcrumbs: Newest {
                    all: &self.breadcrumbs,
                    left_out,
                },
                extra: &self.extra,
            };
            let left_out = if left_out == usize::MAX {
                0
            } else {
                left_out as u64
            };
            encode(buffer, Self::KIND, rules, &part, 0, left_out)
        };
        let bare = with(usize::MAX);
        // The newest are worth most: leave out from the oldest on until the rest fits.
        let size = |text: &str| text.len().saturating_add(1 + 9 + 5);
        let texts = || self.breadcrumbs.breadcrumbs();
        let bytes = texts().fold(0usize, |sum, (_, text)| {
            sum.saturating_add(size(text.as_ref()))
        });
        let mut excess = bytes.saturating_sub(room.saturating_sub(bare.body).saturating_sub(24));
        let is_excess = |text: &str| {
            let before = excess;
            excess = excess.saturating_sub(size(text));
            before > 0
        };
        let mut is_excess = is_excess;
        with(
            texts()
                .take_while(|(_, text)| is_excess(text.as_ref()))
                .count(),
        )
    }
}
