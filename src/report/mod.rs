//! The vocabulary that the recorder and the symbolicator share; knows no platform.
//!
//! A report is a stream of MessagePack values, each `[kind, map]`: `docs/report-format.md` is its
//! specification. [`ReportWriter`] writes one without allocating.

mod bytes;
mod checksum;
mod damage;
pub(crate) mod edit;
pub mod limits;
mod lookup;
pub mod model;
#[cfg(not(fuzzing))]
pub(crate) mod name;
// Fuzzers have no other way to it.
#[cfg(fuzzing)]
pub mod name;
mod read;
mod redact;
mod section;
mod stream;
#[cfg(any(target_os = "linux", feature = "symbolicate", test))]
mod text_hash;
pub(crate) mod time;
mod token;
mod wire;
mod write;

pub use bytes::to_bytes;
#[cfg(feature = "symbolicate")]
pub(crate) use checksum::crc32;
pub use damage::{Damage, DamageKind, ReadError};
pub use model::*;
pub use read::{Reading, Survey, read, survey};
pub use redact::{REMOVED, Redact, redact};
#[cfg(feature = "symbolicate")]
pub(crate) use redact::{UserNames, redact_names};
pub use stream::ReportReader;
#[cfg(any(target_os = "linux", feature = "symbolicate"))]
pub(crate) use text_hash::text_hash;
pub(crate) use wire::section::{Stacked, With};
pub use write::{ClosedBy, ReportWriter, Sink, SinkError};
