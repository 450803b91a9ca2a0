//! wedjat: what was the main thread doing when the app froze or died?
#![deny(unsafe_op_in_unsafe_fn)]

#[doc(hidden)]
pub mod capture;
#[doc(hidden)]
pub mod platform;
pub mod report;
#[cfg(feature = "symbolicate")]
pub mod symbolicate;
pub mod trigger;
pub mod unwind;

pub use trigger::{Heartbeat, Stall};
