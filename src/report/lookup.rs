//! Single values of a section, found by their keys: what need not be read into the section's type.

use super::limits;
use super::section::SectionAt;
use super::token::{Skim, Token, token};

/// One entry of a map: where its key begins, its key, where its value begins, and where that ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapEntry<'a> {
    pub(super) start: usize,
    pub(super) key: &'a [u8],
    pub(super) value: usize,
    pub(super) end: usize,
}

/// The entries of the map at `at` that have texts as keys, as many as a reader takes.
pub(super) struct MapEntries<'a> {
    bytes: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> MapEntries<'a> {
    /// None where there is no map.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> MapEntries<'a> {
        let (left, at) = match token(bytes, at) {
            Ok((Token::Map(count), next)) => ((count as usize).min(limits::FIELDS), next),
            _ => (0, at),
        };
        MapEntries { bytes, at, left }
    }
}

impl<'a> Iterator for MapEntries<'a> {
    type Item = MapEntry<'a>;

    fn next(&mut self) -> Option<MapEntry<'a>> {
        while self.left > 0 {
            self.left -= 1;
            let start = self.at;
            let (key, _) = token(self.bytes, start).ok()?;
            let value = Skim::new(start).run(self.bytes).ok()?;
            let end = Skim::new(value).run(self.bytes).ok()?;
            self.at = end;
            if let Token::Text(key) = key {
                return Some(MapEntry {
                    start,
                    key,
                    value,
                    end,
                });
            }
        }
        None
    }
}

/// The value of `key` in a section's map: where it begins, and its first token. As for a reader, nil is as if
/// there were no entry, and of two entries the first one counts.
pub(super) fn find<'a>(
    bytes: &'a [u8],
    section: &SectionAt<'_>,
    key: &str,
) -> Option<(usize, Token<'a>)> {
    MapEntries::new(bytes, section.map)
        .filter(|entry| entry.key == key.as_bytes())
        .filter_map(|entry| Some((entry.value, token(bytes, entry.value).ok()?.0)))
        .find(|(_, value)| *value != Token::Nil)
}

/// An unsigned integer; 0 if the section has no such key.
pub(super) fn unsigned(bytes: &[u8], section: &SectionAt<'_>, key: &str) -> u64 {
    match find(bytes, section, key) {
        Some((_, Token::Unsigned(value))) => value,
        _ => 0,
    }
}

/// The bytes of a text or of raw bytes; empty if the section has no such key.
pub(super) fn raw<'a>(bytes: &'a [u8], section: &SectionAt<'_>, key: &str) -> &'a [u8] {
    match find(bytes, section, key) {
        Some((_, Token::Text(value) | Token::Bytes(value))) => value,
        _ => &[],
    }
}

/// Sixteen raw bytes; zeros if the section has no such key.
pub(super) fn id(bytes: &[u8], section: &SectionAt<'_>, key: &str) -> [u8; 16] {
    raw(bytes, section, key).try_into().unwrap_or_default()
}
