//! Frames, breadcrumbs and marks: structs of [`ROWS`](crate::report::wire::ROWS), arrays in bytes and maps for people.

use std::time::Duration;

use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::lists::{List, list};
use super::{Address, Nanos, lenient, tried};
use crate::report::model::{Found, Frame, Frames, Value};

/// Reads a list of rows.
fn rows<'de, R: Deserialize<'de>, T: From<R>, D: Deserializer<'de>>(
    d: D,
) -> Result<Vec<T>, D::Error> {
    let rows = tried::<List<R>, D>(d)?.map_or_else(Vec::new, |list| list.0);
    Ok(rows.into_iter().map(T::from).collect())
}

/// A frame; its name is left out where there is none.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Frame")]
struct FrameRow<T> {
    pc: Address,
    found: u8,
    image: Option<u32>,
    #[serde(
        default,
        deserialize_with = "text",
        skip_serializing_if = "Option::is_none",
        bound(deserialize = "T: From<String>")
    )]
    name: Option<T>,
}

impl<'a> FrameRow<&'a str> {
    fn of((pc, found, image, name): (u64, Found, Option<u32>, Option<&'a str>)) -> Self {
        FrameRow {
            pc: pc.into(),
            found: found.code(),
            image,
            name,
        }
    }
}

impl From<FrameRow<String>> for Frame {
    fn from(row: FrameRow<String>) -> Frame {
        Frame {
            pc: row.pc.into(),
            found: Found::from_code(row.found),
            image: row.image,
            name: row.name,
        }
    }
}

/// A name; none where it is something else.
fn text<'de, T: From<String>, D: Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
    Ok(match Value::deserialize(d)? {
        Value::Text(text) => Some(text.into()),
        _ => None,
    })
}

impl Serialize for Frame {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        FrameRow::of((self.pc, self.found, self.image, self.name.as_deref())).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Frame {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Frame, D::Error> {
        FrameRow::<String>::deserialize(d).map(Frame::from)
    }
}

/// Stacks: `[pc, found, image]` or `[pc, found, image, name]`.
pub(crate) mod frames {
    use super::*;

    pub(crate) fn serialize<F: Frames, S: Serializer>(frames: &F, s: S) -> Result<S::Ok, S::Error> {
        let frames = (0..frames.len()).filter_map(|index| frames.at(index));
        list(frames.map(FrameRow::of), s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Frame>, D::Error> {
        rows::<Frame, _, D>(d)
    }
}

#[derive(Serialize, Deserialize)]
struct Breadcrumb<T> {
    time: Nanos,
    text: T,
}

impl From<Breadcrumb<String>> for (Duration, String) {
    fn from(row: Breadcrumb<String>) -> Self {
        (row.time.into(), row.text)
    }
}

/// Breadcrumbs: `[time, text]`.
pub(crate) mod breadcrumbs {
    use super::*;

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        all: &impl AsRef<[(Duration, T)]>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        let rows = all.as_ref().iter().map(|(time, text)| Breadcrumb {
            time: (*time).into(),
            text,
        });
        list(rows, s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(Duration, String)>, D::Error> {
        rows::<Breadcrumb<String>, _, D>(d)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "Mark")]
struct MarkRow<T> {
    name: T,
    start: Nanos,
    #[serde(default, deserialize_with = "lenient")]
    duration: Option<Nanos>,
}

type MarkTuple = (String, Duration, Option<Duration>);

impl From<MarkRow<String>> for MarkTuple {
    fn from(row: MarkRow<String>) -> Self {
        let lasted = row.duration.map(Duration::from);
        (row.name, row.start.into(), lasted)
    }
}

/// Marks: `[name, start, duration]`.
pub(crate) mod marks {
    use super::*;

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        all: &impl AsRef<[(T, Duration, Option<Duration>)]>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        let rows = all.as_ref().iter().map(|(name, start, lasted)| MarkRow {
            name,
            start: (*start).into(),
            duration: lasted.map(Nanos::from),
        });
        list(rows, s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<MarkTuple>, D::Error> {
        rows::<MarkRow<String>, _, D>(d)
    }
}
