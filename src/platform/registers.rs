//! The caller's own registers, and how register files are numbered on every platform.
//!
//! As DWARF numbers them (System V psABI for x86-64, figure 3.36; DWARF for the Arm 64-bit
//! Architecture, table 4.1), with the program counter behind: x86_64 has 0..=15, 16 = pc,
//! 17 = rflags; aarch64 has 0..=30, 31 = sp, 32 = pc, 33 = pstate.

/// Count of the values that a register file has room for.
pub const REGISTERS: usize = 34;

/// The registers of the calling function: those that calls preserve, sp and pc. Signal-safe.
///
/// Inlined, so that pc and sp are those of the function that calls it.
#[inline(always)]
pub fn current_registers() -> [u64; REGISTERS] {
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
