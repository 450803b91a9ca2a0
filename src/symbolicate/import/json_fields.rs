//! Taking the fields that are understood out of a JSON object; what is left is kept.

use crate::report::{Extra, Thread, Value};
use crate::symbolicate::keys::FRAME_FIELDS;

/// An object whose known fields are taken out one by one, by their paths: `os.build` is `build` in the object `os`; of
/// several, as `os.build|version`, the first that is there counts. Case does not.
#[derive(Debug, Default)]
pub(super) struct JsonFields(Vec<(Value, Value)>);

/// Values kept for later programs may nest so deep; the report format itself allows 32.
const MAX_KEPT_DEPTH: usize = 24;

impl JsonFields {
    /// The fields of an object; of any other value none.
    pub fn of(value: Value) -> JsonFields {
        match value {
            Value::Map(entries) => JsonFields(entries),
            _ => JsonFields::default(),
        }
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(known, _)| is(known, key))
    }

    /// A text that stays where it is.
    pub fn peek(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A field, by one path, that stays where it is.
    pub fn get(&self, path: &str) -> Option<&Value> {
        JsonFields::get_in(&self.0, path)
    }

    /// The same, of an object's entries.
    pub fn get_in<'a>(mut entries: &'a Vec<(Value, Value)>, path: &str) -> Option<&'a Value> {
        let mut keys = path.split('.');
        let mut key = keys.next()?;
        loop {
            let (_, value) = entries.iter().find(|(known, _)| is(known, key))?;
            match (keys.next(), value) {
                (None, value) => return Some(value),
                (Some(next), Value::Map(inner)) => (key, entries) = (next, inner),
                _ => return None,
            }
        }
    }

    pub fn take(&mut self, paths: &str) -> Option<Value> {
        self.first(paths, Ok)
    }

    /// A text; numbers are as good.
    pub fn text(&mut self, paths: &str) -> Option<String> {
        self.first(paths, |value| match value {
            Value::Text(text) => Ok(text),
            Value::Unsigned(n) => Ok(n.to_string()),
            Value::Signed(n) => Ok(n.to_string()),
            other => Err(other),
        })
    }

    /// An integer that is not negative: a number, or a text of decimal or (after `0x`) hexadecimal
    /// digits.
    pub fn unsigned(&mut self, paths: &str) -> Option<u64> {
        self.first(paths, |value| unsigned(&value).ok_or(value))
    }

    pub fn signed(&mut self, paths: &str) -> Option<i64> {
        self.first(paths, |value| match value {
            Value::Signed(n) => Ok(n),
            // The bits are what counts: Mach codes are printed either way.
            Value::Unsigned(n) => Ok(n as i64),
            other => Err(other),
        })
    }

    pub fn bool(&mut self, paths: &str) -> Option<bool> {
        self.first(paths, |value| match value {
            Value::Bool(is) => Ok(is),
            Value::Unsigned(n @ (0 | 1)) => Ok(n == 1),
            other => Err(other),
        })
    }

    pub fn list(&mut self, paths: &str) -> Vec<Value> {
        let found = self.first(paths, |value| match value {
            Value::Array(values) => Ok(values),
            other => Err(other),
        });
        found.unwrap_or_default()
    }

    pub fn object(&mut self, paths: &str) -> JsonFields {
        let found = self.first(paths, |value| match value {
            Value::Map(entries) => Ok(JsonFields(entries)),
            other => Err(other),
        });
        found.unwrap_or_default()
    }

    /// Takes out what `read` makes of the value at the first path where it can; what it returns stays.
    fn first<T>(&mut self, paths: &str, read: impl Fn(Value) -> Result<T, Value>) -> Option<T> {
        let mut paths = paths.split('|');
        paths.find_map(|path| first_at(&mut self.0, path, &read))
    }

    /// Puts what is left of an object that was taken back.
    pub fn keep(&mut self, key: &str, left: JsonFields) {
        if !left.0.is_empty() {
            self.push(key, Value::Map(left.0));
        }
    }

    /// Adds a field.
    pub fn push(&mut self, key: &str, value: Value) {
        self.0.push((Value::Text(key.to_owned()), value));
    }

    /// Adds fields.
    pub fn extend<const N: usize>(&mut self, keys: [&str; N], values: Vec<Value>) {
        for (key, value) in keys.into_iter().zip(values) {
            self.push(key, value);
        }
    }

    /// Adds the fields of another object.
    pub fn extend_object(&mut self, other: JsonFields) {
        self.0.extend(other.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields that were not taken.
    pub fn into_extra(self) -> Extra {
        let key = |key| match key {
            Value::Text(text) => text,
            other => format!("{other:?}"),
        };
        let entries = self.0.into_iter();
        let entries = entries.map(|(k, value)| (key(k), shallow(value, MAX_KEPT_DEPTH)));
        entries.collect()
    }

    /// One field.
    pub fn one(key: &str, value: Value) -> JsonFields {
        JsonFields(vec![(Value::Text(key.to_owned()), value)])
    }

    /// The fields that were not taken, however deep they nest.
    pub fn into_raw(self) -> Value {
        Value::Map(self.0)
    }

    /// The fields that were not taken, as an object.
    pub fn into_value(self) -> Value {
        shallow(self.into_raw(), MAX_KEPT_DEPTH + 1)
    }
}

fn is(known: &Value, key: &str) -> bool {
    matches!(known, Value::Text(known) if known.eq_ignore_ascii_case(key))
}

fn first_at<T>(
    entries: &mut Vec<(Value, Value)>,
    path: &str,
    read: &impl Fn(Value) -> Result<T, Value>,
) -> Option<T> {
    let parts = path.split_once('.');
    let (key, below) = parts.map_or((path, None), |(key, below)| (key, Some(below)));
    let at = entries.iter().position(|(known, _)| is(known, key))?;
    if let Some(below) = below {
        let Value::Map(inner) = &mut entries[at].1 else {
            return None;
        };
        let found = first_at(inner, below, read);
        if inner.is_empty() {
            entries.remove(at);
        }
        return found;
    }
    let (key, value) = entries.remove(at);
    match read(value) {
        Ok(found) => Some(found),
        Err(Value::Nil) => None,
        Err(other) => {
            entries.insert(at, (key, other));
            None
        }
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

/// The texts of an array.
pub(super) fn texts_of(value: Value) -> impl Iterator<Item = String> {
    let values = match value {
        Value::Array(values) => values,
        _ => Vec::new(),
    };
    values.into_iter().filter_map(|value| match value {
        Value::Text(text) => Some(text),
        _ => None,
    })
}

/// The value without what lies deeper than `depth` levels.
fn shallow(value: Value, depth: usize) -> Value {
    match value {
        Value::Array(_) | Value::Map(_) if depth == 0 => Value::Nil,
        Value::Array(values) => {
            Value::Array(values.into_iter().map(|v| shallow(v, depth - 1)).collect())
        }
        Value::Map(entries) => {
            let entries = entries.into_iter();
            Value::Map(entries.map(|(k, v)| (k, shallow(v, depth - 1))).collect())
        }
        other => other,
    }
}

/// Keeps the fields of single frames that were not taken: in the thread, as an object for each frame that had some.
pub(super) fn keep_frames(thread: &mut Thread, left: Vec<(usize, JsonFields)>) {
    let mut kept = Vec::new();
    for (index, fields) in left.into_iter().filter(|(_, fields)| !fields.is_empty()) {
        let mut entries = vec![(Value::Text("frame".into()), Value::Unsigned(index as u64))];
        if let Value::Map(rest) = fields.into_value() {
            entries.extend(rest);
        }
        kept.push(Value::Map(entries));
    }
    if let Some((key, Value::Array(all))) = thread.extra.last_mut()
        && key == FRAME_FIELDS
    {
        all.extend(kept);
    } else if !kept.is_empty() {
        thread.extra.push((FRAME_FIELDS.into(), Value::Array(kept)));
    }
}
