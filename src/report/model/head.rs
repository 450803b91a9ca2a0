//! The app, the system, the process and the time of a report.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::hold::{Hold, Owned, Owning};
use crate::report::wire::fields::{As, Id, Nanos, extra, lenient};

/// The version of the format that this crate writes.
pub(crate) const VERSION: u64 = 1;

/// The first section of every report.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Head<H: Hold = Owned> {
    /// `wedjat`: marks the file as a report.
    /// *always*
    #[serde(default = "Format::other", deserialize_with = "format")]
    pub format: Format,
    /// Version of the format; 1 here.
    /// *always*
    #[serde(default = "u64::default", deserialize_with = "lenient")]
    pub version: u64,
    /// Identifies this report.
    /// *always; 16 bytes*
    #[serde(with = "As::<Id>")]
    pub id: [u8; 16],
    /// Identifies the launch (the run of the process) that wrote it.
    /// *always; 16 bytes*
    #[serde(with = "As::<Id>")]
    pub launch: [u8; 16],
    /// Wall clock when the report was begun.
    /// *always; ns since the Unix epoch*
    #[serde(with = "As::<Nanos>")]
    pub time: SystemTime,
    /// Monotonic clock at the same moment.
    /// *always; ns, monotonic*
    #[serde(with = "As::<Nanos>")]
    pub clock: Duration,
    /// Process id.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub pid: u64,
    /// `arm64`, `x86_64`.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub arch: H::Text,
    /// The app's name and version.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub app: App<H>,
    /// The operating system.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub os: Os<H>,
    /// Device model, as `MacBookPro18,3`; on Linux the machine's product name where known.
    /// *else unknown*
    #[serde(deserialize_with = "lenient")]
    pub device: Option<H::Text>,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

impl<H: Hold + Default> Default for Head<H>
where
    H::Text: Default,
    H::Extra: Default,
{
    /// A head of this version of the format and of the Unix epoch; nothing else is known.
    fn default() -> Self {
        Head {
            format: Format::default(),
            version: VERSION,
            id: [0; 16],
            launch: [0; 16],
            time: SystemTime::UNIX_EPOCH,
            clock: Duration::ZERO,
            pid: 0,
            arch: H::Text::default(),
            app: App::default(),
            os: Os::default(),
            device: None,
            extra: H::Extra::default(),
        }
    }
}

/// The app that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct App<H: Hold = Owned> {
    /// As given to `Monitor::builder`.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub name: H::Text,
    /// As given to `Monitor::builder`.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub version: H::Text,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

/// The operating system it ran on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = "H: Owning"))]
pub struct Os<H: Hold = Owned> {
    /// `Linux`, `macOS`, `iOS`.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub name: H::Text,
    /// As `14.5`, `6.1.0`.
    /// *always*
    #[serde(deserialize_with = "lenient")]
    pub version: H::Text,
    /// Build, as `23F79`; on Linux the kernel's version string.
    /// *else unknown*
    #[serde(deserialize_with = "lenient")]
    pub build: Option<H::Text>,
    /// Keys not known here.
    #[serde(with = "extra", skip_serializing_if = "extra::is_empty")]
    pub extra: H::Extra,
}

/// The word that marks a file as a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Format {
    /// The file is a report.
    #[default]
    #[serde(rename = "wedjat")]
    Wedjat,
    /// Another word, or no word.
    #[serde(rename = "other", other)]
    Other,
}

impl Format {
    fn other() -> Format {
        Format::Other
    }
}

fn format<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Format, D::Error> {
    lenient::<Option<Format>, D>(d).map(|format| format.unwrap_or(Format::Other))
}
