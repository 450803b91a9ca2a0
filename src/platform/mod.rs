//! The only place with OS calls: `linux/` and `apple/` offer the same small surface.
//!
//! Not part of the public interface: hidden from the docs, and free to change in any release.
// Signal-safe code is in each of these modules: nothing in the room can panic.
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

pub mod abort;
#[cfg(target_vendor = "apple")]
mod apple;
pub(crate) mod atomic;
pub mod clock;
pub mod cxx;
#[cfg(any(target_vendor = "apple", test))]
mod darwin_frame;
pub mod descriptors;
pub mod directory;
pub mod exit;
pub mod file;
pub mod folder;
pub(crate) mod forked;
pub(crate) mod guarded;
#[cfg(target_os = "linux")]
mod linux;
mod mapping;
pub mod own_thread;
pub mod ownership;
pub mod registers;
pub mod signals;
pub mod stacks;
mod surface;
pub(crate) mod text;
pub(crate) mod verified_fd;

#[cfg(target_vendor = "apple")]
use apple as os;
#[cfg(target_os = "linux")]
use linux as os;

// Kept sorted. Each name exists on every platform, with the same meaning.
pub use forked::process_token;
#[cfg(target_os = "linux")]
pub(crate) use os::code_copy;
pub use os::context;
pub(crate) use os::entry;
pub use os::entry::ScarceStack;
#[cfg(target_vendor = "apple")]
pub use os::exceptions;
pub use os::gauge;
pub use os::gauge::ThreadGauge;
pub use os::gauge::is_debugged;
pub use os::images;
pub use os::main_queue::MainQueue;
pub use os::memory;
#[cfg(target_vendor = "apple")]
pub use os::objective_c;
#[cfg(target_vendor = "apple")]
pub use os::run_loop;
pub use os::semaphore::Semaphore;
pub use os::stop;
pub use os::threads;
pub use os::threads::Thread;
pub use os::vitals;
pub use os::{errno, is_dumpable, open_for_reports, set_errno};
pub use surface::{Power, QueueWorker, ThreadName};

/// The id of this process, as the kernel knows it now: a child of `fork` has its own. Signal-safe.
pub fn process_id() -> u32 {
    // SAFETY: no arguments, always succeeds.
    unsafe { libc::getpid() as u32 }
}

/// Runs `work`, after which the calling thread's `errno` is as it was before. Signal-safe, as far as `work` is.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}

/// The user that this process acts as. Signal-safe.
pub fn user() -> u32 {
    // SAFETY: no arguments, always succeeds.
    unsafe { libc::geteuid() }
}

/// 16 random bytes; where the system gives none (an old kernel, a filter), from clocks, process and
/// thread, which is enough to tell one report from another.
///
/// Signal-safe: one system call, and `errno` is kept.
pub fn fresh_id() -> [u8; 16] {
    let mut id = [0u8; 16];
    let errno = errno();
    let (start, length) = (id.as_mut_ptr().cast(), id.len());
    #[cfg(target_os = "linux")]
    // SAFETY: the pointer and length are those of a live array; GRND_NONBLOCK keeps it from waiting.
    let is_filled =
        unsafe { libc::getrandom(start, length, libc::GRND_NONBLOCK) } == length as isize;
    #[cfg(target_vendor = "apple")]
    // SAFETY: the pointer and length are those of a live array.
    let is_filled = unsafe { libc::getentropy(start, length) } == 0;
    if !is_filled {
        set_errno(errno);
        let high = clock::realtime().rotate_left(17) ^ u64::from(process_id());
        // Each thread has another stack.
        let low = clock::monotonic().rotate_left(31) ^ &raw const id as u64;
        id = ((u128::from(high) << 64) | u128::from(low)).to_be_bytes();
    }
    id
}

/// A system call that failed: which, and the platform's code for why.
#[derive(Debug)]
pub struct SystemError {
    /// Its name, as `rt_sigaction`.
    pub call: &'static str,
    /// The error it gave.
    pub source: std::io::Error,
}

impl SystemError {
    /// From the calling thread's last error.
    pub fn last(call: &'static str) -> SystemError {
        SystemError {
            call,
            source: std::io::Error::last_os_error(),
        }
    }
}

impl std::fmt::Display for SystemError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed: {}", self.call, self.source)
    }
}

impl std::error::Error for SystemError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
