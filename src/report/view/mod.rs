//! What a section is written from: borrowed, allocation-free views, each with its encoding.
//!
//! Signal-safe throughout. Optional values that are `None`, lists that are empty and flags that are
//! `false` are not written: their absence says the same.

mod context;
mod event;
mod frames;
mod head;
mod image;
mod near;
mod optional;
mod remarks;
mod stack;
mod vitals;

pub use context::{ContextView, ValueView};
pub use event::{EventView, SignalView, ThresholdsView};
pub use head::HeadView;
pub use image::ImageView;
pub use near::NearMemoryView;
pub use remarks::{CaptureView, LossView, StallEndView};
pub use stack::{SampleView, ThreadView};
pub use vitals::{CpuView, MemoryView, VitalsView};

pub(crate) use context::CONTEXT_KIND;
pub(crate) use frames::Frames;
pub(crate) use head::{FORMAT, VERSION};
pub(crate) use optional::{optional_float, optional_text, optional_unsigned};
pub(crate) use remarks::{END_KIND, encode_end};
