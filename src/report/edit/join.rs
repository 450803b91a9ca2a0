//! Two files that two threads wrote of one crash, as one report.

use super::{ReportSections, closed_by, finish, set_check};
use crate::report::lookup::{self, MapEntries, unsigned};
use crate::report::model::*;
use crate::report::section::{SectionAt, check_of};
use crate::report::token::{Skim, Token, token};
use crate::report::wire::section::{WriteSection as _, is_known};
use crate::report::write::ClosedBy;

const CAPTURE: &str = <Capture>::KIND;

/// Returns the report `first`, with what only `rest` holds added. `None` if a reader finds no report in one of them.
pub(crate) fn join(first: &[u8], rest: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = (ReportSections::of(first)?, ReportSections::of(rest)?);
    let mut images = ImageRanges::default();
    let mut places = Vec::new();
    let own: Vec<_> = first.kind(<Image>::KIND).collect();
    own.iter().for_each(|image| images.add(first.bytes, image));
    let mut added = Vec::new();
    for image in rest.kind(<Image>::KIND) {
        let base = unsigned(rest.bytes, &image, "base");
        let known = images.ranges.iter().position(|range| range.0 == base);
        places.push(known.unwrap_or(images.ranges.len()) as u32);
        if known.is_none() {
            images.add(rest.bytes, &image);
            added.push(image);
        }
    }

    // Frames of the first whose images were not written any more are matched by address.
    let of_first = |frame: EncodedFrame| match frame.image {
        image if first.misplaced_images || image as usize >= own.len() => images.at(frame),
        image => Some(image),
    };
    let of_rest = |frame: EncodedFrame| match rest.misplaced_images {
        true => images.at(frame),
        false => places.get(frame.image as usize).copied(),
    };
    let mut threads: Vec<Vec<u8>> = Vec::new();
    let mut ids = Vec::new();
    for thread in first.kind(<Thread>::KIND) {
        ids.push(unsigned(first.bytes, &thread, "id"));
        threads.push(with_images(first.bytes, &thread, of_first));
    }
    for thread in rest.kind(<Thread>::KIND) {
        let id = unsigned(rest.bytes, &thread, "id");
        if ids.contains(&id) {
            continue;
        }
        ids.push(id);
        // The one in question first.
        let is_crashed = matches!(
            lookup::find(rest.bytes, &thread, "crashed"),
            Some((_, Token::Bool(true)))
        );
        let place = if is_crashed { 0 } else { threads.len() };
        threads.insert(place, with_images(rest.bytes, &thread, of_rest));
    }

    let mut joined = Joined::default();
    let either = |kind| match first.last(kind) {
        Some(section) => Some(copy(first.bytes, &section)),
        None => Some(copy(rest.bytes, &rest.last(kind)?)),
    };
    let all = |sections: &ReportSections<'_>, kind| {
        let copies = sections
            .kind(kind)
            .map(|section| copy(sections.bytes, &section));
        copies.collect::<Vec<_>>()
    };
    joined.extend(either(<Head>::KIND));
    joined.extend(either(<Event>::KIND));
    let mut threads = threads.into_iter();
    joined.extend(threads.next());
    joined.extend(own.iter().map(|image| copy(first.bytes, image)));
    joined.extend(added.iter().map(|image| copy(rest.bytes, image)));
    joined.extend(either(<Vitals>::KIND));
    joined.extend(match (first.last(CAPTURE), rest.last(CAPTURE)) {
        (Some(own), Some(other)) => Some(merged((first.bytes, &own), (rest.bytes, &other))),
        _ => either(CAPTURE),
    });
    for sample in first.kind(<Sample>::KIND) {
        joined.extend([with_images(first.bytes, &sample, of_first)]);
    }
    joined.extend(threads);
    joined.extend(either(<Context>::KIND));
    let memory = all(&first, <NearMemory>::KIND);
    joined.extend(match memory.is_empty() {
        true => all(&rest, <NearMemory>::KIND),
        false => memory,
    });
    joined.extend(either(<Loss>::KIND));
    joined.extend(all(&first, <StallEnd>::KIND));
    for sections in [&first, &rest] {
        for section in sections
            .all
            .iter()
            .filter(|section| !is_known(section.kind))
        {
            joined.extend([copy(sections.bytes, section)]);
        }
    }
    // The dying thread has come to its end, or neither has.
    let end = rest.last(<End>::KIND);
    let closed_by = end.map_or(ClosedBy::NextLaunch, |end| closed_by(rest.bytes, &end));
    finish(joined.bytes, joined.sections, closed_by)
}

#[derive(Default)]
struct Joined {
    bytes: Vec<u8>,
    sections: u64,
}

impl Joined {
    fn extend(&mut self, sections: impl IntoIterator<Item = Vec<u8>>) {
        for section in sections {
            self.bytes.extend(section);
            self.sections += 1;
        }
    }
}

fn copy(bytes: &[u8], section: &SectionAt<'_>) -> Vec<u8> {
    let section = bytes.get(section.start..section.end);
    section.unwrap_or_default().to_vec()
}

/// A frame as it stands in the bytes.
#[derive(Clone, Copy)]
struct EncodedFrame {
    pc: u64,
    found: u64,
    image: u32,
}

/// First address and the one behind the last of each image.
#[derive(Default)]
struct ImageRanges {
    ranges: Vec<(u64, u64)>,
}

impl ImageRanges {
    fn add(&mut self, bytes: &[u8], image: &SectionAt<'_>) {
        let base = unsigned(bytes, image, "base");
        let size = unsigned(bytes, image, "size");
        self.ranges.push((base, base.saturating_add(size)));
    }

    fn at(&self, frame: EncodedFrame) -> Option<u32> {
        let is_caller = frame.found != u64::from(Found::Context.code());
        let pc = frame.pc.saturating_sub(u64::from(is_caller));
        let place = self
            .ranges
            .iter()
            .position(|&(base, end)| (base..end).contains(&pc))?;
        u32::try_from(place).ok()
    }
}

/// A thread or sample whose frames have other images.
fn with_images(
    bytes: &[u8],
    section: &SectionAt<'_>,
    image: impl Fn(EncodedFrame) -> Option<u32>,
) -> Vec<u8> {
    let mut changed = Vec::with_capacity(section.end - section.start + 64);
    let mut copied = section.start;
    let mut at = section.end;
    let mut left = 0;
    if let Some((frames, Token::Array(count))) = lookup::find(bytes, section, "frames")
        && let Ok((_, first)) = token(bytes, frames)
    {
        (left, at) = (count, first);
    }
    for _ in 0..left {
        if let Some((frame, place, behind)) = frame(bytes, at) {
            changed.extend_from_slice(bytes.get(copied..place).unwrap_or_default());
            // Into memory: it does not fail.
            let _ = rmp_serde::encode::write(&mut changed, &image(frame));
            copied = behind;
        }
        at = Skim::new(at).run(bytes).unwrap_or(section.end);
    }
    changed.extend_from_slice(bytes.get(copied..section.end).unwrap_or_default());
    if check_of(bytes, section).is_some() {
        set_check(&mut changed);
    }
    changed
}

/// The frame at `at`, where it states an image: and where that number begins and ends.
fn frame(bytes: &[u8], at: usize) -> Option<(EncodedFrame, usize, usize)> {
    let (Token::Array(3..), at) = token(bytes, at).ok()? else {
        return None;
    };
    let (Token::Unsigned(pc), at) = token(bytes, at).ok()? else {
        return None;
    };
    let (Token::Unsigned(found), at) = token(bytes, at).ok()? else {
        return None;
    };
    let (Token::Unsigned(image), end) = token(bytes, at).ok()? else {
        return None;
    };
    let image = u32::try_from(image).ok()?;
    Some((EncodedFrame { pc, found, image }, at, end))
}

/// Merges the `capture` sections of both files: all keys of the first, and those that only the second has.
fn merged(first: (&[u8], &SectionAt<'_>), rest: (&[u8], &SectionAt<'_>)) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut count = 0u16;
    let mut take = |(bytes, section): (&[u8], &SectionAt<'_>), known: Option<&SectionAt<'_>>| {
        for entry in MapEntries::new(bytes, section.map) {
            let is_known = |known| MapEntries::new(first.0, known).any(|own| own.key == entry.key);
            if entry.key == b"check" || known.is_some_and(|known| is_known(known.map)) {
                continue;
            }
            entries.extend_from_slice(bytes.get(entry.start..entry.end).unwrap_or_default());
            count += 1;
        }
    };
    take(first, None);
    take(rest, Some(first.1));
    let has_check = check_of(first.0, first.1).is_some();
    let count = count + u16::from(has_check);
    let start = first.0.get(first.1.start..first.1.map);
    let mut merged = start.unwrap_or_default().to_vec();
    merged.push(0xde);
    merged.extend(count.to_be_bytes());
    merged.extend(entries);
    if has_check {
        merged.extend(b"\xa5check\xce\0\0\0\0");
        set_check(&mut merged);
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::{read, to_bytes};

    fn image(base: u64) -> Image {
        Image {
            base,
            size: 0x1000,
            id: vec![base as u8; 16],
            ..Image::default()
        }
    }

    fn thread(id: u64, frames: &[(u64, Found, Option<u32>)]) -> Thread {
        let frame = |&(pc, found, image): &_| Frame {
            pc,
            found,
            image,
            name: None,
        };
        Thread {
            id,
            frames: frames.iter().map(frame).collect(),
            ..Thread::default()
        }
    }

    /// The parts that the crash writer thread has written, and those of the dying thread.
    fn parts() -> (Report, Report) {
        let mut first = Report::default();
        first.head.id = [7; 16];
        let mut rest = first.clone();
        first.event = Some(Event {
            kind: EventKind::Crash,
            ..Event::default()
        });
        // The third image was not written any more.
        let own = [
            (0x1010, Found::Context, Some(0)),
            (0x5000, Found::UnwindInfo, Some(2)),
            (0x9999, Found::UnwindInfo, Some(3)),
        ];
        first.threads = vec![thread(1, &own)];
        first.images = vec![image(0x1000), image(0x2000)];
        first.capture = Some(Capture {
            unwind: Some(Duration::from_nanos(5)),
            ..Capture::default()
        });
        let other = [
            (0x4010, Found::Context, Some(0)),
            (0x1800, Found::UnwindInfo, Some(1)),
            (0x3, Found::UnwindInfo, None),
        ];
        rest.threads = vec![thread(1, &[]), thread(2, &other)];
        rest.images = vec![image(0x4000), image(0x1000)];
        rest.capture = Some(Capture {
            unwind: Some(Duration::from_nanos(9)),
            bytes: Some(3),
            ..Capture::default()
        });
        rest.unknown = vec![("new".to_owned(), Value::Map(Vec::new()))];
        rest.end = Some(End {
            closed_by: "writer".to_owned(),
            ..End::default()
        });
        (first, rest)
    }

    fn images_of(thread: &Thread) -> Vec<Option<u32>> {
        thread.frames.iter().map(|frame| frame.image).collect()
    }

    #[test]
    fn what_only_one_of_the_files_has_is_in_the_report() {
        let (first, rest) = parts();
        let joined = join(&to_bytes(&first), &to_bytes(&rest)).unwrap();
        let reading = read(&joined).unwrap();
        assert_eq!(reading.damage, []);
        let report = reading.report;
        assert_eq!((&report.head, &report.event), (&first.head, &first.event));
        let bases: Vec<u64> = report.images.iter().map(|image| image.base).collect();
        assert_eq!(bases, [0x1000, 0x2000, 0x4000]);
        // `0x5000` is a return address, just behind the call in the image at `0x4000`.
        let [own, other] = report.threads.as_slice() else {
            panic!("{report:?}")
        };
        assert_eq!(images_of(own), [Some(0), Some(2), None]);
        assert_eq!(images_of(other), [Some(2), Some(0), None]);
        let capture = report.capture.unwrap();
        assert_eq!(
            (capture.unwind, capture.bytes),
            (Some(Duration::from_nanos(5)), Some(3))
        );
        assert_eq!(report.unknown, rest.unknown);
        assert_eq!(report.end.unwrap().closed_by, "writer");
    }

    #[test]
    fn a_crashed_thread_comes_first_and_an_open_end_is_the_next_launchs() {
        let (first, mut rest) = parts();
        rest.threads[1].crashed = true;
        rest.end = None;
        let joined = read(&join(&to_bytes(&first), &to_bytes(&rest)).unwrap()).unwrap();
        assert_eq!(joined.damage, []);
        let ids: Vec<u64> = joined
            .report
            .threads
            .iter()
            .map(|thread| thread.id)
            .collect();
        assert_eq!(ids, [2, 1]);
        assert_eq!(joined.report.end.unwrap().closed_by, "next_launch");
    }

    /// Whatever the files hold, what is made of them can be read, if anything can be.
    #[test]
    fn cut_files_are_joined_as_far_as_they_go() {
        let (first, rest) = parts();
        let (first, rest) = (to_bytes(&first), to_bytes(&rest));
        for len in 0..=first.len() {
            let (cut, other) = (&first[..len], &rest[..rest.len().min(len)]);
            assert_eq!(join(cut, &rest).is_some(), read(cut).is_ok(), "{len} bytes");
            if let Some(joined) = join(cut, other) {
                assert_eq!(read(&joined).unwrap().damage, [], "{len} bytes");
            }
        }
    }
}
