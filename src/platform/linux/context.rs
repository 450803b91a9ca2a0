//! The machine context that the kernel hands to a signal handler.
//!
//! Register files are numbered as in [`crate::platform::registers`].

pub use crate::platform::registers::{REGISTERS, here};

/// The registers of an interrupted thread. Signal-safe.
///
/// # Safety
/// - `context` is the third argument of a handler that was installed with `SA_SIGINFO`, and that
///   handler has not returned.
pub unsafe fn registers(context: *const libc::ucontext_t) -> [u64; REGISTERS] {
    let mut file = [0; REGISTERS];
    #[cfg(target_arch = "x86_64")]
    {
        const ORDER: [libc::c_int; 18] = [
            libc::REG_RAX,
            libc::REG_RDX,
            libc::REG_RCX,
            libc::REG_RBX,
            libc::REG_RSI,
            libc::REG_RDI,
            libc::REG_RBP,
            libc::REG_RSP,
            libc::REG_R8,
            libc::REG_R9,
            libc::REG_R10,
            libc::REG_R11,
            libc::REG_R12,
            libc::REG_R13,
            libc::REG_R14,
            libc::REG_R15,
            libc::REG_RIP,
            libc::REG_EFL,
        ];
        // SAFETY: the caller vouches for the context.
        let values = unsafe { &(*context).uc_mcontext.gregs };
        for (slot, register) in file.iter_mut().zip(ORDER) {
            *slot = values.get(register as usize).copied().unwrap_or(0) as u64;
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

/// The calling thread's thread pointer: where its control block lies. Signal-safe.
///
/// Source: ELF Handling For Thread-Local Storage, 3.4.2 (x86-64: `%fs:0` holds its own address);
/// on arm64 it is `tpidr_el0`.
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads the calling thread's own thread pointer and changes nothing.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "mov {}, fs:0",
            out(reg) pointer,
            options(nostack, preserves_flags, readonly)
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "mrs {}, tpidr_el0",
            out(reg) pointer,
            options(nostack, preserves_flags, nomem)
        );
    }
    pointer
}
