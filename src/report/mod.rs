//! The vocabulary that the recorder and the desk share; knows no platform.
//!
//! A report is a stream of MessagePack values, each `[kind, map]`: `docs/report-format.md` is its
//! specification. [`ReportWriter`] writes one without allocating.

mod checksum;
mod encode;
pub mod limits;
pub mod model;
mod view;
mod write;

pub use checksum::crc32;
pub use encode::{ArrayEncoder, Encoder, MapEncoder};
pub use model::*;
pub use view::*;
pub use write::{ClosedBy, ReportWriter, Sink, SinkError};
