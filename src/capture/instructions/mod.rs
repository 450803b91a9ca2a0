//! Instructions of either architecture, each lifted once: the registers and the memory that it changes, and what runs
//! next. Signal-safe, all of this module.

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
    /// Bits of the other registers that it may write, whose values are not known then.
    pub(crate) clobbers: u32,
    pub(crate) next: Successor,
}

/// One effect of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Nothing,
    /// Writes a register.
    Set(u8, Written),
    /// Loads one word, or two that lie side by side.
    Load([Option<u8>; 2], MemoryOperand),
    /// Stores `bytes`: one register or two side by side, or other values. The address may not be known.
    Store {
        from: [Option<u8>; 2],
        to: Option<MemoryOperand>,
        bytes: u8,
    },
    /// Compares two registers.
    Compare(u8, u8),
    /// Something else: to memory, or to the state of the processor.
    Other,
}

/// The value that a register gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Number(u64),
    /// An address counted from the instruction's own.
    PcRelative(u64),
    /// A register and a number.
    Sum(u8, i64),
    /// `register & keep | set`.
    Bits {
        of: u8,
        keep: u64,
        set: u64,
    },
    /// Of two registers.
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
    /// The one behind it.
    Behind,
    /// The one behind it, unless the callee does not return; with the callee, if it is called directly.
    Call(Option<u64>),
    /// The one there.
    Jump(u64),
    /// The one there, or the one behind it.
    Branch { to: u64, unless_equal: bool },
    /// The one at pc, which it writes: in the function by a table, or out of it.
    ByPc,
    /// The one at pc, where the function was called.
    Return,
    /// None of the function.
    Stop,
}

/// Lifts the instruction at the beginning of `code`, which lies at `at`; `None` if it is not valid or cut short.
pub(crate) fn lift(arch: Arch, code: &[u8], at: u64) -> Option<Instruction> {
    match arch {
        Arch::X86_64 => x86_64::lift(code, at),
        Arch::Arm64 => arm64::lift(code, at),
    }
}

impl Instruction {
    /// Without any effect.
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

    /// Returns the register and the address, if it points a register there.
    pub(crate) fn points_to(&self) -> Option<(u8, u64)> {
        match self.ops[0] {
            Op::Set(register, Written::PcRelative(to)) => Some((register, to)),
            _ => None,
        }
    }

    /// Returns the register from which it copies another one.
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
