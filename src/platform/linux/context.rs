//! The machine context that the kernel hands to a signal handler, and the caller's own.
//!
//! Register files here are numbered as DWARF numbers them (System V psABI for x86-64, figure 3.36;
//! DWARF for the Arm 64-bit Architecture, table 4.1), with the program counter behind: x86_64 has
//! 0..=15, 16 = pc, 17 = rflags; aarch64 has 0..=30, 31 = sp, 32 = pc, 33 = pstate.

/// How many values a register file has room for.
pub const REGISTERS: usize = 34;

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

/// The registers of the calling function: those that calls preserve, sp and pc. Signal-safe.
///
/// Inlined, so that pc and sp are those of the function that calls it.
#[inline(always)]
pub fn here() -> [u64; REGISTERS] {
    let mut file = [0u64; REGISTERS];
    #[cfg(target_arch = "x86_64")]
    // SAFETY: writes eight words into `file`, which has room for them, and changes nothing else
    // but rax.
    unsafe {
        std::arch::asm!(
            "mov [{f} + 24], rbx",
            "mov [{f} + 48], rbp",
            "mov [{f} + 56], rsp",
            "mov [{f} + 96], r12",
            "mov [{f} + 104], r13",
            "mov [{f} + 112], r14",
            "mov [{f} + 120], r15",
            "lea rax, [rip]",
            "mov [{f} + 128], rax",
            f = in(reg) file.as_mut_ptr(),
            out("rax") _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: writes fourteen words into `file`, which has room for them, and changes nothing else
    // but x9.
    unsafe {
        std::arch::asm!(
            "stp x19, x20, [{f}, #152]",
            "stp x21, x22, [{f}, #168]",
            "stp x23, x24, [{f}, #184]",
            "stp x25, x26, [{f}, #200]",
            "stp x27, x28, [{f}, #216]",
            "stp x29, x30, [{f}, #232]",
            "mov x9, sp",
            "str x9, [{f}, #248]",
            "adr x9, .",
            "str x9, [{f}, #256]",
            f = in(reg) file.as_mut_ptr(),
            out("x9") _,
            options(nostack, preserves_flags)
        );
    }
    file
}
