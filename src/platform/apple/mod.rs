//! Apple: what `platform` offers, by Mach and libc.
//!
//! Signal-safe, but for what is opened and provided at install.

use std::ffi::{CStr, c_void};

pub mod context;
pub mod crash_info;
pub mod entry;
pub mod exceptions;
pub mod gauge;
pub mod images;
pub mod main_queue;
pub mod memory;
pub mod objective_c;
pub mod power;
pub mod run_loop;
pub mod semaphore;
pub mod stop;
mod task;
pub mod threads;
pub mod vitals;
mod waits;

// By libc: Apple does not keep the numbers of its system calls.
pub use super::signals::set_default as set_kernel_default;

/// Opens what reports are read from: the kernel gives it without files. Not signal-safe.
pub fn open_for_reports() {}

/// Returns true if other processes of this user may read the memory of this one: not that of a set-user-id program.
/// Signal-safe: issetugid(2) only traps.
pub fn is_dumpable() -> bool {
    unsafe extern "C" {
        fn issetugid() -> libc::c_int;
    }
    // SAFETY: no arguments.
    unsafe { issetugid() == 0 }
}

/// The calling thread's `errno`.
pub fn errno() -> i32 {
    // SAFETY: libc gives a valid pointer to the calling thread's own errno.
    unsafe { *libc::__error() }
}

/// Sets the calling thread's `errno`, as handlers must before they return.
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

/// Address of the handler of `signal` as it is now, and its flags.
pub fn kernel_action(signal: i32) -> Option<(usize, i32)> {
    super::signals::action_now(signal)
}

/// Reads a clock; false if the system does not have it. errno stays.
pub fn read_clock(clock: libc::clockid_t, time: &mut libc::timespec) -> bool {
    let kept = errno();
    // SAFETY: `time` lives across the call; an unknown clock only makes the call fail.
    let done = unsafe { libc::clock_gettime(clock, time) } == 0;
    set_errno(kept);
    done
}

/// Sets the signal mask of the calling thread.
pub fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: a plain call, which reads the set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Sleeps for so long, or until a signal comes. errno stays.
pub fn sleep(time: &libc::timespec) {
    let kept = errno();
    // SAFETY: the structure outlives the call.
    unsafe { libc::nanosleep(time, std::ptr::null_mut()) };
    set_errno(kept);
}

/// Sends `signal` again to the calling thread; Darwin keeps no facts with it.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn send_again(signal: i32, _info: *mut libc::siginfo_t) {
    send_to_self(signal);
}

/// Sends `signal` to the process again; Darwin keeps no facts with it.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn send_to_process(signal: i32, _info: *mut libc::siginfo_t) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(libc::getpid(), signal) };
}

/// Sends `signal` to the calling thread.
pub fn send_to_self(signal: i32) {
    // SAFETY: the calling thread is there.
    unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
}

/// Returns true if a process sent the signal that has this `si_code`: `SI_USER` and its kin begin at 0x10001
/// (sys/signal.h), and a signal by `pthread_kill` has 0.
pub fn is_sent(code: i32) -> bool {
    code <= 0 || code >= 0x10001
}

/// Returns true if a signal with this `si_code` was sent to the process: `SI_USER` (sys/signal.h).
pub fn is_for_process(code: i32) -> bool {
    code == 0x10001
}

/// Returns true if a fault of the CPU with this `si_code` has no address; never here.
pub fn is_without_address(_code: i32) -> bool {
    false
}
