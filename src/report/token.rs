//! MessagePack read token by token from untrusted bytes: no recursion, no allocation, lengths checked.

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

impl Token<'_> {
    /// What it is, for people.
    pub(crate) fn word(&self) -> &'static str {
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

    /// An integer of a signed encoding.
    fn signed(value: i64) -> Self {
        u64::try_from(value).map_or(Token::Negative(value), Token::Unsigned)
    }
}

/// Why there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The bytes end before it does.
    Cut,
    /// `0xc1`, which MessagePack never uses.
    Reserved,
}

/// The token at `at`, and where the next one begins.
#[inline]
pub(crate) fn token(bytes: &[u8], at: usize) -> Result<(Token<'_>, usize), Broken> {
    // Most tokens of a report are these two.
    match bytes.get(at..) {
        Some([n @ 0x00..=0x7f, ..]) => return Ok((Token::Unsigned(u64::from(*n)), at + 1)),
        Some([0xcf, a, b, c, d, e, f, g, h, ..]) => {
            let value = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            return Ok((Token::Unsigned(value), at + 9));
        }
        _ => {}
    }
    any_token(bytes, at)
}

fn any_token(bytes: &[u8], at: usize) -> Result<(Token<'_>, usize), Broken> {
    let mut cursor = Cursor { bytes, at };
    let token = match cursor.byte()? {
        n @ 0x00..=0x7f => Token::Unsigned(u64::from(n)),
        n @ 0x80..=0x8f => Token::Map(u32::from(n & 0xf)),
        n @ 0x90..=0x9f => Token::Array(u32::from(n & 0xf)),
        n @ 0xa0..=0xbf => Token::Text(cursor.take(u64::from(n & 0x1f))?),
        0xc0 => Token::Nil,
        0xc1 => return Err(Broken::Reserved),
        n @ 0xc2..=0xc3 => Token::Bool(n == 0xc3),
        n @ 0xc4..=0xc6 => {
            let len = cursor.length(n - 0xc4)?;
            Token::Bytes(cursor.take(len)?)
        }
        n @ 0xc7..=0xc9 => {
            let len = cursor.length(n - 0xc7)?;
            let kind = cursor.byte()? as i8;
            Token::Extension(kind, cursor.take(len)?)
        }
        0xca => Token::Float(f64::from(f32::from_bits(cursor.number::<4>()? as u32))),
        0xcb => Token::Float(f64::from_bits(cursor.number::<8>()?)),
        0xcc => Token::Unsigned(cursor.number::<1>()?),
        0xcd => Token::Unsigned(cursor.number::<2>()?),
        0xce => Token::Unsigned(cursor.number::<4>()?),
        0xcf => Token::Unsigned(cursor.number::<8>()?),
        0xd0 => Token::signed(i64::from(cursor.number::<1>()? as i8)),
        0xd1 => Token::signed(i64::from(cursor.number::<2>()? as i16)),
        0xd2 => Token::signed(i64::from(cursor.number::<4>()? as i32)),
        0xd3 => Token::signed(cursor.number::<8>()? as i64),
        n @ 0xd4..=0xd8 => {
            let kind = cursor.byte()? as i8;
            Token::Extension(kind, cursor.take(1 << (n - 0xd4))?)
        }
        n @ 0xd9..=0xdb => {
            let len = cursor.length(n - 0xd9)?;
            Token::Text(cursor.take(len)?)
        }
        n @ 0xdc..=0xdd => Token::Array(cursor.length(n - 0xdb)? as u32),
        n @ 0xde..=0xdf => Token::Map(cursor.length(n - 0xdd)? as u32),
        n @ 0xe0..=0xff => Token::Negative(i64::from(n as i8)),
    };
    Ok((token, cursor.at))
}

/// Where the token behind the one at `at` begins, and how many values that follow belong to this one: all
/// that most tokens are read for, without looking into them.
#[inline]
fn behind(bytes: &[u8], at: usize) -> Result<(usize, u64), Broken> {
    let mut cursor = Cursor { bytes, at };
    let (len, children) = match cursor.byte()? {
        0x00..=0x7f | 0xc0 | 0xc2..=0xc3 | 0xe0..=0xff => (0, 0),
        n @ 0x80..=0x8f => (0, 2 * u64::from(n & 0xf)),
        n @ 0x90..=0x9f => (0, u64::from(n & 0xf)),
        n @ 0xa0..=0xbf => (u64::from(n & 0x1f), 0),
        0xc1 => return Err(Broken::Reserved),
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
    fn byte(&mut self) -> Result<u8, Broken> {
        let byte = *self.bytes.get(self.at).ok_or(Broken::Cut)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn take(&mut self, len: u64) -> Result<&'a [u8], Broken> {
        let len = usize::try_from(len).map_err(|_| Broken::Cut)?;
        let end = self.at.checked_add(len).ok_or(Broken::Cut)?;
        let taken = self.bytes.get(self.at..end).ok_or(Broken::Cut)?;
        self.at = end;
        Ok(taken)
    }

    /// A big-endian number of so many bytes.
    #[inline]
    fn number<const BYTES: usize>(&mut self) -> Result<u64, Broken> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let bytes = rest.first_chunk::<BYTES>().ok_or(Broken::Cut)?;
        self.at += BYTES;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A length: of one byte, two, or four.
    #[inline]
    fn length(&mut self, width: u8) -> Result<u64, Broken> {
        match width {
            0 => self.number::<1>(),
            1 => self.number::<2>(),
            _ => self.number::<4>(),
        }
    }
}

/// Finds the end of a value without looking into it; can be carried on when more bytes are there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Skim {
    /// Where the next token begins.
    pub(crate) at: usize,
    /// How many values are still to come.
    left: u64,
}

impl Skim {
    /// From the value that begins at `at`.
    pub(crate) fn new(at: usize) -> Skim {
        Skim { at, left: 1 }
    }

    /// On to the value's end, which it returns. After [`Broken::Cut`] it can be called again with
    /// the same bytes and more.
    pub(crate) fn run(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        while self.left > 0 {
            let (next, children) = behind(bytes, self.at)?;
            self.at = next;
            self.left = (self.left - 1).saturating_add(children);
        }
        Ok(self.at)
    }
}

/// Whether the whole value at `at` nests at most `limit` levels deep.
pub(crate) fn is_shallow(bytes: &[u8], mut at: usize, limit: usize) -> bool {
    let mut left: Vec<u64> = Vec::with_capacity(limit);
    loop {
        let Ok((next, children)) = behind(bytes, at) else {
            return true;
        };
        at = next;
        match children {
            0 => {}
            _ if left.len() >= limit => return false,
            children => {
                left.push(children);
                continue;
            }
        }
        // A value ended, and with it perhaps the containers that it was the last of.
        loop {
            let Some(last) = left.last_mut() else {
                return true;
            };
            *last -= 1;
            if *last > 0 {
                break;
            }
            left.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each first byte, before bytes of every kind and cut at each length.
    #[test]
    fn a_tokens_end_is_the_same_whether_it_is_looked_into_or_not() {
        for first in 0..=u8::MAX {
            for fill in [0, 1, 3, 0x7f, 0xff] {
                let mut bytes = vec![fill; 300];
                bytes[0] = first;
                for len in (0..20).chain([270, 300]) {
                    let bytes = &bytes[..len];
                    let looked = token(bytes, 0).map(|(token, next)| {
                        let children = match token {
                            Token::Array(count) => u64::from(count),
                            Token::Map(count) => 2 * u64::from(count),
                            _ => 0,
                        };
                        (next, children)
                    });
                    assert_eq!(behind(bytes, 0), looked, "{first:#x}, {fill:#x}, {len}");
                }
            }
        }
    }

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
