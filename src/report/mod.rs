//! Reports: what [`read`] returns, one struct a section, and what is damaged of it.
//!
//! A report is a stream of MessagePack values, each `[kind, map]`: `docs/report-format.md` is its
//! specification. Every type is plain data. A key that this version does not know is kept in `extra`: reading and
//! writing again loses nothing. Sections gain fields in minor versions. So build one from its
//! default, and take one apart with `..`:
//!
//! ```
//! # use wedjat::report::{Frame, Thread};
//! let mut thread = Thread::default();
//! thread.id = 7;
//! thread.frames.push(Frame::new(0x1_0000_4000));
//! let Thread { id, frames, .. } = thread;
//! # assert_eq!((id, frames[0].pc), (7, 0x1_0000_4000));
//! ```

mod bytes;
mod checksum;
mod damage;
pub(crate) mod edit;
pub mod limits;
pub(crate) mod model;
#[cfg(feature = "__internals")]
#[doc(hidden)]
pub mod name;
#[cfg(not(feature = "__internals"))]
pub(crate) mod name;
mod read;
mod redact;
mod section;
mod stream;
pub(crate) mod time;
mod token;
mod wire;
mod write;

pub use bytes::to_bytes;
pub(crate) use checksum::crc32;
#[cfg(any(target_os = "linux", feature = "symbolicate"))]
pub(crate) use checksum::text_hash;
#[cfg(feature = "symbolicate")]
pub(crate) use damage::looks_like;
pub use damage::{Damage, DamageKind, ReadError};
pub use model::{
    App, AppContext, AsyncChain, AsyncEnd, Capture, Cpu, CutReason, End, Event, EventKind, Extra,
    Found, Frame, Head, Image, Loss, Magic, MemoryUse, NearMemory, Omitted, Os, Report, Sample,
    Signal, StallClass, StallEnd, StallOutcome, Thread, ThreadState, Thresholds, Value, ValueView,
    Vitals, WalkEnd, Watched,
};
pub(crate) use model::{Chains, Frames};
pub use read::{Reading, read};
pub use redact::{REMOVED, Redact, redact};
#[cfg(feature = "symbolicate")]
pub(crate) use redact::{UserNames, redact_names};
pub use stream::ReportReader;
pub(crate) use wire::section::{Stacked, With};
// The recorder's side of the format.
#[cfg(feature = "__internals")]
#[doc(hidden)]
pub use {edit::Survey, edit::survey, write::*};
#[cfg(not(feature = "__internals"))]
pub(crate) use {edit::survey, write::*};
