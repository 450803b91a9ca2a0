//! A serde deserializer over a section's bounded tokens: a value of a wrong type is reported with its place, and
//! skipped.

mod maps;
mod value;

use std::borrow::Cow;
use std::fmt;

use serde::de;

use crate::report::damage::{DamageKind, Damages, printable};
use crate::report::token::{Skipper, Token, token};

/// Frames that can't be read, as one gap.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gap {
    /// The index of the frame after the first of them, among those that were read,
    pub from: usize,
    /// and after the last.
    pub to: usize,
    /// Count of the frames that can't be read.
    pub count: u64,
}

/// Reads the map at `at`, of a section that is known to be well-formed and shallow, into a section's type.
pub(crate) fn decode<'a, T: de::Deserialize<'a> + Default>(
    bytes: &'a [u8],
    at: usize,
    kind: &'a str,
    damages: &mut Damages,
) -> (T, Option<Gap>) {
    let mut reader = Reader {
        bytes,
        at,
        root: at,
        key: kind,
        frame: None,
        is_kept: false,
        gap: None,
        damages,
    };
    let found = T::deserialize(&mut reader).unwrap_or_else(|error| {
        reader.report(at, error);
        let no_keys = de::value::MapDeserializer::<_, Error>::new(std::iter::empty::<(&str, ())>());
        T::deserialize(no_keys).unwrap_or_default()
    });
    (found, reader.gap)
}

/// Reads value by value. Where one can't be read, [`One`](value::One) continues after it.
struct Reader<'a, 'd> {
    bytes: &'a [u8],
    /// Offset of the next value.
    at: usize,
    /// Offset of the section's map.
    root: usize,
    /// The key whose value is read.
    key: &'a str,
    /// The index of the frame that is read next, where that is one.
    frame: Option<u64>,
    /// True if the last value read is to be kept among the unknown ones too.
    is_kept: bool,
    gap: Option<Gap>,
    damages: &'d mut Damages,
}

impl<'a> Reader<'a, '_> {
    #[inline]
    fn token(&self) -> Result<(Token<'a>, usize), Error> {
        // A well-formed section has one wherever one is looked for.
        token(self.bytes, self.at).map_err(|_| Error::new(self.at, "is cut"))
    }

    /// Reads the next token and returns what `take` makes of it; an error that names `expected` if that is `None`.
    #[inline]
    fn take<T>(
        &mut self,
        expected: &str,
        take: impl FnOnce(Token<'a>) -> Option<T>,
    ) -> Result<T, Error> {
        let (token, next) = self.token()?;
        let Some(value) = take(token) else {
            return Err(Error::expected(self.at, expected, token));
        };
        self.at = next;
        Ok(value)
    }

    /// Skips so many values.
    fn skip(&mut self, values: u64) {
        for _ in 0..values {
            self.at = Skipper::new(self.at)
                .run(self.bytes)
                .unwrap_or(self.bytes.len());
        }
    }

    fn is_nil(&self) -> bool {
        self.bytes.get(self.at) == Some(&0xc0)
    }

    fn text(&mut self, at: usize, bytes: &'a [u8]) -> Cow<'a, str> {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Cow::Borrowed(text);
        }
        self.damages.add(at, DamageKind::Field, || {
            "a string is not UTF-8; its broken parts are shown as \u{fffd}".to_owned()
        });
        String::from_utf8_lossy(bytes)
    }

    fn field(&mut self, at: usize, what: impl fmt::Display) {
        let key = self.key;
        let message = || format!("`{}` {what}", printable(key));
        self.damages.add(at, DamageKind::Field, message);
    }

    fn limit(&mut self, at: usize, what: &str, limit: usize) {
        let key = self.key;
        self.damages.add(at, DamageKind::Limit, || {
            let key = printable(key);
            format!("`{key}` has more than {limit} {what}; the rest was skipped")
        });
    }

    /// Tells of an error in the value at `start`.
    fn report(&mut self, start: usize, error: Error) {
        // Nil is as if there were no value.
        if !error.what.is_empty() {
            self.field(error.at.unwrap_or(start), &error.what);
        }
    }

    /// Frames from this index on can't be read.
    fn gap(&mut self, index: u64, count: u64) {
        let before = self.gap.map_or(0, |gap| gap.count);
        let given = index.saturating_sub(before) as usize;
        self.gap = Some(Gap {
            from: self.gap.map_or(given, |gap| gap.from),
            to: given,
            count: before.saturating_add(count),
        });
    }
}

fn text(token: Token<'_>) -> Option<&[u8]> {
    match token {
        Token::Text(text) => Some(text),
        _ => None,
    }
}

fn array(token: Token<'_>) -> Option<u32> {
    match token {
        Token::Array(count) => Some(count),
        _ => None,
    }
}

/// The reason why a value is not what it should be.
#[derive(Debug)]
pub(crate) struct Error {
    /// Offset of the value; `None` if the caller knows it.
    at: Option<usize>,
    what: Cow<'static, str>,
}

impl Error {
    fn new(at: usize, what: impl Into<Cow<'static, str>>) -> Error {
        Error {
            at: Some(at),
            what: what.into(),
        }
    }

    fn expected(at: usize, expected: &str, token: Token<'_>) -> Error {
        match token {
            Token::Nil => Error::new(at, ""),
            token => Error::new(
                at,
                format!(
                    "should be {expected} and is {}; it was skipped",
                    token.kind_word()
                ),
            ),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(what: T) -> Error {
        Error {
            at: None,
            what: what.to_string().into(),
        }
    }
}
