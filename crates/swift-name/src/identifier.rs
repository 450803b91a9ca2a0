//! Identifiers: their words, Punycode, operators, and the types that have a letter of their own.

use super::kind::Nominal::{self, Class, Enum, Protocol, Structure};

/// The words of an identifier that later identifiers can repeat: of two bytes and more, each from a capital
/// letter, or after `_` and digits, to the next such place.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            if bytes[at].is_ascii_digit() || bytes[at] == b'_' {
                at += 1;
                continue;
            }
            let start = at;
            at += 1;
            while at < bytes.len() && !ends_word(bytes[at], bytes[at - 1]) {
                at += 1;
            }
            if at - start >= 2 {
                return text.get(start..at);
            }
        }
        None
    })
}

fn ends_word(byte: u8, before: u8) -> bool {
    byte == b'_' || (!before.is_ascii_uppercase() && byte.is_ascii_uppercase())
}

/// The characters of an operator, from the letters that stand for them.
pub(super) fn operator(letters: &str) -> Option<String> {
    letters
        .chars()
        .map(|letter| {
            Some(match letter {
                'a' => '&',
                'c' => '@',
                'd' => '/',
                'e' => '=',
                'g' => '>',
                'l' => '<',
                'm' => '*',
                'n' => '!',
                'o' => '|',
                'p' => '+',
                'q' => '?',
                'r' => '%',
                's' => '-',
                't' => '~',
                'x' => '^',
                'z' => '.',
                other if !other.is_ascii() => other,
                _ => return None,
            })
        })
        .collect()
}

/// Decodes Swift's form of Punycode (RFC 3492): the digits are letters, `_` is the delimiter, and ASCII characters
/// that no symbol can have are 0xD800 higher.
pub(super) fn decode(encoded: &str) -> Option<String> {
    let (basic, mut digits) = match encoded.rsplit_once('_') {
        Some((basic, digits)) => (basic, digits.bytes()),
        None => ("", encoded.bytes()),
    };
    // Each code point is put at its place: longer identifiers would take the square of their length.
    if encoded.len() > 2048 {
        return None;
    }
    let mut points: Vec<u32> = basic.chars().map(u32::from).collect();
    if !basic.is_ascii() {
        return None;
    }
    let (mut point, mut place, mut bias) = (128u32, 0u32, 72u32);
    while digits.len() > 0 {
        let before = place;
        let mut weight = 1u32;
        let mut k = 36;
        loop {
            let digit = digit(digits.next()?)?;
            place = place.checked_add(digit.checked_mul(weight)?)?;
            let threshold = k.max(bias + 1).min(bias + 26) - bias;
            if digit < threshold {
                break;
            }
            weight = weight.checked_mul(36 - threshold)?;
            k += 36;
        }
        let count = u32::try_from(points.len()).ok()? + 1;
        bias = adapted(place - before, count, before == 0);
        point = point.checked_add(place / count)?;
        place %= count;
        points.insert(place as usize, point);
        place += 1;
    }
    points.into_iter().map(scalar).collect()
}

fn digit(byte: u8) -> Option<u32> {
    match byte {
        b'a'..=b'z' => Some(u32::from(byte - b'a')),
        b'A'..=b'J' => Some(u32::from(byte - b'A') + 26),
        _ => None,
    }
}

fn adapted(delta: u32, count: u32, is_first: bool) -> u32 {
    let mut delta = if is_first { delta / 700 } else { delta / 2 };
    delta += delta / count;
    let mut k = 0;
    while delta > 455 {
        delta /= 35;
        k += 36;
    }
    k + 36 * delta / (delta + 38)
}

fn scalar(point: u32) -> Option<char> {
    let symbols = 0xD800..0xD880;
    char::from_u32(if symbols.contains(&point) {
        point - 0xD800
    } else {
        point
    })
}

/// Swift's own types of one letter after `S`.
pub(super) fn standard_type(letter: u8) -> Option<(Nominal, &'static str)> {
    Some(match letter {
        b'A' => (Structure, "AutoreleasingUnsafeMutablePointer"),
        b'a' => (Structure, "Array"),
        b'B' => (Protocol, "BinaryFloatingPoint"),
        b'b' => (Structure, "Bool"),
        b'D' => (Structure, "Dictionary"),
        b'd' => (Structure, "Double"),
        b'E' => (Protocol, "Encodable"),
        b'e' => (Protocol, "Decodable"),
        b'F' => (Protocol, "FloatingPoint"),
        b'f' => (Structure, "Float"),
        b'G' => (Protocol, "RandomNumberGenerator"),
        b'H' => (Protocol, "Hashable"),
        b'h' => (Structure, "Set"),
        b'I' => (Structure, "DefaultIndices"),
        b'i' => (Structure, "Int"),
        b'J' => (Structure, "Character"),
        b'j' => (Protocol, "Numeric"),
        b'K' => (Protocol, "BidirectionalCollection"),
        b'k' => (Protocol, "RandomAccessCollection"),
        b'L' => (Protocol, "Comparable"),
        b'l' => (Protocol, "Collection"),
        b'M' => (Protocol, "MutableCollection"),
        b'm' => (Protocol, "RangeReplaceableCollection"),
        b'N' => (Structure, "ClosedRange"),
        b'n' => (Structure, "Range"),
        b'O' => (Structure, "ObjectIdentifier"),
        b'P' => (Structure, "UnsafePointer"),
        b'p' => (Structure, "UnsafeMutablePointer"),
        b'Q' => (Protocol, "Equatable"),
        b'q' => (Enum, "Optional"),
        b'R' => (Structure, "UnsafeBufferPointer"),
        b'r' => (Structure, "UnsafeMutableBufferPointer"),
        b'S' => (Structure, "String"),
        b's' => (Structure, "Substring"),
        b'T' => (Protocol, "Sequence"),
        b't' => (Protocol, "IteratorProtocol"),
        b'U' => (Protocol, "UnsignedInteger"),
        b'u' => (Structure, "UInt"),
        b'V' => (Structure, "UnsafeRawPointer"),
        b'v' => (Structure, "UnsafeMutableRawPointer"),
        b'W' => (Structure, "UnsafeRawBufferPointer"),
        b'w' => (Structure, "UnsafeMutableRawBufferPointer"),
        b'X' => (Protocol, "RangeExpression"),
        b'x' => (Protocol, "Strideable"),
        b'Y' => (Protocol, "RawRepresentable"),
        b'y' => (Protocol, "StringProtocol"),
        b'Z' => (Protocol, "SignedInteger"),
        b'z' => (Protocol, "BinaryInteger"),
        _ => return None,
    })
}

/// The types of Swift's concurrency of one letter after `Sc`.
pub(super) fn concurrency_type(letter: u8) -> Option<(Nominal, &'static str)> {
    Some(match letter {
        b'A' => (Protocol, "Actor"),
        b'C' => (Structure, "CheckedContinuation"),
        b'c' => (Structure, "UnsafeContinuation"),
        b'E' => (Structure, "CancellationError"),
        b'e' => (Structure, "UnownedSerialExecutor"),
        b'F' => (Protocol, "Executor"),
        b'f' => (Protocol, "SerialExecutor"),
        b'G' => (Structure, "TaskGroup"),
        b'g' => (Structure, "ThrowingTaskGroup"),
        b'h' => (Protocol, "TaskExecutor"),
        b'I' => (Protocol, "AsyncIteratorProtocol"),
        b'i' => (Protocol, "AsyncSequence"),
        b'J' => (Structure, "UnownedJob"),
        b'M' => (Class, "MainActor"),
        b'P' => (Structure, "TaskPriority"),
        b'S' => (Structure, "AsyncStream"),
        b's' => (Structure, "AsyncThrowingStream"),
        b'T' => (Structure, "Task"),
        b't' => (Structure, "UnsafeCurrentTask"),
        _ => return None,
    })
}
