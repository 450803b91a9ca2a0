//! Values of a report as JSON has them.

use serde_json::{Map, Value as Json, json};

use crate::report::model::{Extra, Value};

/// Any MessagePack value as JSON; what JSON has no words for becomes a string or an object.
pub(crate) fn value_json(value: &Value) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Unsigned(n) => json!(n),
        Value::Signed(n) => json!(n),
        Value::Float(f) => json!(f), // not a number and infinities become null
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => json!(bytes_hex(bytes)),
        Value::Array(values) => values.iter().map(value_json).collect(),
        Value::Map(entries) => {
            let key = |key: &Value| match key {
                Value::Text(text) => text.clone(),
                other => value_json(other).to_string(),
            };
            Json::Object(
                entries
                    .iter()
                    .map(|(k, v)| (key(k), value_json(v)))
                    .collect(),
            )
        }
        Value::Extension(kind, bytes) => json!({"extension": kind, "bytes": bytes_hex(bytes)}),
    }
}

pub(super) fn hex(address: u64) -> String {
    format!("{address:#x}")
}

pub(super) fn bytes_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds keys that this version does not know; known ones stay as they are.
pub(super) fn extended(mut object: Json, extra: &Extra) -> Json {
    if let Json::Object(map) = &mut object {
        for (key, value) in extra {
            if !map.contains_key(key) {
                map.insert(key.clone(), value_json(value));
            }
        }
    }
    object
}

/// An object being filled in order.
#[derive(Default)]
pub(super) struct Object(pub Map<String, Json>);

impl Object {
    pub fn put(&mut self, key: &str, value: impl Into<Json>) {
        self.0.insert(key.into(), value.into());
    }

    pub fn put_known<T: Into<Json>>(&mut self, key: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    pub fn extra(&mut self, extra: &Extra) {
        for (key, value) in extra {
            if !self.0.contains_key(key) {
                self.put(key, value_json(value));
            }
        }
    }
}
