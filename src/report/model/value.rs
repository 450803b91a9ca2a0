//! Values of free form.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::report::wire::EXTENSION;
use crate::report::wire::fields::{Raw, from_hex};

/// The value of a key that has no field of its own: any MessagePack value.
///
/// JSON has no form for some of them. There raw bytes are `{"bytes": "0aff"}`, and an extension value is
/// `{"extension": 5, "bytes": "0aff"}`. A map with keys other than texts is `{"map": [[key, value], …]}`. NaN and the
/// infinities are `null`.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Value {
    /// `nil`
    #[default]
    Nil,
    /// `true` or `false`
    Bool(bool),
    /// An integer that is not negative.
    Unsigned(u64),
    /// A negative integer.
    Signed(i64),
    /// A float of either width.
    Float(f64),
    /// A string.
    Text(String),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Value>),
    /// A map, in the order of the file.
    Map(Vec<(Value, Value)>),
    /// An extension value: its type and its bytes.
    Extension(i8, Vec<u8>),
}

/// Keys that this version of the format does not know, in the order of the file.
pub type Extra = Vec<(String, Value)>;

/// A borrowed value of a context key.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ValueView<'a> {
    /// `nil`
    Nil,
    /// `true` or `false`
    Bool(bool),
    /// An integer that is not negative.
    Unsigned(u64),
    /// An integer.
    Signed(i64),
    /// A float.
    Float(f64),
    /// A string.
    Text(&'a str),
    /// Raw bytes.
    Bytes(&'a [u8]),
}

impl Serialize for ValueView<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match *self {
            ValueView::Nil => s.serialize_unit(),
            ValueView::Bool(value) => s.serialize_bool(value),
            ValueView::Unsigned(value) => s.serialize_u64(value),
            ValueView::Signed(value) => s.serialize_i64(value),
            ValueView::Float(value) => s.serialize_f64(value),
            ValueView::Text(value) => s.serialize_str(value),
            ValueView::Bytes(value) => s.serialize_bytes(value),
        }
    }
}

/// Raw bytes in every spelling: rmp-serde reports no `is_human_readable` for an extension's.
struct Plain<'a>(&'a [u8]);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(self.0)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let is_text = |key: &Value| matches!(key, Value::Text(_));
        match self {
            Value::Nil => s.serialize_unit(),
            Value::Bool(value) => s.serialize_bool(*value),
            Value::Unsigned(value) => s.serialize_u64(*value),
            Value::Signed(value) => s.serialize_i64(*value),
            Value::Float(value) => s.serialize_f64(*value),
            Value::Text(value) => s.serialize_str(value),
            Value::Array(items) => s.collect_seq(items),
            Value::Bytes(bytes) if !s.is_human_readable() => s.serialize_bytes(bytes),
            Value::Extension(kind, bytes) if !s.is_human_readable() => {
                s.serialize_newtype_struct(EXTENSION, &(*kind, Plain(bytes)))
            }
            Value::Bytes(bytes) => s.collect_map([("bytes", Raw(bytes))]),
            Value::Extension(kind, bytes) => {
                let mut map = s.serialize_map(Some(2))?;
                map.serialize_entry("extension", kind)?;
                map.serialize_entry("bytes", &Raw(bytes))?;
                map.end()
            }
            Value::Map(pairs)
                if s.is_human_readable()
                    && (!pairs.iter().all(|(key, _)| is_text(key)) || special(pairs).is_some()) =>
            {
                s.collect_map([("map", pairs)])
            }
            Value::Map(pairs) => s.collect_map(pairs.iter().map(|(key, value)| (key, value))),
        }
    }
}

/// The value that a JSON object of these entries means, if it means another.
fn special(pairs: &[(Value, Value)]) -> Option<Value> {
    let bytes = |text: &String| from_hex(text);
    let key = |value: &Value, name: &str| matches!(value, Value::Text(text) if text == name);
    match pairs {
        [(name, Value::Text(digits))] if key(name, "bytes") => bytes(digits).map(Value::Bytes),
        [(name, kind), (second, Value::Text(digits))]
            if key(name, "extension") && key(second, "bytes") =>
        {
            let kind = match *kind {
                Value::Unsigned(kind) => i8::try_from(kind).ok()?,
                Value::Signed(kind) => i8::try_from(kind).ok()?,
                _ => return None,
            };
            bytes(digits).map(|bytes| Value::Extension(kind, bytes))
        }
        [(name, Value::Array(rows))] if key(name, "map") => {
            let pair = |row: &Value| match row {
                Value::Array(pair) => <[Value; 2]>::try_from(pair.clone())
                    .ok()
                    .map(|[key, value]| (key, value)),
                _ => None,
            };
            rows.iter().map(pair).collect::<Option<_>>().map(Value::Map)
        }
        _ => None,
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Value, D::Error> {
        let is_human = d.is_human_readable();
        d.deserialize_any(Any { is_human })
    }
}

struct Any {
    is_human: bool,
}

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        Value::deserialize(d)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Unsigned(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(u64::try_from(value).map_or(Value::Signed(value), Value::Unsigned))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(value.to_vec()))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        struct Extension;
        impl<'de> Visitor<'de> for Extension {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an extension value")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                match (seq.next_element()?, seq.next_element()?) {
                    (Some(kind), Some(Value::Bytes(bytes))) => Ok(Value::Extension(kind, bytes)),
                    _ => Err(A::Error::invalid_length(0, &self)),
                }
            }
        }
        d.deserialize_any(Extension)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        let other = if self.is_human { special(&pairs) } else { None };
        Ok(other.unwrap_or(Value::Map(pairs)))
    }
}
