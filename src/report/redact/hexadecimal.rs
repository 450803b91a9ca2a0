//! Replaces addresses in texts: hexadecimal numbers with `0x`, or as long as addresses are. Where the process lay stays unknown.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Smaller numbers are codes, flags and sizes, unless they point into an image.
const MIN_LARGE: u64 = 1 << 32;
/// Smaller ones are never addresses: nothing is mapped there.
const MIN_ADDRESS: u64 = 1 << 16;
/// Digits of an address without prefix.
const UNPREFIXED_DIGITS: RangeInclusive<usize> = 9..=16;
/// Digits of the groups of a UUID.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// The bits of an address that are the same in each launch: its place in the page.
pub(super) const PAGE_OFFSET: u64 = 0xfff;

/// The new address of something in an image.
type Relocate<'a> = &'a dyn Fn(u64) -> Option<u64>;

/// Replaces the addresses that `text` names; of those in no image, the place in the page is left. UUIDs and longer numbers,
/// as hashes are, stay.
pub(super) fn replace_addresses(text: &mut String, relocate: Relocate<'_>) {
    let bytes = text.as_bytes();
    let mut replaced = String::new();
    // What was copied, and what was read.
    let (mut from, mut at) = (0, 0);
    while let Some(skipped) = bytes[at..].iter().position(u8::is_ascii_hexdigit) {
        let joins = skipped == 0 && at > 0 && joins(bytes[at - 1]);
        at += skipped;
        let joins = joins || (skipped > 0 && self::joins(bytes[at - 1]));
        let number = Number::at(bytes, at);
        at = number.end;
        if let Some(new) = number.replaced(bytes, joins, relocate) {
            replaced.push_str(&text[from..number.start]);
            replaced.push_str(&new);
            from = number.end;
        }
    }
    if from > 0 {
        replaced.push_str(&text[from..]);
        *text = replaced;
    }
}

/// Returns true if a byte belongs to the same word as a digit next to it.
fn joins(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// A run of hexadecimal digits.
struct Number {
    /// Of its digits, after the prefix.
    start: usize,
    end: usize,
    has_prefix: bool,
    /// Without separators.
    digits: String,
}

impl Number {
    /// The one that begins at `at`; a UUID is one without digits.
    fn at(bytes: &[u8], at: usize) -> Number {
        let has_prefix = bytes[at] == b'0'
            && matches!(bytes.get(at + 1), Some(b'x' | b'X'))
            && bytes.get(at + 2).is_some_and(u8::is_ascii_hexdigit);
        let start = if has_prefix { at + 2 } else { at };
        let uuid = uuid_end(bytes, start).filter(|_| !has_prefix);
        if let Some(end) = uuid {
            let digits = String::new();
            return Number {
                start,
                end,
                has_prefix,
                digits,
            };
        }
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
        let is_separator = |at: usize| match bytes.get(at) {
            Some(b'`') => true,
            Some(b'_' | b'\'') => has_prefix,
            _ => false,
        };
        let (mut end, mut digits) = (start, String::new());
        while is_digit(end) || (is_separator(end) && is_digit(end + 1)) {
            if is_digit(end) {
                digits.push(bytes[end] as char);
            }
            end += 1;
        }
        Number {
            start,
            end,
            has_prefix,
            digits,
        }
    }

    /// The digits in its place; `None` if it is no address.
    fn replaced(&self, bytes: &[u8], joins_before: bool, relocate: Relocate<'_>) -> Option<String> {
        let value = |radix| u64::from_str_radix(&self.digits, radix).ok();
        let significant = self.digits.trim_start_matches('0');
        let address = match significant.len() {
            ..=16 => u64::from_str_radix(significant, 16).ok()?,
            _ => return None,
        };
        let moved = Some(address).filter(|&at| at >= MIN_ADDRESS);
        let moved = moved.and_then(relocate);
        let masked = (address >= MIN_LARGE).then_some(address & PAGE_OFFSET);
        if self.has_prefix {
            return Some(format!("{:x}", moved.or(masked)?));
        }
        // `7ffd12345678h` is the assembler's way.
        let rest = &bytes[self.end..];
        let rest = rest.strip_prefix(b"h").unwrap_or(rest);
        let width = self.digits.len();
        let is_separate = !joins_before && !rest.first().is_some_and(|&next| joins(next));
        if !is_separate || !UNPREFIXED_DIGITS.contains(&width) {
            return None;
        }
        let mut new = String::new();
        let decimals = self.digits.bytes().filter(u8::is_ascii_digit).count();
        if decimals < width || self.digits.len() == 16 && self.digits.starts_with('0') {
            let masked = masked.filter(|_| decimals > 0);
            let _ = write!(new, "{:0width$x}", moved.or(masked)?);
        } else if let Some(moved) = moved {
            let _ = write!(new, "{moved:0width$x}");
        } else {
            let _ = write!(new, "{}", relocate(value(10)?)?);
        }
        Some(new)
    }
}

/// The end of the UUID that begins at `at`.
fn uuid_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    for (index, len) in UUID.into_iter().enumerate() {
        if index > 0 {
            bytes.get(end).filter(|&&byte| byte == b'-')?;
            end += 1;
        }
        let group = bytes.get(end..end + len)?;
        if !group.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        end += len;
    }
    let longer = bytes.get(end).is_some_and(u8::is_ascii_hexdigit);
    (!longer).then_some(end)
}
