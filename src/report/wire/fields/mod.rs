//! How fields are spelled: modules for `#[serde(with = "…")]`.
//!
//! In bytes what there is nothing to say of is `None`. For people (JSON) addresses and raw bytes are texts of
//! hexadecimal digits, since 64 bits don't fit into a JavaScript number. A value of a wrong type is an error,
//! but where a report is read from untrusted bytes: there it is reported, and its field is as if its key were missing.

pub(crate) mod frames;
mod lists;

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::TRIED;
use crate::report::model;

pub(crate) use lists::{breadcrumbs, extra, marks, pairs, registers};

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
