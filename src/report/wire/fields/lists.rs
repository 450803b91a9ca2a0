//! Maps and lists of the format: an entry or element that can't be read is omitted. Frames, breadcrumbs and marks are
//! structs of [`ROWS`](crate::report::wire::ROWS), arrays in bytes and maps for people.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::{Address, Attempt, Nanos, lenient, optional};
use crate::report::model::{AsyncChain, AsyncEnd, Chains, Found, Frame, Frames, Value};

/// A map, as a list of its entries in their order; one that can't be read is omitted.
struct Entries<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Map<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Map<V> {
            type Value = Entries<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<V>, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key()? {
                    if let Attempt(Some(value)) = map.next_value()? {
                        entries.push((key, value));
                    }
                }
                Ok(Entries(entries))
            }

            fn visit_unit<E: Error>(self) -> Result<Entries<V>, E> {
                Ok(Entries(Vec::new()))
            }
        }
        d.deserialize_map(Map(PhantomData))
    }
}

/// Reads a map whose values are spelled as `W`.
fn entries<'de, W: Deserialize<'de>, V: From<W>, D: Deserializer<'de>>(
    d: D,
) -> Result<Vec<(String, V)>, D::Error> {
    let entries = optional::<Entries<W>, D>(d)?.map_or_else(Vec::new, |entries| entries.0);
    let entries = entries.into_iter();
    Ok(entries.map(|(key, value)| (key, value.into())).collect())
}

/// Writes a map, in bytes only if there is anything in it.
fn map<'a, S: Serializer>(
    entries: impl Iterator<Item = (&'a str, impl Serialize)>,
    s: S,
) -> Result<S::Ok, S::Error> {
    let mut entries = entries.peekable();
    if entries.peek().is_none() && !s.is_human_readable() {
        return s.serialize_none();
    }
    s.collect_map(entries)
}

/// A map of texts to values of one type, as a list of its entries in their order.
pub(crate) mod pairs {
    use super::*;

    pub(crate) fn serialize<K: AsRef<str>, V: Serialize, S: Serializer>(
        pairs: &impl AsRef<[(K, V)]>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        let pairs = pairs.as_ref().iter();
        map(pairs.map(|(key, value)| (key.as_ref(), value)), s)
    }

    pub(crate) fn deserialize<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(String, V)>, D::Error> {
        entries::<V, V, D>(d)
    }
}

/// Numbers by name.
pub(crate) mod gauges {
    pub(crate) use super::pairs::serialize;
    use super::*;

    /// Reads them. A float that JSON has no form for is `null` there: as good as no key.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(String, f64)>, D::Error> {
        let entries = entries::<Option<f64>, Option<f64>, D>(d)?;
        Ok(entries
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect())
    }
}

/// Numbers by name that are addresses, or as wide.
pub(crate) mod registers {
    use super::*;

    pub(crate) fn serialize<K: AsRef<str>, S: Serializer>(
        numbers: &impl AsRef<[(K, u64)]>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        let numbers = numbers.as_ref().iter();
        map(
            numbers.map(|(name, n)| (name.as_ref(), Address::from(*n))),
            s,
        )
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(String, u64)>, D::Error> {
        entries::<Address, u64, D>(d)
    }
}

/// Keys that this version does not know.
pub(crate) mod extra {
    pub(crate) use super::pairs::serialize;
    use super::*;

    /// Reads the keys that have no field of their own: it is strict, since they are always a map.
    pub(crate) fn deserialize<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(String, V)>, D::Error> {
        Entries::deserialize(d).map(|entries| entries.0)
    }
}

/// A list; an element that can't be read is omitted.
struct List<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut list = Vec::with_capacity(seq.size_hint().unwrap_or_default().min(64));
                while let Some(Attempt(element)) = seq.next_element()? {
                    list.extend(element);
                }
                Ok(List(list))
            }
        }
        d.deserialize_seq(Elements(PhantomData))
    }
}

/// Writes a list, in bytes only if there is anything in it.
fn list<S: Serializer>(
    elements: impl Iterator<Item = impl Serialize>,
    s: S,
) -> Result<S::Ok, S::Error> {
    let mut elements = elements.peekable();
    if elements.peek().is_none() && !s.is_human_readable() {
        return s.serialize_none();
    }
    s.collect_seq(elements)
}

/// Reads a list of rows.
fn rows<'de, R: Deserialize<'de>, T: From<R>, D: Deserializer<'de>>(
    d: D,
) -> Result<Vec<T>, D::Error> {
    let rows = optional::<List<R>, D>(d)?.map_or_else(Vec::new, |list| list.0);
    Ok(rows.into_iter().map(T::from).collect())
}

/// A frame; without a name it has no such key.
#[derive(Serialize, Deserialize)]
#[serde(rename = "[3..]")]
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

/// A chain of async callers.
#[derive(Serialize, Deserialize)]
#[serde(rename = "[2..]")]
struct ChainRow<C> {
    frame: u64,
    callers: C,
    #[serde(default, deserialize_with = "lenient")]
    end: AsyncEnd,
}

/// The addresses of a chain.
struct Callers<'a>(&'a [u64]);

impl Serialize for Callers<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.0.iter().map(|caller| Address::from(*caller)))
    }
}

impl From<ChainRow<List<Address>>> for AsyncChain {
    fn from(row: ChainRow<List<Address>>) -> AsyncChain {
        AsyncChain {
            frame: row.frame,
            callers: row.callers.0.into_iter().map(u64::from).collect(),
            end: row.end,
        }
    }
}

/// Async callers: `[frame, callers, end]`.
pub(crate) mod chains {
    use super::*;

    pub(crate) fn serialize<C: Chains, S: Serializer>(chains: &C, s: S) -> Result<S::Ok, S::Error> {
        let chains = (0..chains.len()).filter_map(|index| chains.at(index));
        let row = |(frame, callers, end)| ChainRow {
            frame,
            callers: Callers(callers),
            end,
        };
        list(chains.map(row), s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<AsyncChain>, D::Error> {
        rows::<ChainRow<List<Address>>, _, D>(d)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "[2..]")]
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
#[serde(rename = "[2..]")]
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
