//! The only place with OS calls: `linux/` and `apple/` offer the same small surface.
//!
//! Not part of the public interface: hidden from the docs, and free to change in any release.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_vendor = "apple")]
use apple as os;
#[cfg(target_os = "linux")]
use linux as os;

// Kept sorted. Each name exists on every platform, with the same meaning.
pub use os::clock;
pub use os::gauge::ThreadGauge;
pub use os::mask::SignalMask;
pub use os::semaphore::Semaphore;
