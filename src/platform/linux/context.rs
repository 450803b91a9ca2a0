//! The machine context that the kernel hands to a signal handler, and the calling thread's thread pointer.
//!
//! Register files are numbered as in [`crate::platform::registers`].
//!
//! Signal-safe throughout.

use std::ops::Range;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::platform::registers::{REGISTERS, current_registers};

/// Address range of the alternate stack that was set when the handler was entered; empty without one.
///
/// # Safety
/// - As for [`registers`].
pub unsafe fn alternate_stack(context: *const libc::ucontext_t) -> Range<u64> {
    // SAFETY: the caller vouches for the context.
    let stack = unsafe { &(*context).uc_stack };
    let start = stack.ss_sp as u64;
    match stack.ss_flags & libc::SS_DISABLE {
        0 => start..start.saturating_add(stack.ss_size as u64),
        _ => 0..0,
    }
}

/// The registers of an interrupted thread.
///
/// # Safety
/// - `context` is the third argument of a handler that was installed with `SA_SIGINFO`, and that
///   handler has not returned.
pub unsafe fn registers(context: *const libc::ucontext_t) -> [u64; REGISTERS] {
    let mut file = [0; REGISTERS];
    #[cfg(target_arch = "x86_64")]
    {
        // The kernel's: r8 .. r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags (sys/ucontext.h).
        const PLACE: [usize; 18] = [13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17];
        // SAFETY: the caller vouches for the context.
        let values = unsafe { &(*context).uc_mcontext.gregs };
        for (slot, place) in file.iter_mut().zip(PLACE) {
            *slot = values.get(place).copied().unwrap_or(0) as u64;
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the caller vouches for the context.
        let machine = unsafe { &(*context).uc_mcontext };
        file[..31].copy_from_slice(&machine.regs);
        file[31] = machine.sp;
        file[32] = machine.pc;
        file[33] = machine.pstate;
    }
    file
}

/// Has the thread go on at `pc` with the stack pointer `sp`, once the handler returns.
///
/// # Safety
/// - `context` is the third argument of a handler that was installed with `SA_SIGINFO`, and that
///   handler has not returned.
/// - The code there expects that.
pub unsafe fn resume_at(context: *mut libc::ucontext_t, pc: usize, sp: usize) {
    // SAFETY: the caller vouches for the context.
    let machine = unsafe { &mut (*context).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    for (register, value) in [(libc::REG_RIP, pc), (libc::REG_RSP, sp)] {
        if let Some(slot) = machine.gregs.get_mut(register as usize) {
            *slot = value as i64;
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        machine.pc = pc as u64;
        machine.sp = sp as u64;
    }
}

/// Sets the pc back to the instruction that raised `signal`, which is behind it: a breakpoint or a system call. `false`
/// where there is none.
///
/// # Safety
/// - `context` is the third argument of a handler that was installed with `SA_SIGINFO`, and that
///   handler has not returned.
pub unsafe fn step_back(signal: libc::c_int, context: *mut libc::ucontext_t) -> bool {
    // SAFETY: the caller vouches for the context.
    let machine = unsafe { &mut (*context).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    {
        let Some(pc) = machine.gregs.get_mut(libc::REG_RIP as usize) else {
            return false;
        };
        let mut code = [0; 2];
        let is_read = super::memory::read((*pc as u64).wrapping_sub(2), &mut code) == 2;
        // int3; int 3; what seccomp has trapped, whose number and arguments are as they were.
        let length = match (signal, code) {
            _ if !is_read => return false,
            (libc::SIGTRAP, [_, 0xcc]) => 1,
            (libc::SIGTRAP, [0xcd, 0x03]) | (libc::SIGSYS, [0x0f, 0x05]) => 2,
            _ => return false,
        };
        *pc = pc.wrapping_sub(length);
        true
    }
    #[cfg(target_arch = "aarch64")]
    {
        // The pc of a breakpoint is its own.
        if signal == libc::SIGSYS {
            machine.pc = machine.pc.wrapping_sub(4);
        }
        matches!(signal, libc::SIGSYS | libc::SIGTRAP)
    }
}

/// Returns true if a system call was interrupted, or has just returned: the signal was sent, and no instruction has raised it.
///
/// On arm64 the kernel passes the context with `SA_SIGINFO` alone (arch/arm64/kernel/signal.c, `handle_signal`): `false` there.
///
/// # Safety
/// - `context` is the third argument of a handler that the kernel has called, and that has not returned.
#[cfg_attr(target_arch = "aarch64", allow(unused_variables, reason = "see above"))]
pub unsafe fn is_at_call(context: *const libc::ucontext_t) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the caller vouches for the context.
        let gregs = unsafe { &(*context).uc_mcontext.gregs };
        let Some(&pc) = gregs.get(libc::REG_RIP as usize) else {
            return false;
        };
        let pc = pc as u64;
        let is_call = |at: u64| {
            let mut code = [0; 2];
            super::memory::read(at, &mut code) == 2 && code == [0x0f, 0x05]
        };
        // One that is made again lies ahead.
        is_call(pc.wrapping_sub(2)) || is_call(pc)
    }
    #[cfg(target_arch = "aarch64")]
    false
}

/// True if instructions may read the thread pointer itself, which may be 0.
///
/// Source: `HWCAP2_FSGSBASE` of arch/x86/include/uapi/asm/hwcap2.h, from Linux 5.9 on.
#[cfg(target_arch = "x86_64")]
static MAY_READ_BASE: AtomicBool = AtomicBool::new(false);

/// Learns how the thread pointer is to be read. Not signal-safe.
pub fn prepare() {
    #[cfg(target_arch = "x86_64")]
    {
        const FSGSBASE: libc::c_ulong = 1 << 1;
        // SAFETY: reads only.
        let features = unsafe { libc::getauxval(libc::AT_HWCAP2) };
        MAY_READ_BASE.store(features & FSGSBASE != 0, Ordering::Relaxed);
    }
}

/// The calling thread's thread pointer: where its control block lies. It faults on a thread that has none.
///
/// Source: ELF Handling For Thread-Local Storage, 3.4.2 (x86-64: `%fs:0` holds its own address);
/// on arm64 it is `tpidr_el0`.
#[inline]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads the calling thread's own thread pointer and changes nothing.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    pointer
}

/// As [`thread_pointer`], and 0 on a thread without one, where the processor tells. It may take ten times as long.
#[inline]
pub fn thread_pointer_or_zero() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if MAY_READ_BASE.load(Ordering::Relaxed) {
        let pointer: u64;
        // SAFETY: reads the register and changes nothing.
        unsafe {
            std::arch::asm!("rdfsbase {}", out(reg) pointer, options(nostack, preserves_flags, nomem));
        }
        return pointer;
    }
    thread_pointer()
}
