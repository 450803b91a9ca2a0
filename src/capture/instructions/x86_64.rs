//! Lifts x86_64 instructions.
//!
//! Source: Intel Software Developer's Manual volume 2, appendix A (opcode maps).

use super::encoding::{Encoding, decode};
use super::{Instruction, MemoryOperand, Op, Operation, Successor, Written};

/// DWARF's numbers of the registers, in the order of their encoding.
const NUMBERS: [u8; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
const SP: u8 = 7;
const FP: u8 = 6;
const PC: u8 = 16;

/// Bits of registers.
const A: u32 = 1 << 0;
const D: u32 = 1 << 1;
const C: u32 = 1 << 2;
const B: u32 = 1 << 3;
const STRINGS: u32 = 1 << 4 | 1 << 5 | A | C;

pub(super) fn lift(code: &[u8], at: u64) -> Option<Instruction> {
    let i = decode(code)?;
    let mut lifted = Instruction::new(i.length as u64, next(&i, at));
    match (effects(&i, at), lifted.next) {
        (Some(ops), _) => lifted.ops = ops,
        (None, Successor::FallThrough) => {
            lifted.clobbers = written_registers(&i);
            if !is_harmless(&i) {
                lifted.ops[0] = Op::Other;
            }
        }
        (None, _) => lifted.clobbers = written_registers(&i),
    }
    Some(lifted)
}

fn next(i: &Encoding, at: u64) -> Successor {
    let behind = at.wrapping_add(i.length as u64);
    let to = behind.wrapping_add_signed(i.immediate);
    let group = i.modrm.map_or(0, |(_, register, _)| register & 7);
    match (i.map, i.opcode) {
        (0, 0xe8) => Successor::Call(Some(to)),
        (0, 0xe9 | 0xeb) => Successor::Jump(to),
        (0, 0x70..=0x7f | 0xe0..=0xe3) | (1, 0x80..=0x8f) => Successor::Branch {
            to,
            unless_equal: matches!((i.map, i.opcode), (0, 0x75) | (1, 0x85)),
        },
        (0, 0xc2 | 0xc3) => Successor::Return,
        (0, 0xca | 0xcb | 0xcc | 0xcf | 0xf4) | (1, 0x0b | 0xb9 | 0xff) => Successor::Stop,
        (0, 0xff) if group == 2 || group == 3 => Successor::Call(None),
        (0, 0xff) if group == 4 || group == 5 => Successor::Indirect,
        _ => Successor::FallThrough,
    }
}

/// The operand that ModRM speaks of beside the register.
#[derive(Clone, Copy)]
enum Operand {
    Register(u8),
    Memory(Option<MemoryOperand>),
}

/// The effects of those instructions that move words, or count them; `None` for any other.
fn effects(i: &Encoding, at: u64) -> Option<[Op; 2]> {
    let low = dwarf_number((i.rex & 1) << 3 | i.opcode & 7);
    match (i.map, i.opcode) {
        (0, 0x50..=0x5f | 0x68 | 0x6a | 0x8f | 0x9c | 0x9d) if i.short => None,
        (0, 0x50..=0x57) => push(Some(low)),
        (0, 0x58..=0x5f) => pop(low),
        (0, 0x68 | 0x6a | 0x9c) | (1, 0xa0 | 0xa8) => push(None),
        (0, 0x9d) | (1, 0xa1 | 0xa9) => Some([move_sp(8), Op::Nothing]),
        (0, 0xc3) => pop(PC),
        (0, 0xc9) => Some([Op::Set(SP, Written::Sum(FP, 8)), pop_below()]),
        (0, 0x8f) => match operand(i) {
            Operand::Register(to) => pop(to),
            Operand::Memory(to) => Some([move_sp(8), store(None, to)]),
        },
        (0, 0xff) => push_or_jump(i),
        (0, 0xb8..=0xbf) if !i.is_wide() && !i.short => {
            let value = i.immediate as u64 & 0xffff_ffff;
            one(Op::Set(low, Written::Number(value)))
        }
        (0, 0x89 | 0x8b | 0x8d | 0xc7) => lift_move(i, at),
        (0, 0x01 | 0x09 | 0x29 | 0x31 | 0x03 | 0x0b | 0x2b | 0x33 | 0x39 | 0x3b) => arithmetic(i),
        (0, 0x81 | 0x83) => arithmetic_by_number(i),
        // movups, movaps, movdqa and their like
        (1, 0x11 | 0x29 | 0x7f) => match operand(i) {
            Operand::Register(_) => None,
            Operand::Memory(to) => one(Op::Store {
                from: [None; 2],
                to,
                bytes: 16,
            }),
        },
        (1, 0xba) => one_bit(i),
        _ => None,
    }
}

fn move_sp(by: i64) -> Op {
    Op::Set(SP, Written::Sum(SP, by))
}

/// The word on top of the stack.
const TOP: MemoryOperand = MemoryOperand {
    base: SP,
    offset: 0,
};

fn push(from: Option<u8>) -> Option<[Op; 2]> {
    let from = from.filter(|from| *from != SP);
    Some([move_sp(-8), store(from, Some(TOP))])
}

fn pop(to: u8) -> Option<[Op; 2]> {
    let load = Op::Load([Some(to), None], TOP);
    Some([load, if to == SP { Op::Nothing } else { move_sp(8) }])
}

/// The register that ModRM's field names, and the field as the number of an instruction within its group.
fn register_and_group(i: &Encoding) -> Option<(u8, u8)> {
    let (_, field, _) = i.modrm?;
    Some((dwarf_number(field), field & 7))
}

/// The indirect push and jump of group 5.
fn push_or_jump(i: &Encoding) -> Option<[Op; 2]> {
    let (_, group) = register_and_group(i)?;
    match (group, operand(i)) {
        (6, Operand::Register(from)) => push(Some(from)),
        (6, Operand::Memory(_)) => push(None),
        (4, Operand::Register(from)) => one(Op::Set(PC, Written::Sum(from, 0))),
        (4, Operand::Memory(Some(from))) => one(Op::Load([Some(PC), None], from)),
        _ => None,
    }
}

/// mov and lea.
fn lift_move(i: &Encoding, at: u64) -> Option<[Op; 2]> {
    let (register, group) = register_and_group(i)?;
    let whole = i.is_wide();
    match (i.opcode, operand(i)) {
        (0x8d, Operand::Memory(_)) if i.by_rip && whole => {
            let behind = at.wrapping_add(i.length as u64);
            let to = behind.wrapping_add_signed(i.displacement.into());
            one(Op::Set(register, Written::PcRelative(to)))
        }
        (0x8d, Operand::Memory(Some(from))) if whole => one(Op::Set(
            register,
            Written::Sum(from.base, from.offset.into()),
        )),
        (0x89, Operand::Register(to)) if whole => one(Op::Set(to, Written::Sum(register, 0))),
        (0x89, Operand::Memory(to)) => one(store(Some(register).filter(|_| whole), to)),
        (0x8b, Operand::Register(from)) if whole => one(Op::Set(register, Written::Sum(from, 0))),
        (0x8b, Operand::Memory(Some(from))) if whole => one(Op::Load([Some(register), None], from)),
        (0xc7, Operand::Register(to)) if whole && group == 0 => {
            one(Op::Set(to, Written::Number(i.immediate as u64)))
        }
        (0xc7, Operand::Memory(to)) if group != 7 => one(store(None, to)),
        _ => None,
    }
}

/// add, or, sub, xor and cmp of two operands, at least one of them a register.
fn arithmetic(i: &Encoding) -> Option<[Op; 2]> {
    let (register, _) = register_and_group(i)?;
    let whole = i.is_wide();
    match (i.opcode, operand(i)) {
        (0x01 | 0x09 | 0x29 | 0x31, Operand::Memory(to)) => one(store(None, to)),
        // xor and sub of a register with itself, of 32 bits too
        (0x29 | 0x2b | 0x31 | 0x33, Operand::Register(to)) if to == register && !i.short => {
            one(Op::Set(to, Written::Number(0)))
        }
        (0x01 | 0x09 | 0x29 | 0x31, Operand::Register(to)) if whole => {
            one(Op::Set(to, Written::Of(operation(i.opcode), to, register)))
        }
        (0x03 | 0x0b | 0x2b | 0x33, Operand::Register(from)) if whole => {
            // The other direction of the same operation.
            let value = Written::Of(operation(i.opcode & !2), register, from);
            one(Op::Set(register, value))
        }
        (0x39 | 0x3b, Operand::Register(other)) if whole => one(Op::Compare(other, register)),
        _ => None,
    }
}

/// Group 1: add, or, and, sub, cmp and others of an operand and a number.
fn arithmetic_by_number(i: &Encoding) -> Option<[Op; 2]> {
    let (_, group) = register_and_group(i)?;
    let to = match operand(i) {
        Operand::Register(to) if i.is_wide() => to,
        Operand::Memory(to) if group != 7 => return one(store(None, to)),
        _ => return None,
    };
    let bits = |keep, set| Written::Bits { of: to, keep, set };
    let value = match group {
        0 => Written::Sum(to, i.immediate),
        5 => Written::Sum(to, i.immediate.wrapping_neg()),
        1 => bits(!i.immediate as u64, i.immediate as u64),
        4 => bits(i.immediate as u64, 0),
        _ => return None,
    };
    one(Op::Set(to, value))
}

/// bts and btr of one bit of a register.
fn one_bit(i: &Encoding) -> Option<[Op; 2]> {
    let (_, group) = register_and_group(i)?;
    let bit = 1u64 << (i.immediate & 63);
    let set = match group {
        5 => bit,
        6 => 0,
        _ => return None,
    };
    match operand(i) {
        Operand::Register(of) if i.is_wide() => {
            let keep = !bit;
            one(Op::Set(of, Written::Bits { of, keep, set }))
        }
        _ => None,
    }
}

fn one(op: Op) -> Option<[Op; 2]> {
    Some([op, Op::Nothing])
}

/// What `leave` pops lies below the stack pointer by then.
fn pop_below() -> Op {
    let from = MemoryOperand {
        base: SP,
        offset: -8,
    };
    Op::Load([Some(FP), None], from)
}

fn store(from: Option<u8>, to: Option<MemoryOperand>) -> Op {
    Op::Store {
        from: [from, None],
        to,
        bytes: 8,
    }
}

fn operation(opcode: u8) -> Operation {
    match opcode {
        0x01 => Operation::Add,
        0x09 => Operation::Or,
        0x29 => Operation::Subtract,
        _ => Operation::Xor,
    }
}

fn dwarf_number(encoded: u8) -> u8 {
    let number = NUMBERS.get(usize::from(encoded & 15));
    number.copied().unwrap_or(0)
}

fn operand(i: &Encoding) -> Operand {
    match i.modrm {
        Some((3, _, rm)) => Operand::Register(dwarf_number(rm)),
        _ => Operand::Memory(address(i)),
    }
}

/// The address of a memory operand, if it is a register and a number.
fn address(i: &Encoding) -> Option<MemoryOperand> {
    let base = dwarf_number(i.base.filter(|_| !i.odd)?);
    Some(MemoryOperand {
        base,
        offset: i.displacement,
    })
}

/// Returns true for instructions that change nothing but general registers: those with operands in registers,
/// comparisons, hints, and those that load vectors.
fn is_harmless(i: &Encoding) -> bool {
    let group = i.modrm.map_or(0, |(_, register, _)| register & 7);
    let in_registers = i.modrm.is_none_or(|(mode, ..)| mode == 3);
    match (i.map & 7, i.opcode) {
        (0, 0x80..=0x83) if group == 7 => true,
        (0, 0x38..=0x3d | 0x84 | 0x85) | (1, 0x10 | 0x12 | 0x18..=0x1f | 0x28 | 0x6f) => true,
        (0, 0x00..=0x37 | 0x40..=0x6b | 0x80..=0x99 | 0xa8 | 0xa9 | 0xb0..=0xc1 | 0xd0..=0xd3) => {
            in_registers
        }
        (0, 0xf6 | 0xf7 | 0xfe | 0xff) | (1, 0x40..=0x4f | 0xaf | 0xb6..=0xbf) => in_registers,
        _ => false,
    }
}

/// Bits of the general registers that an instruction may write, in whole or in part.
fn written_registers(i: &Encoding) -> u32 {
    let (mode, field, rm) = i.modrm.unwrap_or((0, 0, 0));
    let group = field & 7;
    let bit = |encoded: u8| 1u32 << dwarf_number(encoded);
    // Without REX, numbers 4 to 7 of a byte's operand are `ah` to `bh`.
    let byte = |encoded: u8| match encoded {
        4..=7 if i.rex == 0 => bit(encoded & 3),
        other => bit(other),
    };
    let in_register = |bits: u32| if mode == 3 { bits } else { 0 };
    let low = (i.rex & 1) << 3 | i.opcode & 7;
    let (register, to) = (bit(field), in_register(bit(rm)));
    let to_byte = in_register(byte(rm));
    match (i.map, i.opcode) {
        (0, 0x00..=0x37) => match i.opcode & 7 {
            0 => to_byte,
            1 => to,
            2 => byte(field),
            3 => register,
            _ => A,
        },
        (0, 0x50..=0x57 | 0x68 | 0x6a | 0x9c | 0x9d) => bit(4),
        (0, 0x58..=0x5f) => bit(low) | bit(4),
        (0, 0x63 | 0x69 | 0x6b | 0x8b | 0x8d) => register,
        (0, 0x8a) => byte(field),
        (0, 0x80) if group != 7 => to_byte,
        (0, 0x81 | 0x83) if group != 7 => to,
        (0, 0x86) => to_byte | byte(field),
        (0, 0x87) => to | register,
        (0, 0x88 | 0xc0 | 0xc6 | 0xd0 | 0xd2) => to_byte,
        (0, 0x89 | 0x8c | 0xc1 | 0xc7 | 0xd1 | 0xd3) => to,
        (0, 0x8f) => to | bit(4),
        (0, 0x90..=0x97) if low != 0 => bit(low) | A,
        (0, 0x98 | 0x9f | 0xa0 | 0xa1 | 0xd7 | 0xe4 | 0xe5 | 0xec | 0xed) => A,
        (0, 0x99) => D,
        (0, 0xa4..=0xa7 | 0xaa..=0xaf) => STRINGS,
        (0, 0xb0..=0xb7) => byte(low),
        (0, 0xb8..=0xbf) => bit(low),
        (0, 0xc8) => bit(4) | bit(5),
        (0, 0xe0..=0xe2) => C,
        (0, 0xf6) if matches!(group, 2 | 3) => to_byte,
        (0, 0xf7) if matches!(group, 2 | 3) => to,
        (0, 0xf6 | 0xf7) if group > 3 => A | D,
        (0, 0xfe) if group < 2 => to_byte,
        (0, 0xff) if group < 2 => to,
        (0, 0xff) if group == 6 => bit(4),
        (1, 0x01) if group == 4 => to,
        (1, 0x01 | 0x31..=0x33) => A | C | D,
        (1, 0x1e) if group == 1 => to,
        (1, 0x00 | 0x20 | 0x21 | 0x7e) => to,
        (1, 0x05 | 0x34) => A | C | D | 1 << 11,
        (1, 0x02 | 0x03 | 0x2c | 0x2d | 0x40..=0x50 | 0xaf | 0xb6..=0xb8) => register,
        (1, 0xb2 | 0xb4 | 0xb5 | 0xbc..=0xbf | 0xc5 | 0xd7) => register,
        (1, 0x90..=0x9f) => to_byte,
        (1, 0xa2) => A | B | C | D,
        (1, 0xa4 | 0xa5 | 0xab..=0xad | 0xb3 | 0xbb) => to,
        (1, 0xba) if group > 4 => to,
        (1, 0xb0) => to_byte | A,
        (1, 0xb1) => to | A,
        (1, 0xc0) => to_byte | byte(field),
        (1, 0xc1) => to | register,
        (1, 0xc7) => A | D | to,
        (1, 0xc8..=0xcf) => bit(low),
        (2, 0xf0 | 0xf1 | 0xf6) => register,
        (3, 0x14..=0x17) => to,
        // VEX and EVEX; the register that is encoded in the prefix is not known.
        (9, 0x2c | 0x2d | 0x50 | 0x93 | 0xc5 | 0xd7) => register,
        (9, 0x7e) => to,
        (10, 0xf2 | 0xf7) => register,
        (10, 0xf3 | 0xf5 | 0xf6) => register | (0xffff & !(bit(4) | bit(5))),
        (11, 0x14..=0x17) => to,
        (11, 0xf0) => register,
        _ => 0,
    }
}
