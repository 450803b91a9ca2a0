//! The contents of a report: one type per section of the format, and the values they are made of.
//!
//! Every type is plain data. A field that a report may lack is an `Option` or an empty list. Keys
//! that this version does not know are kept in `extra`, so that reading and writing again loses
//! nothing.
//!
//! The words in italics are the format's: the meaning of a missing key, and the unit of a number in a file.
//! Sections gain fields in minor versions: build one with `..Default::default()`, and take one apart with `..`.

mod event;
mod frame;
mod head;
mod hold;
mod id;
mod image;
mod near;
mod remarks;
mod stack;
mod state;
mod value;

pub use event::{Event, EventKind, Signal, Thresholds};
pub use frame::{Found, Frame, Omitted, RawFrame, WalkEnd};
pub(crate) use head::VERSION;
pub use head::{App, Format, Head, Os};
pub use hold::{
    Borrowed, Breadcrumbs, Each, Frames, Hold, Iterators, Marks, Nothing, Owned, Owning, Pairs,
};
pub(crate) use id::IdText;
pub use image::Image;
pub use near::NearMemory;
pub use remarks::{Capture, End, Loss, StallEnd};
pub use stack::{Sample, Thread};
pub use state::{Context, Cpu, Memory, Vitals};
pub use value::{Extra, Value, ValueView};

use serde::{Deserialize, Serialize};

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
    pub context: Option<Context>,
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

/// A section as it is written, borrowed from where its facts lie.
macro_rules! views {
    ($($view:ident = $section:ident),* $(,)?) => {
        $(
            #[doc = concat!("A [`", stringify!($section), "`] that is written from borrowed facts.")]
            pub type $view<'a> = $section<Borrowed<'a>>;
        )*
    };
}

views! {
    HeadView = Head, AppView = App, OsView = Os, EventView = Event, SignalView = Signal, ThresholdsView = Thresholds,
    ThreadView = Thread, ImageView = Image, SampleView = Sample, VitalsView = Vitals, CpuView = Cpu,
    MemoryView = Memory, NearMemoryView = NearMemory, StallEndView = StallEnd, CaptureView = Capture,
    LossView = Loss,
}
