//! Judges a report as a whole: its head, its end, its checksum, and its frames: those that could not be read become the
//! one gap that a stack has room for, and where images were lost, frames are matched with the others again.

use super::{HeadState, SectionReader};
use crate::report::checksum::crc32;
use crate::report::damage::{DamageKind, ReadError, looks_like};
use crate::report::model::*;
use crate::report::section::SectionAt;
use crate::report::wire::lenient::Gap;
use crate::report::write::ClosedBy;

impl SectionReader<'_> {
    /// Fails unless the bytes are a report in a version that can be read.
    pub(super) fn judge_head(&mut self) -> Result<(), ReadError> {
        let is_cut = self.head == HeadState::Damaged && self.sections == 0 && self.cut;
        if is_cut || b"\x92\xa4head".starts_with(self.bytes) {
            let bytes = self.bytes.len() as u64;
            return Err(ReadError::CutInHead { bytes });
        }
        let offset = self.damages.base;
        let not_a_report = |looks_like| Err(ReadError::NotAReport { offset, looks_like });
        let version = self.report.head.version;
        match self.head {
            HeadState::Read if self.report.head.format == Magic::Other => not_a_report(Some(
                "a report of another kind: its `format` is not \"wedjat\"",
            )),
            HeadState::Read if version != VERSION => Err(ReadError::Version { version }),
            HeadState::Read => Ok(()),
            // A single section may be one by chance, unless its kind is known.
            HeadState::Missing if self.sections <= self.report.unknown.len() as u64 => {
                not_a_report(looks_like(self.bytes))
            }
            _ if self.sections == 0 => not_a_report(looks_like(self.bytes)),
            HeadState::Missing | HeadState::Damaged => {
                self.damages.add(0, DamageKind::Head, || {
                    "the report has no `head` that can be read: app, system, time and process are \
                     unknown"
                        .to_owned()
                });
                Ok(())
            }
        }
    }

    pub(super) fn judge_crc(&mut self, section: &SectionAt<'_>, end: &End) {
        let before = self.bytes.get(self.head_start..section.start);
        let before = before.unwrap_or_default();
        let stated = end.crc32;
        let actual = if self.is_vouched_for {
            stated
        } else {
            crc32(0, before)
        };
        if actual != stated {
            let hint = if self.must_check {
                "sections whose own check fits are whole"
            } else {
                "some of what was read may be wrong"
            };
            self.damages.add(section.start, DamageKind::Crc, || {
                format!(
                    "the bytes before `end` have the CRC-32 {actual:08x}, and it states {stated:08x}: \
                     the file was changed after it was written; {hint}"
                )
            });
        }
        if end.sections != self.sections {
            let (stated, actual) = (end.sections, self.sections);
            self.damages.add(section.start, DamageKind::Count, || {
                format!("`end` counts {stated} sections, and {actual} were read: some are missing")
            });
        }
    }

    pub(super) fn judge_end(&mut self, ended_at: Option<usize>) {
        if ended_at.is_none() && !self.cut {
            self.damages.add(self.bytes.len(), DamageKind::NoEnd, || {
                "the file has no `end`: its process died or is still writing, or the copy was cut; the \
                 sections that are there are whole"
                    .to_owned()
            });
        }
    }

    /// Sets right or tells of what frames say of their images.
    pub(super) fn judge_images(&mut self) {
        let images = &self.report.images;
        let (by_address, count) = (ImageIndex::new(images), images.len());
        // One that the next launch closed may end between a thread and its images: it
        // says so itself.
        let next_launch = ClosedBy::NextLaunch.as_str();
        let end = self.report.end.as_ref();
        let is_whole = end.is_some_and(|end| end.closed_by != next_launch) && !self.has_gap;
        let (threads, samples) = (&mut self.report.threads, &mut self.report.samples);
        let threads = threads.iter_mut().map(|thread| &mut thread.frames);
        let samples = samples.iter_mut().map(|sample| &mut sample.frames);
        let starts = self.thread_starts.iter().chain(&self.sample_starts);
        for (frames, &start) in threads.chain(samples).zip(starts) {
            let mut beyond = None;
            for frame in frames.iter_mut() {
                let Some(image) = frame.image else { continue };
                if self.images_may_be_missing {
                    let at = by_address.at(match frame.found {
                        Found::Context => frame.pc,
                        _ => frame.pc.saturating_sub(1),
                    });
                    // An image of unknown size counts only where the index is still right.
                    frame.image = at.filter(|&at| images[at as usize].size > 0 || at == image);
                } else if image as usize >= count {
                    beyond = beyond.or(Some(image));
                }
            }
            if let Some(image) = beyond
                && is_whole
            {
                self.damages.add(start, DamageKind::Image, || {
                    format!(
                        "a frame lies in image {image}, and the report holds {count}: it can't be \
                         symbolicated"
                    )
                });
            }
        }
        if self.images_may_be_missing {
            self.damages.add(self.bytes.len(), DamageKind::Image, || {
                "images may have been lost, so that the others moved up: frames were matched with \
                 them again by address"
                    .to_owned()
            });
        }
    }
}

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
