//! MessagePack read token by token from untrusted bytes: no recursion, no allocation, lengths checked.

use super::limits;

/// One MessagePack token. Arrays and maps are their counts alone: what they hold follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Token<'a> {
    Nil,
    Bool(bool),
    /// Any integer that is not negative, however it was encoded.
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    /// A string's bytes: not known to be UTF-8.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Array(u32),
    Map(u32),
    Extension(i8, &'a [u8]),
}

impl<'a> Token<'a> {
    /// Names the token's type, for messages.
    pub(crate) fn kind_word(&self) -> &'static str {
        match self {
            Token::Nil => "nil",
            Token::Bool(_) => "a boolean",
            Token::Unsigned(_) => "an integer",
            Token::Negative(_) => "a negative integer",
            Token::Float(_) => "a float",
            Token::Text(_) => "a string",
            Token::Bytes(_) => "raw bytes",
            Token::Array(_) => "an array",
            Token::Map(_) => "a map",
            Token::Extension(..) => "an extension value",
        }
    }

    /// An extension value of these bytes, the first of which is its type.
    fn extension(bytes: &'a [u8]) -> Self {
        let (kind, bytes) = bytes.split_first().unwrap_or((&0, &[]));
        Token::Extension(*kind as i8, bytes)
    }

    /// An integer of a signed encoding.
    fn signed(value: i64) -> Self {
        u64::try_from(value).map_or(Token::Negative(value), Token::Unsigned)
    }
}

/// The reason why bytes are no token, or no section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GapReason {
    /// The bytes end within it; of a section, and no later one was found.
    Cut,
    /// It holds `0xc1`, which MessagePack never uses, or is no array of a kind and a value.
    Malformed,
    /// The section's `check` is not the CRC-32 of its bytes, or is missing where others have one.
    Check,
    /// The section is longer than one may be.
    TooLong,
}

/// The token at `at`, and where the next one begins.
#[inline]
pub(crate) fn token(bytes: &[u8], at: usize) -> Result<(Token<'_>, usize), GapReason> {
    // Most tokens of a report are these.
    match bytes.get(at..) {
        Some([n @ 0x00..=0x7f, ..]) => return Ok((Token::Unsigned(u64::from(*n)), at + 1)),
        Some([n @ 0x90..=0x9f, ..]) => return Ok((Token::Array(u32::from(n & 0xf)), at + 1)),
        Some([0xcf, a, b, c, d, e, f, g, h, ..]) => {
            let value = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            return Ok((Token::Unsigned(value), at + 9));
        }
        Some([n @ 0xa0..=0xbf, rest @ ..]) => {
            let len = usize::from(n & 0x1f);
            let text = rest.get(..len).ok_or(GapReason::Cut)?;
            return Ok((Token::Text(text), at + 1 + len));
        }
        _ => {}
    }
    any_token(bytes, at)
}

fn any_token(bytes: &[u8], at: usize) -> Result<(Token<'_>, usize), GapReason> {
    let (next, children) = token_extent(bytes, at)?;
    let token = bytes.get(at..next).unwrap_or_default();
    let (first, body) = token.split_first().ok_or(GapReason::Cut)?;
    // The bytes after a length of 1, 2 or 4 bytes.
    let behind_length = |width: u8| body.get(1 << width..).unwrap_or_default();
    let unsigned = || {
        body.iter()
            .fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
    };
    let token = match *first {
        n @ 0x00..=0x7f => Token::Unsigned(u64::from(n)),
        0x80..=0x8f | 0xde..=0xdf => Token::Map((children / 2) as u32),
        0x90..=0x9f | 0xdc..=0xdd => Token::Array(children as u32),
        0xa0..=0xbf => Token::Text(body),
        0xc0..=0xc1 => Token::Nil,
        n @ 0xc2..=0xc3 => Token::Bool(n == 0xc3),
        n @ 0xc4..=0xc6 => Token::Bytes(behind_length(n - 0xc4)),
        n @ 0xc7..=0xc9 => Token::extension(behind_length(n - 0xc7)),
        0xca => Token::Float(f64::from(f32::from_bits(unsigned() as u32))),
        0xcb => Token::Float(f64::from_bits(unsigned())),
        0xcc..=0xcf => Token::Unsigned(unsigned()),
        0xd0..=0xd3 => {
            let unused = 64 - 8 * body.len();
            Token::signed((unsigned() << unused) as i64 >> unused)
        }
        0xd4..=0xd8 => Token::extension(body),
        n @ 0xd9..=0xdb => Token::Text(behind_length(n - 0xd9)),
        n @ 0xe0..=0xff => Token::Negative(i64::from(n as i8)),
    };
    Ok((token, next))
}

/// Returns the offset of the next token, and the count of values after this token that belong to it, without decoding
/// either.
#[inline]
fn token_extent(bytes: &[u8], at: usize) -> Result<(usize, u64), GapReason> {
    let mut cursor = Cursor { bytes, at };
    let (len, children) = match cursor.byte()? {
        0x00..=0x7f | 0xc0 | 0xc2..=0xc3 | 0xe0..=0xff => (0, 0),
        n @ 0x80..=0x8f => (0, 2 * u64::from(n & 0xf)),
        n @ 0x90..=0x9f => (0, u64::from(n & 0xf)),
        n @ 0xa0..=0xbf => (u64::from(n & 0x1f), 0),
        0xc1 => return Err(GapReason::Malformed),
        n @ 0xc4..=0xc6 => (cursor.length(n - 0xc4)?, 0),
        n @ 0xc7..=0xc9 => (cursor.length(n - 0xc7)? + 1, 0),
        n @ 0xcc..=0xd3 => (1 << (n & 3), 0),
        0xca => (4, 0),
        0xcb => (8, 0),
        n @ 0xd4..=0xd8 => ((1 << (n - 0xd4)) + 1, 0),
        n @ 0xd9..=0xdb => (cursor.length(n - 0xd9)?, 0),
        n @ 0xdc..=0xdd => (0, cursor.length(n - 0xdb)?),
        n @ 0xde..=0xdf => (0, 2 * cursor.length(n - 0xdd)?),
    };
    if len > 0 {
        cursor.take(len)?;
    }
    Ok((cursor.at, children))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn byte(&mut self) -> Result<u8, GapReason> {
        let byte = *self.bytes.get(self.at).ok_or(GapReason::Cut)?;
        self.at += 1;
        Ok(byte)
    }

    /// Skips so many bytes, and returns them.
    #[inline]
    fn take(&mut self, len: u64) -> Result<&'a [u8], GapReason> {
        let len = usize::try_from(len).map_err(|_| GapReason::Cut)?;
        let end = self.at.checked_add(len).ok_or(GapReason::Cut)?;
        let taken = self.bytes.get(self.at..end).ok_or(GapReason::Cut)?;
        self.at = end;
        Ok(taken)
    }

    /// A length: of one byte, two, or four.
    #[inline]
    fn length(&mut self, width: u8) -> Result<u64, GapReason> {
        let length = self.take(1 << width)?.iter();
        Ok(length.fold(0, |length, &byte| length << 8 | u64::from(byte)))
    }
}

/// Finds the end of a value without looking into it; can be carried on when more bytes are there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Skipper {
    /// Offset of the next token.
    pub(crate) at: usize,
    /// Count of values still to come.
    left: u64,
}

impl Skipper {
    /// From the value that begins at `at`.
    pub(crate) fn new(at: usize) -> Skipper {
        Skipper { at, left: 1 }
    }

    /// On to the value's end, which it returns. After [`GapReason::Cut`] it can be called again with
    /// the same bytes and more.
    pub(crate) fn run(&mut self, bytes: &[u8]) -> Result<usize, GapReason> {
        while self.left > 0 {
            let (next, children) = token_extent(bytes, self.at)?;
            self.at = next;
            self.left = (self.left - 1).saturating_add(children);
        }
        Ok(self.at)
    }
}

/// Returns true if the value at `at` nests at most [`limits::DEPTH`] levels deep.
pub(crate) fn is_shallow(bytes: &[u8], mut at: usize) -> bool {
    // Of each level the values still to come.
    let mut left = [0_u64; limits::DEPTH];
    let mut depth = 0;
    loop {
        let Ok((next, children)) = token_extent(bytes, at) else {
            return true;
        };
        at = next;
        match children {
            0 => {}
            children => {
                let Some(level) = left.get_mut(depth) else {
                    return false;
                };
                *level = children;
                depth += 1;
                continue;
            }
        }
        // A value ended, and with it perhaps the containers that it was the last of.
        loop {
            let Some(last) = left[..depth].last_mut() else {
                return true;
            };
            *last -= 1;
            if *last > 0 {
                break;
            }
            depth -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the specification of MessagePack has them.
    #[test]
    fn integers_of_each_width() {
        for (bytes, token_of) in [
            (&[0xcc, 0xff][..], Token::Unsigned(255)),
            (&[0xcd, 1, 2], Token::Unsigned(258)),
            (&[0xce, 1, 2, 3, 4], Token::Unsigned(0x0102_0304)),
            (
                &[0xcf, 1, 2, 3, 4, 5, 6, 7, 8],
                Token::Unsigned(0x0102_0304_0506_0708),
            ),
            (&[0xd0, 0xff], Token::Negative(-1)),
            (&[0xd0, 0x7f], Token::Unsigned(127)),
            (&[0xd1, 0xff, 0xfe], Token::Negative(-2)),
            (&[0xd2, 0x80, 0, 0, 0], Token::Negative(i64::from(i32::MIN))),
            (
                &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0],
                Token::Negative(i64::MIN),
            ),
            (&[0xe0], Token::Negative(-32)),
            (&[0xdc, 1, 0], Token::Array(256)),
            (&[0xdf, 0, 1, 0, 0], Token::Map(65_536)),
        ] {
            assert_eq!(token(bytes, 0), Ok((token_of, bytes.len())), "{bytes:x?}");
        }
    }
}
