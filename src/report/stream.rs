//! Reads reports one after the other from any stream, holding one at a time.

use std::io::{ErrorKind, Read};

use super::damage::{Damage, DamageKind, ReadError};
use super::limits;
use super::model::{End, Head};
use super::read::{Reading, read_at};
use super::section::{SectionAt, begin, candidate, check};
use super::token::{GapReason, Skipper};
use super::wire::section::WriteSection as _;

/// Bytes read from the stream at once.
const CHUNK: usize = 16 << 10;
/// A section's start is recognised from at most so many bytes: array, kind, map.
const MAX_START: usize = 40;

/// The first bytes of a `head`.
const HEAD: &[u8] = b"\x92\xa4head";

/// Reads reports, one after the other, from a stream: a pipe, a file, concatenated files.
///
/// A report goes from its `head` to its `end`, or to the next `head` or the end of the stream. It is
/// returned as soon as its last byte is there. Memory is bounded by
/// [`limits::REPORT_BYTES`] and what [`read`](super::read()) takes for it, time is linear. Offsets in
/// damages count from the start of the stream. After [`ReadError::Io`] there is no more; after other
/// errors there may be.
///
/// ```
/// use wedjat::report::{self, Report, ReportReader};
/// let mut report = Report::default();
/// let mut stream = report::to_bytes(&report);
/// stream.extend(report::to_bytes(&report));
///
/// let readings: Result<Vec<_>, _> = ReportReader::new(stream.as_slice()).collect();
/// assert_eq!(readings?.len(), 2);
/// # Ok::<(), report::ReadError>(())
/// ```
#[derive(Debug)]
pub struct ReportReader<R> {
    input: R,
    chunk: Vec<u8>,
    /// From `start` on, the incomplete report and the bytes that came after it.
    buffer: Vec<u8>,
    /// Offset in the buffer of the report's first byte: the bytes before it were returned.
    start: usize,
    /// Position of the report in the stream.
    base: u64,
    /// Offset in the report of the section being read.
    at: usize,
    /// Progress of the check that this section is whole.
    skip: Skipper,
    /// The state of the bytes at `at`: a section is expected, searched for, or possibly found.
    look: Expect,
    /// True once the report has a section.
    has_section: bool,
    /// Bytes that may still be read again without finding a section; bounds the time for hostile input.
    patience: u64,
    state: StreamState,
    error: Option<std::io::Error>,
    has_given: bool,
}

/// The bytes that the reader expects at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A section should: the one before ended there.
    Section,
    /// Nothing is known: the next section has to be searched for.
    Search,
    /// Something that may be a section, found in the search.
    Candidate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Open,
    /// No more bytes come.
    Ended,
    /// Everything was given out.
    Done,
}

impl<R: Read> ReportReader<R> {
    /// A reader of the reports in `input`; it reads in large pieces, so `input` needs no buffer.
    pub fn new(input: R) -> ReportReader<R> {
        ReportReader {
            input,
            chunk: vec![0; CHUNK],
            buffer: Vec::new(),
            start: 0,
            base: 0,
            at: 0,
            skip: Skipper::new(0),
            look: Expect::Section,
            has_section: false,
            patience: 1 << 18,
            state: StreamState::Open,
            error: None,
            has_given: false,
        }
    }

    fn fill(&mut self) {
        match self.input.read(&mut self.chunk) {
            Ok(0) => self.state = StreamState::Ended,
            Ok(count) => {
                self.buffer.drain(..std::mem::take(&mut self.start));
                self.buffer.extend_from_slice(&self.chunk[..count]);
                self.patience = self.patience.saturating_add(8 * count as u64);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                self.error = Some(error);
                self.state = StreamState::Ended;
            }
        }
    }

    /// Reads the buffer's sections up to the end of the report, which it returns; `None` if more bytes are needed.
    fn report_end(&mut self) -> Option<usize> {
        loop {
            if self.look == Expect::Search {
                let bytes = self.buffer.get(self.start..).unwrap_or_default();
                match candidate(bytes, self.at) {
                    Some(found) => self.look_at(found, Expect::Candidate),
                    None => {
                        self.at = self.at.max(bytes.len().saturating_sub(MAX_START));
                        return None;
                    }
                }
            }
            let bytes = self.buffer.get(self.start..).unwrap_or_default();
            let before = self.skip.at;
            let end = self.skip.run(bytes);
            if self.look == Expect::Candidate {
                self.patience = self.patience.saturating_sub((self.skip.at - before) as u64);
                if self.patience == 0 {
                    return Some(bytes.len());
                }
            }
            let is_open = self.state == StreamState::Open;
            let (kind, head) = match (end, begin(bytes, self.at)) {
                (Err(GapReason::Cut), _)
                    if is_open && bytes.len() - self.at <= limits::SECTION_BYTES =>
                {
                    return None;
                }
                (Ok(end), Ok((kind, map))) => {
                    let section = SectionAt {
                        start: self.at,
                        kind,
                        map,
                        end,
                    };
                    (kind, head_within(bytes, &section, is_open))
                }
                _ => {
                    self.look_at(self.at + 1, Expect::Search);
                    continue;
                }
            };
            if kind == Head::KIND && self.has_section {
                return Some(self.at);
            }
            if let HeadWithin::Unknown = head {
                return None;
            }
            self.has_section = true;
            let is_end = kind == End::KIND;
            if let HeadWithin::Possible = head {
                let len = self.skip.at - self.at;
                self.patience = self.patience.saturating_sub(len as u64);
                if self.patience == 0 {
                    return Some(bytes.len());
                }
                self.look_at(self.at + 1, Expect::Search);
                continue;
            }
            self.look_at(self.skip.at, Expect::Section);
            if is_end {
                return Some(self.at);
            }
        }
    }

    fn look_at(&mut self, at: usize, look: Expect) {
        self.at = at;
        self.look = look;
        self.skip = Skipper::new(at);
    }

    /// Gives out `len` bytes as a report.
    fn take_report(&mut self, len: usize, is_too_long: bool) -> Result<Reading, ReadError> {
        let bytes = self.buffer.get(self.start..).unwrap_or_default();
        let mut reading = read_at(bytes.get(..len).unwrap_or_default(), self.base);
        if let (Ok(reading), true) = (&mut reading, is_too_long) {
            reading.damage.push(Damage {
                offset: self.base + len as u64,
                kind: DamageKind::Limit,
                message: format!(
                    "the report is longer than {} bytes; what comes behind is read on its own",
                    limits::REPORT_BYTES
                ),
            });
        }
        self.start += len;
        self.base += len as u64;
        self.look_at(0, Expect::Section);
        self.has_section = false;
        self.has_given = true;
        reading
    }
}

/// Whether the next report may begin within a section.
#[derive(Debug, Clone, Copy)]
enum HeadWithin {
    None,
    Possible,
    /// More bytes are needed.
    Unknown,
}

/// Looks for the next report's `head` within `section`: one that was cut extends, by the lengths it states, into the bytes
/// of the next report. A section with the right `check` is as long as it was written.
fn head_within(bytes: &[u8], section: &SectionAt<'_>, is_open: bool) -> HeadWithin {
    let to = bytes.len().min(section.end + HEAD.len() - 1);
    let inside = bytes.get(section.start + 1..to).unwrap_or_default();
    let is_there = inside.windows(HEAD.len()).any(|window| window == HEAD);
    let begins = |len: usize| bytes.ends_with(&HEAD[..len]) && bytes.len() - len < section.end;
    let is_begun = is_open && (1..HEAD.len()).any(begins);
    match is_there {
        _ if !(is_there || is_begun) || check(bytes, section) == Some(true) => HeadWithin::None,
        true => HeadWithin::Possible,
        false => HeadWithin::Unknown,
    }
}

impl<R: Read> Iterator for ReportReader<R> {
    type Item = Result<Reading, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.state == StreamState::Done {
                return None;
            }
            if self.start < self.buffer.len() {
                if let Some(end) = self.report_end() {
                    return Some(self.take_report(end, false));
                }
                let len = self.buffer.len() - self.start;
                if !self.has_section && len > limits::GARBAGE_BYTES {
                    self.state = StreamState::Done;
                    return Some(self.take_report(len, false));
                }
                if len > limits::REPORT_BYTES {
                    let whole = if self.has_section && self.look == Expect::Section {
                        self.at
                    } else {
                        len
                    };
                    return Some(self.take_report(whole, true));
                }
                if self.state == StreamState::Ended {
                    return Some(self.take_report(len, false));
                }
            } else if self.state == StreamState::Ended {
                self.state = StreamState::Done;
                return match self.error.take() {
                    Some(source) => Some(Err(ReadError::Io {
                        offset: self.base,
                        source,
                    })),
                    None if self.has_given => None,
                    None => Some(Err(ReadError::Empty)),
                };
            }
            if self.state == StreamState::Open {
                self.fill();
            }
        }
    }
}
