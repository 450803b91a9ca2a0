//! The entries of a map, and those of a struct that belong to no field.

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, Visitor};

use super::{Error, Reader, text};
use crate::report::limits;
use crate::report::token::Token;
use crate::report::wire::EXTRA;

/// The keys that a map may have.
#[derive(Clone, Copy)]
pub(super) enum Keys {
    /// Any values.
    Any,
    /// Any texts.
    Texts,
    /// The fields of a struct; other keys go into its field [`EXTRA`].
    Fields(&'static [&'static str]),
}

impl<'a> Reader<'a, '_> {
    /// The next value, which is a map.
    pub(super) fn map<V: Visitor<'a>>(
        &mut self,
        keys: Keys,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let is_section = self.at == self.root;
        let left = self.take("a map", |token| match token {
            Token::Map(count) => Some(count),
            _ => None,
        })?;
        let mut map = Map {
            keys,
            left,
            index: 0,
            field: 0,
            seen: 0,
            entry: 0,
            unknown: Vec::new(),
            in_extra: false,
            name: self.key,
            is_section,
            reader: self,
        };
        let result = visitor.visit_map(&mut map);
        let (left, name) = (map.left, map.name);
        self.skip(2 * u64::from(left));
        self.key = name;
        result
    }
}

struct Map<'r, 'a, 'd> {
    reader: &'r mut Reader<'a, 'd>,
    keys: Keys,
    left: u32,
    index: usize,
    /// The number of the field after the one that was there last.
    field: usize,
    /// The fields read so far, as bits.
    seen: u64,
    /// Offset of the entry being read.
    entry: usize,
    /// Offsets of the entries that belong to no field.
    unknown: Vec<usize>,
    /// True once all entries with fields were read, and the unknown ones follow.
    in_extra: bool,
    /// The map's own key.
    name: &'a str,
    is_section: bool,
}

impl<'a> MapAccess<'a> for Map<'_, 'a, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let reader = &mut *self.reader;
        while self.left > 0 {
            if let Keys::Any = self.keys {
                self.left = self.left.saturating_sub(1);
                return seed.deserialize(reader).map(Some);
            }
            if self.index >= limits::FIELDS {
                reader.key = self.name;
                reader.limit(reader.at, "keys", limits::FIELDS);
                reader.skip(2 * u64::from(self.left));
                self.left = 0;
                break;
            }
            self.index = self.index.saturating_add(1);
            self.left = self.left.saturating_sub(1);
            self.entry = reader.at;
            let (token, value) = reader.token()?;
            let Token::Text(key) = token else {
                reader.key = self.name;
                reader.field(self.entry, "has a key that is no string; it was skipped");
                reader.skip(2);
                continue;
            };
            reader.at = value;
            if self.is_section && key == b"check" {
                reader.skip(1);
                continue;
            }
            let Keys::Fields(fields) = self.keys else {
                let key = reader.text(self.entry, key);
                return seed.deserialize(key.into_deserializer()).map(Some);
            };
            // Keys stand in the order of the fields, unless another wrote them.
            let from = |first: usize| {
                let mut fields = fields.iter().enumerate().skip(first);
                fields.find(|(_, field)| field.as_bytes() == key && **field != EXTRA)
            };
            let Some((known, field)) = from(self.field).or_else(|| from(0)) else {
                reader.text(self.entry, key);
                self.unknown.push(self.entry);
                reader.skip(1);
                continue;
            };
            if reader.is_nil() {
                reader.skip(1);
                continue;
            }
            reader.key = field;
            if self.seen & (1 << known) != 0 {
                reader.field(self.entry, "stands twice; the first one counts");
                reader.skip(1);
                continue;
            }
            self.seen |= 1 << known;
            self.field = known.saturating_add(1);
            // A struct's fields are known by their numbers too.
            let known = known as u64;
            return seed.deserialize(known.into_deserializer()).map(Some);
        }
        match self.keys {
            Keys::Fields(fields) if fields.contains(&EXTRA) && !self.unknown.is_empty() => {
                self.in_extra = true;
                seed.deserialize(EXTRA.into_deserializer()).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let end = self.reader.at;
        if self.in_extra {
            let unknown = Unknown {
                entries: std::mem::take(&mut self.unknown).into_iter(),
                reader: self.reader,
            };
            let extra = seed.deserialize(MapAccessDeserializer::new(unknown))?;
            self.reader.at = end;
            return Ok(extra);
        }
        self.reader.is_kept = false;
        let value = seed.deserialize(&mut *self.reader)?;
        if std::mem::take(&mut self.reader.is_kept) && matches!(self.keys, Keys::Fields(_)) {
            self.unknown.push(self.entry);
        }
        Ok(value)
    }
}

/// The entries that belong to no field.
struct Unknown<'r, 'a, 'd> {
    reader: &'r mut Reader<'a, 'd>,
    entries: std::vec::IntoIter<usize>,
}

impl<'a> MapAccess<'a> for Unknown<'_, 'a, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(entry) = self.entries.next() else {
            return Ok(None);
        };
        self.reader.at = entry;
        let Ok(key) = self.reader.take("a string", text) else {
            return Ok(None);
        };
        // Invalid UTF-8 in the key was reported when the key was read first.
        let key = String::from_utf8_lossy(key);
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.reader)
    }
}
