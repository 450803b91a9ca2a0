//! Single values of a section, found by their keys: what need not be read into the section's type.

use super::limits;
use super::section::SectionAt;
use super::token::{Skim, Token, token};

/// The value of `key` in a section's map: where it begins, and its first token. As for a reader, nil is as if
/// there were no entry, and of two entries the first one counts.
pub(super) fn find<'a>(
    bytes: &'a [u8],
    section: &SectionAt<'_>,
    key: &str,
) -> Option<(usize, Token<'a>)> {
    let (Token::Map(count), mut at) = token(bytes, section.map).ok()? else {
        return None;
    };
    for _ in 0..(count as usize).min(limits::FIELDS) {
        let (found, _) = token(bytes, at).ok()?;
        let value = Skim::new(at).run(bytes).ok()?;
        at = Skim::new(value).run(bytes).ok()?;
        let (first, _) = token(bytes, value).ok()?;
        if found == Token::Text(key.as_bytes()) && first != Token::Nil {
            return Some((value, first));
        }
    }
    None
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
