//! Apple: what `platform` offers, by Mach and libc.

pub mod calls;
pub mod clock;
pub mod context;
pub mod crash_info;
pub mod exceptions;
pub mod gauge;
pub mod images;
pub mod main_queue;
pub mod memory;
pub mod objective_c;
pub mod power;
pub mod random;
pub mod run_loop;
pub mod semaphore;
pub mod send;
pub mod stop;
mod symbol;
pub mod system;
mod task;
pub mod threads;
pub mod vitals;
mod waits;

/// Nothing: the feature `thread-stacks` is about Linux.
pub fn provide_stacks() {}

/// Opens what reports are read from: the kernel tells it without files. Not signal-safe.
pub fn open_for_reports() {}

/// The calling thread's `errno`. Signal-safe.
pub fn errno() -> i32 {
    // SAFETY: libc gives a valid pointer to the calling thread's own errno.
    unsafe { *libc::__error() }
}

/// Sets the calling thread's `errno`, as handlers must before they return. Signal-safe.
pub fn set_errno(value: i32) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__error() = value }
}

/// The id of this process, as the kernel knows it now: a child of `fork` has its own. Signal-safe.
pub fn process_id() -> u32 {
    // SAFETY: no arguments, always succeeds.
    unsafe { libc::getpid() as u32 }
}
