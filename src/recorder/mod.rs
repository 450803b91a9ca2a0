//! Composing a report: which sections, in which order, into which file.
//!
//! Everything here works on memory that was reserved at install. What is marked *signal-safe* is called
//! from the crash handler too: no allocation, no lock, no panic.
// Signal-safe code is in most of these modules: nothing in the room can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod buffers;
mod crash;
mod events;
mod helper;
mod live;
mod load;
mod lock;
mod names;
mod process_info;
mod recording;
mod sampler;
mod scratch;
mod stall;
mod stall_slots;
mod threads;

pub(crate) use buffers::ReportBuffers;
pub(crate) use crash::{CRASH_WRITER, CrashRecorder, prepare_crash, retire_crash};
pub use events::StallEvent;
#[cfg(feature = "tracing")]
pub(crate) use events::log_stall;
pub(crate) use events::{COUNTERS, OnStall, trace_report};
pub(crate) use helper::{Helper, TERMINATE};
pub(crate) use live::LiveRecorder;
pub use live::Threads;
pub(crate) use load::LoadRecorder;
pub(crate) use process_info::{MAX_THREADS, ProcessInfo};
pub(crate) use recording::{Recording, Stamp};
pub(crate) use scratch::Shared;
pub(crate) use stall::StallRecorder;
use threads::ThreadList;
