//! Sections in untrusted bytes: their bounds, the search for the next one after damage, and single values of them.

use std::ops::Range;

use super::checksum::crc32;
use super::limits;
use super::token::{GapReason, Skipper, Token, token};
use super::wire::section::is_known;

/// One section's place in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SectionAt<'a> {
    /// Offset of its first byte.
    pub(crate) start: usize,
    /// Its kind.
    pub(crate) kind: &'a str,
    /// Offset of its map.
    pub(crate) map: usize,
    /// Offset of the byte after its last.
    pub(crate) end: usize,
}

/// A section, or the bytes between two sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SectionOrGap<'a> {
    /// A section.
    Section(SectionAt<'a>),
    /// Bytes that are no section.
    Gap(Range<usize>, GapReason),
}

type Parsed<'a> = Result<SectionAt<'a>, GapReason>;

/// Walks over the sections of `bytes`, and over what lies between them, in linear time.
#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    bytes: &'a [u8],
    /// Where it goes on.
    pub(crate) at: usize,
    /// True if each section must have a `check` and pass it.
    must_check: bool,
    /// Bytes that may still be looked at more than once in search of the next section.
    patience: usize,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(bytes: &'a [u8], must_check: bool) -> Pieces<'a> {
        let patience = bytes.len().saturating_mul(8).saturating_add(1 << 18);
        Pieces {
            bytes,
            at: 0,
            must_check,
            patience,
        }
    }

    /// The section at `start` as far as `most` bytes go, whatever its check says. `skip` finds its end.
    fn begun(&self, start: usize, most: usize, skip: &mut Skipper) -> Parsed<'a> {
        let (kind, map) = begin(self.bytes, start)?;
        // A section that claims to be longer than any is not looked at to its end.
        let limit = start.saturating_add(most.min(limits::SECTION_BYTES));
        let within = self.bytes.get(..limit).unwrap_or(self.bytes);
        let end = match skip.run(within) {
            Err(GapReason::Cut) if limit < self.bytes.len() => return Err(GapReason::TooLong),
            end => end?,
        };
        Ok(SectionAt {
            start,
            kind,
            map,
            end,
        })
    }

    fn section(&mut self, start: usize) -> Parsed<'a> {
        let section = self.begun(start, usize::MAX, &mut Skipper::new(start))?;
        if self.passes(&section) {
            Ok(section)
        } else {
            Err(GapReason::Check)
        }
    }

    fn passes(&self, section: &SectionAt<'_>) -> bool {
        !self.must_check || check(self.bytes, section) == Some(true)
    }

    /// Returns the offset of the next section after `from`, or of the end of the bytes.
    fn resume(&mut self, from: usize) -> usize {
        let mut at = from;
        while let Some(found) = candidate(self.bytes, at) {
            let mut skip = Skipper::new(found);
            let section = self.begun(found, self.patience, &mut skip);
            self.patience = self.patience.saturating_sub(skip.at.saturating_sub(found));
            if self.patience == 0 {
                break;
            }
            if let Ok(section) = section
                && (self.must_check || is_known(section.kind))
            {
                // The CRC looks at these bytes once more.
                self.patience = self.patience.saturating_sub(section.end - found);
                if self.passes(&section) && (self.must_check || is_plausible(self.bytes, &section))
                {
                    return found;
                }
            }
            at = found + 1;
        }
        self.bytes.len()
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = SectionOrGap<'a>;

    fn next(&mut self) -> Option<SectionOrGap<'a>> {
        let start = self.at;
        if start >= self.bytes.len() {
            return None;
        }
        match self.section(start) {
            Ok(section) => {
                self.at = section.end;
                Some(SectionOrGap::Section(section))
            }
            Err(why) => {
                self.at = self.resume(start + 1);
                let why = match why {
                    GapReason::Cut if self.at < self.bytes.len() => GapReason::Malformed,
                    why => why,
                };
                Some(SectionOrGap::Gap(start..self.at, why))
            }
        }
    }
}

/// The kind of the section at `start`, and where its map begins.
pub(crate) fn begin(bytes: &[u8], start: usize) -> Result<(&str, usize), GapReason> {
    let (Token::Array(2), at) = token(bytes, start)? else {
        return Err(GapReason::Malformed);
    };
    let (Token::Text(kind), map) = token(bytes, at)? else {
        return Err(GapReason::Malformed);
    };
    let kind = std::str::from_utf8(kind).map_err(|_| GapReason::Malformed)?;
    Ok((kind, map))
}

/// Returns the first offset from `at` on at which bytes look like the start of a section: an array of two, a short
/// lower-case kind, a map.
pub(crate) fn candidate(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let mut from = 0;
    while let Some(found) = rest.get(from..)?.iter().position(|&byte| byte == 0x92) {
        let start = from + found;
        if begins_as_section(rest.get(start + 1..)?) {
            return Some(at + start);
        }
        from = start + 1;
    }
    None
}

/// Returns true if `bytes` begin with a short lower-case kind and the header of a map.
fn begins_as_section(bytes: &[u8]) -> bool {
    let [len @ 0xa1..=0xbf, rest @ ..] = bytes else {
        return false;
    };
    let len = usize::from(len & 0x1f);
    let (Some(kind), Some(map)) = (rest.get(..len), rest.get(len)) else {
        return false;
    };
    matches!(map, 0x80..=0x8f | 0xde | 0xdf)
        && kind
            .iter()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// Returns true if a section that was found in a search and has no `check` is unlikely to be some bytes of an id that
/// look like one: its first key is a text, and after it the bytes end or another section begins.
pub(crate) fn is_plausible(bytes: &[u8], section: &SectionAt<'_>) -> bool {
    let Ok((header, first)) = token(bytes, section.map) else {
        return false;
    };
    let has_keys = match header {
        Token::Map(0) => true,
        Token::Map(_) => matches!(token(bytes, first), Ok((Token::Text(_), _))),
        _ => false,
    };
    has_keys && matches!(begin(bytes, section.end), Ok(_) | Err(GapReason::Cut))
}

/// Returns true if the section passes its `check`; `None` if it has no `check`.
pub(crate) fn check(bytes: &[u8], section: &SectionAt<'_>) -> Option<bool> {
    let (covered, stated) = check_of(bytes, section)?;
    Some(crc32(0, covered) == stated)
}

/// Returns the bytes that the section's `check` covers and the CRC-32 that it states; `None` if it has no `check`.
pub(crate) fn check_of<'a>(bytes: &'a [u8], section: &SectionAt<'_>) -> Option<(&'a [u8], u32)> {
    let (rest, stated) = bytes
        .get(section.start..section.end)?
        .split_last_chunk::<4>()?;
    let (_, covered) = rest.split_last()?;
    rest.ends_with(b"\xa5check\xce")
        .then(|| (covered, u32::from_be_bytes(*stated)))
}

/// Returns true if anything in `bytes` looks like a section's `check`.
pub(crate) fn has_checks(bytes: &[u8]) -> bool {
    bytes.windows(7).any(|seven| seven == b"\xa5check\xce")
}

/// Single values by their keys: what need not be read into the section's type.
impl SectionAt<'_> {
    /// The value of `key`: where it begins, and its first token. As for a reader, nil is as if there were no entry, and of
    /// two entries the first one counts.
    pub(crate) fn find<'a>(&self, bytes: &'a [u8], key: &str) -> Option<(usize, Token<'a>)> {
        let (Token::Map(count), mut at) = token(bytes, self.map).ok()? else {
            return None;
        };
        for _ in 0..(count as usize).min(limits::FIELDS) {
            let (found, _) = token(bytes, at).ok()?;
            let value = Skipper::new(at).run(bytes).ok()?;
            at = Skipper::new(value).run(bytes).ok()?;
            let (first, _) = token(bytes, value).ok()?;
            if found == Token::Text(key.as_bytes()) && first != Token::Nil {
                return Some((value, first));
            }
        }
        None
    }

    /// An unsigned integer; 0 if the section has no such key.
    pub(crate) fn unsigned(&self, bytes: &[u8], key: &str) -> u64 {
        match self.find(bytes, key) {
            Some((_, Token::Unsigned(value))) => value,
            _ => 0,
        }
    }

    /// The bytes of a text or of raw bytes; empty if the section has no such key.
    pub(crate) fn raw<'a>(&self, bytes: &'a [u8], key: &str) -> &'a [u8] {
        match self.find(bytes, key) {
            Some((_, Token::Text(value) | Token::Bytes(value))) => value,
            _ => &[],
        }
    }

    /// Sixteen raw bytes; zeros if the section has no such key.
    pub(crate) fn id(&self, bytes: &[u8], key: &str) -> [u8; 16] {
        self.raw(bytes, key).try_into().unwrap_or_default()
    }
}
