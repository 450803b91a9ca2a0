//! How fields are spelled: modules for `#[serde(with = "…")]`.
//!
//! In bytes what there is nothing to say of is `None`. For people (JSON) addresses and raw bytes are texts of
//! hexadecimal digits, since 64 bits don't fit into a JavaScript number. A value of a wrong type is an error,
//! but where a report is read from untrusted bytes: there it is told, and its field is as if its key were missing.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, SerializeTuple, Serializer};

use super::TRIED;
use crate::report::model::{self, Hold, Owned, Pairs};
use crate::report::time::nanos;

/// A value, or nothing where it is of the wrong type and the deserializer puts up with that.
pub(crate) struct Tried<T>(pub(crate) Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Tried<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Try<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Try<T> {
            type Value = Tried<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of the field's type")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                d: D,
            ) -> Result<Self::Value, D::Error> {
                T::deserialize(d).map(|value| Tried(Some(value)))
            }

            /// Only a deserializer that knows the name comes here.
            fn visit_seq<A: SeqAccess<'de>>(self, mut one: A) -> Result<Self::Value, A::Error> {
                Ok(Tried(one.next_element().ok().flatten()))
            }
        }
        d.deserialize_newtype_struct(TRIED, Try(PhantomData))
    }
}

/// A field that is at its default where its value is of the wrong type.
pub(crate) fn lenient<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
    d: D,
) -> Result<T, D::Error> {
    // Nil is as if there were no value.
    let tried = Tried::<Option<T>>::deserialize(d)?;
    Ok(tried.0.flatten().unwrap_or_default())
}

/// A [`Visitor`] of texts.
struct Digits<T, F>(&'static str, F, PhantomData<T>);

impl<T, F: FnOnce(&str) -> Option<T>> Visitor<'_> for Digits<T, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        let expected = self.0;
        (self.1)(text)
            .ok_or_else(|| E::custom(format_args!("should be {expected}; it was skipped")))
    }
}

/// Wrappers with a spelling of their own.
#[derive(Default)]
struct Address(u64);

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match s.is_human_readable() {
            true => s.collect_str(&format_args!("{:#x}", self.0)),
            false => s.serialize_u64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let parse = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        match d.is_human_readable() {
            true => d
                .deserialize_str(Digits("an address, as 0x10a0", parse, PhantomData))
                .map(Address),
            false => u64::deserialize(d).map(Address),
        }
    }
}

/// Raw bytes, which serde would else take for an array of integers.
#[derive(Default)]
struct Raw<B>(B);

impl<B: AsRef<[u8]>> Serialize for Raw<B> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        struct Hex<'a>(&'a [u8]);
        impl fmt::Display for Hex<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
        match s.is_human_readable() {
            true => s.collect_str(&Hex(self.0.as_ref())),
            false => s.serialize_bytes(self.0.as_ref()),
        }
    }
}

/// Raw bytes; for people hexadecimal digits.
pub(crate) fn raw<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
    Raw(bytes).serialize(s)
}

/// The bytes of hexadecimal digits; hyphens among them mean nothing.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let mut digits = text.bytes().filter(|byte| *byte != b'-');
    let mut bytes = Vec::with_capacity(text.len() / 2);
    while let Some(high) = digits.next() {
        let pair = [high, digits.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()?);
    }
    Some(bytes)
}

impl<'de> Deserialize<'de> for Raw<Vec<u8>> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("raw bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
                from_hex(text)
                    .ok_or_else(|| E::custom("should be hexadecimal digits; it was skipped"))
            }
        }
        match d.is_human_readable() {
            true => d.deserialize_str(Bytes).map(Raw),
            false => d.deserialize_bytes(Bytes).map(Raw),
        }
    }
}

/// How people write an id: a UUID with hyphens for 16 bytes, else hexadecimal digits.
struct Id<'a>(&'a [u8]);

impl Serialize for Id<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match s.is_human_readable() {
            true => s.collect_str(&model::IdText(self.0)),
            false => s.serialize_bytes(self.0),
        }
    }
}

#[derive(Default)]
struct Sixteen([u8; 16]);

impl<'de> Deserialize<'de> for Sixteen {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let bytes = Raw::deserialize(d)?.0;
        let count = bytes.len();
        let wrong = |_| {
            Error::custom(format_args!(
                "should be 16 raw bytes and is {count}; it was skipped"
            ))
        };
        bytes.try_into().map(Sixteen).map_err(wrong)
    }
}

/// A flag, whose absence says that it is not set.
pub(crate) mod flag {
    pub(crate) use super::lenient as deserialize;
    use super::*;

    pub(crate) fn serialize<S: Serializer>(flag: &bool, s: S) -> Result<S::Ok, S::Error> {
        match *flag || s.is_human_readable() {
            true => s.serialize_bool(*flag),
            false => s.serialize_none(),
        }
    }
}

/// An address.
pub(crate) mod address {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(address: &u64, s: S) -> Result<S::Ok, S::Error> {
        Address(*address).serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        lenient::<Address, D>(d).map(|address| address.0)
    }

    /// One that may be missing.
    pub(crate) mod optional {
        use super::*;

        pub(crate) fn serialize<S: Serializer>(
            address: &Option<u64>,
            s: S,
        ) -> Result<S::Ok, S::Error> {
            address.map(Address).serialize(s)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            d: D,
        ) -> Result<Option<u64>, D::Error> {
            lenient::<Option<Address>, D>(d).map(|address| address.map(|address| address.0))
        }
    }
}

/// Sixteen bytes.
pub(crate) mod id {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(id: &[u8; 16], s: S) -> Result<S::Ok, S::Error> {
        Id(id).serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[u8; 16], D::Error> {
        lenient::<Sixteen, D>(d).map(|id| id.0)
    }
}

/// The id of an image, of any length.
pub(crate) mod image_id {
    use super::*;

    pub(crate) fn serialize<B: AsRef<[u8]>, S: Serializer>(
        id: &B,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        Id(id.as_ref()).serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        lenient::<Raw<Vec<u8>>, D>(d).map(|bytes| bytes.0)
    }
}

/// Raw bytes, which are missing where there are none.
pub(crate) mod bytes {
    use super::*;

    pub(crate) fn serialize<B: AsRef<[u8]>, S: Serializer>(
        bytes: &B,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        match bytes.as_ref() {
            [] => s.serialize_none(),
            bytes => Raw(bytes).serialize(s),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        optional::deserialize(d).map(Option::unwrap_or_default)
    }

    /// Those that may be missing.
    pub(crate) mod optional {
        use super::*;

        pub(crate) fn serialize<B: AsRef<[u8]>, S: Serializer>(
            bytes: &Option<B>,
            s: S,
        ) -> Result<S::Ok, S::Error> {
            bytes.as_ref().map(Raw).serialize(s)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            d: D,
        ) -> Result<Option<Vec<u8>>, D::Error> {
            lenient::<Option<Raw<Vec<u8>>>, D>(d).map(|bytes| bytes.map(|bytes| bytes.0))
        }
    }
}

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
fn rows<S: Serializer>(
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
                let Named {
                    name,
                    start,
                    duration,
                } = Named::deserialize(d)?;
                return Ok(Mark {
                    name,
                    start,
                    duration,
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

/// Stacks; a frame is `[pc, found, image]` or `[pc, found, image, name]`.
pub(crate) mod frames {
    use super::*;
    use crate::report::model::{Found, Frame, Frames};
    use crate::report::wire::FRAMES;

    pub(crate) fn serialize<F: Frames, S: Serializer>(frames: &F, s: S) -> Result<S::Ok, S::Error> {
        rows(
            (0..frames.len())
                .filter_map(|index| frames.at(index))
                .map(Row),
            s,
        )
    }

    struct Row<'a>((u64, Found, Option<u32>, Option<&'a str>));

    impl Serialize for Row<'_> {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            let (pc, found, image, name) = self.0;
            if s.is_human_readable() {
                let mut map = s.serialize_map(None)?;
                map.serialize_entry("pc", &Address(pc))?;
                map.serialize_entry("found", &found.code())?;
                map.serialize_entry("image", &image)?;
                if let Some(name) = name {
                    map.serialize_entry("name", name)?;
                }
                return map.end();
            }
            let mut row = s.serialize_tuple(if name.is_some() { 4 } else { 3 })?;
            row.serialize_element(&pc)?;
            row.serialize_element(&found.code())?;
            row.serialize_element(&image)?;
            name.iter()
                .try_for_each(|name| row.serialize_element(name))?;
            row.end()
        }
    }

    impl Serialize for Frame {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            Row((self.pc, self.found, self.image, self.name.as_deref())).serialize(s)
        }
    }

    impl<'de> Deserialize<'de> for Frame {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Frame, D::Error> {
            #[derive(serde::Deserialize)]
            struct Named {
                pc: Address,
                found: u8,
                image: Option<u32>,
                name: Option<String>,
            }
            if d.is_human_readable() {
                let Named {
                    pc,
                    found,
                    image,
                    name,
                } = Named::deserialize(d)?;
                return Ok(Frame {
                    pc: pc.0,
                    found: Found::from_code(found),
                    image,
                    name,
                });
            }
            struct Elements;
            impl<'de> Visitor<'de> for Elements {
                type Value = Frame;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("[pc, found, image]")
                }

                fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Frame, A::Error> {
                    let (Some(pc), Some(found), Some(image)) = (
                        seq.next_element()?,
                        seq.next_element()?,
                        seq.next_element()?,
                    ) else {
                        return Err(A::Error::invalid_length(0, &self));
                    };
                    let name = match seq.next_element()? {
                        Some(model::Value::Text(name)) => Some(name),
                        _ => None,
                    };
                    while seq.next_element::<IgnoredAny>()?.is_some() {}
                    Ok(Frame {
                        pc,
                        found: Found::from_code(found),
                        image,
                        name,
                    })
                }
            }
            d.deserialize_seq(Elements)
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Frame>, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Vec<Frame>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of frames")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                d: D,
            ) -> Result<Vec<Frame>, D::Error> {
                Ok(Option::<Vec<Frame>>::deserialize(d)?.unwrap_or_default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Frame>, A::Error> {
                let mut frames = Vec::with_capacity(seq.size_hint().unwrap_or_default().min(64));
                while let Some(Tried(frame)) = seq.next_element()? {
                    frames.extend(frame);
                }
                Ok(frames)
            }
        }
        d.deserialize_newtype_struct(FRAMES, List)
    }
}

/// Where frames are missing: `[at, count]`; for people `{"at": …, "count": …}`.
mod gap {
    use super::*;
    use crate::report::model::Omitted;

    impl Serialize for Omitted {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            if s.is_human_readable() {
                let mut map = s.serialize_map(Some(2))?;
                map.serialize_entry("at", &self.at)?;
                map.serialize_entry("count", &self.count)?;
                return map.end();
            }
            (self.at, self.count).serialize(s)
        }
    }

    impl<'de> Deserialize<'de> for Omitted {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            #[derive(serde::Deserialize)]
            struct Named {
                at: u64,
                count: u64,
            }
            if d.is_human_readable() {
                let Named { at, count } = Named::deserialize(d)?;
                return Ok(Omitted { at, count });
            }
            let (at, count) = <(u64, u64)>::deserialize(d)?;
            Ok(Omitted { at, count })
        }
    }
}
