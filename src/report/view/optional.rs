//! Entries that are left out where there is nothing to say.

use crate::report::encode::MapEncoder;

pub(crate) fn optional_text(m: &mut MapEncoder<'_, '_>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        m.text(key, value);
    }
}

pub(crate) fn optional_unsigned(m: &mut MapEncoder<'_, '_>, key: &str, value: Option<u64>) {
    if let Some(value) = value {
        m.unsigned(key, value);
    }
}

pub(crate) fn optional_float(m: &mut MapEncoder<'_, '_>, key: &str, value: Option<f64>) {
    if let Some(value) = value {
        m.float(key, value);
    }
}

pub(super) fn flag(m: &mut MapEncoder<'_, '_>, key: &str, value: bool) {
    if value {
        m.bool(key, value);
    }
}
