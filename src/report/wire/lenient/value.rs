//! Deserializes one value as the type that a section expects, and the elements of an array.

use std::borrow::Cow;

use serde::de::value::{BytesDeserializer, I8Deserializer, SeqAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::maps::Keys;
use super::{Error, Reader, array, text};
use crate::report::limits;
use crate::report::token::Token;
use crate::report::wire::{FRAMES, TRIED, row};

/// Implements methods for values of one token: the words for what is expected, and the tokens that are accepted.
macro_rules! scalars {
    ($($deserialize:ident as $visit:ident: $expected:literal, $($token:pat => $value:expr),+;)*) => {$(
        fn $deserialize<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
            let value = self.take($expected, |token| match token {
                $($token => $value,)+
                _ => None,
            });
            visitor.$visit(value?)
        }
    )*};
}

impl<'a> Deserializer<'a> for &mut Reader<'a, '_> {
    type Error = Error;

    /// Any value. Its depth is bounded: the section's depth was checked before.
    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let start = self.at;
        let (token, next) = self.token()?;
        if let Token::Map(_) = token {
            return self.map(Keys::Any, visitor);
        }
        self.at = next;
        match token {
            Token::Nil | Token::Map(_) => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Negative(value) => visitor.visit_i64(value),
            Token::Float(value) => visitor.visit_f64(value),
            Token::Text(value) => match self.text(start, value) {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            Token::Bytes(value) => visitor.visit_borrowed_bytes(value),
            Token::Extension(kind, value) => visitor.visit_newtype_struct(
                SeqAccessDeserializer::new(Extension(Some(kind), Some(value))),
            ),
            Token::Array(left) => self.seq(left, false, visitor),
        }
    }

    scalars! {
        deserialize_bool as visit_bool: "a boolean", Token::Bool(value) => Some(value);
        deserialize_u8 as visit_u8: "an integer from 0 to 255", Token::Unsigned(value) => u8::try_from(value).ok();
        deserialize_u32 as visit_u32: "an integer from 0 to 2^32 - 1", Token::Unsigned(value) => u32::try_from(value).ok();
        deserialize_u64 as visit_u64: "an integer that is not negative", Token::Unsigned(value) => Some(value);
        deserialize_i64 as visit_i64: "an integer of 64 bits",
            Token::Unsigned(value) => i64::try_from(value).ok(),
            Token::Negative(value) => Some(value);
        deserialize_f64 as visit_f64: "a number",
            Token::Float(value) => Some(value),
            Token::Unsigned(value) => Some(value as f64),
            Token::Negative(value) => Some(value as f64);
        deserialize_bytes as visit_borrowed_bytes: "raw bytes", Token::Bytes(value) => Some(value);
    }

    /// A text of the format's own fields, cut at [`limits::TEXT_BYTES`].
    fn deserialize_str<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let start = self.at;
        let bytes = self.take("a string", text)?;
        let text = self.text(start, bytes);
        if text.len() > limits::TEXT_BYTES {
            self.limit(start, "bytes", limits::TEXT_BYTES);
            let end = text.floor_char_boundary(limits::TEXT_BYTES);
            return visitor.visit_str(text.get(..end).unwrap_or_default());
        }
        match text {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        if !self.is_nil() {
            return visitor.visit_some(self);
        }
        self.at = self.at.saturating_add(1);
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name {
            TRIED => visitor.visit_seq(One(Some(self))),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let left = self.take("an array", array)?;
        self.seq(left, self.key == FRAMES, visitor)
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.map(Keys::Texts, visitor)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Some(least) = row(name) else {
            return self.map(Keys::Fields(fields), visitor);
        };
        let start = self.at;
        match self.take("", array) {
            Ok(left) if left >= least => self.seq(left, false, visitor),
            _ => Err(Error::new(
                start,
                format!(
                    "is not an array of at least {least} elements, or an element has another type; it was skipped"
                ),
            )),
        }
    }

    /// A word. An unknown one becomes the last of `words`, and is kept among the unknown values, too.
    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let word = self.take("a string", text)?;
        let (other, known) = words.split_last().unwrap_or((&"", &[]));
        let found = known.iter().find(|known| known.as_bytes() == word);
        self.is_kept = found.is_none();
        visitor.visit_enum((*found.unwrap_or(other)).into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.skip(1);
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        i8 i16 i32 i128 u16 u128 f32 char byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

impl<'a> Reader<'a, '_> {
    /// Reads an array of `left` elements. The first one is the next value.
    fn seq<V: Visitor<'a>>(
        &mut self,
        left: u32,
        has_frames: bool,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut seq = Seq {
            reader: self,
            left,
            index: 0,
            has_frames,
        };
        let result = visitor.visit_seq(&mut seq);
        let left = seq.left;
        self.skip(left.into());
        result
    }
}

struct Seq<'r, 'a, 'd> {
    reader: &'r mut Reader<'a, 'd>,
    left: u32,
    index: u64,
    has_frames: bool,
}

impl<'a> SeqAccess<'a> for Seq<'_, 'a, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Seq { reader, index, .. } = self;
        if self.has_frames && self.left > 0 {
            let lost = reader.gap.map_or(0, |gap| gap.count);
            if index.saturating_sub(lost) >= limits::FRAMES as u64 {
                reader.limit(reader.at, "frames", limits::FRAMES);
                reader.gap(*index, self.left.into());
                reader.skip(self.left.into());
                self.left = 0;
            }
            reader.frame = Some(*index);
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.left = self.left.saturating_sub(1);
        *index = index.saturating_add(1);
        seed.deserialize(&mut **reader).map(Some)
    }

    /// Exact, and no more than the input: the elements were found to be there, of a byte or more each.
    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

/// A sequence of one value, or of none if the value cannot be read, which is reported as damage.
pub(super) struct One<'r, 'a, 'd>(Option<&'r mut Reader<'a, 'd>>);

impl<'a> SeqAccess<'a> for One<'_, 'a, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(reader) = self.0.take() else {
            return Ok(None);
        };
        let (start, frame) = (reader.at, reader.frame.take());
        let error = match seed.deserialize(&mut *reader) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        match frame {
            None => reader.report(start, error),
            Some(index) => {
                let what =
                    format_args!("element {index} is not [pc, found, image]; it is shown as a gap");
                reader.field(start, what);
                reader.gap(index, 1);
            }
        }
        reader.at = start;
        reader.skip(1);
        Ok(None)
    }
}

struct Extension<'a>(Option<i8>, Option<&'a [u8]>);

impl<'a> SeqAccess<'a> for Extension<'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if let Some(kind) = self.0.take() {
            return seed.deserialize(I8Deserializer::new(kind)).map(Some);
        }
        let bytes = self.1.take().map(BytesDeserializer::new);
        bytes.map(|bytes| seed.deserialize(bytes)).transpose()
    }
}
