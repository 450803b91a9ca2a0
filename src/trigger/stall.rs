//! The stall detector: a pure state machine over time and the watched thread's heartbeat. No clock, no
//! thread, no system call: its driver hands in one [`Observation`] after another.
//!
//! # How it counts
//! The watchdog looks once every `timeout`. A turn is *slow* while the beat stands still from one
//! observation to the next. Slow turns that follow each other without rest are an **episode**; its time runs
//! from the last observation at which all was well (so it is never short of the truth, and at most one
//! time-out too long). An episode of `timeout × strikes` is a stall: one long freeze as well as several
//! short ones, one stall each. From the second slow turn on, the watchdog requests to be woken at each
//! beat, so that the turns of an episode are measured exactly; a turn shorter than `timeout`, or a rest
//! of a tenth of it, breaks the episode. A report's duration runs from the observation that saw the first turn, or from the beat
//! that woke the watchdog: it is never longer than the truth.
//!
//! Time that the thread could not have used is not counted: when the observation itself came late (the
//! machine slept, the process was stopped, the watchdog had no CPU), only what the thread's own
//! CPU clock shows is, or that it has not run at all (a stop makes it run); and none while a
//! debugger holds it or while a nested run loop waits for events. An episode that is no stall only
//! because of that is *dropped*, with the reason.
//!
//! Before the first beat nothing shows whether the thread works or waits for its first event. It works
//! while it uses the CPU, and while it waits for a disk or for a lock that another thread holds; whatever
//! else it waits for is a rest, which ends an episode (`launch.rs`).
//!
//! Of a thread that is pinged, the start of each turn is known, and a ping that the next observation finds answered was quick. Once
//! one is missed, its answer wakes the watchdog (`pinged.rs`).

mod account;
mod detector;
mod due;
mod episode;
mod launch;
mod observation;
mod outcome;
mod pinged;
mod settings;

pub use detector::Detector;
pub use observation::{Decision, Held, Next, Observation};
pub use outcome::{Reason, StallEndInfo, StallInfo};
pub use settings::Stall;

pub use crate::report::{StallClass, StallOutcome};

#[cfg(feature = "__internals")]
pub use crate::platform::gauge::Waits;
