//! Numbers and bytes that are not spelled as serde would spell them.

use std::convert::identity;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use super::optional;
use crate::report::time::{nanos, since_epoch, wall};

/// A time since the Unix epoch or a duration, as nanoseconds.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Nanos(u64);

/// An address: for people a hexadecimal text.
#[derive(Clone, Copy, Default)]
pub(crate) struct Address(u64);

/// Sixteen bytes that identify something: for people written as a UUID.
#[derive(Clone, Copy, Default)]
pub(crate) struct Id([u8; 16]);

/// Types of the model and how each is spelled: there, and back.
macro_rules! spelled {
    ($($type:ty as $spelling:ident: $to:expr, $back:expr;)*) => {$(
        impl From<$type> for $spelling {
            fn from(value: $type) -> $spelling {
                $spelling($to(value))
            }
        }

        impl From<$spelling> for $type {
            fn from(spelling: $spelling) -> $type {
                $back(spelling.0)
            }
        }
    )*};
}

spelled! {
    Duration as Nanos: nanos, Duration::from_nanos;
    SystemTime as Nanos: since_epoch, wall;
    u64 as Address: identity, identity;
    [u8; 16] as Id: identity, identity;
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() {
            s.collect_str(&format_args!("{:#x}", self.0))
        } else {
            s.serialize_u64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if !d.is_human_readable() {
            return u64::deserialize(d).map(Address);
        }
        let text = String::deserialize(d)?;
        let digits = text.strip_prefix("0x").unwrap_or_default();
        let address = u64::from_str_radix(digits, 16).map(Address);
        address.map_err(|_| Error::custom("should be an address, as 0x10a0; it was skipped"))
    }
}

/// Raw bytes, which serde would else take for an array of integers: for people hexadecimal digits.
#[derive(Default)]
pub(crate) struct Raw<B>(pub(crate) B);

impl<B: AsRef<[u8]>> Serialize for Raw<B> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        struct Hex<'a>(&'a [u8]);
        impl fmt::Display for Hex<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
        if s.is_human_readable() {
            s.collect_str(&Hex(self.0.as_ref()))
        } else {
            s.serialize_bytes(self.0.as_ref())
        }
    }
}

impl<'de> Deserialize<'de> for Raw<Vec<u8>> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Raw<Vec<u8>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("raw bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Raw(bytes.to_vec()))
            }
        }
        if !d.is_human_readable() {
            return d.deserialize_bytes(Bytes);
        }
        let bytes = from_hex(&String::deserialize(d)?).map(Raw);
        bytes.ok_or_else(|| Error::custom("should be hexadecimal digits; it was skipped"))
    }
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

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        image_id::serialize(&self.0, s)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let bytes = Raw::deserialize(d)?.0;
        let count = bytes.len();
        let wrong = |_| {
            Error::custom(format_args!(
                "should be 16 raw bytes and is {count}; it was skipped"
            ))
        };
        bytes.try_into().map(Id).map_err(wrong)
    }
}

/// A UUID with hyphens for Mach-O's 16 bytes, else hexadecimal digits.
pub(crate) struct IdText<'a>(pub(crate) &'a [u8]);

impl fmt::Display for IdText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_uuid = self.0.len() == 16;
        for (index, byte) in self.0.iter().enumerate() {
            if !is_uuid {
                write!(f, "{byte:02x}")?;
            } else if matches!(index, 4 | 6 | 8 | 10) {
                write!(f, "-{byte:02X}")?;
            } else {
                write!(f, "{byte:02X}")?;
            }
        }
        Ok(())
    }
}

/// The id of an image, of any length: for people a UUID with hyphens if it has 16 bytes, else hexadecimal digits.
pub(crate) mod image_id {
    pub(crate) use super::bytes::deserialize;
    use super::*;

    pub(crate) fn serialize<B: AsRef<[u8]>, S: Serializer>(
        id: &B,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() {
            s.collect_str(&IdText(id.as_ref()))
        } else {
            s.serialize_bytes(id.as_ref())
        }
    }
}

/// Raw bytes; the key is omitted if they are empty.
pub(crate) mod bytes {
    use super::*;

    pub(crate) fn serialize<B: AsRef<[u8]>, S: Serializer>(
        bytes: &B,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = bytes.as_ref();
        (!bytes.is_empty()).then_some(Raw(bytes)).serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        optional::deserialize(d).map(Option::unwrap_or_default)
    }

    /// Raw bytes that may be missing.
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
            Ok(optional::<Raw<Vec<u8>>, D>(d)?.map(|bytes| bytes.0))
        }
    }
}
