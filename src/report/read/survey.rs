//! Finds the point from which an unfinished report can be continued.

use crate::report::checksum::crc32;
use crate::report::model::{End, Head};
use crate::report::section::{Piece, Pieces};
use crate::report::wire::section::WriteSection as _;

/// The state of a report that an earlier launch left, as needed to close it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Survey {
    /// Length up to the end of the last whole section: what comes behind is to be cut off.
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
    for piece in Pieces::new(bytes, super::checks_of(bytes)) {
        let Piece::Section(section) = piece else {
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
