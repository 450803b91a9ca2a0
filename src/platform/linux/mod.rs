//! Linux: what `platform` offers, by libc and raw system calls.

pub mod calls;
mod cgroup;
pub mod context;
pub mod gauge;
pub mod images;
#[cfg(all(feature = "thread-stacks", target_env = "gnu"))]
mod interpose;
pub mod memory;
mod mutex;
pub mod power;
mod proc_files;
pub mod semaphore;
pub mod send;
pub mod stop;
pub mod system;
#[cfg(feature = "thread-stacks")]
mod thread_stacks;
pub mod threads;
pub mod vitals;
mod waits;

pub use proc_files::open_for_reports;

/// Sees to it that every thread has an alternate stack, now and from now on: where the feature
/// `thread-stacks` is on. Not signal-safe.
pub fn provide_stacks() {
    #[cfg(all(feature = "thread-stacks", target_env = "gnu"))]
    interpose::keep();
    #[cfg(feature = "thread-stacks")]
    thread_stacks::give_to_all();
}

/// The calling thread's `errno`. Signal-safe.
pub fn errno() -> i32 {
    // SAFETY: libc gives a valid pointer to the calling thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`, as handlers must before they return. Signal-safe.
pub fn set_errno(value: i32) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value }
}
