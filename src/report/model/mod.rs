//! The contents of a report: one struct per section of the format, and the values they are made of.
//!
//! A field that a report may lack is an `Option` or an empty list. The words in italics are the format's: the meaning of a
//! missing key, and the unit of a number in a file.

/// A section as a reader gets it, which owns its texts and lists, and its view, by which a writer that must not allocate
/// borrows them: the same keys in the same order. A field that has another type there has it after `as`.
macro_rules! section {
    (
        $(#[$attribute:meta])*
        $name:ident, $view:ident $(<$a:lifetime>)? {
            $($(#[$field_attribute:meta])* $field:ident: $owned:ty $(as $borrowed:ty)?,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_attribute])* pub $field: $owned,)*
            /// Keys not known here.
            #[serde(with = "extra", skip_serializing_if = "Vec::is_empty")]
            pub extra: Extra,
        }

        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
        pub struct $view $(<$a>)? {
            $($(#[$field_attribute])* pub $field: section!(@ $owned $(as $borrowed)?),)*
        }
    };
    (@ $owned:ty as $borrowed:ty) => { $borrowed };
    (@ $owned:ty) => { $owned };
}

mod async_chain;
mod event;
mod frame;
mod head;
mod image;
mod stack;
mod state;
mod value;

pub(crate) use async_chain::Chains;
pub use async_chain::{AsyncChain, AsyncEnd, RawChain, RawChains};
use event::word;
pub use event::{
    Event, EventKind, EventView, Signal, SignalView, StallClass, Thresholds, ThresholdsView,
    Watched, WatchedView,
};
pub(crate) use frame::Frames;
pub use frame::{Found, Frame, Omitted, RawFrame, WalkEnd};
pub(crate) use head::VERSION;
pub use head::{App, AppView, Head, HeadView, Magic, Os, OsView};
pub(crate) use image::ImageIndex;
pub use image::{Image, ImageView, NearMemory, NearMemoryView};
pub use stack::{Sample, SampleView, Thread, ThreadState, ThreadView};
pub use state::{
    AppContext, AppContextView, Capture, CaptureView, Cpu, CpuView, CutReason, End, EndView, Loss,
    LossView, MemoryUse, MemoryUseView, StallEnd, StallEndView, StallOutcome, Vitals, VitalsView,
};
pub use value::{Extra, Value, ValueView};

use serde::{Deserialize, Serialize};

pub(crate) use crate::report::wire::fields::IdText;

/// One report: everything that a file says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Report {
    /// The first section: which app, which machine, which process, when.
    #[serde(flatten)]
    pub head: Head,
    /// The event that the report is about.
    pub event: Option<Event>,
    /// The threads, in the order of the file: the one in question first.
    pub threads: Vec<Thread>,
    /// The images that frames point into, in the order of the file; [`Frame::image`] indexes this.
    pub images: Vec<Image>,
    /// The stacks that were taken while a stall lasted.
    pub samples: Vec<Sample>,
    /// Gauges of process and device.
    pub vitals: Option<Vitals>,
    /// State that the app itself recorded.
    pub context: Option<AppContext>,
    /// The end of a stall: its outcome and its duration.
    pub stall_end: Option<StallEnd>,
    /// Memory near what went wrong, where the app asked for it.
    pub memory: Vec<NearMemory>,
    /// Cost of the capture.
    pub capture: Option<Capture>,
    /// Counts of events that were not reported since launch, by reason.
    pub loss: Option<Loss>,
    /// The last section; absent where the writer did not come that far.
    pub end: Option<End>,
    /// Sections of kinds that this version does not know: kind, value.
    pub unknown: Vec<(String, Value)>,
}

impl Report {
    /// Returns the report's word for the class of a stall: of the whole of it where it is over, else as it was when it was
    /// certain. It may be one that this version does not know.
    pub fn class_word(&self) -> Option<&str> {
        let (end, event) = (self.stall_end.as_ref(), self.event.as_ref());
        let whole = end.and_then(|end| Some((end.class?, &end.extra)));
        let (class, extra) = whole.or_else(|| event.and_then(|it| Some((it.class?, &it.extra))))?;
        Some(word(class.as_str(), extra, "class"))
    }

    /// The reason of the event in one line; of a stall that is over, that of most of its time.
    pub fn reason(&self) -> Option<&str> {
        match &self.stall_end {
            Some(end) if end.class.is_some() => end.reason.as_deref(),
            _ => self.event.as_ref()?.reason.as_deref(),
        }
    }
}
