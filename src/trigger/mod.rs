//! What decides that now is the time: the run loop's pulse and the watchdog that listens to it.

pub mod heartbeat;
pub mod stall;
pub mod watchdog;

pub use heartbeat::Heartbeat;
pub use stall::Stall;
