//! Stacks into what room there is: of those that do not fit, both ends and the gap.

use crate::report::encode::{MapEncoder, unsigned_len};
use crate::report::limits;
use crate::report::model::{Frame, Omitted, RawFrame};

/// A list of frames: a capture's or a model's.
pub(crate) trait Frames {
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// pc, found, image and name of one.
    fn at(&self, index: usize) -> Option<(u64, u8, Option<u32>, Option<&str>)>;
}

impl Frames for [RawFrame] {
    fn len(&self) -> usize {
        self.len()
    }

    fn at(&self, index: usize) -> Option<(u64, u8, Option<u32>, Option<&str>)> {
        let frame = self.get(index)?;
        let image = (frame.image != RawFrame::NO_IMAGE).then_some(frame.image);
        Some((frame.pc, frame.found.code(), image, None))
    }
}

impl Frames for [Frame] {
    fn len(&self) -> usize {
        self.len()
    }

    fn at(&self, index: usize) -> Option<(u64, u8, Option<u32>, Option<&str>)> {
        let frame = self.get(index)?;
        Some((
            frame.pc,
            frame.found.code(),
            frame.image,
            frame.name.as_deref(),
        ))
    }
}

/// Bytes that frame `index` takes.
fn frame_len<F: Frames + ?Sized>(frames: &F, index: usize) -> usize {
    let Some((pc, found, image, name)) = frames.at(index) else {
        return 0;
    };
    let image = image.map_or(1, |image| unsigned_len(u64::from(image)));
    let name = name.map_or(0, |name| name.len().saturating_add(5));
    (1 + unsigned_len(pc) + unsigned_len(u64::from(found)) + image).saturating_add(name)
}

/// Bytes that `omitted` may take: they are held from the section's start, so that a gap is always told.
pub(super) const GAP: usize = (8 + 1 + 9 + 9) + 4;

/// `frames`, and `omitted` where some are missing. Of a stack that does not fit, three leafward frames
/// are kept for each rootward one. [`GAP`] bytes are held, and released here.
pub(super) fn encode_frames<F: Frames + ?Sized>(
    m: &mut MapEncoder<'_, '_>,
    frames: &F,
    omitted: Option<Omitted>,
) {
    /// `frames` with its longest header, and the map's widening.
    const OVERHEAD: usize = (7 + 5) + 4;
    let count = frames.len();
    let room = m.room().saturating_sub(OVERHEAD);
    let (mut leaf, mut root) = (0, count);
    let mut bytes = 0usize;
    while leaf < root && leaf + (count - root) < limits::FRAMES {
        // After each three leafward frames, one rootward.
        let rootward = (leaf + (count - root)) % 4 == 3;
        let next = if rootward { root - 1 } else { leaf };
        bytes = bytes.saturating_add(frame_len(frames, next));
        if bytes > room {
            break;
        }
        if rootward {
            root -= 1;
        } else {
            leaf += 1;
        }
    }
    if let Some(before) = omitted {
        // One gap is all that can be said: grow it to take in the one that was there before.
        if leaf < root {
            let at = usize::try_from(before.at).unwrap_or(usize::MAX).min(count);
            leaf = leaf.min(at);
            root = root.max(at);
        }
    }
    let cut = (root - leaf) as u64;
    if count > 0 {
        m.array("frames", |a| {
            for index in (0..leaf).chain(root..count) {
                let Some((pc, found, image, name)) = frames.at(index) else {
                    continue;
                };
                a.item(|e| {
                    e.put(if name.is_some() { &[0x94] } else { &[0x93] });
                    e.unsigned(pc);
                    e.unsigned(u64::from(found));
                    match image {
                        Some(image) => e.unsigned(u64::from(image)),
                        None => e.nil(),
                    }
                    if let Some(name) = name {
                        e.text(name);
                    }
                });
            }
        });
    }
    m.drop_count(cut);
    let omitted = match (omitted, cut) {
        (omitted, 0) => omitted,
        (None, cut) => Some(Omitted {
            at: leaf as u64,
            count: cut,
        }),
        (Some(before), cut) => Some(Omitted {
            at: leaf as u64,
            count: before.count.saturating_add(cut),
        }),
    };
    m.release(GAP);
    if let Some(omitted) = omitted {
        m.entry("omitted", |e| {
            e.put(&[0x92]);
            e.unsigned(omitted.at);
            e.unsigned(omitted.count);
        });
    }
}
