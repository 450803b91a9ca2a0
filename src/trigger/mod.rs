//! What decides that now is the time: the run loop's pulse and the watchdog that listens to it.

#[cfg(target_os = "linux")]
pub(crate) mod crash;
pub mod heartbeat;
#[cfg(target_os = "linux")]
pub(crate) mod panic;
pub mod sampling;
#[cfg(target_os = "linux")]
pub(crate) mod signal_names;
pub mod stall;
pub mod watchdog;

#[cfg(target_os = "linux")]
pub use crash::Crash;
pub use heartbeat::Heartbeat;
pub use stall::Stall;
