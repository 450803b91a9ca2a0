//! Linux: what `platform` offers, by libc and raw system calls.
//!
//! Signal-safe, but for what is provided at install.

mod cgroup;
pub mod code_copy;
pub mod context;
pub mod entry;
pub mod gauge;
pub mod images;
#[cfg(all(feature = "thread-stacks", target_env = "gnu"))]
mod interpose;
mod links;
pub mod main_queue;
mod mapped_image;
pub mod memory;
mod mutex;
pub mod power;
mod proc_files;
pub mod semaphore;
pub mod stop;
mod system_call;
pub mod threads;
pub mod vitals;
mod waits;

pub use proc_files::open_for_reports;

use crate::platform::Thread;

/// Returns true if the kernel lets other processes of this user read the memory of this one: not that of a program with
/// set-user-id or file capabilities. Signal-safe: one system call.
///
/// Source: prctl(2), `PR_SET_DUMPABLE`.
pub fn is_dumpable() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 }
}

/// The calling thread's `errno`.
pub fn errno() -> i32 {
    // SAFETY: libc gives a valid pointer to the calling thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`, as handlers must before they return.
pub fn set_errno(value: i32) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value }
}

/// Address of the handler of `signal` as it is now, and its flags; `None` where a sandbox denies the look.
pub fn kernel_action(signal: i32) -> Option<(usize, i32)> {
    system_call::action(signal).map(|now| (now.handler, now.flags as i32))
}

/// Gives `signal` its default action by a system call, as libc may fault. Signal-safe.
pub fn set_kernel_default(signal: i32) {
    system_call::set_default(signal);
}

/// Reads a clock; false if the system does not have it. `errno` is neither read nor changed.
pub fn read_clock(clock: libc::clockid_t, time: &mut libc::timespec) -> bool {
    // SAFETY: `time` lives across the call, which fills it in; these two clocks are always there.
    unsafe {
        if matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME) {
            return libc::clock_gettime(clock, time) == 0;
        }
        let arguments = [
            clock as usize,
            std::ptr::from_mut(time) as usize,
            0,
            0,
            0,
            0,
        ];
        system_call::system_call(libc::SYS_clock_gettime, arguments) == 0
    }
}

/// Sets the signal mask of the calling thread.
pub fn set_mask(mask: &libc::sigset_t) {
    let place = std::ptr::from_ref(mask) as usize;
    let arguments = [
        libc::SIG_SETMASK as usize,
        place,
        0,
        system_call::SET_BYTES,
        0,
        0,
    ];
    // SAFETY: the kernel reads the first bytes of the set, which lives across the call.
    unsafe { system_call::system_call(libc::SYS_rt_sigprocmask, arguments) };
}

/// Sleeps for so long, or until a signal comes.
pub fn sleep(time: &libc::timespec) {
    let arguments = [std::ptr::from_ref(time) as usize, 0, 0, 0, 0, 0];
    // SAFETY: the kernel reads `time`, which lives across the call.
    unsafe { system_call::system_call(libc::SYS_nanosleep, arguments) };
}

/// Queues `signal` again for the calling thread, with the facts that it came with.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn send_again(signal: i32, info: *mut libc::siginfo_t) {
    let [process, thread] = [Thread::main(), Thread::current()].map(|thread| thread.tid() as usize);
    let arguments = [process, thread, signal as usize, info as usize, 0, 0];
    // SAFETY: a system call on this process and thread; the caller vouches for `info`.
    if unsafe { system_call::system_call(libc::SYS_rt_tgsigqueueinfo, arguments) } != 0 {
        send_to_self(signal);
    }
}

/// Sends `signal` to the process again, with the facts that it came with.
///
/// # Safety
/// - `info` is what the kernel gave a handler for `signal`.
pub unsafe fn send_to_process(signal: i32, info: *mut libc::siginfo_t) {
    // SAFETY: plain system calls on this process; the caller vouches for `info`.
    unsafe {
        let process = libc::getpid();
        if libc::syscall(libc::SYS_rt_sigqueueinfo, process, signal, info) != 0 {
            libc::kill(process, signal);
        }
    }
}

/// Sends `signal` to the calling thread.
pub fn send_to_self(signal: i32) {
    send_to(Thread::current(), signal);
}

/// Sends `signal` to a thread of this process; returns the negated `errno`.
pub fn send_to(thread: Thread, signal: i32) -> isize {
    let [process, thread] = [Thread::main(), thread].map(|thread| thread.tid() as usize);
    let arguments = [process, thread, signal as usize, 0, 0, 0];
    // SAFETY: a system call without pointers.
    unsafe { system_call::system_call(libc::SYS_tgkill, arguments) }
}

/// Codes of signals that a process sent (include/uapi/asm-generic/siginfo.h): older versions of libc have none.
const SI_USER: i32 = 0;
const SI_QUEUE: i32 = -1;
const SI_TKILL: i32 = -6;

/// Returns true if a process sent the signal that has this `si_code`. Source: sigaction(2).
pub fn is_sent(code: i32) -> bool {
    code <= 0
}

/// Returns true if a signal with this `si_code` was sent to the process, by kill(2) or sigqueue(3). Source: sigaction(2).
pub fn is_for_process(code: i32) -> bool {
    matches!(code, SI_USER | SI_QUEUE)
}

/// Returns true if a fault of the CPU with this `si_code` has no address: `SI_KERNEL`, as for a
/// non-canonical one.
pub fn is_without_address(code: i32) -> bool {
    const SI_KERNEL: i32 = 0x80;
    code == SI_KERNEL
}
