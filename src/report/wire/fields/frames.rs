//! Stacks; a frame is `[pc, found, image]` or `[pc, found, image, name]`, and where frames are missing is
//! `[at, count]`; for people these are maps.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeTuple, Serializer};

use super::lists::rows;
use super::{Address, Tried};
use crate::report::model::{self, Found, Frame, Frames, Omitted};
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
            return Named::deserialize(d).map(|named| Frame {
                pc: named.pc.0,
                found: Found::from_code(named.found),
                image: named.image,
                name: named.name,
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

        fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<Vec<Frame>, D::Error> {
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
