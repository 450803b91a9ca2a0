//! Taking the fields that are understood out of a JSON object; what is left is kept.

use crate::report::{Extra, Value};

/// An object whose known fields are taken out one by one.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, Value)>);

/// Values kept for later programs may nest so deep; the report format itself allows 32.
const KEPT_DEPTH: usize = 24;

impl Fields {
    /// The fields of an object; of any other value none.
    pub fn of(value: Value) -> Fields {
        let Value::Map(entries) = value else {
            return Fields::default();
        };
        let key = |key| match key {
            Value::Text(text) => text,
            other => format!("{other:?}"),
        };
        Fields(entries.into_iter().map(|(k, v)| (key(k), v)).collect())
    }

    /// The parts of a text that were not understood: its labels, other lines, and the header in front of it.
    pub fn of_text(labels: Vec<(String, String)>, rest: Vec<String>, header: Fields) -> Fields {
        let text = |(key, value)| (key, Value::Text(value));
        let mut left = Fields(labels.into_iter().map(text).collect());
        if !rest.is_empty() {
            let lines = rest.into_iter().map(Value::Text).collect();
            left.keep("text", Fields::one("lines", Value::Array(lines)));
        }
        left.keep("header", header);
        left
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    pub fn take(&mut self, key: &str) -> Option<Value> {
        let at = self.0.iter().position(|(k, _)| k == key)?;
        Some(self.0.remove(at).1)
    }

    /// A text; numbers are as good.
    pub fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::Text(text) => Some(text),
            Value::Unsigned(n) => Some(n.to_string()),
            Value::Signed(n) => Some(n.to_string()),
            other => self.back(key, other),
        }
    }

    /// An integer that is not negative: a number, or a text of decimal or (behind `0x`) hexadecimal
    /// digits.
    pub fn unsigned(&mut self, key: &str) -> Option<u64> {
        let value = self.take(key)?;
        match unsigned(&value) {
            Some(n) => Some(n),
            None => self.back(key, value),
        }
    }

    pub fn signed(&mut self, key: &str) -> Option<i64> {
        match self.take(key)? {
            Value::Signed(n) => Some(n),
            // The bits are what counts: Mach codes are printed either way.
            Value::Unsigned(n) => Some(n as i64),
            other => self.back(key, other),
        }
    }

    pub fn bool(&mut self, key: &str) -> Option<bool> {
        match self.take(key)? {
            Value::Bool(b) => Some(b),
            Value::Unsigned(n @ (0 | 1)) => Some(n == 1),
            other => self.back(key, other),
        }
    }

    pub fn list(&mut self, key: &str) -> Vec<Value> {
        match self.take(key) {
            Some(Value::Array(values)) => values,
            other => other
                .and_then(|other| self.back(key, other))
                .unwrap_or_default(),
        }
    }

    pub fn object(&mut self, key: &str) -> Fields {
        match self.take(key) {
            Some(value @ Value::Map(_)) => Fields::of(value),
            other => other
                .and_then(|other| self.back(key, other))
                .unwrap_or_default(),
        }
    }

    /// Puts what is left of an object that was taken back where it was.
    pub fn keep(&mut self, key: &str, left: Fields) {
        if !left.is_empty() {
            self.0.push((key.to_owned(), left.into_value()));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields that were not taken.
    pub fn into_extra(self) -> Extra {
        self.0
            .into_iter()
            .map(|(key, value)| (key, shallow(value, KEPT_DEPTH)))
            .collect()
    }

    /// One field.
    pub fn one(key: &str, value: Value) -> Fields {
        Fields(vec![(key.to_owned(), value)])
    }

    /// The fields that were not taken, as an object.
    pub fn into_value(self) -> Value {
        let entries = self.into_extra().into_iter();
        Value::Map(entries.map(|(k, v)| (Value::Text(k), v)).collect())
    }

    fn back<T>(&mut self, key: &str, value: Value) -> Option<T> {
        if value != Value::Nil {
            self.0.push((key.to_owned(), value));
        }
        None
    }
}

pub(super) fn unsigned(value: &Value) -> Option<u64> {
    match value {
        Value::Unsigned(n) => Some(*n),
        Value::Float(f) if *f >= 0.0 && *f < 1.8e19 => Some(*f as u64),
        Value::Text(text) => super::values::number(text),
        _ => None,
    }
}

/// The value without what lies deeper than `depth` levels.
fn shallow(value: Value, depth: usize) -> Value {
    match value {
        Value::Array(_) | Value::Map(_) if depth == 0 => Value::Nil,
        Value::Array(values) => {
            Value::Array(values.into_iter().map(|v| shallow(v, depth - 1)).collect())
        }
        Value::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(k, v)| (k, shallow(v, depth - 1)))
                .collect(),
        ),
        other => other,
    }
}
