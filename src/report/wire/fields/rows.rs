//! Frames, gaps, breadcrumbs and marks: arrays in bytes, and for people maps of what each element is.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::lists::{List, list};
use super::{Address, Nanos, lenient, tried};
use crate::report::model::{Found, Frame, Frames, Omitted, Value};

/// A struct of named fields that is an array in bytes.
trait ArrayRow: Serialize {
    /// It has so many elements at least.
    const LEAST: usize;

    /// Writes it as an array.
    fn array<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error>;
}

/// A row as it stands in bytes and for people. Elements behind its fields are skipped.
struct Spelled<R>(R);

impl<R: ArrayRow> Serialize for Spelled<R> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match s.is_human_readable() {
            true => self.0.serialize(s),
            false => self.0.array(s),
        }
    }
}

impl<'de, R: ArrayRow + Deserialize<'de>> Deserialize<'de> for Spelled<R> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Elements<R>(PhantomData<R>);
        impl<'de, R: ArrayRow + Deserialize<'de>> Visitor<'de> for Elements<R> {
            type Value = R;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of at least {} elements", R::LEAST)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<R, A::Error> {
                let row = R::deserialize(SeqAccessDeserializer::new(&mut seq))?;
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(row)
            }
        }
        let row = match d.is_human_readable() {
            true => R::deserialize(d),
            false => d.deserialize_tuple(R::LEAST, Elements(PhantomData)),
        };
        row.map(Spelled)
    }
}

/// Reads a list of rows.
fn rows<'de, R: ArrayRow + Deserialize<'de>, T: From<R>, D: Deserializer<'de>>(
    d: D,
) -> Result<Vec<T>, D::Error> {
    let rows = tried::<List<Spelled<R>>, D>(d)?.map_or_else(Vec::new, |list| list.0);
    Ok(rows.into_iter().map(|row| row.0.into()).collect())
}

#[derive(Serialize, Deserialize)]
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

impl<T: Serialize> ArrayRow for FrameRow<T> {
    const LEAST: usize = 3;

    fn array<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match &self.name {
            None => (self.pc, self.found, self.image).serialize(s),
            Some(name) => (self.pc, self.found, self.image, name).serialize(s),
        }
    }
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
        let row = FrameRow::of((self.pc, self.found, self.image, self.name.as_deref()));
        Spelled(row).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Frame {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Frame, D::Error> {
        Spelled::<FrameRow<String>>::deserialize(d).map(|row| row.0.into())
    }
}

/// Stacks: `[pc, found, image]` or `[pc, found, image, name]`.
pub(crate) mod frames {
    use super::*;

    pub(crate) fn serialize<F: Frames, S: Serializer>(frames: &F, s: S) -> Result<S::Ok, S::Error> {
        let frames = (0..frames.len()).filter_map(|index| frames.at(index));
        list(frames.map(|frame| Spelled(FrameRow::of(frame))), s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Frame>, D::Error> {
        rows::<FrameRow<String>, _, D>(d)
    }
}

/// Place and count of missing frames: `[at, count]`.
#[derive(Serialize, Deserialize)]
struct GapRow {
    at: u64,
    count: u64,
}

impl ArrayRow for GapRow {
    const LEAST: usize = 2;

    fn array<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        (self.at, self.count).serialize(s)
    }
}

impl Serialize for Omitted {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Omitted { at, count } = *self;
        Spelled(GapRow { at, count }).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Omitted {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Spelled(GapRow { at, count }) = Spelled::deserialize(d)?;
        Ok(Omitted { at, count })
    }
}

#[derive(Serialize, Deserialize)]
struct Breadcrumb<T> {
    time: Nanos,
    text: T,
}

impl<T: Serialize> ArrayRow for Breadcrumb<T> {
    const LEAST: usize = 2;

    fn array<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        (self.time, &self.text).serialize(s)
    }
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
        list(rows.map(Spelled), s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(Duration, String)>, D::Error> {
        rows::<Breadcrumb<String>, _, D>(d)
    }
}

#[derive(Serialize, Deserialize)]
struct MarkRow<T> {
    name: T,
    start: Nanos,
    #[serde(default, deserialize_with = "lenient")]
    duration: Option<Nanos>,
}

impl<T: Serialize> ArrayRow for MarkRow<T> {
    const LEAST: usize = 2;

    fn array<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        (&self.name, self.start, self.duration).serialize(s)
    }
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
        list(rows.map(Spelled), s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<MarkTuple>, D::Error> {
        rows::<MarkRow<String>, _, D>(d)
    }
}
