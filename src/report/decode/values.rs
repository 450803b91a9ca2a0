//! Values of each type, and maps and arrays of them.

use std::borrow::Cow;

use super::Decoder;
use crate::report::damage::{DamageKind, shown};
use crate::report::limits;
use crate::report::model::{Extra, Value};
use crate::report::schema::Field;
use crate::report::token::{Skim, Token, token};

impl<'a> Decoder<'a, '_> {
    /// Any value. Its depth is bounded: the section was found to be shallow.
    pub(super) fn value(&mut self) -> Value {
        let at = self.at;
        match self.token() {
            None | Some(Token::Nil) => Value::Nil,
            Some(Token::Bool(value)) => Value::Bool(value),
            Some(Token::Unsigned(value)) => Value::Unsigned(value),
            Some(Token::Negative(value)) => Value::Signed(value),
            Some(Token::Float(value)) => Value::Float(value),
            Some(Token::Text(value)) => Value::Text(self.utf8(at, value)),
            Some(Token::Bytes(value)) => Value::Bytes(value.to_vec()),
            Some(Token::Extension(kind, value)) => Value::Extension(kind, value.to_vec()),
            Some(Token::Array(count)) => Value::Array((0..count).map(|_| self.value()).collect()),
            Some(Token::Map(count)) => {
                Value::Map((0..count).map(|_| (self.value(), self.value())).collect())
            }
        }
    }

    /// Goes over a map: known keys to `each`, which must read exactly one value, others to `extra`.
    /// A key whose value is nil is absent.
    pub(super) fn map(
        &mut self,
        name: &str,
        fields: &'static [Field],
        extra: &mut Extra,
        mut each: impl FnMut(&mut Self, &'static str),
    ) {
        let is_section = !name.contains('.');
        let Some(count) = self.count(name, "a map") else {
            return;
        };
        let mut seen = 0u32;
        for index in 0..count {
            if index as usize >= limits::FIELDS {
                self.limit(name, "keys", limits::FIELDS);
                (index..count).for_each(|_| {
                    self.skip();
                    self.skip();
                });
                return;
            }
            let key_at = self.at;
            let Some(key) = self.key(name) else { continue };
            let known = fields.iter().position(|field| field.key == key);
            match (known, self.peek()) {
                (None, _) if is_section && key == "check" => self.skip(),
                (None, _) => {
                    let value = self.value();
                    extra.push((key.into_owned(), value));
                }
                (Some(_), Some(Token::Nil)) => self.skip(),
                (Some(known), _) if seen & (1 << known) != 0 => {
                    self.field(key_at, &key, || {
                        "stands twice; the first one counts".to_owned()
                    });
                    self.skip();
                }
                (Some(known), _) => {
                    seen |= 1 << known;
                    let value_at = self.at;
                    each(self, fields.get(known).map_or("", |field| field.key));
                    debug_assert!(self.at > value_at, "{name}: {key} was not read");
                }
            }
        }
    }

    /// A map of texts to values of one type, in its order.
    pub(super) fn pairs<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&mut Self, &'static str) -> Option<T>,
    ) -> Vec<(String, T)> {
        let Some(count) = self.count(name, "a map") else {
            return Vec::new();
        };
        let mut pairs = Vec::new();
        for index in 0..count {
            if index as usize >= limits::FIELDS {
                self.limit(name, "keys", limits::FIELDS);
                (index..count).for_each(|_| {
                    self.skip();
                    self.skip();
                });
                break;
            }
            let Some(key) = self.key(name) else { continue };
            if let Some(value) = read(self, name) {
                pairs.push((key.into_owned(), value));
            }
        }
        pairs
    }

    /// An array of arrays of at least `least` elements; `read` gets the length, and may read fewer
    /// elements.
    pub(super) fn rows<T>(
        &mut self,
        name: &'static str,
        least: u32,
        mut read: impl FnMut(&mut Self, u32) -> Option<T>,
    ) -> Vec<T> {
        let Some(count) = self.count(name, "an array") else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for _ in 0..count {
            let (at, end) = (self.at, self.end_of_value());
            match self.token() {
                Some(Token::Array(length)) if length >= least => rows.extend(read(self, length)),
                _ => self.field(at, name, || {
                    format!("has an element that is no array of at least {least}; it was skipped")
                }),
            }
            self.at = end;
        }
        rows
    }

    /// Reads a value into `field`, which keeps its default if that fails.
    pub(super) fn set<T>(
        &mut self,
        key: &'static str,
        field: &mut T,
        read: impl FnOnce(&mut Self, &'static str) -> Option<T>,
    ) {
        if let Some(value) = read(self, key) {
            *field = value;
        }
    }

    pub(super) fn unsigned(&mut self, key: &'static str) -> Option<u64> {
        self.typed(
            key,
            "an integer that is not negative",
            |token| match token {
                Token::Unsigned(value) => Some(value),
                _ => None,
            },
        )
    }

    pub(super) fn integer(&mut self, key: &'static str) -> Option<i64> {
        self.typed(key, "an integer of 64 bits", |token| match token {
            Token::Unsigned(value) => i64::try_from(value).ok(),
            Token::Negative(value) => Some(value),
            _ => None,
        })
    }

    pub(super) fn float(&mut self, key: &'static str) -> Option<f64> {
        self.typed(key, "a number", |token| match token {
            Token::Float(value) => Some(value),
            Token::Unsigned(value) => Some(value as f64),
            Token::Negative(value) => Some(value as f64),
            _ => None,
        })
    }

    pub(super) fn bool(&mut self, key: &'static str) -> Option<bool> {
        self.typed(key, "a boolean", |token| match token {
            Token::Bool(value) => Some(value),
            _ => None,
        })
    }

    pub(super) fn bin(&mut self, key: &'static str) -> Option<Vec<u8>> {
        self.typed(key, "raw bytes", |token| match token {
            Token::Bytes(value) => Some(value.to_vec()),
            _ => None,
        })
    }

    pub(super) fn id(&mut self, key: &'static str) -> Option<[u8; 16]> {
        let at = self.at;
        let bytes = self.bin(key)?;
        let id = bytes.as_slice().try_into().ok();
        if id.is_none() {
            self.damages.add(at, DamageKind::Field, || {
                let count = bytes.len();
                format!("`{key}` should be 16 raw bytes and is {count}; it was skipped")
            });
        }
        id
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        let at = self.at;
        let bytes = self.typed(key, "a string", |token| match token {
            Token::Text(value) => Some(value),
            _ => None,
        })?;
        let mut text = self.utf8(at, bytes);
        if text.len() > limits::TEXT_BYTES {
            self.limit(key, "bytes", limits::TEXT_BYTES);
            text.truncate(text.floor_char_boundary(limits::TEXT_BYTES));
        }
        Some(text)
    }

    /// A value that `take` finds to be of the right type.
    pub(super) fn typed<T>(
        &mut self,
        key: &str,
        expected: &str,
        take: impl FnOnce(Token<'a>) -> Option<T>,
    ) -> Option<T> {
        let at = self.at;
        let token = self.token()?;
        let value = take(token);
        if value.is_none() && token != Token::Nil {
            let found = token.word();
            self.field(at, key, || {
                format!("should be {expected} and is {found}; it was skipped")
            });
        }
        value
    }

    pub(super) fn utf8(&mut self, at: usize, bytes: &[u8]) -> String {
        match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                self.damages.add(at, DamageKind::Field, || {
                    "a string is not UTF-8; its broken parts are shown as \u{fffd}".to_owned()
                });
                String::from_utf8_lossy(bytes).into_owned()
            }
        }
    }

    /// A map's key; `None`, with its value skipped, if it is no string.
    pub(super) fn key(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let at = self.at;
        if let Some(Token::Text(key)) = self.token() {
            return Some(match std::str::from_utf8(key) {
                Ok(key) => Cow::Borrowed(key),
                Err(_) => Cow::Owned(self.utf8(at, key)),
            });
        }
        self.at = at;
        self.field(at, name, || {
            "has a key that is no string; it was skipped".to_owned()
        });
        self.skip();
        self.skip();
        None
    }

    /// The count of a map or array, as `expected` says.
    pub(super) fn count(&mut self, name: &str, expected: &str) -> Option<u32> {
        let at = self.at;
        match (self.token()?, expected) {
            (Token::Map(count), "a map") | (Token::Array(count), "an array") => Some(count),
            (token, _) => {
                self.at = at;
                self.skip();
                if token != Token::Nil {
                    let found = token.word();
                    self.field(at, name, || {
                        format!("should be {expected} and is {found}; it was skipped")
                    });
                }
                None
            }
        }
    }

    pub(super) fn field(&mut self, at: usize, key: &str, what: impl FnOnce() -> String) {
        self.damages.add(at, DamageKind::Field, || {
            format!("`{}` {}", shown(key), what())
        });
    }

    pub(super) fn limit(&mut self, name: &str, what: &str, limit: usize) {
        self.damages.add(self.at, DamageKind::Limit, || {
            format!("`{name}` has more than {limit} {what}; the rest was skipped")
        });
    }

    pub(super) fn peek(&self) -> Option<Token<'a>> {
        token(self.bytes, self.at).ok().map(|(token, _)| token)
    }

    /// `None` only behind the end, which a well-formed section does not let come.
    pub(super) fn token(&mut self) -> Option<Token<'a>> {
        let (token, next) = token(self.bytes, self.at).ok()?;
        self.at = next;
        Some(token)
    }

    pub(super) fn end_of_value(&self) -> usize {
        Skim::new(self.at)
            .run(self.bytes)
            .unwrap_or(self.bytes.len())
    }

    pub(super) fn skip(&mut self) {
        self.at = self.end_of_value();
    }
}
