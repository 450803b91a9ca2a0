//! MessagePack read token by token from untrusted bytes: no recursion, no allocation, no trust in lengths.

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

    /// How many values that follow belong to it.
    fn children(&self) -> u64 {
        match *self {
            Token::Array(count) => u64::from(count),
            Token::Map(count) => 2 * u64::from(count),
            _ => 0,
        }
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
            let len = cursor.number(1 << (n - 0xc4))?;
            Token::Bytes(cursor.take(len)?)
        }
        n @ 0xc7..=0xc9 => {
            let len = cursor.number(1 << (n - 0xc7))?;
            let kind = cursor.byte()? as i8;
            Token::Extension(kind, cursor.take(len)?)
        }
        0xca => Token::Float(f64::from(f32::from_bits(cursor.number(4)? as u32))),
        0xcb => Token::Float(f64::from_bits(cursor.number(8)?)),
        n @ 0xcc..=0xcf => Token::Unsigned(cursor.number(1 << (n - 0xcc))?),
        n @ 0xd0..=0xd3 => {
            let width = 1 << (n - 0xd0);
            let shift = 64 - 8 * width as u32;
            let value = ((cursor.number(width)? << shift) as i64) >> shift;
            u64::try_from(value).map_or(Token::Negative(value), Token::Unsigned)
        }
        n @ 0xd4..=0xd8 => {
            let kind = cursor.byte()? as i8;
            Token::Extension(kind, cursor.take(1 << (n - 0xd4))?)
        }
        n @ 0xd9..=0xdb => {
            let len = cursor.number(1 << (n - 0xd9))?;
            Token::Text(cursor.take(len)?)
        }
        n @ 0xdc..=0xdd => Token::Array(cursor.number(2 << (n - 0xdc))? as u32),
        n @ 0xde..=0xdf => Token::Map(cursor.number(2 << (n - 0xde))? as u32),
        n @ 0xe0..=0xff => Token::Negative(i64::from(n as i8)),
    };
    Ok((token, cursor.at))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Result<u8, Broken> {
        let byte = *self.bytes.get(self.at).ok_or(Broken::Cut)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Broken> {
        let len = usize::try_from(len).map_err(|_| Broken::Cut)?;
        let end = self.at.checked_add(len).ok_or(Broken::Cut)?;
        let taken = self.bytes.get(self.at..end).ok_or(Broken::Cut)?;
        self.at = end;
        Ok(taken)
    }

    /// A big-endian number of `width` bytes: 1, 2, 4 or 8.
    fn number(&mut self, width: u64) -> Result<u64, Broken> {
        let bytes = self.take(width)?;
        Ok(match *bytes {
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            _ => 0,
        })
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
            let (token, next) = token(bytes, self.at)?;
            self.at = next;
            self.left = (self.left - 1).saturating_add(token.children());
        }
        Ok(self.at)
    }
}

/// Whether the whole value at `at` nests at most `limit` levels deep.
pub(crate) fn is_shallow(bytes: &[u8], mut at: usize, limit: usize) -> bool {
    let mut left: Vec<u64> = Vec::with_capacity(limit);
    loop {
        let Ok((token, next)) = token(bytes, at) else {
            return true;
        };
        at = next;
        match token.children() {
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
