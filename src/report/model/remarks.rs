//! The end of a stall, the cost of the capture, losses, and the end of the file.

use std::borrow::Borrow;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Value;
use super::hold::{Hold, Owned, Owning, Pairs};
use crate::report::wire::fields::{As, Maybe, Nanos, extra, lenient};

/// The end of a stall.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct StallEnd<H: Hold = Owned> {
    /// From the stall's start.
    /// *always; ns*
    #[serde(with = "As::<Nanos>")]
    pub duration: Duration,
    /// `recovered`, `uninstalled`, `thread_ended`.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub how: H::Text,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

/// Cost of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Capture<H: Hold = Owned> {
    /// The watched thread stood still so long.
    /// *else unknown; ns*
    #[serde(with = "Maybe::<Nanos>")]
    pub stopped: Option<Duration>,
    /// Unwinding took so long.
    /// *else unknown; ns*
    #[serde(with = "Maybe::<Nanos>")]
    pub unwind: Option<Duration>,
    /// Stack copied.
    /// *else unknown; bytes*
    #[serde(deserialize_with = "lenient")]
    pub bytes: Option<u64>,
    /// Samples taken.
    /// *else unknown; count*
    #[serde(deserialize_with = "lenient")]
    pub samples: Option<u64>,
    /// Threads that did not answer.
    /// *else unknown; count*
    #[serde(deserialize_with = "lenient")]
    pub unanswered: Option<u64>,
    /// Reason for which the capture was cut short: a text, or `true`.
    /// *else nothing was*
    #[serde(deserialize_with = "lenient")]
    pub cut: Option<H::Value>,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

/// Counts of events that were not reported since launch, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Loss<H: Hold = Owned> {
    /// `quota`, `back_off`, `unwritten`, `unanswered`, `unsent`, `background`, `late`, `debugger`, `sleep`, `modal`,
    /// `recorder`, `context`, and what later versions add.
    pub counts: H::Numbers,
    /// Keys whose value is no count.
    pub extra: H::Extra,
}

/// Its keys are reasons: all stand in one map.
impl<H: Hold> Serialize for Loss<H> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = s.serialize_map(None)?;
        for (reason, count) in self.counts.pairs() {
            map.serialize_entry(reason.as_ref(), count.borrow())?;
        }
        for (key, value) in self.extra.pairs() {
            map.serialize_entry(key.as_ref(), value.borrow())?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Loss {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Loss, D::Error> {
        let mut loss = <Loss>::default();
        for (key, value) in extra::deserialize(d)? {
            match value {
                Value::Unsigned(count) if key != "dropped" => loss.counts.push((key, count)),
                value => loss.extra.push((key, value)),
            }
        }
        Ok(loss)
    }
}

/// The last section.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct End<H: Hold = Owned> {
    /// CRC-32 (IEEE, as zlib's) over all bytes before the first byte of this section.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub crc32: u32,
    /// Sections of the file, this one included.
    /// *always; count*
    #[serde(deserialize_with = "lenient")]
    pub sections: u64,
    /// `writer`, `next_launch`.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub closed_by: H::Text,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}
