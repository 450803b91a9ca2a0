//! Effects of x86_64 instructions on the stack and the frame pointer, in code of which nothing is known.
//!
//! An instruction that changes `rsp` or `rbp` in an unusual way counts as losing it. `flow::x86_64` has other needs:
//! compact unwind describes a function's body, so it takes each instruction for harmless that compilers do not use on
//! `rsp`, and follows those that only prologues and jump tables have.

use crate::capture::instructions::{self, Instruction};

/// The effect of an instruction, as far as an unwinder is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing to the stack pointer or the frame pointer.
    None,
    /// Pushes eight bytes; `frame` where they are `rbp`.
    Push { frame: bool },
    /// Pops eight bytes; `frame` where they go to `rbp`.
    Pop { frame: bool },
    /// Adds to `rsp`.
    Move(i64),
    /// `rbp` = `rsp` + this.
    FrameFromStack(i64),
    /// `rsp` = `rbp` + this.
    StackFromFrame(i64),
    /// `rsp` = `rbp`, then pops `rbp`.
    Leave,
    /// Calls: `rsp` is the same afterwards.
    Call,
    /// Returns.
    Return,
    /// Jumps, this far from the end of the instruction, or to where only registers and memory say.
    Jump(Option<i64>),
    /// Jumps under a condition, this far from its end.
    Branch(i64),
    /// Ends the run of instructions: `hlt`, `ud2`, `int3`.
    Stop,
    /// `rsp` is something else afterwards.
    LosesStack,
    /// `rbp` is something else afterwards.
    LosesFrame,
}

/// The length of the instruction that `code` begins with, and what it does; `None` where that is
/// no instruction, or not all of one. Signal-safe.
pub(super) fn decode(code: &[u8]) -> Option<(usize, Effect)> {
    let instruction = instructions::decode(code)?;
    Some((instruction.length, effect(&instruction)))
}

fn effect(i: &Instruction) -> Effect {
    match i.map {
        0 => match (one_byte(i), i.opcode) {
            // Without REX, numbers 4 and 5 of a byte's operand are `ah` and `ch`.
            (Effect::LosesStack | Effect::LosesFrame, 0x00..=0x3f | 0x80 | 0x86 | 0xc0)
            | (Effect::LosesStack | Effect::LosesFrame, 0xd0 | 0xd2 | 0xf6)
                if i.rex == 0 && i.opcode & 1 == 0 =>
            {
                Effect::None
            }
            (effect, _) => effect,
        },
        1 => two_bytes(i),
        2 | 3 => Effect::None,
        // VEX and EVEX: vector instructions, and a few on general registers (andn, pdep, pext, mulx, bextr,
        // shlx and their like; rorx).
        map => match (map & 7, i.opcode) {
            (2, 0xf2 | 0xf5..=0xf7) | (3, 0xf0) => write(Operands::of(i).register),
            _ => Effect::None,
        },
    }
}

const RSP: u8 = 4;
const RBP: u8 = 5;

/// The effect of writing to a general register.
fn write(register: u8) -> Effect {
    match register {
        RSP => Effect::LosesStack,
        RBP => Effect::LosesFrame,
        _ => Effect::None,
    }
}

/// A register, and another one or memory.
struct Operands {
    register: u8,
    /// `register` without REX: the part of the opcode that groups have here.
    field: u8,
    /// True if the other operand is a register too, `base`.
    direct: bool,
    /// The only register that the address is made of, if it is.
    base: Option<u8>,
}

impl Operands {
    fn of(i: &Instruction) -> Operands {
        let (mode, register, rm) = i.modrm.unwrap_or_default();
        let direct = i.modrm.is_some() && mode == 3;
        Operands {
            register,
            field: register & 7,
            direct,
            base: if direct { Some(rm) } else { i.base },
        }
    }

    /// The effect of an instruction that writes to the other operand, not to the register.
    fn written(&self) -> Effect {
        let to = self.base.filter(|_| self.direct);
        to.map_or(Effect::None, write)
    }
}

fn one_byte(i: &Instruction) -> Effect {
    let low = i.opcode & 7 | (i.rex & 1) << 3;
    let operands = Operands::of(i);
    let Operands {
        register,
        field,
        direct,
        base,
    } = operands;
    let (wide, displacement) = (i.is_wide(), i64::from(i.displacement));
    match i.opcode {
        // Arithmetic: eight operations of six shapes; `cmp`, the last one, writes nothing.
        0x38..=0x3f => Effect::None,
        0x00..=0x37 => match i.opcode & 7 {
            0 | 1 => operands.written(),
            2 | 3 => write(register),
            _ => Effect::None,
        },
        0x50..=0x57 => Effect::Push { frame: low == RBP },
        0x58..=0x5f if low == RSP => Effect::LosesStack,
        0x58..=0x5f => Effect::Pop { frame: low == RBP },
        0x63 | 0x69 | 0x6b => write(register),
        0x68 | 0x6a | 0x9c => Effect::Push { frame: false },
        0x70..=0x7f | 0xe0..=0xe3 => Effect::Branch(i.immediate),
        0x80 | 0x81 | 0x83 => match (direct, base, field) {
            (_, _, 7) | (false, ..) => Effect::None,
            (_, Some(RSP), 0) if wide => Effect::Move(i.immediate),
            (_, Some(RSP), 5) if wide => Effect::Move(i.immediate.wrapping_neg()),
            _ => operands.written(),
        },
        0x86 | 0x87 => match write(register) {
            Effect::None => operands.written(),
            effect => effect,
        },
        0x89 | 0x8b => {
            let (from, to) = match (i.opcode, base) {
                (0x89, Some(base)) if direct => (Some(register), base),
                (0x89, _) => return Effect::None,
                (_, base) => (base.filter(|_| direct), register),
            };
            match (from, to) {
                (Some(RSP), RBP) if wide => Effect::FrameFromStack(0),
                (Some(RBP), RSP) if wide => Effect::StackFromFrame(0),
                (_, to) => write(to),
            }
        }
        0x8d => match (base, register) {
            (Some(RSP), RSP) if wide => Effect::Move(displacement),
            (Some(RSP), RBP) if wide => Effect::FrameFromStack(displacement),
            (Some(RBP), RSP) if wide => Effect::StackFromFrame(displacement),
            (_, to) => write(to),
        },
        0x8f => match base.filter(|_| direct) {
            Some(RSP) => Effect::LosesStack,
            to => Effect::Pop {
                frame: to == Some(RBP),
            },
        },
        0x9d => Effect::Pop { frame: false },
        0x90..=0x97 if low != 0 => write(low),
        0xb8..=0xbf => write(low),
        0xc0 | 0xc1 | 0xc7 | 0xd0..=0xd3 => operands.written(),
        0xc2 | 0xc3 | 0xca | 0xcb | 0xcf => Effect::Return,
        0xc8 => Effect::LosesStack,
        0xc9 => Effect::Leave,
        0xcc | 0xf4 => Effect::Stop,
        0xe8 => Effect::Call,
        0xe9 | 0xeb => Effect::Jump(Some(i.immediate)),
        0xf6 | 0xf7 if matches!(field, 2 | 3) => operands.written(),
        0xff => match field {
            0 | 1 => operands.written(),
            2 | 3 => Effect::Call,
            4 | 5 => Effect::Jump(None),
            6 => Effect::Push {
                frame: direct && base == Some(RBP),
            },
            _ => Effect::None,
        },
        _ => Effect::None,
    }
}

fn two_bytes(i: &Instruction) -> Effect {
    let operands = Operands::of(i);
    match i.opcode {
        0x0b | 0xb9 | 0xff => Effect::Stop,
        0x80..=0x8f => Effect::Branch(i.immediate),
        0xa0 | 0xa8 => Effect::Push { frame: false },
        0xa1 | 0xa9 => Effect::Pop { frame: false },
        // cmov, imul, movzx, popcnt, bsf, bsr, movsx.
        0x40..=0x4f | 0xaf | 0xb6..=0xb8 | 0xbc..=0xbf => write(operands.register),
        0xa4 | 0xa5 | 0xab..=0xad | 0xb1 | 0xb3 | 0xba | 0xbb | 0xc1 => operands.written(),
        0xc8..=0xcf => write(i.opcode & 7 | (i.rex & 1) << 3),
        _ => Effect::None,
    }
}

#[cfg(test)]
mod tests;
