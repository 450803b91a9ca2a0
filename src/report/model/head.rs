//! The app, the system, the process and the time of a report.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::Extra;
use crate::report::wire::fields::{As, Id, Nanos, extra, lenient};

/// The version of the format that this crate writes.
pub(crate) const VERSION: u64 = 1;

section! {
    /// The first section of every report.
    Head, HeadView<'a> {
        /// `wedjat`: marks the file as a report.
        /// *always*
        #[serde(default, deserialize_with = "lenient")]
        format: Magic,
        /// Version of the format; 1 here.
        /// *always*
        #[serde(default = "u64::default", deserialize_with = "lenient")]
        version: u64,
        /// Identifies this report.
        /// *always; 16 bytes*
        #[serde(with = "As::<Id>")]
        id: [u8; 16],
        /// Identifies the launch (the run of the process) that wrote it.
        /// *always; 16 bytes*
        #[serde(with = "As::<Id>")]
        launch: [u8; 16],
        /// Wall clock when the report was begun; of a stall, when it reached the threshold.
        /// *always; ns since the Unix epoch*
        #[serde(with = "As::<Nanos>")]
        time: SystemTime,
        /// Monotonic clock at the same moment.
        /// *always; ns, monotonic*
        #[serde(with = "As::<Nanos>")]
        clock: Duration,
        /// Process id.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        pid: u64,
        /// `arm64`, `x86_64`.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        arch: String as &'a str,
        /// The app's name and version.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        app: App as AppView<'a>,
        /// The operating system.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        os: Os as OsView<'a>,
        /// Device model, as `MacBookPro18,3`; on Linux the machine's product name where known.
        /// *else unknown*
        #[serde(deserialize_with = "lenient")]
        device: Option<String> as Option<&'a str>,
    }
}

/// Implements `Default`: a head of this version of the format and of the Unix epoch; nothing else is known.
macro_rules! unknown_head {
    ($head:ty $(, $field:ident)*) => {
        impl Default for $head {
            fn default() -> Self {
                Self {
                    format: Magic::Wedjat,
                    version: VERSION,
                    time: SystemTime::UNIX_EPOCH,
                    id: [0; 16],
                    launch: [0; 16],
                    clock: Duration::ZERO,
                    pid: 0,
                    arch: Default::default(),
                    app: Default::default(),
                    os: Default::default(),
                    device: None,
                    $($field: Default::default(),)*
                }
            }
        }
    };
}

unknown_head!(Head, extra);
unknown_head!(HeadView<'_>);

section! {
    /// The app that was recorded.
    #[derive(Default)]
    App, AppView<'a> {
        /// As given to `Monitor::builder`.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        name: String as &'a str,
        /// As given to `Monitor::builder`.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        version: String as &'a str,
    }
}

section! {
    /// The operating system it ran on.
    #[derive(Default)]
    Os, OsView<'a> {
        /// `Linux`, `macOS`, `iOS` (also on tvOS, visionOS and Catalyst).
        /// *always*
        #[serde(deserialize_with = "lenient")]
        name: String as &'a str,
        /// As `14.5`, `6.1.0`.
        /// *always*
        #[serde(deserialize_with = "lenient")]
        version: String as &'a str,
        /// Build, as `23F79`; on Linux the kernel's version string.
        /// *else unknown*
        #[serde(deserialize_with = "lenient")]
        build: Option<String> as Option<&'a str>,
    }
}

/// The word that marks a file as a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Magic {
    /// The file is a report.
    #[serde(rename = "wedjat")]
    Wedjat,
    /// Another word, or no word.
    #[default]
    #[serde(rename = "other", other)]
    Other,
}
