//! System calls without libc: they touch neither `errno` nor anything else that a thread keeps at its thread pointer.
//!
//! An emulator may run a thread whose thread pointer is 0 for a while. There, any access to thread-local memory is a
//! fault.
//!
//! Signal-safe throughout.

use std::mem::offset_of;

/// Makes a system call. Returns its result, or the error's number, negated.
///
/// # Safety
/// - The call is sound with these arguments; those beyond its own are ignored.
pub unsafe fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the caller vouches for the call. The kernel changes the result's register alone; on x86-64 also rcx and r11.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    result
}

/// `struct kernel_sigaction`, as rt_sigaction(2) takes it on both architectures.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KernelAction {
    pub handler: usize,
    pub flags: u64,
    restorer: usize,
    mask: u64,
}

impl KernelAction {
    /// The default action.
    const DEFAULT: KernelAction = KernelAction {
        handler: libc::SIG_DFL,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
}

const _: () = assert!(offset_of!(KernelAction, mask) == 24);

/// Bytes of the kernel's set of signals.
pub const SET_BYTES: usize = 8;

/// Returns the action of `signal`; `None` where a sandbox denies the look.
pub fn action(signal: i32) -> Option<KernelAction> {
    let mut now = KernelAction::DEFAULT;
    let place = &raw mut now as usize;
    let arguments = [signal as usize, 0, place, SET_BYTES, 0, 0];
    // SAFETY: the kernel fills in `now`, which lives across the call, and changes nothing.
    let result = unsafe { system_call(libc::SYS_rt_sigaction, arguments) };
    (result == 0).then_some(now)
}

/// Gives `signal` its default action.
pub fn set_default(signal: i32) {
    let default = KernelAction::DEFAULT;
    let place = &raw const default as usize;
    // SAFETY: the kernel reads `default`, which lives across the call: no handler, and no flags.
    unsafe {
        system_call(
            libc::SYS_rt_sigaction,
            [signal as usize, place, 0, SET_BYTES, 0, 0],
        )
    };
}

/// Id of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { system_call(libc::SYS_gettid, [0; 6]) as i32 }
}
