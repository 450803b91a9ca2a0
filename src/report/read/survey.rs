//! How far a file can be carried on.

use crate::report::checksum::crc32;
use crate::report::model::{End, Head};
use crate::report::section::{Piece, Pieces};
use crate::report::wire::section::WriteSection as _;

/// How far a file can be carried on: what a launch needs to close a report that an earlier one left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Survey {
    /// Length up to the end of the last whole section: what comes behind is to be cut off.
    pub len: u64,
    /// Whole sections in it.
    pub sections: u64,
    /// CRC-32 of those bytes.
    pub crc: u32,
    /// Whether the last of them is `end`: the report is closed already.
    pub is_closed: bool,
    /// Whether the bytes begin with a whole `head`: there is a report at all.
    pub has_head: bool,
}

/// Finds the last whole section, for [`ReportWriter::resume`](crate::report::ReportWriter::resume).
/// What [`read`](crate::report::read) would not take for a section is none here.
///
/// ```
/// use wedjat::report::{self, ClosedBy, HeadView, ReportWriter};
/// let mut buffer = [0; 1024];
/// let mut cut: Vec<u8> = Vec::new();
/// ReportWriter::new(&mut buffer, &mut cut).head(&HeadView::default())?;
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
        survey.has_head |= section.start == 0 && section.kind == <Head>::KIND;
        survey.len = section.end as u64;
        survey.sections += 1;
        survey.is_closed = section.kind == <End>::KIND;
    }
    survey.crc = crc32(0, bytes.get(..survey.len as usize).unwrap_or_default());
    survey
}
