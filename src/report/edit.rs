//! Reports that are finished without being read into the model: sections stay as they are, byte for byte.
//!
//! This is what a launch needs of the reports that earlier ones left; an app that only records links no more of
//! reading than this.

use super::checksum::crc32;
use super::limits;
use super::model::{End, Event, EventKind, Head, VERSION};
use super::read::must_check;
use super::section::{Pieces, SectionAt, SectionOrGap, check_of};
use super::token::Token;
use super::wire::section::{WriteSection as _, is_known};
use super::write::{ClosedBy, ReportWriter};

/// The state of a report that an earlier launch left, as needed to close it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Survey {
    /// Length up to the end of the last whole section: what comes after is to be cut off.
    pub len: u64,
    /// Whole sections in it.
    pub sections: u64,
    /// CRC-32 of those bytes.
    pub crc: u32,
    /// True if the last of them is `end`: the report is closed already.
    pub is_closed: bool,
    /// True if the bytes begin with a whole `head`: they are a report.
    pub has_head: bool,
}

/// Finds the last whole section, for [`ReportWriter::resume`](crate::report::ReportWriter::resume). Only sections that
/// [`read`](crate::report::read) accepts are counted.
///
/// ```
/// use wedjat::report::{self, ClosedBy, HeadView, ReportWriter};
/// let mut buffer = [0; 1024];
/// let mut cut: Vec<u8> = Vec::new();
/// ReportWriter::new(&mut buffer, &mut cut).section(&HeadView::default())?;
/// cut.extend(b"\x92\xa5eve");
///
/// let survey = report::survey(&cut);
/// cut.truncate(survey.len as usize);
/// ReportWriter::resume(&mut buffer, &mut cut, survey.crc, survey.sections)
///     .finish(ClosedBy::NextLaunch)?;
/// assert!(report::read(&cut)?.damage.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn survey(bytes: &[u8]) -> Survey {
    let mut survey = Survey::default();
    for piece in Pieces::new(bytes, must_check(bytes)) {
        let SectionOrGap::Section(section) = piece else {
            continue;
        };
        survey.has_head |= section.start == 0 && section.kind == Head::KIND;
        survey.len = section.end as u64;
        survey.sections += 1;
        survey.is_closed = section.kind == End::KIND;
    }
    survey.crc = crc32(0, bytes.get(..survey.len as usize).unwrap_or_default());
    survey
}

/// The origin of a report: the launch, the id and the time in its `head`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Identifies the launch that wrote it.
    pub(crate) launch: [u8; 16],
    /// Identifies the report.
    pub(crate) id: [u8; 16],
    /// Time at which it was begun, nanoseconds since the Unix epoch.
    pub(crate) time: u64,
    /// Kind of the event; `None` if the report has no `event` section.
    pub(crate) kind: Option<EventKind>,
}

/// Returns the origin of a report; `None` if a reader finds no report in `bytes`.
pub(crate) fn origin(bytes: &[u8]) -> Option<Origin> {
    let sections = ReportSections::of(bytes)?;
    let head = sections.last(Head::KIND);
    let id = |key| head.map_or([0; 16], |head| head.id(bytes, key));
    let kind = sections.last(Event::KIND).map(|event| {
        let word = event.raw(bytes, "type");
        let known = |kind: &EventKind| kind.as_str().as_bytes() == word;
        (EventKind::ALL.iter().copied().find(known)).unwrap_or(EventKind::Other)
    });
    Some(Origin {
        launch: id("launch"),
        id: id("id"),
        time: head.map_or(0, |head| head.unsigned(bytes, "time")),
        kind,
    })
}

/// The report as one whose process died of what it says; `None` where it has no event.
pub(crate) fn fatal(bytes: &[u8]) -> Option<Vec<u8>> {
    let sections = ReportSections::of(bytes)?;
    let event = sections.last(Event::KIND)?;
    let (at, Token::Bool(_)) = event.find(bytes, "fatal")? else {
        return None;
    };
    let end = sections.last(End::KIND);
    let mut changed = bytes
        .get(..end.map_or(bytes.len(), |end| end.start))?
        .to_vec();
    *changed.get_mut(at)? = 0xc3;
    if check_of(bytes, &event).is_some() {
        set_check(changed.get_mut(event.start..event.end)?);
    }
    if let Some(end) = end {
        let (crc, sections) = (crc32(0, &changed), sections.all.len() as u64 - 1);
        let mut buffer = [0; 256];
        let writer = ReportWriter::resume(&mut buffer, &mut changed, crc, sections);
        let next = ClosedBy::NextLaunch;
        let is_next = end.raw(bytes, "closed_by") == next.as_str().as_bytes();
        let closed_by = if is_next { next } else { ClosedBy::Writer };
        writer.finish(closed_by).ok()?;
    }
    Some(changed)
}

/// The sections of a report, as a reader takes them.
struct ReportSections<'a> {
    all: Vec<SectionAt<'a>>,
}

impl<'a> ReportSections<'a> {
    /// `None` where a reader finds no report.
    fn of(bytes: &'a [u8]) -> Option<ReportSections<'a>> {
        let mut sections = ReportSections { all: Vec::new() };
        for piece in Pieces::new(bytes, must_check(bytes)) {
            let SectionOrGap::Section(section) = piece else {
                continue;
            };
            let is_next = section.kind == Head::KIND && !sections.all.is_empty();
            if is_next || sections.all.len() as u64 >= limits::SECTIONS {
                break;
            }
            sections.all.push(section);
            if section.kind == End::KIND {
                break;
            }
        }
        let is_report = match sections.last(Head::KIND) {
            Some(head) => {
                head.raw(bytes, "format") == b"wedjat" && head.unsigned(bytes, "version") == VERSION
            }
            None => sections.all.iter().any(|section| is_known(section.kind)),
        };
        is_report.then_some(sections)
    }

    /// The last section of this kind: the one that counts.
    fn last(&self, kind: &'static str) -> Option<SectionAt<'a>> {
        let of_kind = |section: &&SectionAt<'_>| section.kind == kind;
        self.all.iter().rfind(of_kind).copied()
    }
}

/// Sets right the `check` that a section ends with.
fn set_check(section: &mut [u8]) {
    if let Some((rest, check)) = section.split_last_chunk_mut::<4>()
        && let Some((_, covered)) = rest.split_last()
    {
        *check = crc32(0, covered).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::time::since_epoch;
    use crate::report::{Report, read, to_bytes};

    fn samples() -> Vec<Vec<u8>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/reports/v1.0");
        let paths = std::fs::read_dir(folder).unwrap();
        paths
            .map(|path| std::fs::read(path.unwrap().path()).unwrap())
            .collect()
    }

    /// An origin found without the model equals the reader's, for every sample cut anywhere.
    #[test]
    fn an_origin_is_that_of_the_model() {
        for bytes in samples() {
            for len in (0..bytes.len()).step_by(97).chain([bytes.len()]) {
                let cut = &bytes[..len];
                let expected = read(cut).ok().map(|reading| {
                    let Report { head, event, .. } = reading.report;
                    Origin {
                        launch: head.launch,
                        id: head.id,
                        time: since_epoch(head.time),
                        kind: event.map(|event| event.kind),
                    }
                });
                assert_eq!(origin(cut), expected, "{len} bytes");
            }
        }
    }

    #[test]
    fn a_report_is_made_fatal_and_nothing_else_of_it_changes() {
        for bytes in samples() {
            let before = read(&bytes).unwrap();
            let after = read(&fatal(&bytes).unwrap()).unwrap();
            let mut expected = before.report;
            expected.event.as_mut().unwrap().fatal = true;
            expected.end = after.report.end.clone();
            assert_eq!(after.report, expected);
            assert_eq!(after.damage, before.damage);
        }
        // A tool may have left the checks out.
        let report = Report {
            event: Some(Event::default()),
            unknown: vec![("x".to_owned(), crate::report::Value::Nil)],
            ..Report::default()
        };
        let after = read(&fatal(&to_bytes(&report)).unwrap()).unwrap();
        assert!(after.report.event.unwrap().fatal);
    }
}
