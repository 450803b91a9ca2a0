//! x86_64 instructions: how long each is, and what it does to the stack and the frame pointer.
//!
//! Source: Intel SDM volume 2, chapter 2 (prefixes, ModR/M, VEX, EVEX) and appendix A (opcode
//! maps). What changes `rsp` or `rbp` in any other way than the usual ones is said to lose it.
//!
//! `flow::x86_64` reads instructions too, and wants something else: where compact unwind speaks of
//! a function's body, it takes each instruction for harmless that compilers do not use on `rsp`, and
//! follows what only prologues and jump tables do (`eax` before a probe, `rip`). Here nothing is
//! known of the code, so that whatever writes to `rsp` or `rbp` must be seen.

mod reader;

use reader::{Prefix, Reader};

/// What an instruction does, as far as an unwinder is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
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
    /// What follows is not run: `hlt`, `ud2`, `int3`.
    Stop,
    /// `rsp` is something else afterwards.
    LosesStack,
    /// `rbp` is something else afterwards.
    LosesFrame,
}

/// The length of the instruction that `code` begins with, and what it does; `None` where that is
/// no instruction, or not all of one. Signal-safe.
pub(crate) fn decode(code: &[u8]) -> Option<(usize, Effect)> {
    let mut reader = Reader { code, at: 0 };
    let mut prefix = Prefix::default();
    let opcode = loop {
        match reader.byte()? {
            0x66 => prefix.operand = true,
            0x67 => prefix.address = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 | 0xf2 | 0xf3 => {}
            rex @ 0x40..=0x4f => {
                prefix.rex = rex;
                break reader.byte()?;
            }
            other => break other,
        }
    };
    let effect = match opcode {
        0x0f => two_bytes(&mut reader, &prefix)?,
        0xc4 | 0xc5 | 0x62 => vector(&mut reader, opcode)?,
        _ => match (one_byte(&mut reader, &prefix, opcode)?, opcode) {
            // Without REX, numbers 4 and 5 of a byte's operand are `ah` and `ch`.
            (Effect::LosesStack | Effect::LosesFrame, 0x00..=0x3f | 0x80 | 0x86 | 0xc0)
            | (Effect::LosesStack | Effect::LosesFrame, 0xd0 | 0xd2 | 0xf6)
                if prefix.rex == 0 && opcode & 1 == 0 =>
            {
                Effect::None
            }
            (effect, _) => effect,
        },
    };
    // No instruction is longer.
    (reader.at <= 15).then_some((reader.at, effect))
}

const RSP: u8 = 4;
const RBP: u8 = 5;

/// What writing to a general register does.
fn write(register: u8) -> Effect {
    match register {
        RSP => Effect::LosesStack,
        RBP => Effect::LosesFrame,
        _ => Effect::None,
    }
}

fn one_byte(reader: &mut Reader<'_>, prefix: &Prefix, opcode: u8) -> Option<Effect> {
    let rex = prefix.rex;
    let low = opcode & 7 | (rex & 1) << 3;
    Some(match opcode {
        // Arithmetic: eight operations of six shapes; `cmp`, the last one, writes nothing.
        0x00..=0x3f => match opcode & 7 {
            shape @ 0..=3 => {
                let operand = reader.operand(rex)?;
                let to_register = shape & 2 != 0;
                match (opcode >= 0x38, to_register, operand.direct) {
                    (true, ..) | (false, false, false) => Effect::None,
                    (false, true, _) => write(operand.register),
                    (false, false, true) => operand.base.map_or(Effect::None, write),
                }
            }
            4 => skip(reader, 1)?,
            5 => skip(reader, prefix.immediate())?,
            _ => return None,
        },
        0x50..=0x57 => Effect::Push { frame: low == RBP },
        0x58..=0x5f if low == RSP => Effect::LosesStack,
        0x58..=0x5f => Effect::Pop { frame: low == RBP },
        0x63 => write(reader.operand(rex)?.register),
        0x68 => skip(reader, 4).map(|_| Effect::Push { frame: false })?,
        0x6a => skip(reader, 1).map(|_| Effect::Push { frame: false })?,
        0x69 => write_and_skip(reader, rex, prefix.immediate())?,
        0x6b => write_and_skip(reader, rex, 1)?,
        0x70..=0x7f | 0xe0..=0xe3 => Effect::Branch(reader.number(1)?),
        0x80 | 0x81 | 0x83 => {
            let operand = reader.operand(rex)?;
            let value = reader.number(if opcode == 0x81 {
                prefix.immediate()
            } else {
                1
            })?;
            match (operand.direct, operand.base, operand.field) {
                (_, _, 7) | (false, ..) => Effect::None,
                (_, Some(RSP), 0) if prefix.wide() => Effect::Move(value),
                (_, Some(RSP), 5) if prefix.wide() => Effect::Move(value.checked_neg()?),
                (_, base, _) => base.map_or(Effect::None, write),
            }
        }
        0x84 | 0x85 => reader.operand(rex).map(|_| Effect::None)?,
        0x86 | 0x87 => {
            let operand = reader.operand(rex)?;
            match (write(operand.register), operand.base) {
                (Effect::None, Some(base)) if operand.direct => write(base),
                (effect, _) => effect,
            }
        }
        0x89 | 0x8b => {
            let operand = reader.operand(rex)?;
            let (from, to) = match (opcode, operand.base) {
                (0x89, base) if operand.direct => (Some(operand.register), base?),
                (0x89, _) => return Some(Effect::None),
                (_, base) => (base.filter(|_| operand.direct), operand.register),
            };
            match (from, to) {
                (Some(RSP), RBP) if prefix.wide() => Effect::FrameFromStack(0),
                (Some(RBP), RSP) if prefix.wide() => Effect::StackFromFrame(0),
                (_, to) => write(to),
            }
        }
        0x8d => {
            let operand = reader.operand(rex)?;
            match (operand.base, operand.register) {
                (Some(RSP), RSP) if prefix.wide() => Effect::Move(operand.displacement),
                (Some(RSP), RBP) if prefix.wide() => Effect::FrameFromStack(operand.displacement),
                (Some(RBP), RSP) if prefix.wide() => Effect::StackFromFrame(operand.displacement),
                (_, to) => write(to),
            }
        }
        0x88 | 0x8a | 0x8c | 0x8e => reader.operand(rex).map(|_| Effect::None)?,
        0x8f => {
            let operand = reader.operand(rex)?;
            match operand.base.filter(|_| operand.direct) {
                Some(RSP) => Effect::LosesStack,
                to => Effect::Pop {
                    frame: to == Some(RBP),
                },
            }
        }
        0x9c => Effect::Push { frame: false },
        0x9d => Effect::Pop { frame: false },
        0x90..=0x97 if low != 0 || rex & 1 != 0 => write(low),
        0x90..=0x99 | 0x9b..=0x9f | 0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf | 0xd7 => Effect::None,
        0xa0..=0xa3 => skip(reader, if prefix.address { 4 } else { 8 })?,
        0xa8 | 0xe4..=0xe7 | 0xcd | 0xb0..=0xb7 => skip(reader, 1)?,
        0xa9 => skip(reader, prefix.immediate())?,
        0xb8..=0xbf => {
            skip(reader, if prefix.wide() { 8 } else { prefix.immediate() })?;
            write(low)
        }
        0xc0 | 0xc1 => {
            let effect = written(reader, rex)?;
            skip(reader, 1)?;
            effect
        }
        0xc2 | 0xca => skip(reader, 2).map(|_| Effect::Return)?,
        0xc3 | 0xcb | 0xcf => Effect::Return,
        0xc6 => {
            reader.operand(rex)?;
            skip(reader, 1)?
        }
        0xc7 => {
            let effect = written(reader, rex)?;
            skip(reader, prefix.immediate())?;
            effect
        }
        0xc8 => skip(reader, 3).map(|_| Effect::LosesStack)?,
        0xc9 => Effect::Leave,
        0xcc | 0xf4 => Effect::Stop,
        0xd0..=0xd3 => written(reader, rex)?,
        0xd8..=0xdf => reader.operand(rex).map(|_| Effect::None)?,
        0xe8 => skip(reader, 4).map(|_| Effect::Call)?,
        0xe9 => Effect::Jump(Some(reader.number(4)?)),
        0xeb => Effect::Jump(Some(reader.number(1)?)),
        0xec..=0xef | 0xf1 | 0xf5 | 0xf8..=0xfd => Effect::None,
        0xf6 | 0xf7 => {
            let operand = reader.operand(rex)?;
            match operand.field {
                0 | 1 if opcode == 0xf6 => skip(reader, 1)?,
                0 | 1 => skip(reader, prefix.immediate())?,
                2 | 3 if operand.direct => operand.base.map_or(Effect::None, write),
                _ => Effect::None,
            }
        }
        0xfe => reader.operand(rex).map(|_| Effect::None)?,
        0xff => {
            let operand = reader.operand(rex)?;
            match operand.field {
                0 | 1 if operand.direct => operand.base.map_or(Effect::None, write),
                2 | 3 => Effect::Call,
                4 | 5 => Effect::Jump(None),
                6 => Effect::Push {
                    frame: operand.direct && operand.base == Some(RBP),
                },
                _ => Effect::None,
            }
        }
        _ => return None,
    })
}

fn two_bytes(reader: &mut Reader<'_>, prefix: &Prefix) -> Option<Effect> {
    let rex = prefix.rex;
    let opcode = reader.byte()?;
    Some(match opcode {
        0x0b | 0xb9 | 0xff => Effect::Stop,
        0x05..=0x09 | 0x0e | 0x30..=0x37 | 0x77 | 0xa2 | 0xaa => Effect::None,
        0x38 => {
            reader.byte()?;
            reader.operand(rex).map(|_| Effect::None)?
        }
        0x3a | 0x0f => {
            // 3DNow! has its opcode behind the operands.
            if opcode == 0x3a {
                reader.byte()?;
            }
            reader.operand(rex)?;
            skip(reader, 1)?
        }
        0x80..=0x8f => Effect::Branch(reader.number(4)?),
        0xa0 | 0xa8 => Effect::Push { frame: false },
        0xa1 | 0xa9 => Effect::Pop { frame: false },
        0x70..=0x73 | 0xc2 | 0xc4..=0xc6 => {
            reader.operand(rex)?;
            skip(reader, 1)?
        }
        0xa4 | 0xac | 0xba => {
            let effect = written(reader, rex)?;
            skip(reader, 1)?;
            effect
        }
        // cmov, imul, movzx, popcnt, bsf, bsr, movsx.
        0x40..=0x4f | 0xaf | 0xb6..=0xb8 | 0xbc..=0xbf => write(reader.operand(rex)?.register),
        0xa5 | 0xab | 0xad | 0xb1 | 0xb3 | 0xbb | 0xc1 => written(reader, rex)?,
        0xc8..=0xcf => write(opcode & 7 | (rex & 1) << 3),
        0x04 | 0x0a | 0x0c | 0x24..=0x27 | 0x39 | 0x3b..=0x3f | 0x7a | 0x7b | 0xa6 | 0xa7 => {
            return None;
        }
        _ => reader.operand(rex).map(|_| Effect::None)?,
    })
}

/// VEX and EVEX: vector instructions, and a few on general registers.
fn vector(reader: &mut Reader<'_>, prefix: u8) -> Option<Effect> {
    // REX.R, inverted, is the first bit behind the prefix.
    let mut high = 0;
    let map = match prefix {
        0xc5 => {
            reader.byte()?;
            1
        }
        0xc4 => {
            let first = reader.byte()?;
            reader.byte()?;
            high = !first >> 5 & 4;
            first & 0x1f
        }
        _ => {
            let map = reader.byte()? & 7;
            skip(reader, 2)?;
            map
        }
    };
    let opcode = reader.byte()?;
    if map == 1 && opcode == 0x77 {
        return Some(Effect::None);
    }
    let register = reader.operand(high)?.register;
    match (map, opcode) {
        // andn, pdep, pext, mulx, bextr, shlx and their like; rorx.
        (2, 0xf2 | 0xf5..=0xf7) => Some(write(register)),
        (3, 0xf0) => skip(reader, 1).map(|_| write(register)),
        (3, _) | (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) => skip(reader, 1),
        (1..=2 | 5..=6, _) => Some(Effect::None),
        _ => None,
    }
}

fn skip(reader: &mut Reader<'_>, bytes: usize) -> Option<Effect> {
    reader.code.get(reader.at..reader.at.checked_add(bytes)?)?;
    reader.at += bytes;
    Some(Effect::None)
}

/// An instruction that writes to the other operand, not to the register.
fn written(reader: &mut Reader<'_>, rex: u8) -> Option<Effect> {
    let operand = reader.operand(rex)?;
    let to = operand.base.filter(|_| operand.direct);
    Some(to.map_or(Effect::None, write))
}

fn write_and_skip(reader: &mut Reader<'_>, rex: u8, bytes: usize) -> Option<Effect> {
    let effect = write(reader.operand(rex)?.register);
    skip(reader, bytes)?;
    Some(effect)
}

#[cfg(test)]
mod tests;
