//! How times and durations are spelled, for `#[serde(with = "…")]`: integers, for programs and for people.

use std::time::{Duration, SystemTime};

use serde::{Deserializer, Serialize, Serializer};

use super::fields::lenient;
use crate::report::time::{nanos, since_epoch, wall};

/// A time, as nanoseconds since the Unix epoch.
pub(crate) mod time {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &SystemTime, s: S) -> Result<S::Ok, S::Error> {
        since_epoch(*time).serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<SystemTime, D::Error> {
        lenient(d).map(wall)
    }
}

/// A duration, as nanoseconds.
pub(crate) mod duration {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &Duration, s: S) -> Result<S::Ok, S::Error> {
        nanos(*time).serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        lenient(d).map(Duration::from_nanos)
    }

    /// One that may be missing.
    pub(crate) mod optional {
        use super::*;

        pub(crate) fn serialize<S: Serializer>(
            time: &Option<Duration>,
            s: S,
        ) -> Result<S::Ok, S::Error> {
            time.map(nanos).serialize(s)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            d: D,
        ) -> Result<Option<Duration>, D::Error> {
            lenient::<Option<u64>, D>(d).map(|time| time.map(Duration::from_nanos))
        }
    }
}
