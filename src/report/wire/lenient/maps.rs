//! The entries of a map, and those of a struct that belong to no field.

use std::borrow::Cow;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::{Error, Value, Walk};
use crate::report::limits;
use crate::report::token::Token;
use crate::report::wire::EXTRA;

/// Which keys a map may have.
#[derive(Clone, Copy)]
pub(super) enum Keys {
    /// Any values.
    Any,
    /// Any texts.
    Texts,
    /// Those of a struct; what else there is goes into its field [`EXTRA`].
    Fields(&'static [&'static str]),
}

impl<'a> Value<'_, 'a, '_> {
    pub(super) fn map<V: Visitor<'a>>(&self, keys: Keys, visitor: V) -> Result<V::Value, Error> {
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
            field: 0,
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
}

struct Map<'w, 'a, 'd> {
    walk: &'w Walk<'a, 'd>,
    at: usize,
    left: u32,
    index: usize,
    keys: Keys,
    /// The number of the field behind the one that was there last.
    field: usize,
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
            // Keys stand in the order of the fields, unless another wrote them.
            let known = match fields.get(self.field) {
                Some(field) if *field == key && key != EXTRA => Some(self.field),
                _ => fields
                    .iter()
                    .position(|field| *field == key && key != EXTRA),
            };
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
            self.field = known + 1;
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
                // A struct's fields are known by their numbers too.
                _ if matches!(self.keys, Keys::Fields(_)) => {
                    seed.deserialize((self.field as u64 - 1).into_deserializer())
                }
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
        // What is not UTF-8 in it was reported when it was met first.
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

/// Entries that are well-formed: every value is of the type that is expected.
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
