//! The registers of a stopped thread, of either architecture.

/// A CPU architecture that can be unwound, on whatever machine this runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// AMD64.
    X86_64,
    /// AArch64.
    Arm64,
}

impl Arch {
    /// The architecture of this process; [`Arch::X86_64`] on machines that cannot be unwound at all.
    pub const NATIVE: Arch = if cfg!(target_arch = "aarch64") {
        Arch::Arm64
    } else {
        Arch::X86_64
    };

    /// The number of the stack pointer in DWARF.
    pub(crate) const fn sp(self) -> usize {
        self.select(7, 31)
    }

    /// The number of the frame pointer in DWARF.
    pub(crate) const fn fp(self) -> usize {
        self.select(6, 29)
    }

    /// The column of the return address in DWARF: on arm64 the link register.
    pub(crate) const fn return_address(self) -> usize {
        self.select(16, 30)
    }

    /// Index of the program counter in [`Registers`].
    pub(crate) const fn pc(self) -> usize {
        self.select(16, 32)
    }

    /// One of two numbers.
    pub(crate) const fn select(self, x86_64: usize, arm64: usize) -> usize {
        match self {
            Arch::X86_64 => x86_64,
            Arch::Arm64 => arm64,
        }
    }

    /// The bits of an address, so that those of pointer authentication are taken off.
    pub(crate) const fn address_mask(self) -> u64 {
        match self {
            Arch::X86_64 => u64::MAX,
            Arch::Arm64 if cfg!(target_vendor = "apple") => (1 << 47) - 1,
            Arch::Arm64 => (1 << 48) - 1,
        }
    }

    const fn names(self) -> &'static [&'static str] {
        match self {
            Arch::X86_64 => &X86_64_NAMES,
            Arch::Arm64 => &ARM64_NAMES,
        }
    }

    /// The number in DWARF of the register whose name is at this index of the names.
    fn dwarf_number(self, at: usize) -> usize {
        // rax, rbx, rcx, rdx, rdi, rsi: crash reports have another order.
        let first: &[usize] = match self {
            Arch::X86_64 => &[0, 3, 2, 1, 5, 4],
            Arch::Arm64 => &[],
        };
        first.get(at).copied().unwrap_or(at)
    }
}

/// Count of the values that a register file has room for.
pub(crate) const COUNT: usize = 34;

/// The general registers of one thread, by DWARF number.
///
/// Numbers are those of DWARF, followed by the program counter and the flags. x86_64 has 0 to 15,
/// 16 = `rip`, 17 = `rflags` (System V psABI for x86-64, figure 3.36). arm64 has 0 to 30, 31 = `sp`,
/// 32 = `pc`, 33 = `cpsr` (DWARF for the Arm 64-bit Architecture, table 4.1).
///
/// ```
/// use wedjat::unwind::Registers;
///
/// let registers = Registers::x86_64(0x40_1000, 0x7fff_0000, 0x7fff_0040);
/// assert_eq!((registers.pc(), registers.sp(), registers.fp()), (0x40_1000, 0x7fff_0000, 0x7fff_0040));
/// assert!(registers.named().any(|(name, value)| name == "rip" && value == 0x40_1000));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    pub(crate) values: [u64; COUNT],
    arch: Arch,
}

impl Registers {
    /// All zero, to be filled with [`Registers::set`].
    pub fn new(arch: Arch) -> Registers {
        Registers {
            values: [0; COUNT],
            arch,
        }
    }

    /// An x86_64 thread with only the three registers that most frames need.
    pub fn x86_64(rip: u64, rsp: u64, rbp: u64) -> Registers {
        let mut registers = Registers::new(Arch::X86_64);
        registers.set_frame(rip, rsp, rbp);
        registers
    }

    /// An arm64 thread with only the four registers that most frames need.
    pub fn arm64(pc: u64, sp: u64, fp: u64, lr: u64) -> Registers {
        let mut registers = Registers::new(Arch::Arm64);
        registers.set_frame(pc, sp, fp);
        registers.set(30, lr);
        registers
    }

    /// Registers of this machine's architecture, from a file numbered as described above. Signal-safe.
    pub(crate) fn native(values: [u64; COUNT]) -> Registers {
        Registers {
            values,
            arch: Arch::NATIVE,
        }
    }

    /// The registers of the thread that a signal interrupted. Signal-safe.
    ///
    /// # Safety
    /// - `context` is the third argument of a handler that was installed with `SA_SIGINFO`, and
    ///   that handler has not returned.
    pub unsafe fn from_context(context: *const std::ffi::c_void) -> Registers {
        // SAFETY: the caller vouches for the context.
        Registers::native(unsafe { crate::platform::context::registers(context.cast()) })
    }

    /// Their architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The program counter.
    pub fn pc(&self) -> u64 {
        self.get(self.arch.pc())
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.get(self.arch.sp())
    }

    /// The frame pointer: `rbp`, `x29`.
    pub fn fp(&self) -> u64 {
        self.get(self.arch.fp())
    }

    /// The link register, `x30`; 0 on x86_64, which has none.
    pub fn lr(&self) -> u64 {
        match self.arch {
            Arch::X86_64 => 0,
            Arch::Arm64 => self.get(30),
        }
    }

    /// Returns the register of this number; 0 if there is no such register.
    pub fn get(&self, number: usize) -> u64 {
        self.values.get(number).copied().unwrap_or(0)
    }

    /// Sets the register of this number; does nothing if there is no such register.
    pub fn set(&mut self, number: usize, value: u64) {
        if let Some(slot) = self.values.get_mut(number) {
            *slot = value;
        }
    }

    /// Every register with its name, in the order in which crash reports print them. Signal-safe.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let names = self.arch.names().iter().zip(0..);
        names.map(|(name, at)| (*name, self.get(self.arch.dwarf_number(at))))
    }

    pub(crate) fn set_frame(&mut self, pc: u64, sp: u64, fp: u64) {
        self.set(self.arch.pc(), pc);
        self.set(self.arch.sp(), sp);
        self.set(self.arch.fp(), fp);
    }
}

impl std::fmt::Debug for Registers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut map = f.debug_map();
        for (name, value) in self.named() {
            map.entry(&name, &format_args!("{value:#x}"));
        }
        map.finish()
    }
}

/// Names of the registers, in the order in which crash reports print them.
const X86_64_NAMES: [&str; 18] = [
    "rax", "rbx", "rcx", "rdx", "rdi", "rsi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip", "rflags",
];
const ARM64_NAMES: [&str; COUNT] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "fp", "lr", "sp", "pc", "cpsr",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_has_one_name() {
        for arch in [Arch::X86_64, Arch::Arm64] {
            let mut registers = Registers::new(arch);
            for number in 0..COUNT {
                registers.set(number, number as u64 + 1);
            }
            let mut seen: Vec<u64> = registers.named().map(|(_, value)| value).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), if arch == Arch::X86_64 { 18 } else { 34 });
        }
    }
}
