//! wedjat: what was the main thread doing when the app froze or died?
#![deny(unsafe_op_in_unsafe_fn)]

#[doc(hidden)]
pub mod capture;
pub mod context;
#[cfg(target_os = "linux")]
mod monitor;
#[doc(hidden)]
pub mod platform;
#[cfg(target_os = "linux")]
mod recorder;
pub mod report;
#[cfg(target_os = "linux")]
pub mod store;
#[cfg(feature = "symbolicate")]
pub mod symbolicate;
pub mod trigger;
pub mod unwind;
#[cfg(target_os = "linux")]
mod vitals;

#[cfg(target_os = "linux")]
pub use monitor::{InstallError, Monitor, MonitorBuilder};
#[cfg(target_os = "linux")]
pub use trigger::Crash;
pub use trigger::{Heartbeat, Stall};
