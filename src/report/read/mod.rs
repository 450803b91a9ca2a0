//! Reads a report from untrusted bytes: bounded, linear, and keeping whatever can be read.

mod judge;

use serde::Deserialize;

use super::checksum::crc32;
use super::damage::{Damage, DamageKind, Damages, ReadError, printable};
use super::limits;
use super::model::*;
use super::section::{Pieces, SectionAt, SectionOrGap, begin, check_of, has_checks};
use super::token::{GapReason, is_shallow};
use super::wire::lenient::{Gap, decode};
use super::wire::section::{WriteSection as _, is_known};

use judge::settle;

/// A report that was read, and its damage.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// The parts of the report that could be read.
    pub report: Report,
    /// Damage, in the order of the file; empty if the file is whole.
    pub damage: Vec<Damage>,
}

/// Reads one report.
///
/// Takes time linear in the length of `bytes`, and memory of at most 100 times that length, whatever
/// the bytes are. A damaged section is skipped, and reading continues with the next; [`Reading::damage`] has
/// what was lost. Bytes that hold several reports are for [`ReportReader`](super::ReportReader).
///
/// # Errors
/// If nothing can be read: the bytes are empty, are no report, or end within the first section.
///
/// ```
/// use wedjat::report::{self, End, Report};
/// let mut report = Report::default();
/// report.head.app.name = "MyApp".to_owned();
/// report.end = Some(End::default());
/// let bytes = report::to_bytes(&report);
///
/// let reading = report::read(&bytes)?;
/// assert_eq!(reading.report.head.app.name, "MyApp");
/// assert!(reading.damage.is_empty());
///
/// let cut = report::read(&bytes[..bytes.len() - 1])?;
/// assert_eq!(cut.report.head.app.name, "MyApp");
/// assert_eq!(cut.damage.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(bytes: &[u8]) -> Result<Reading, ReadError> {
    read_at(bytes, 0)
}

/// [`read`], where `base` bytes of the stream came before.
pub(crate) fn read_at(bytes: &[u8], base: u64) -> Result<Reading, ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::Empty);
    }
    let vouched = vouched_for(bytes);
    let mut damages = Damages::default();
    damages.base = base;
    let mut reader = SectionReader {
        bytes,
        is_vouched_for: vouched.is_some(),
        must_check: vouched.is_none() && has_checks(bytes),
        report: Report::default(),
        damages,
        head: HeadState::Missing,
        head_start: 0,
        sections: 0,
        has_gap: false,
        cut: false,
        images_may_be_missing: false,
        thread_starts: Vec::new(),
        sample_starts: Vec::new(),
    };
    reader.run(vouched.unwrap_or_default())?;
    Ok(Reading {
        report: reader.report,
        damage: reader.damages.into_list(),
    })
}

/// Returns true if each section of these bytes must have a `check` and pass it.
pub(super) fn must_check(bytes: &[u8]) -> bool {
    vouched_for(bytes).is_none() && has_checks(bytes)
}

/// Count of sections kept from the first pass; they are not searched for again.
const MAX_INDEXED: usize = 4096;

/// The first sections of a file that is one run of them up to an `end` by their writer, whose CRC and
/// count are right. Then the sections' own checks are not looked at, so that a tool that rewrites a
/// report and knows nothing of them need only set `end` right.
fn vouched_for(bytes: &[u8]) -> Option<Vec<SectionAt<'_>>> {
    let mut kept = Vec::new();
    let mut sections = 0;
    let mut checked = false;
    for piece in Pieces::new(bytes, false) {
        let SectionOrGap::Section(section) = piece else {
            return None;
        };
        let has_check = check_of(bytes, &section).is_some();
        checked |= sections == 0 && has_check;
        sections += 1;
        if kept.len() < MAX_INDEXED {
            kept.push(section);
        }
        if section.kind == End::KIND {
            if !is_shallow(bytes, section.start) || (checked && !has_check) {
                return None;
            }
            let before = bytes.get(..section.start).unwrap_or_default();
            let is_whole = section.raw(bytes, "closed_by") == b"writer"
                && section.unsigned(bytes, "sections") == sections
                && section.unsigned(bytes, "crc32") == u64::from(crc32(0, before));
            return is_whole.then_some(kept);
        }
    }
    None
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadState {
    Missing,
    Damaged,
    Read,
}

struct SectionReader<'a> {
    bytes: &'a [u8],
    /// True if an `end` fits all bytes before it.
    is_vouched_for: bool,
    /// True if each section must have a `check` and pass it.
    must_check: bool,
    report: Report,
    damages: Damages,
    head: HeadState,
    /// Offset of `head`; bytes before it do not belong to the report.
    head_start: usize,
    /// Whole sections so far.
    sections: u64,
    /// True if any bytes of the report were skipped so far.
    has_gap: bool,
    /// True if the file ends within a section.
    cut: bool,
    /// True if bytes were skipped before an image: images may be missing there.
    images_may_be_missing: bool,
    /// Offsets of the threads, and of the samples.
    thread_starts: Vec<usize>,
    sample_starts: Vec<usize>,
}

impl<'a> SectionReader<'a> {
    /// `known` are the sections that the bytes begin with, where these were found already.
    fn run(&mut self, known: Vec<SectionAt<'a>>) -> Result<(), ReadError> {
        let mut ended_at = None;
        let mut rest = Pieces::new(self.bytes, self.must_check);
        if let Some(last) = known.last() {
            rest.at = last.end;
        }
        for piece in known.into_iter().map(SectionOrGap::Section).chain(rest) {
            let section = match piece {
                SectionOrGap::Section(section) => section,
                SectionOrGap::Gap(at, why) => {
                    self.gap(at.start, at.end, why);
                    continue;
                }
            };
            if let Some(reason) = self.ends_before(&section, ended_at.is_some()) {
                let rest = self.bytes.len() - section.start;
                self.damages.add(section.start, DamageKind::Trailing, || {
                    format!("{rest} bytes behind the report were not read: {reason}")
                });
                break;
            }
            self.sections += 1;
            if !is_shallow(self.bytes, section.start) {
                self.has_gap = true;
                self.damages.add(section.start, DamageKind::Limit, || {
                    let kind = printable(section.kind);
                    format!(
                        "section `{kind}` nests deeper than {} levels; it was skipped",
                        limits::DEPTH
                    )
                });
                continue;
            }
            if section.kind == Head::KIND {
                self.report.head = self.decode(&section).0;
                self.head = HeadState::Read;
                self.head_start = section.start;
                self.has_gap = false;
            } else {
                self.take(&section);
            }
            if section.kind == End::KIND {
                ended_at = Some(section.end);
            }
        }
        self.judge_head()?;
        self.judge_end(ended_at);
        self.judge_images();
        Ok(())
    }

    fn decode<T: Deserialize<'a> + Default>(
        &mut self,
        section: &SectionAt<'a>,
    ) -> (T, Option<Gap>) {
        decode(self.bytes, section.map, section.kind, &mut self.damages)
    }

    /// The reason why the report ends before `section`, if it does.
    fn ends_before(&self, section: &SectionAt<'_>, ended: bool) -> Option<&'static str> {
        if ended {
            Some("they come after its `end`; several reports in one stream are read one by one")
        } else if section.kind == Head::KIND && self.sections > 0 {
            Some("another `head` begins there, and this report has no `end`")
        } else if self.sections >= limits::SECTIONS {
            Some("it has as many sections as a report may have")
        } else {
            None
        }
    }

    fn take(&mut self, section: &SectionAt<'a>) {
        match section.kind {
            Event::KIND => self.report.event = Some(self.decode(section).0),
            Thread::KIND => {
                let (mut thread, gap): (Thread, _) = self.decode(section);
                settle(&mut thread.frames, &mut thread.omitted, gap);
                self.report.threads.push(thread);
                self.thread_starts.push(section.start);
            }
            Image::KIND => {
                let image = self.decode(section).0;
                self.report.images.push(image);
                self.images_may_be_missing |= self.has_gap;
            }
            Sample::KIND => {
                let (mut sample, gap): (Sample, _) = self.decode(section);
                settle(&mut sample.frames, &mut sample.omitted, gap);
                self.report.samples.push(sample);
                self.sample_starts.push(section.start);
            }
            Vitals::KIND => self.report.vitals = Some(self.decode(section).0),
            AppContext::KIND => self.report.context = Some(self.decode(section).0),
            NearMemory::KIND => {
                let memory = self.decode(section).0;
                self.report.memory.push(memory);
            }
            StallEnd::KIND => self.report.stall_end = Some(self.decode(section).0),
            Capture::KIND => self.report.capture = Some(self.decode(section).0),
            Loss::KIND => self.report.loss = Some(self.decode(section).0),
            End::KIND => {
                let end = self.decode(section).0;
                self.judge_crc(section, &end);
                self.report.end = Some(end);
            }
            kind => {
                let mut value: Value = self.decode(section).0;
                if let Value::Map(pairs) = &mut value {
                    pairs.retain(|(key, _)| !matches!(key, Value::Text(key) if key == "check"));
                }
                self.report.unknown.push((kind.to_owned(), value));
            }
        }
    }

    /// Tells of bytes that were skipped.
    fn gap(&mut self, start: usize, end: usize, why: GapReason) {
        self.has_gap = true;
        let len = end - start;
        let kind = begin(self.bytes, start).ok().map(|(kind, _)| kind);
        if kind == Some(Head::KIND) && self.head == HeadState::Missing && self.sections == 0 {
            self.head = HeadState::Damaged;
        }
        let section = match kind {
            Some(kind) if is_known(kind) => format!("section `{kind}`"),
            Some(kind) => format!("a section of kind `{}`", printable(kind)),
            None => "a section".to_owned(),
        };
        let next = if end == self.bytes.len() {
            "to the end of the file".to_owned()
        } else {
            let next = self.damages.base.saturating_add(end as u64);
            format!("to the next section at byte {next}")
        };
        if why == GapReason::Cut {
            self.cut = true;
            self.damages.add(start, DamageKind::Cut, || {
                format!(
                    "the file ends within {section}, after {len} bytes of it; all before is kept"
                )
            });
            return;
        }
        let (damage, fault) = match (why, kind) {
            (GapReason::Check, _) => {
                let fault = format!("{section} is damaged: its `check` does not fit its bytes");
                (DamageKind::Section, fault)
            }
            (GapReason::TooLong, _) => {
                let limit = limits::SECTION_BYTES;
                let fault = format!("{section} claims to be longer than {limit} bytes");
                (DamageKind::Limit, fault)
            }
            (_, Some(_)) => (DamageKind::Section, format!("{section} is malformed")),
            (_, None) => (DamageKind::Garbage, "no section begins here".to_owned()),
        };
        self.damages.add(start, damage, || {
            format!("{fault}; {len} bytes {next} were skipped")
        });
    }
}
