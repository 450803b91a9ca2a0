//! A serde deserializer over a section's bounded tokens: a value of a wrong type is told with its place, and read past.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::value::{
    BytesDeserializer, I8Deserializer, MapAccessDeserializer, SeqAccessDeserializer,
};
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::{EXTRA, FRAMES, TRIED};
use crate::report::damage::{DamageKind, Damages, shown};
use crate::report::limits;
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
        walk.tell(error);
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
    /// Whether values that can't be read are told by the list that they are in.
    is_quiet: Cell<bool>,
    /// Whether the value that was tried last could not be read.
    has_failed: Cell<bool>,
    /// Whether the value that was read last is to be kept among the unknown ones too.
    is_kept: Cell<bool>,
    gap: Cell<Option<Gap>>,
    damages: RefCell<&'d mut Damages>,
}

impl<'a> Walk<'a, '_> {
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

    fn tell(&self, error: Error) {
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
        let text = String::from_utf8_lossy(bytes);
        if let Cow::Owned(_) = text {
            self.add(at, DamageKind::Field, || {
                "a string is not UTF-8; its broken parts are shown as \u{fffd}".to_owned()
            });
        }
        text
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
    fn token(&self) -> Result<(Token<'a>, usize), Error> {
        self.walk.token(self.at)
    }

    /// Goes on behind the value where it was read; an error is the value's own unless it says of which.
    fn done<T>(&self, next: usize, result: Result<T, Error>) -> Result<T, Error> {
        self.walk.end.set(if result.is_ok() { next } else { 0 });
        result.map_err(|error| Error {
            at: if error.at == 0 { self.at } else { error.at },
            ..error
        })
    }

    /// A scalar that `take` finds to be of the right type.
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

    fn map<V: Visitor<'a>>(&self, keys: Keys, visitor: V) -> Result<V::Value, Error> {
        let (token, next) = self.token()?;
        let Token::Map(left) = token else {
            return self.done(next, Err(Error::expected(self.at, "a map", token)));
        };
        let mut map = Map {
            walk: self.walk,
            at: next,
            left,
            index: 0,
            keys,
            seen: 0,
            value: 0,
            unknown: Vec::new(),
            name: self.walk.key.get(),
            is_section: self.at == self.walk.root,
        };
        let result = visitor.visit_map(&mut map);
        let end = (0..2 * u64::from(map.left)).fold(map.at, |at, _| self.walk.skip(at));
        self.walk.key.set(map.name);
        self.done(end, result)
    }

    fn seq<V: Visitor<'a>>(
        &self,
        left: u32,
        at: usize,
        frames: bool,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut seq = Seq {
            walk: self.walk,
            at,
            left,
            index: 0,
            given: 0,
            frames,
        };
        let result = visitor.visit_seq(&mut seq);
        let end = (0..seq.left).fold(seq.at, |at, _| self.walk.skip(at));
        self.done(end, result)
    }
}

impl<'a> Deserializer<'a> for Value<'_, 'a, '_> {
    type Error = Error;

    /// Any value. Its depth is bounded: the section was found to be shallow.
    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let (token, next) = self.token()?;
        let result = match token {
            Token::Nil => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Negative(value) => visitor.visit_i64(value),
            Token::Float(value) => visitor.visit_f64(value),
            Token::Text(value) => match self.walk.text(self.at, value) {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            Token::Bytes(value) => visitor.visit_borrowed_bytes(value),
            Token::Extension(kind, value) => visitor.visit_newtype_struct(
                SeqAccessDeserializer::new(Extension(Some(kind), Some(value))),
            ),
            Token::Array(left) => return self.seq(left, next, false, visitor),
            Token::Map(_) => return self.map(Keys::Any, visitor),
        };
        self.done(next, result)
    }

    fn deserialize_bool<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let bool = |token| match token {
            Token::Bool(value) => Some(value),
            _ => None,
        };
        self.scalar("a boolean", bool, |value| visitor.visit_bool(value))
    }

    fn deserialize_u8<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.unsigned(u64::from(u8::MAX), "has more than 8 bits", visitor)
    }

    fn deserialize_u32<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.unsigned(u64::from(u32::MAX), "has more than 32 bits", visitor)
    }

    fn deserialize_u64<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.unsigned(u64::MAX, "", visitor)
    }

    fn deserialize_i64<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let integer = |token| match token {
            Token::Unsigned(value) => i64::try_from(value).ok(),
            Token::Negative(value) => Some(value),
            _ => None,
        };
        self.scalar("an integer of 64 bits", integer, |value| {
            visitor.visit_i64(value)
        })
    }

    fn deserialize_f64<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = |token| match token {
            Token::Float(value) => Some(value),
            Token::Unsigned(value) => Some(value as f64),
            Token::Negative(value) => Some(value as f64),
            _ => None,
        };
        self.scalar("a number", number, |value| visitor.visit_f64(value))
    }

    fn deserialize_bytes<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let raw = |token| match token {
            Token::Bytes(value) => Some(value),
            _ => None,
        };
        self.scalar("raw bytes", raw, |value| {
            visitor.visit_borrowed_bytes(value)
        })
    }

    /// A text that the format describes: no longer than such a text may be.
    fn deserialize_str<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = |token| match token {
            Token::Text(value) => Some(value),
            _ => None,
        };
        self.scalar("a string", text, |bytes| {
            let text = self.walk.text(self.at, bytes);
            if text.len() > limits::TEXT_BYTES {
                self.walk.limit(self.at, "bytes", limits::TEXT_BYTES);
                let end = text.floor_char_boundary(limits::TEXT_BYTES);
                return visitor.visit_str(text.get(..end).unwrap_or_default());
            }
            match text {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            }
        })
    }

    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.walk.is_nil(self.at) {
            true => self.done(self.at + 1, visitor.visit_none()),
            false => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name {
            TRIED => visitor.visit_seq(One(Some(self))),
            FRAMES => match self.token()? {
                (Token::Array(count), next) => self.seq(count, next, true, visitor),
                (token, next) => {
                    self.walk.tell(Error::expected(self.at, "an array", token));
                    let end = self.walk.skip(self.at);
                    self.seq(0, next, false, visitor)
                        .inspect(|_| self.walk.end.set(end))
                }
            },
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            (Token::Array(left), next) => self.seq(left, next, false, visitor),
            (token, next) => self.done(next, Err(Error::expected(self.at, "an array", token))),
        }
    }

    fn deserialize_tuple<V: Visitor<'a>>(
        self,
        least: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.token()? {
            (Token::Array(left), next) if left as usize >= least => {
                self.seq(left, next, false, visitor)
            }
            (_, next) => {
                let what = format!(
                    "is no array of at least {least} elements, or has an element that is none; it was skipped"
                );
                self.done(
                    next,
                    Err(Error {
                        at: self.at,
                        what: what.into(),
                    }),
                )
            }
        }
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.map(Keys::Texts, visitor)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.map(Keys::Fields(fields), visitor)
    }

    /// A word. One that this version does not know is its last, and is kept besides.
    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = |token| match token {
            Token::Text(value) => Some(value),
            _ => None,
        };
        self.scalar("a string", text, |bytes| {
            let known = words.split_last().map(|(other, known)| {
                let found = known.iter().find(|word| word.as_bytes() == bytes);
                self.walk.is_kept.set(found.is_none());
                *found.unwrap_or(other)
            });
            visitor.visit_enum(known.unwrap_or_default().into_deserializer())
        })
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let end = self.walk.skip(self.at);
        self.done(end, visitor.visit_unit())
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        i8 i16 i32 i128 u16 u128 f32 char byte_buf unit unit_struct tuple_struct identifier
    }
}

/// One value that may be of a wrong type: that is told here, and its error is not to be passed on.
struct One<'w, 'a, 'd>(Option<Value<'w, 'a, 'd>>);

impl<'a> de::SeqAccess<'a> for One<'_, 'a, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(value) = self.0.take() else {
            return Ok(None);
        };
        let walk = value.walk;
        let is_quiet = walk.is_quiet.take();
        let result = seed.deserialize(value);
        walk.has_failed.set(result.is_err());
        match result {
            Ok(found) => Ok(Some(found)),
            Err(error) => {
                walk.end.set(0);
                if !is_quiet {
                    walk.tell(Error {
                        at: if error.at == 0 { value.at } else { error.at },
                        what: error.what,
                    });
                }
                Err(Error::new(value.at, ""))
            }
        }
    }
}

struct Extension<'a>(Option<i8>, Option<&'a [u8]>);

impl<'a> de::SeqAccess<'a> for Extension<'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        match (self.0.take(), &mut self.1) {
            (Some(kind), _) => seed.deserialize(I8Deserializer::new(kind)).map(Some),
            (None, bytes) => match bytes.take() {
                Some(bytes) => seed.deserialize(BytesDeserializer::new(bytes)).map(Some),
                None => Ok(None),
            },
        }
    }
}

struct Seq<'w, 'a, 'd> {
    walk: &'w Walk<'a, 'd>,
    at: usize,
    left: u32,
    index: u64,
    /// How many frames were read.
    given: usize,
    /// Whether these are frames.
    frames: bool,
}

impl Seq<'_, '_, '_> {
    fn gap(&self, count: u64) {
        let given = self.given;
        let before = self.walk.gap.get().unwrap_or(Gap {
            from: given,
            to: given,
            count: 0,
        });
        let count = before.count.saturating_add(count);
        self.walk.gap.set(Some(Gap {
            to: given,
            count,
            ..before
        }));
    }
}

impl<'a> de::SeqAccess<'a> for Seq<'_, 'a, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if self.left > 0 && self.frames && self.given >= limits::FRAMES {
            self.walk.limit(self.at, "frames", limits::FRAMES);
            self.gap(u64::from(self.left));
            self.at = (0..self.left).fold(self.at, |at, _| self.walk.skip(at));
            self.left = 0;
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let start = self.at;
        self.walk.end.set(0);
        self.walk.is_quiet.set(self.frames);
        self.walk.has_failed.set(false);
        let found = seed.deserialize(Value {
            walk: self.walk,
            at: start,
        });
        self.at = self.walk.end_of(start);
        if self.frames {
            if self.walk.has_failed.take() {
                let index = self.index;
                let what =
                    format_args!("element {index} is no [pc, found, image]; it is shown as a gap");
                self.walk.field(start, what);
                self.gap(1);
            } else {
                self.given += 1;
            }
        }
        self.index += 1;
        found.map(Some)
    }

    /// Each element takes a byte at least, and all are there.
    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

/// Which keys a map may have.
#[derive(Clone, Copy)]
enum Keys {
    /// Any values.
    Any,
    /// Any texts.
    Texts,
    /// Those of a struct; what else there is goes into its field [`EXTRA`].
    Fields(&'static [&'static str]),
}

struct Map<'w, 'a, 'd> {
    walk: &'w Walk<'a, 'd>,
    at: usize,
    left: u32,
    index: usize,
    keys: Keys,
    /// Which fields were there, as bits.
    seen: u64,
    /// Where the value begins of the key that was given last; `usize::MAX` for the unknown ones.
    value: usize,
    /// Where the entries begin that belong to no field.
    unknown: Vec<usize>,
    /// The map's own key.
    name: &'a str,
    is_section: bool,
}

impl<'a> Map<'_, 'a, '_> {
    fn skip_value(&mut self, value: usize) {
        self.at = self.walk.skip(value);
    }

    /// Where the next entry begins that is to be read, and its key if that is a text.
    fn next(&mut self) -> Result<Option<(usize, Cow<'a, str>)>, Error> {
        while self.left > 0 {
            let is_bounded = !matches!(self.keys, Keys::Any);
            if is_bounded && self.index >= limits::FIELDS {
                self.walk.key.set(self.name);
                self.walk.limit(self.at, "keys", limits::FIELDS);
                self.at = (0..2 * u64::from(self.left)).fold(self.at, |at, _| self.walk.skip(at));
                self.left = 0;
                break;
            }
            self.index += 1;
            self.left -= 1;
            let start = self.at;
            let (token, value) = self.walk.token(start)?;
            if !is_bounded {
                return Ok(Some((start, Cow::Borrowed(""))));
            }
            let Token::Text(key) = token else {
                self.walk.key.set(self.name);
                self.walk
                    .field(start, "has a key that is no string; it was skipped");
                self.skip_value(self.walk.skip(start));
                continue;
            };
            let key = self.walk.text(start, key);
            self.value = value;
            if self.is_section && key == "check" {
                self.skip_value(value);
                continue;
            }
            let Keys::Fields(fields) = self.keys else {
                return Ok(Some((start, key)));
            };
            let known = fields
                .iter()
                .position(|field| *field == key && key != EXTRA);
            let Some(known) = known else {
                self.unknown.push(start);
                self.skip_value(value);
                continue;
            };
            if self.walk.is_nil(value) {
                self.at = value + 1;
                continue;
            }
            if self.seen & (1 << known) != 0 {
                self.walk
                    .key
                    .set(fields.get(known).copied().unwrap_or_default());
                self.walk.field(start, "stands twice; the first one counts");
                self.skip_value(value);
                continue;
            }
            self.seen |= 1 << known;
            self.walk
                .key
                .set(fields.get(known).copied().unwrap_or_default());
            return Ok(Some((start, key)));
        }
        Ok(None)
    }
}

impl<'a> de::MapAccess<'a> for Map<'_, 'a, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        if let Some((at, key)) = self.next()? {
            if let Keys::Any = self.keys {
                self.walk.end.set(0);
                let found = seed.deserialize(Value {
                    walk: self.walk,
                    at,
                })?;
                self.value = self.walk.end_of(at);
                return Ok(Some(found));
            }
            return match key {
                Cow::Borrowed(key) => {
                    seed.deserialize(de::value::BorrowedStrDeserializer::new(key))
                }
                Cow::Owned(key) => seed.deserialize(key.into_deserializer()),
            }
            .map(Some);
        }
        match self.keys {
            Keys::Fields(fields) if fields.contains(&EXTRA) && !self.unknown.is_empty() => {
                self.keys = Keys::Fields(&[]);
                self.value = usize::MAX;
                seed.deserialize(de::value::BorrowedStrDeserializer::new(EXTRA))
                    .map(Some)
            }
            _ => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Error> {
        if self.value == usize::MAX {
            let entries = std::mem::take(&mut self.unknown).into_iter();
            let unknown = Unknown {
                walk: self.walk,
                entries,
                value: 0,
            };
            return seed.deserialize(Through(MapAccessDeserializer::new(unknown)));
        }
        let start = self.value;
        let entry = self.at;
        self.walk.end.set(0);
        self.walk.is_kept.set(false);
        let found = seed.deserialize(Value {
            walk: self.walk,
            at: start,
        })?;
        self.at = self.walk.end_of(start);
        if self.walk.is_kept.take() && matches!(self.keys, Keys::Fields(_)) {
            self.unknown.push(entry);
        }
        Ok(found)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

/// The entries that belong to no field.
struct Unknown<'w, 'a, 'd> {
    walk: &'w Walk<'a, 'd>,
    entries: std::vec::IntoIter<usize>,
    value: usize,
}

impl<'a> de::MapAccess<'a> for Unknown<'_, 'a, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(at) = self.entries.next() else {
            return Ok(None);
        };
        let (Token::Text(key), value) = self.walk.token(at)? else {
            return Ok(None);
        };
        self.value = value;
        // What is not UTF-8 in it was told when it was met first.
        seed.deserialize(String::from_utf8_lossy(key).into_deserializer())
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(Value {
            walk: self.walk,
            at: self.value,
        })
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// Entries that are well-formed: what may be of another type is as it is said to be.
struct Through<D>(D);

impl<'a, D: Deserializer<'a>> Deserializer<'a> for Through<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
