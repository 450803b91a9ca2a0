//! Records what the main thread was doing when the app froze or died, down to function, file and line.
//!
//! wedjat is a recorder for apps and a symbolicator for their developers:
//!
//! - [`Monitor`] watches the thread that installs it. It writes a report on a stall, a fatal signal,
//!   a panic, or when you ask. A report has the threads' registers and stacks, the images (executable
//!   and libraries) with their ids, vitals, and the app's own context.
//! - [`report`] reads reports, whole or damaged.
//! - `symbolicate` (feature of the same name, on by default) turns their addresses into functions,
//!   inlined frames, files and lines. The binary `symbolicate` is its command.
//! - [`unwind`] is the unwinder alone.
//!
//! # The contract
//! What the app does:
//! - calls [`MonitorBuilder::install`] on the thread to be watched, early, and keeps the [`Monitor`];
//! - beats: [`Heartbeat::begin`] when the thread has something to do, [`Heartbeat::end`] before it
//!   waits;
//! - ships with unwind tables (the compilers' default) and keeps the debug files of each build.
//!
//! What wedjat does:
//! - stops a thread only to copy its registers and stack, and unwinds after it runs again;
//! - in a crashing process, and while anything is stopped, allocates nothing, takes no lock, and makes
//!   async-signal-safe calls only;
//! - writes each section whole and in order of worth, so that a report cut anywhere holds all before
//!   the cut;
//! - does not change how the process dies: same exit status, same core dump.
//!
//! wedjat does not send reports. A frame has the method by which it was found, and a mark if it may be a guess; a
//! walk has the reason for its end. An address without a known function stays `image + offset`.
//!
//! # Example
//! ```
//! use wedjat::{Monitor, report::EventKind};
//! # let dir = std::env::temp_dir().join(format!("wedjat-lib-{}", std::process::id()));
//! let monitor = Monitor::builder("MyApp", "1.2.3").directory(&dir).install()?;
//! let path = monitor.record("support button")?;
//!
//! let report = wedjat::report::read(&std::fs::read(path)?)?.report;
//! assert_eq!(report.event.unwrap().kind, EventKind::Live);
//! assert!(report.threads[0].frames.len() > 3);
//! # drop(monitor);
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # House map
//! | room | job |
//! | --- | --- |
//! | [`Monitor`], `monitor/` | what an app installs; wires the rooms below together |
//! | `trigger/` | decides when to report: heartbeat, detector, watchdog, signals, panics |
//! | `recorder/` | composes a report: which sections, in which order, into which file |
//! | `capture/`, [`unwind`] | a thread, to its registers and stack, to its frames |
//! | [`stall`], [`load`] | the argument of `on_stall`; settings of the load triggers |
//! | [`context`], `vitals.rs` | the rest of a report, beside the stacks |
//! | `functions/` | where the functions of a symbol table end |
//! | [`store`] | the folder of reports, and what the last launch left in it |
//! | [`report`] | the format: model, writer, reader |
//! | `platform/` | the only place with calls to the operating system |
//! | `symbolicate` | the symbolicator: names for addresses, groups, pictures |
//! | `ffi` (feature of the same name) | the C interface, `include/wedjat.h` |
#![deny(unsafe_op_in_unsafe_fn)]

#[macro_use]
mod macros;

#[cfg(feature = "__internals")]
#[doc(hidden)]
pub mod capture;
#[cfg(not(feature = "__internals"))]
mod capture;
pub mod context;
#[cfg(feature = "ffi")]
pub mod ffi;
mod functions;
pub mod load {
    //! Settings of the load triggers: a busy CPU, memory that runs out, slow frames. The last are reported as a stall of
    //! class `slow_frames`.
    //!
    //! ```
    //! use wedjat::load::{CpuLoad, MemoryLoad, SlowFrames};
    //! # let _ =
    //! wedjat::Monitor::builder("MyApp", "1.2.3")
    //!     .cpu(CpuLoad::default())
    //!     .memory(MemoryLoad::default().share(0.7))
    //!     .slow_frames(SlowFrames::default().below(50.0));
    //! ```
    pub use crate::trigger::{CpuLoad, MemoryLoad, SlowFrames};
}
mod monitor;
#[cfg(feature = "__internals")]
#[doc(hidden)]
pub mod platform;
#[cfg(not(feature = "__internals"))]
mod platform;
mod recorder;
pub mod report;
pub mod store;
pub mod stall {
    //! The argument of the callback of [`MonitorBuilder::on_stall`](crate::MonitorBuilder::on_stall): the kind of
    //! stall, its duration and its outcome. Besides, [`Busy`], the guard of a turn.
    //!
    //! ```
    //! use wedjat::stall::{StallClass, StallEvent};
    //! fn on_stall(event: &StallEvent<'_>) {
    //!     match event {
    //!         StallEvent::Began(info) if info.class == StallClass::Blocked => eprintln!("it waits: {:?}", info.lasted),
    //!         StallEvent::Ended(end) => eprintln!("it lasted {:?}: {}", end.info.lasted, end.outcome.as_str()),
    //!         _ => {}
    //!     }
    //! }
    //! # let _ = wedjat::Monitor::builder("a", "1").on_stall(on_stall);
    //! ```
    pub use crate::monitor::StallEvent;
    pub use crate::trigger::Busy;
    pub use crate::trigger::stall::{StallClass, StallEndInfo, StallInfo, StallOutcome};
}
#[cfg(feature = "symbolicate")]
pub mod symbolicate;
pub mod threads {
    //! Watching threads besides the one that installed the monitor, and what a watched thread reports about itself, beside its
    //! [`Heartbeat`](crate::Heartbeat).
    pub use crate::monitor::{ThreadWatch, enter};
    pub use crate::trigger::pause::{MayBlock, Polls, begin, end, id, may_block, polls};
}
#[cfg(feature = "__internals")]
#[doc(hidden)]
pub mod trigger;
#[cfg(not(feature = "__internals"))]
mod trigger;
pub mod unwind;
mod vitals;

pub use monitor::{
    InstallError, Monitor, MonitorBuilder, MonitorError, Stats, Threads, watch_thread,
};
pub use trigger::{Crash, Heartbeat, RateLimit, Stall, heartbeat::heartbeat};

/// The examples in Rust of the README and of `docs/` are compiled; `tests/docs.rs` checks that no page is missing.
#[cfg(all(doctest, target_os = "linux"))]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/install.md")]
    #[doc = include_str!("../docs/loops.md")]
    #[doc = include_str!("../docs/tuning.md")]
    struct Pages;
}
