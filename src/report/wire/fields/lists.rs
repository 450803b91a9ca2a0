//! Maps and lists of the format: an entry or element that can't be read is left out.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{Address, Tried, tried};

/// A map, as a list of its entries in their order; one that can't be read is left out.
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
                    if let Tried(Some(value)) = map.next_value()? {
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
    let entries = tried::<Entries<W>, D>(d)?.map_or_else(Vec::new, |entries| entries.0);
    let entries = entries.into_iter();
    Ok(entries.map(|(key, value)| (key, value.into())).collect())
}

/// Writes a map, in bytes only if there is anything in it.
fn map<S: Serializer>(
    entries: impl Iterator<Item = (impl AsRef<str>, impl Serialize)>,
    s: S,
) -> Result<S::Ok, S::Error> {
    let mut entries = entries.peekable();
    if entries.peek().is_none() && !s.is_human_readable() {
        return s.serialize_none();
    }
    let mut map = s.serialize_map(None)?;
    entries.try_for_each(|(key, value)| map.serialize_entry(key.as_ref(), &value))?;
    map.end()
}

/// A map of texts to values of one type, as a list of its entries in their order.
pub(crate) mod pairs {
    use super::*;

    pub(crate) fn serialize<K: AsRef<str>, V: Serialize, S: Serializer>(
        pairs: &impl AsRef<[(K, V)]>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        map(pairs.as_ref().iter().map(|(key, value)| (key, value)), s)
    }

    pub(crate) fn deserialize<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(String, V)>, D::Error> {
        entries::<V, V, D>(d)
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
        map(numbers.map(|(name, n)| (name, Address::from(*n))), s)
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

/// A list; an element that can't be read is left out.
pub(super) struct List<T>(pub(super) Vec<T>);

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
                while let Some(Tried(element)) = seq.next_element()? {
                    list.extend(element);
                }
                Ok(List(list))
            }
        }
        d.deserialize_seq(Elements(PhantomData))
    }
}

/// Writes a list, in bytes only if there is anything in it.
pub(super) fn list<S: Serializer>(
    elements: impl Iterator<Item = impl Serialize>,
    s: S,
) -> Result<S::Ok, S::Error> {
    let mut elements = elements.peekable();
    if elements.peek().is_none() && !s.is_human_readable() {
        return s.serialize_none();
    }
    let mut seq = s.serialize_seq(None)?;
    elements.try_for_each(|element| seq.serialize_element(&element))?;
    seq.end()
}
