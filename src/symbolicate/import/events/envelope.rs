//! Sentry's envelopes: a line of JSON, then items, each a line of JSON with its length, and its payload.

use crate::report::Value;
use crate::symbolicate::import::{JsonFields, json, other_product};

/// Longest header of an envelope, or of an item.
const LONGEST: usize = 1 << 16;

/// A payload, by the type of its item, its file's name, and the product that it is of.
pub struct EnvelopeItem<'a> {
    pub name: String,
    pub payload: &'a [u8],
}

/// The items of an envelope; `None` for other bytes.
pub fn items(bytes: &[u8]) -> Option<Vec<EnvelopeItem<'_>>> {
    let (header, mut at) = line(bytes, 0)?;
    let mut keys = ["event_id", "dsn", "sent_at", "sdk"].iter();
    let is_header = keys.any(|key| header.has(key));
    if !is_header || header.has("exception") || header.has("threads") {
        return None;
    }
    let mut items = Vec::new();
    while let Some((mut item, start)) = line(bytes, at) {
        let kind = item.text("type")?;
        let rest = bytes.get(start..).unwrap_or_default();
        let length = item.unsigned("length");
        let length = length.and_then(|length| usize::try_from(length).ok());
        let length = length.or_else(|| memchr::memchr(b'\n', rest));
        let length = length.unwrap_or(rest.len());
        let payload = &rest[..length.min(rest.len())];
        // Some lengths are wrong: the next item begins on the next line.
        at = start + payload.len();
        let after = bytes.get(at..).unwrap_or_default();
        at += memchr::memchr(b'\n', after).map_or(0, |end| end + 1);
        let file = item.text("filename");
        let file = file.map_or(String::new(), |file| format!(" `{file}`"));
        let product = other_product(payload).map_or(String::new(), |of| format!(" ({})", of.name));
        let name = format!("{kind}{file}{product}");
        items.push(EnvelopeItem { name, payload });
    }
    (!items.is_empty()).then_some(items)
}

/// The object on the line at `at`, and where the next line begins.
fn line(bytes: &[u8], at: usize) -> Option<(JsonFields, usize)> {
    let rest = bytes.get(at..)?;
    let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    if end > LONGEST {
        return None;
    }
    let found = json::read(&rest[..end], 0).filter(|found| found.damage.is_none())?;
    let is_object =
        matches!(found.value, Value::Map(_)) && rest[found.end..end].trim_ascii().is_empty();
    is_object.then(|| (JsonFields::of(found.value), at + end + 1))
}
