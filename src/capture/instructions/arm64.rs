//! Lifts arm64 instructions.
//!
//! Source: Arm Architecture Reference Manual for A-profile, C4.1 (encodings).

use super::{Instruction, MemoryOperand, Op, Operation, Successor, Written};

/// The link register; the stack pointer or, in other places, the register that is always zero.
const LR: u8 = 30;
const SP: u8 = 31;
const ZERO: u8 = 31;
const PC: u8 = 32;

pub(super) fn lift(code: &[u8], at: u64) -> Option<Instruction> {
    let word = u32::from_le_bytes(code.get(..4)?.try_into().ok()?);
    let mut lifted = Instruction::new(4, next(word, at));
    let by = (word >> 5 & 31) as u8;
    match lifted.next {
        Successor::FallThrough => effects(word, &mut lifted),
        Successor::Indirect => lifted.ops[0] = Op::Set(PC, Written::Sum(by, 0)),
        Successor::Return => {
            // The authenticating ones name no register.
            let by = if by == ZERO { LR } else { by };
            lifted.ops[0] = Op::Set(PC, Written::Sum(by, 0));
        }
        _ => {}
    }
    Some(lifted)
}

fn next(word: u32, at: u64) -> Successor {
    // The distance has so many bits, the lowest of them at `low`.
    let to = |bits: u32, low: u32| {
        let above = 32u32.wrapping_sub(bits).wrapping_sub(low);
        let distance = i64::from(word << above) << 32 >> 64u32.wrapping_sub(bits) << 2;
        at.wrapping_add_signed(distance)
    };
    let branch = |to| Successor::Branch {
        to,
        // b.ne
        unless_equal: word & 0xff00_001f == 0x5400_0001,
    };
    match word {
        // b, bl
        _ if word >> 26 == 0x05 => Successor::Jump(to(26, 0)),
        _ if word >> 26 == 0x25 => Successor::Call(Some(to(26, 0))),
        // b.cond, bc.cond; cbz, cbnz; tbz, tbnz
        _ if word >> 24 == 0x54 => branch(to(19, 5)),
        _ if word & 0x7e00_0000 == 0x3400_0000 => branch(to(19, 5)),
        _ if word & 0x7e00_0000 == 0x3600_0000 => branch(to(14, 5)),
        // br, braa, ...; blr, blraa, ...; ret, retaa, ...; eret and its like
        _ if word >> 25 == 0x6b => match word >> 21 & 7 {
            0 => Successor::Indirect,
            1 => Successor::Call(None),
            2 => Successor::Return,
            _ => Successor::Stop,
        },
        // brk, udf
        _ if word & 0xffe0_001f == 0xd420_0000 || word >> 16 == 0 => Successor::Stop,
        _ => Successor::FallThrough,
    }
}

fn effects(word: u32, lifted: &mut Instruction) {
    match word >> 25 & 15 {
        0b1000 | 0b1001 | 0b0101 | 0b1101 => data_processing(word, lifted),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => match word >> 28 & 3 {
            0 => vector_structures(word, lifted),
            1 => lifted.clobber(word),
            2 => load_or_store_pair(word, lifted),
            _ => load_or_store(word, lifted),
        },
        // Conversions from vector registers, and their elements.
        0b0111 | 0b1111 => {
            let converts = word & 0x7f20_fc00 == 0x1e20_0000;
            if converts && matches!(word >> 16 & 7, 0 | 1 | 4 | 5 | 6)
                || matches!(word & 0xbfe0_fc00, 0x0e00_3c00 | 0x0e00_2c00)
            {
                lifted.clobber(word);
            }
        }
        _ if word & 0xfff0_0000 == 0xd530_0000 => lifted.clobber(word),
        // Hints, those that sign and authenticate among them; barriers.
        _ if word & 0xffff_e000 == 0xd503_2000 => {}
        _ => lifted.ops[0] = Op::Other,
    }
}

/// A number of a register that may be the one that is always zero.
fn general_register(register: u32) -> Option<u8> {
    Some((register & 31) as u8).filter(|register| *register != ZERO)
}

impl Instruction {
    /// The register that most instructions write to.
    fn clobber(&mut self, word: u32) {
        self.clobbers |= general_register(word).map_or(0, |to| 1 << to);
    }
}

/// Data processing, of immediates and of registers.
fn data_processing(word: u32, lifted: &mut Instruction) {
    let (to, from) = ((word & 31) as u8, (word >> 5 & 31) as u8);
    let second = (word >> 16 & 31) as u8;
    let wide = word >> 31 == 1;
    let kind = word >> 29 & 3;
    let sum_of = |kind| match kind & 2 {
        0 => Operation::Add,
        _ => Operation::Subtract,
    };
    // Register 31 is the stack pointer in sums and bits of immediates, and in extended sums, that set no flags.
    let of_immediate = word & 0x1f00_0000 == 0x1100_0000;
    let extended = word & 0x1fe0_0000 == 0x0b20_0000;
    let bits = word & 0x1f80_0000 == 0x1200_0000;
    let is_sp = (of_immediate || extended) && kind & 1 == 0 || bits && kind != 3;
    let value = match word {
        // add, sub (immediate)
        _ if word & 0x9f80_0000 == 0x9100_0000 => {
            let number = i64::from(word >> 10 & 0xfff) << if word >> 22 & 1 == 1 { 12 } else { 0 };
            let number = if kind & 2 == 0 {
                number
            } else {
                number.wrapping_neg()
            };
            Some(Written::Sum(from, number))
        }
        // and, orr of a run of ones
        _ if word & 0xdfc0_0000 == 0x9240_0000 => {
            let ones = u64::MAX >> (63 ^ (word >> 10 & 63));
            let ones = ones.rotate_right(word >> 16 & 63);
            let (keep, set) = match kind {
                0 => (ones, 0),
                _ => (!ones, ones),
            };
            Some(match from {
                ZERO => Written::Number(set),
                of => Written::Bits { of, keep, set },
            })
        }
        // movn, movz, movk
        _ if word & 0x1f80_0000 == 0x1280_0000 => {
            let up = (word >> 21 & 3) << 4;
            let half = u64::from(word >> 5 & 0xffff) << up;
            let whole = if wide { u64::MAX } else { u64::from(u32::MAX) };
            Some(match kind {
                0 => Written::Number(!half & whole),
                2 => Written::Number(half),
                _ => Written::Bits {
                    of: to,
                    keep: whole & !(0xffff << up),
                    set: half,
                },
            })
        }
        // orr, eor (shifted register), unshifted
        _ if word & 0xffe0_ffe0 == 0xaa00_03e0 && second != ZERO => Some(Written::Sum(second, 0)),
        _ if word & 0xffe0_ffe0 == 0xaa00_03e0 => Some(Written::Number(0)),
        _ if matches!(word & 0xffe0_fc00, 0xaa00_0000 | 0xca00_0000) && second != ZERO => {
            let operation = if kind == 1 {
                Operation::Or
            } else {
                Operation::Xor
            };
            Some(Written::Of(operation, from, second))
        }
        // add, sub (shifted register, unshifted; extended register, of 64 bits)
        _ if word & 0x9fe0_fc00 == 0x8b00_0000 && from != ZERO && second != ZERO => {
            Some(Written::Of(sum_of(kind), from, second))
        }
        _ if word & 0x9fe0_fc00 == 0x8b20_6000 && second != ZERO => {
            Some(Written::Of(sum_of(kind), from, second))
        }
        // ccmn, ccmp; and what signs or authenticates, since only the top bits change
        _ if word & 0x1fe0_0000 == 0x1a40_0000 || word >> 16 == 0xdac1 => return,
        _ => None,
    };
    match value {
        // cmp sp, x9
        Some(Written::Of(Operation::Subtract, SP, other)) if extended && to == ZERO && !is_sp => {
            lifted.ops[0] = Op::Compare(SP, other);
        }
        _ if to == ZERO && !is_sp => {}
        Some(value) => lifted.ops[0] = Op::Set(to, value),
        None => lifted.clobbers = 1 << to,
    }
}

/// One access to memory, and what becomes of the register that its address is counted from.
fn lift_access(
    lifted: &mut Instruction,
    mode: u32,
    base: u8,
    offset: i32,
    op: impl Fn(MemoryOperand) -> Op,
) {
    let at = |offset| MemoryOperand { base, offset };
    let moved = Op::Set(base, Written::Sum(base, offset.into()));
    lifted.ops = match mode {
        1 => [op(at(0)), moved],
        3 => [moved, op(at(0))],
        _ => [op(at(offset)), Op::Nothing],
    };
}

/// ldp, stp and their like.
fn load_or_store_pair(word: u32, lifted: &mut Instruction) {
    let (size, vector, load) = (word >> 30, word >> 26 & 1 == 1, word >> 22 & 1 == 1);
    let scale = match (size, vector) {
        // ldpsw; stgp
        (1, false) if load => 2,
        (1, false) => 4,
        (_, true) => size.wrapping_add(2),
        _ => (size >> 1).wrapping_add(2),
    };
    let whole = size == 2 && !vector;
    let both = [general_register(word), general_register(word >> 10)];
    if load && !whole && !vector {
        lifted.clobber(word);
        lifted.clobber(word >> 10);
    }
    let offset = ((word << 10) as i32 >> 25) << scale;
    let base = (word >> 5 & 31) as u8;
    lift_access(lifted, word >> 23 & 3, base, offset, |at| {
        if load && whole {
            Op::Load(both, at)
        } else if load {
            Op::Nothing
        } else {
            Op::Store {
                from: if whole { both } else { [None; 2] },
                to: Some(at),
                bytes: 2 << scale,
            }
        }
    });
}

/// ldr, str and their like, of one register.
fn load_or_store(word: u32, lifted: &mut Instruction) {
    let (size, vector, kind) = (word >> 30, word >> 26 & 1 == 1, word >> 22 & 3);
    let load = if vector { kind & 1 == 1 } else { kind != 0 };
    let whole = size == 3 && !vector;
    let scale = if vector && kind > 1 { 4 } else { size };
    let by_immediate = word >> 24 & 1 == 1 || word >> 21 & 1 == 0;
    // prfm
    if whole && kind == 2 {
        return;
    }
    if load && !vector && !(whole && by_immediate) {
        lifted.clobber(word);
    }
    let store = |to| Op::Store {
        from: [general_register(word).filter(|_| whole), None],
        to,
        bytes: 1 << scale,
    };
    if !by_immediate {
        let by_register = word >> 10 & 3 == 2;
        if !by_register {
            // An atomic operation.
            lifted.clobber(word);
            lifted.ops[0] = Op::Other;
        } else if !load {
            lifted.ops[0] = store(None);
        }
        return;
    }
    let (mode, offset) = if word >> 24 & 1 == 1 {
        (0, ((word >> 10 & 0xfff) << scale) as i32)
    } else {
        (word >> 10 & 3, (word << 11) as i32 >> 23)
    };
    let base = (word >> 5 & 31) as u8;
    lift_access(lifted, mode, base, offset, |at| {
        if load && whole {
            Op::Load([general_register(word), None], at)
        } else if load {
            Op::Nothing
        } else {
            store(Some(at))
        }
    });
}

/// Exclusive and ordered accesses, and those of several vectors.
fn vector_structures(word: u32, lifted: &mut Instruction) {
    lifted.ops[0] = Op::Other;
    if word >> 26 & 1 == 0 {
        lifted.clobber(word);
        lifted.clobber(word >> 10);
        lifted.clobber(word >> 16);
    } else if word >> 23 & 1 == 1 {
        let base = (word >> 5 & 31) as u8;
        let count = match word >> 12 & 15 {
            0b0111 => 1,
            0b1010 | 0b1000 => 2,
            0b0110 | 0b0100 => 3,
            _ => 4,
        };
        let moved = i64::wrapping_mul(count, 8 << (word >> 30 & 1));
        if word >> 24 & 1 == 0 && word >> 16 & 31 == 31 {
            lifted.ops[1] = Op::Set(base, Written::Sum(base, moved))
        } else {
            lifted.clobbers = 1 << base
        }
    }
}
