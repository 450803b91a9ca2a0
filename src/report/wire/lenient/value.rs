//! One value, as the type that a section expects.

use std::borrow::Cow;

use serde::de::value::{BytesDeserializer, I8Deserializer, SeqAccessDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::maps::Keys;
use super::{Error, Value};
use crate::report::limits;
use crate::report::token::Token;
use crate::report::wire::{FRAMES, TRIED};

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
                    self.walk
                        .report(Error::expected(self.at, "an array", token));
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

fn text(token: Token<'_>) -> Option<&[u8]> {
    match token {
        Token::Text(text) => Some(text),
        _ => None,
    }
}

/// One value that may be of a wrong type: that is reported here, and its error is not to be passed on.
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
                    walk.report(Error {
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
