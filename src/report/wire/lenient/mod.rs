//! A serde deserializer over a section's bounded tokens: a value of a wrong type is reported with its place, and skipped.

mod lists;
mod maps;
mod value;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{self, Visitor};

use crate::report::damage::{DamageKind, Damages, shown};
use crate::report::token::{Skim, Token, token};

/// Frames that can't be read, as one gap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    /// The index of the frame behind the first of them, among those that were read,
    pub from: usize,
    /// and behind the last.
    pub to: usize,
    /// How many they are.
    pub count: u64,
}

/// Reads the map at `at`, of a section that is known to be well-formed and shallow, into a section's type.
pub(crate) fn decode<'a, T: de::Deserialize<'a> + Default>(
    bytes: &'a [u8],
    at: usize,
    kind: &'a str,
    damages: &mut Damages,
) -> (T, Option<Gap>) {
    let walk = Walk {
        bytes,
        root: at,
        end: Cell::new(0),
        key: Cell::new(kind),
        is_quiet: Cell::new(false),
        has_failed: Cell::new(false),
        is_kept: Cell::new(false),
        gap: Cell::new(None),
        damages: RefCell::new(damages),
    };
    let found = T::deserialize(Value { walk: &walk, at }).unwrap_or_else(|error| {
        walk.report(error);
        let no_keys = de::value::MapDeserializer::<_, Error>::new(std::iter::empty::<(&str, ())>());
        T::deserialize(no_keys).unwrap_or_default()
    });
    (found, walk.gap.get())
}

/// What the way through one section has found.
struct Walk<'a, 'd> {
    bytes: &'a [u8],
    /// Where the section's map begins.
    root: usize,
    /// Where the value ended that was read last; 0 where that is not known.
    end: Cell<usize>,
    /// The key whose value is read.
    key: Cell<&'a str>,
    /// Whether values that can't be read are reported by the list that they are in.
    is_quiet: Cell<bool>,
    /// Whether the value that was tried last could not be read.
    has_failed: Cell<bool>,
    /// Whether the value that was read last is to be kept among the unknown ones too.
    is_kept: Cell<bool>,
    gap: Cell<Option<Gap>>,
    damages: RefCell<&'d mut Damages>,
}

impl<'a> Walk<'a, '_> {
    #[inline]
    fn token(&self, at: usize) -> Result<(Token<'a>, usize), Error> {
        // A well-formed section has one wherever one is looked for.
        token(self.bytes, at).map_err(|_| Error::new(at, "is cut"))
    }

    fn skip(&self, at: usize) -> usize {
        Skim::new(at).run(self.bytes).unwrap_or(self.bytes.len())
    }

    fn is_nil(&self, at: usize) -> bool {
        self.bytes.get(at) == Some(&0xc0)
    }

    fn add(&self, at: usize, kind: DamageKind, message: impl FnOnce() -> String) {
        self.damages.borrow_mut().add(at, kind, message);
    }

    fn field(&self, at: usize, what: impl fmt::Display) {
        self.add(at, DamageKind::Field, || {
            format!("`{}` {what}", shown(self.key.get()))
        });
    }

    fn limit(&self, at: usize, what: &str, limit: usize) {
        self.add(at, DamageKind::Limit, || {
            format!(
                "`{}` has more than {limit} {what}; the rest was skipped",
                shown(self.key.get())
            )
        });
    }

    fn report(&self, error: Error) {
        // Nil is as if there were no value.
        if !error.what.is_empty() {
            self.field(error.at, &error.what);
        }
    }

    /// Where the value at `start` ends, which was just read.
    fn end_of(&self, start: usize) -> usize {
        match self.end.take() {
            0 => self.skip(start),
            end => end,
        }
    }

    fn text(&self, at: usize, bytes: &'a [u8]) -> Cow<'a, str> {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Cow::Borrowed(text);
        }
        self.add(at, DamageKind::Field, || {
            "a string is not UTF-8; its broken parts are shown as \u{fffd}".to_owned()
        });
        String::from_utf8_lossy(bytes)
    }
}

/// Why a value is not what it should be.
#[derive(Debug)]
pub(crate) struct Error {
    at: usize,
    what: Cow<'static, str>,
}

impl Error {
    fn new(at: usize, what: &'static str) -> Error {
        Error {
            at,
            what: what.into(),
        }
    }

    fn expected(at: usize, expected: &str, token: Token<'_>) -> Error {
        let what = match token {
            Token::Nil => "".into(),
            token => format!(
                "should be {expected} and is {}; it was skipped",
                token.word()
            )
            .into(),
        };
        Error { at, what }
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
            at: 0,
            what: what.to_string().into(),
        }
    }
}

/// The value at a place.
#[derive(Clone, Copy)]
struct Value<'w, 'a, 'd> {
    walk: &'w Walk<'a, 'd>,
    at: usize,
}

impl<'w, 'a, 'd> Value<'w, 'a, 'd> {
    #[inline]
    fn token(&self) -> Result<(Token<'a>, usize), Error> {
        self.walk.token(self.at)
    }

    /// Goes on behind the value where it was read; an error is the value's own unless it says of which.
    #[inline]
    fn done<T>(&self, next: usize, result: Result<T, Error>) -> Result<T, Error> {
        self.walk.end.set(if result.is_ok() { next } else { 0 });
        result.map_err(|error| Error {
            at: if error.at == 0 { self.at } else { error.at },
            ..error
        })
    }

    /// A scalar that `take` finds to be of the right type.
    #[inline]
    fn scalar<T, R>(
        &self,
        expected: &str,
        take: impl FnOnce(Token<'a>) -> Option<T>,
        visit: impl FnOnce(T) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (token, next) = self.token()?;
        match take(token) {
            Some(value) => self.done(next, visit(value)),
            None => self.done(next, Err(Error::expected(self.at, expected, token))),
        }
    }

    #[inline]
    fn unsigned<V: Visitor<'a>>(
        &self,
        most: u64,
        too_wide: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let unsigned = |token| match token {
            Token::Unsigned(value) => Some(value),
            _ => None,
        };
        self.scalar(
            "an integer that is not negative",
            unsigned,
            |value| match value > most {
                true => Err(Error::new(self.at, too_wide)),
                false => visitor.visit_u64(value),
            },
        )
    }
}
