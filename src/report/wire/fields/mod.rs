//! Adaptors that spell fields, for `#[serde(with = "…")]` and `#[serde(deserialize_with = "…")]`.
//!
//! In bytes, a value with nothing to say is `None`. For people (JSON) addresses and raw bytes are texts of hexadecimal
//! digits, since 64 bits don't fit into a JavaScript number. A value of a wrong type is an error, except where a report
//! is read from untrusted bytes: there it is reported, and its field is as if its key were missing.

mod lists;
mod scalars;

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::TRIED;

pub(crate) use lists::{breadcrumbs, chains, extra, frames, gauges, marks, pairs, registers};
pub(crate) use scalars::{Address, Id, IdText, Nanos, Raw, bytes, from_hex, image_id};

/// A value, or nothing where it is of the wrong type and the deserializer puts up with that.
struct Attempt<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Attempt<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Try<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Try<T> {
            type Value = Attempt<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of the field's type")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                d: D,
            ) -> Result<Self::Value, D::Error> {
                T::deserialize(d).map(|value| Attempt(Some(value)))
            }

            /// Only a deserializer that knows the name comes here: it returns the value if there is one.
            fn visit_seq<A: SeqAccess<'de>>(self, mut one: A) -> Result<Self::Value, A::Error> {
                one.next_element().map(Attempt)
            }
        }
        d.deserialize_newtype_struct(TRIED, Try(PhantomData))
    }
}

/// A field's value; none where it is nil, which is as if there were no value, or of the wrong type.
fn optional<'de, T: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
    Attempt::<Option<T>>::deserialize(d).map(|tried| tried.0.flatten())
}

/// A field that is at its default where its value is of the wrong type.
pub(crate) fn lenient<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
    d: D,
) -> Result<T, D::Error> {
    optional(d).map(Option::unwrap_or_default)
}

/// A field that is spelled as `W`: `#[serde(with = "As::<Nanos>")]`.
pub(crate) struct As<W>(PhantomData<W>);

impl<W> As<W> {
    pub(crate) fn serialize<T: Copy + Into<W>, S: Serializer>(
        value: &T,
        s: S,
    ) -> Result<S::Ok, S::Error>
    where
        W: Serialize,
    {
        (*value).into().serialize(s)
    }

    pub(crate) fn deserialize<'de, T: From<W>, D: Deserializer<'de>>(d: D) -> Result<T, D::Error>
    where
        W: Deserialize<'de> + Default,
    {
        lenient::<W, D>(d).map(T::from)
    }
}

/// A field that is spelled as `W`, and may be missing.
pub(crate) struct Maybe<W>(PhantomData<W>);

impl<W> Maybe<W> {
    pub(crate) fn serialize<T: Copy + Into<W>, S: Serializer>(
        value: &Option<T>,
        s: S,
    ) -> Result<S::Ok, S::Error>
    where
        W: Serialize,
    {
        value.map(Into::into).serialize(s)
    }

    pub(crate) fn deserialize<'de, T: From<W>, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<T>, D::Error>
    where
        W: Deserialize<'de>,
    {
        optional::<W, D>(d).map(|value| value.map(T::from))
    }
}

/// A flag, whose absence says that it is not set.
pub(crate) mod flag {
    pub(crate) use super::lenient as deserialize;
    use super::*;

    pub(crate) fn serialize<S: Serializer>(flag: &bool, s: S) -> Result<S::Ok, S::Error> {
        if *flag || s.is_human_readable() {
            s.serialize_bool(*flag)
        } else {
            s.serialize_none()
        }
    }
}
