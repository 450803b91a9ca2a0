//! Instructions of both architectures, lifted: the registers and the memory that one changes, and the instruction
//! after it. Signal-safe throughout.

mod arm64;
mod encoding;
mod x86_64;

use super::registers::Arch;

/// Longest instruction, bytes.
pub(crate) const LONGEST: usize = 15;

/// One instruction. Registers have DWARF's numbers, pc among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// In bytes.
    pub(crate) length: u64,
    /// Its effects, in their order.
    pub(crate) ops: [Op; 2],
    /// Mask of further registers that it may write, with values that are not known.
    pub(crate) clobbers: u32,
    pub(crate) next: Successor,
}

/// One effect of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Nothing,
    /// Writes a register.
    Set(u8, Written),
    /// Loads one word, or two adjacent ones.
    Load([Option<u8>; 2], MemoryOperand),
    /// Stores `bytes` bytes: one register, two adjacent ones, or other values. `to` is `None` if the address is not
    /// known.
    Store {
        from: [Option<u8>; 2],
        to: Option<MemoryOperand>,
        bytes: u8,
    },
    /// Compares two registers.
    Compare(u8, u8),
    /// Has another effect, on memory or on the state of the processor.
    Other,
}

/// The value that a register gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Number(u64),
    /// An address relative to the instruction's.
    PcRelative(u64),
    /// A register and a number.
    Sum(u8, i64),
    /// `register & keep | set`.
    Bits {
        of: u8,
        keep: u64,
        set: u64,
    },
    /// The result of an operation on two registers.
    Of(Operation, u8, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Subtract,
    Or,
    Xor,
}

/// A place in memory: a register and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryOperand {
    pub(crate) base: u8,
    pub(crate) offset: i32,
}

/// The instruction that runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Successor {
    /// The one after it in memory.
    FallThrough,
    /// The one after it in memory, if the callee returns. Has the callee's address if the call is direct.
    Call(Option<u64>),
    /// The one at this address.
    Jump(u64),
    /// The one at `to`, or the one after it in memory.
    Branch { to: u64, unless_equal: bool },
    /// The one at an address that it computes: within the function by a jump table, or outside.
    Indirect,
    /// The one after the call of the function.
    Return,
    /// None: it traps or halts.
    Stop,
}

/// Lifts the instruction at the start of `code`, whose address is `at`. Returns `None` if it is invalid or cut short.
pub(crate) fn lift(arch: Arch, code: &[u8], at: u64) -> Option<Instruction> {
    match arch {
        Arch::X86_64 => x86_64::lift(code, at),
        Arch::Arm64 => arm64::lift(code, at),
    }
}

impl Instruction {
    /// Creates an instruction without effects.
    fn new(length: u64, next: Successor) -> Instruction {
        Instruction {
            length,
            ops: [Op::Nothing; 2],
            clobbers: 0,
            next,
        }
    }

    /// Returns true if it may write a register.
    pub(crate) fn writes(&self, register: u8) -> bool {
        let clobbers = self.clobbers.checked_shr(register.into()).unwrap_or(0) & 1 == 1;
        clobbers
            || self.ops.iter().any(|op| match op {
                Op::Set(to, _) => *to == register,
                Op::Load(to, _) => to.contains(&Some(register)),
                _ => false,
            })
    }

    /// Returns a register that it sets to an address relative to its own, and that address.
    pub(crate) fn points_to(&self) -> Option<(u8, u64)> {
        match self.ops[0] {
            Op::Set(register, Written::PcRelative(to)) => Some((register, to)),
            _ => None,
        }
    }

    /// Returns the register that it copies to `register`.
    pub(crate) fn copies_to(&self, register: u8) -> Option<u8> {
        match self.ops[0] {
            Op::Set(to, Written::Sum(from, 0)) if to == register && from != to => Some(from),
            _ => None,
        }
    }
}

impl Operation {
    pub(crate) fn apply(self, a: u64, b: u64) -> u64 {
        match self {
            Operation::Add => a.wrapping_add(b),
            Operation::Subtract => a.wrapping_sub(b),
            Operation::Or => a | b,
            Operation::Xor => a ^ b,
        }
    }
}

#[cfg(test)]
mod tests;
