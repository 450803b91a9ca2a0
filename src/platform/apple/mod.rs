//! Apple: what `platform` offers, by Mach and libc.

use std::ffi::{CStr, c_void};

pub mod calls;
pub mod context;
pub mod crash_info;
pub mod exceptions;
pub mod gauge;
pub mod images;
pub mod main_queue;
pub mod memory;
pub mod objective_c;
pub mod power;
pub mod run_loop;
pub mod semaphore;
pub mod send;
pub mod stop;
pub mod system;
mod task;
pub mod threads;
pub mod vitals;
mod waits;

/// Nothing: the feature `thread-stacks` is about Linux.
pub fn provide_stacks() {}

/// Opens what reports are read from: the kernel gives it without files. Not signal-safe.
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

/// The address of a symbol in any image; `None` where no image has it: functions of frameworks that a process may
/// have or not.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// See [`clock::thread_cpu`](super::clock::thread_cpu).
pub fn thread_cpu(port: i32) -> u64 {
    task::extended(port as u32).map_or(0, |facts| {
        facts.pth_user_time.saturating_add(facts.pth_system_time)
    })
}
