//! Maps and lists of the format: an entry or element that can't be read is left out.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{Address, Tried, lenient};
use crate::report::model::{self, Hold, Owned, Pairs};
use crate::report::time::nanos;

/// Entries as a map, in their order.
fn entries<S: Serializer>(
    pairs: impl Iterator<Item = (impl AsRef<str>, impl Serialize)>,
    s: S,
) -> Result<S::Ok, S::Error> {
    let mut map = s.serialize_map(None)?;
    for (key, value) in pairs {
        map.serialize_entry(key.as_ref(), &value)?;
    }
    map.end()
}

/// A map, as a list of its entries in their order; one that can't be read is left out.
struct List<V>(Vec<(String, V)>);

impl<V> Default for List<V> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for List<V> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = List<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<List<V>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(key) = map.next_key()? {
                    if let Tried(Some(value)) = map.next_value()? {
                        pairs.push((key, value));
                    }
                }
                Ok(List(pairs))
            }

            fn visit_unit<E: Error>(self) -> Result<List<V>, E> {
                Ok(List::default())
            }
        }
        d.deserialize_map(Entries(PhantomData))
    }
}

/// A map of texts to values of one type, as a list of its entries in their order.
pub(crate) mod pairs {
    use super::*;

    pub(crate) fn serialize<P: Pairs, S: Serializer>(pairs: &P, s: S) -> Result<S::Ok, S::Error> {
        let mut pairs = pairs.pairs().peekable();
        match pairs.peek().is_some() || s.is_human_readable() {
            true => entries(pairs, s),
            false => s.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(String, V)>, D::Error> {
        lenient::<List<V>, D>(d).map(|list| list.0)
    }
}

/// Numbers by name that are addresses, or as wide.
pub(crate) mod registers {
    use super::*;

    pub(crate) fn serialize<N: model::Numbers, S: Serializer>(
        numbers: &N,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        let mut numbers = numbers
            .numbers()
            .map(|(name, value)| (name, Address(value)))
            .peekable();
        match numbers.peek().is_some() || s.is_human_readable() {
            true => entries(numbers, s),
            false => s.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(String, u64)>, D::Error> {
        let list = lenient::<List<Address>, D>(d)?.0;
        Ok(list
            .into_iter()
            .map(|(name, value)| (name, value.0))
            .collect())
    }
}

/// Keys that this version does not know.
pub(crate) mod extra {
    use super::*;

    pub(crate) fn serialize<P: Pairs, S: Serializer>(pairs: &P, s: S) -> Result<S::Ok, S::Error> {
        entries(pairs.pairs(), s)
    }

    pub(crate) use super::pairs::deserialize;

    pub(crate) fn is_empty<P: Pairs>(pairs: &P) -> bool {
        pairs.pairs().next().is_none()
    }
}

/// A list of which an element that can't be read is left out.
struct Rows<T>(Vec<T>);

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Rows(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Rows<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = Rows<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Rows<T>, A::Error> {
                let mut rows = Vec::new();
                while let Some(Tried(row)) = seq.next_element()? {
                    rows.extend(row);
                }
                Ok(Rows(rows))
            }

            fn visit_unit<E: Error>(self) -> Result<Rows<T>, E> {
                Ok(Rows::default())
            }
        }
        d.deserialize_seq(Elements(PhantomData))
    }
}

/// Writes a list, in bytes only if there is anything in it.
pub(super) fn rows<S: Serializer>(
    rows: impl Iterator<Item = impl Serialize>,
    s: S,
) -> Result<S::Ok, S::Error> {
    let mut rows = rows.peekable();
    if rows.peek().is_none() && !s.is_human_readable() {
        return s.serialize_none();
    }
    let mut seq = s.serialize_seq(None)?;
    rows.try_for_each(|row| seq.serialize_element(&row))?;
    seq.end()
}

/// Breadcrumbs: `[time, text]`; for people `{"time": …, "text": …}`.
pub(crate) mod breadcrumbs {
    use super::*;

    pub(crate) fn serialize<B: model::Breadcrumbs, S: Serializer>(
        all: &B,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        rows(
            all.breadcrumbs().map(|(time, text)| Breadcrumb {
                time: nanos(time),
                text,
            }),
            s,
        )
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(Duration, String)>, D::Error> {
        let rows = lenient::<Rows<Breadcrumb<String>>, D>(d)?.0;
        let rows = rows.into_iter();
        Ok(rows
            .map(|row| (Duration::from_nanos(row.time), row.text))
            .collect())
    }

    struct Breadcrumb<T> {
        time: u64,
        text: T,
    }

    impl<T: AsRef<str>> Serialize for Breadcrumb<T> {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            if s.is_human_readable() {
                let mut map = s.serialize_map(Some(2))?;
                map.serialize_entry("time", &self.time)?;
                map.serialize_entry("text", self.text.as_ref())?;
                return map.end();
            }
            (self.time, self.text.as_ref()).serialize(s)
        }
    }

    impl<'de> Deserialize<'de> for Breadcrumb<String> {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            #[derive(serde::Deserialize)]
            struct Named {
                time: u64,
                text: String,
            }
            if d.is_human_readable() {
                let Named { time, text } = Named::deserialize(d)?;
                return Ok(Breadcrumb { time, text });
            }
            let (time, text) = <(u64, String)>::deserialize(d)?;
            Ok(Breadcrumb { time, text })
        }
    }
}

/// Marks: `[name, start, duration]`; for people `{"name": …, "start": …, "duration": …}`.
pub(crate) mod marks {
    use super::*;

    pub(crate) fn serialize<M: model::Marks, S: Serializer>(
        all: &M,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        rows(
            all.marks().map(|(name, start, duration)| Mark {
                name,
                start: nanos(start),
                duration: duration.map(nanos),
            }),
            s,
        )
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<<Owned as Hold>::Marks, D::Error> {
        let rows = lenient::<Rows<Mark<String>>, D>(d)?.0;
        Ok(rows
            .into_iter()
            .map(|row| {
                let lasted = row.duration.map(Duration::from_nanos);
                (row.name, Duration::from_nanos(row.start), lasted)
            })
            .collect())
    }

    struct Mark<T> {
        name: T,
        start: u64,
        duration: Option<u64>,
    }

    impl<T: AsRef<str>> Serialize for Mark<T> {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            if s.is_human_readable() {
                let mut map = s.serialize_map(Some(3))?;
                map.serialize_entry("name", self.name.as_ref())?;
                map.serialize_entry("start", &self.start)?;
                map.serialize_entry("duration", &self.duration)?;
                return map.end();
            }
            (self.name.as_ref(), self.start, self.duration).serialize(s)
        }
    }

    impl<'de> Deserialize<'de> for Mark<String> {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            #[derive(serde::Deserialize)]
            struct Named {
                name: String,
                start: u64,
                duration: Option<u64>,
            }
            if d.is_human_readable() {
                return Named::deserialize(d).map(|named| Mark {
                    name: named.name,
                    start: named.start,
                    duration: named.duration,
                });
            }
            struct Elements;
            impl<'de> Visitor<'de> for Elements {
                type Value = Mark<String>;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an array of name, start and duration")
                }

                fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                    let (Some(name), Some(start)) = (seq.next_element()?, seq.next_element()?)
                    else {
                        return Err(A::Error::invalid_length(0, &self));
                    };
                    let duration = seq.next_element::<Tried<Option<u64>>>()?;
                    let duration = duration.and_then(|Tried(duration)| duration.flatten());
                    Ok(Mark {
                        name,
                        start,
                        duration,
                    })
                }
            }
            d.deserialize_tuple(2, Elements)
        }
    }
}
