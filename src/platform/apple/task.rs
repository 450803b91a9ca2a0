//! This task's Mach names, and the results of `thread_info`. All of it is signal-safe: system calls into
//! memory of the caller's, no lock, no allocation of ours.

use mach2::kern_return::KERN_SUCCESS;
use mach2::mach_types::thread_act_t;

/// This task's own name.
pub(super) fn own() -> mach2::port::mach_port_t {
    // SAFETY: a static of libSystem's, set before any of our code runs.
    unsafe { mach2::traps::mach_task_self() }
}

/// Gives up a reference that the kernel gave with a name.
pub(super) fn release(port: thread_act_t) {
    // SAFETY: takes names only; a name that is gone makes it fail.
    unsafe { mach2::mach_port::mach_port_deallocate(own(), port) };
}

/// The id that the system gives a thread for good, by its port's name; `None` once it has ended.
#[inline]
pub(super) fn thread_id(port: thread_act_t) -> Option<u64> {
    Some(identifier(port)?.thread_id)
}

/// Returns the address at which the dispatch library notes the queue that the thread of this name and id works off;
/// `None` if the thread has ended, or works off no queue.
pub(super) fn queue_at(port: thread_act_t, id: u64) -> Option<u64> {
    let facts = identifier(port)?;
    Some(facts.dispatch_qaddr).filter(|&at| facts.thread_id == id && at != 0)
}

#[inline]
fn identifier(port: thread_act_t) -> Option<libc::thread_identifier_info> {
    info(port, libc::THREAD_IDENTIFIER_INFO)
}

/// CPU time, state and name of a thread; `None` once it has ended.
#[inline]
pub(super) fn extended(port: thread_act_t) -> Option<libc::thread_extended_info> {
    info(port, libc::THREAD_EXTENDED_INFO)
}

/// The kernel's `kinfo_proc` of this process (sys/sysctl.h): 648 bytes.
pub(super) fn kinfo(facts: &mut [u8; 648]) -> bool {
    let mut length = facts.len();
    let mut name = [libc::CTL_KERN, libc::KERN_PROC, libc::KERN_PROC_PID, 0];
    // SAFETY: no arguments.
    name[3] = unsafe { libc::getpid() };
    let errno = super::errno();
    // SAFETY: names, buffer and length are ours and live across the call.
    let done = unsafe {
        libc::sysctl(
            name.as_mut_ptr(),
            name.len() as u32,
            facts.as_mut_ptr().cast(),
            &mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    super::set_errno(errno);
    done == 0
}

/// `thread_info` (mach/thread_act.h): the structure that belongs to the flavour, made of plain integers; `None` once the
/// thread has ended.
fn info<T>(port: thread_act_t, flavor: i32) -> Option<T> {
    // SAFETY: all zero is a valid value of a struct of plain integers.
    let mut facts: T = unsafe { std::mem::zeroed() };
    let words = const { size_of::<T>() / size_of::<libc::natural_t>() };
    let mut count = words as libc::mach_msg_type_number_t;
    // SAFETY: the kernel writes at most `count` words, which is the size of `facts`.
    let code = unsafe {
        libc::thread_info(
            port,
            flavor as libc::thread_flavor_t,
            (&raw mut facts).cast(),
            &mut count,
        )
    };
    (code == KERN_SUCCESS).then_some(facts)
}
