//! How long an x86_64 instruction is, and what it does to the frame.
//!
//! Source: Intel Software Developer's Manual volume 2, chapter 2 and appendix A (opcode maps).

use super::{Frame, Next};

const RSP: u8 = 4;
const RBP: u8 = 5;

/// One instruction, taken apart.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Instruction {
    pub(super) length: usize,
    /// 0 for the one-byte map, then 1 (0f), 2 (0f 38), 3 (0f 3a); 8 more for VEX and EVEX.
    pub(super) map: u8,
    pub(super) opcode: u8,
    pub(super) rex: u8,
    /// Mode, register and operand of ModRM; registers with REX's bits.
    pub(super) modrm: Option<(u8, u8, u8)>,
    /// The register that a memory operand is counted from.
    pub(super) base: Option<u8>,
    pub(super) displacement: i32,
    /// Whether it is counted from rip.
    by_rip: bool,
    /// Whether its address is more than a sum: of a segment (`fs`, `gs`), or of 32 bits.
    pub(super) odd: bool,
    /// Whether operands are of 16 bits.
    pub(super) short: bool,
    pub(super) immediate: i64,
}

impl Instruction {
    /// Whether operands are of 64 bits.
    pub(super) fn is_wide(&self) -> bool {
        self.rex & 8 != 0
    }
}

/// Follows one instruction.
pub(super) fn follow(code: &[u8], at: u64, frame: &mut Frame) -> Option<(u64, Next)> {
    let instruction = decode(code)?;
    let next = control(&instruction, at);
    if let Next::Branch(target) = next {
        let unless_equal = matches!((instruction.map, instruction.opcode), (0, 0x75) | (1, 0x85));
        frame.leave_loop(at, target, unless_equal);
    }
    if matches!(next, Next::Behind) {
        effect(&instruction, frame);
        frame.at_bound = is_compared(&instruction, frame);
        if instruction.map == 0 && instruction.opcode == 0x8d && instruction.by_rip {
            let end = at.wrapping_add(instruction.length as u64);
            frame.table = Some(end.wrapping_add_signed(instruction.displacement.into()));
        }
    }
    Some((instruction.length as u64, next))
}

fn control(i: &Instruction, at: u64) -> Next {
    let target = at
        .wrapping_add(i.length as u64)
        .wrapping_add_signed(i.immediate);
    let group = i.modrm.map_or(0, |(_, register, _)| register & 7);
    match (i.map, i.opcode) {
        (0, 0xe8) => Next::BehindCall,
        (0, 0xe9 | 0xeb) => Next::Jump(target),
        (0, 0x70..=0x7f | 0xe0..=0xe3) | (1, 0x80..=0x8f) => Next::Branch(target),
        (0, 0xc2 | 0xc3 | 0xca | 0xcb | 0xcc | 0xcf | 0xf4) | (1, 0x0b | 0xb9) => Next::Out,
        (0, 0xff) if group == 2 || group == 3 => Next::BehindCall,
        (0, 0xff) if group == 4 || group == 5 => Next::ByTable,
        _ => Next::Behind,
    }
}

/// Whether this is `cmp %r11,%rsp`, of the register that sp is to come down to.
fn is_compared(i: &Instruction, frame: &Frame) -> bool {
    let operands = i
        .modrm
        .map(|(mode, register, rm)| (mode == 3, register, rm));
    let Some(bound) = frame.bound.map(|(register, _)| register) else {
        return false;
    };
    match (i.map, i.opcode) {
        (0, 0x39) => operands == Some((true, bound, RSP)),
        (0, 0x3b) => operands == Some((true, RSP, bound)),
        _ => false,
    }
}

fn effect(i: &Instruction, frame: &mut Frame) {
    let in_register = |number: u8| matches!(i.modrm, Some((3, _, rm)) if rm == number);
    let to = i.modrm.map(|(_, register, _)| register);
    let group = to.map(|register| register & 7);
    let number = (i.rex & 1) << 3 | i.opcode & 7;
    let immediate = i32::try_from(i.immediate).ok();
    if i.map != 0 {
        return;
    }
    match i.opcode {
        0x50..=0x57 => {
            frame.move_sp(8);
            if number == RBP && frame.saved_fp.is_none() && frame.fp.is_none() {
                frame.saved_fp = frame.sp.and_then(i32::checked_neg);
            }
        }
        0x58..=0x5f => {
            if number == RBP && frame.sp.is_none() && frame.fp.is_some() {
                // Compilers pop it from nowhere but where it was saved.
                frame.sp = frame.saved_fp.and_then(i32::checked_neg);
            }
            let place = frame.sp.and_then(i32::checked_neg);
            frame.move_sp(-8);
            if number == RBP && place == frame.saved_fp {
                (frame.saved_fp, frame.fp) = (None, None);
                frame.left = true;
            } else if number == RSP {
                frame.sp = None;
            }
        }
        0x68 | 0x6a | 0x9c => frame.move_sp(8),
        0x8f | 0x9d => frame.move_sp(-8),
        0xff if group == Some(6) => frame.move_sp(8),
        0xc9 => {
            // leave
            frame.sp = frame.fp.and_then(|fp| fp.checked_sub(8));
            (frame.saved_fp, frame.fp, frame.left) = (None, None, true);
        }
        0xb8 if number == 0 => frame.eax = immediate,
        0x81 | 0x83 if in_register(RSP) => match (group, immediate) {
            (Some(0), Some(up)) => frame.move_sp(up.wrapping_neg()),
            (Some(5), Some(down)) => frame.move_sp(down),
            (Some(7), _) => {}
            _ => frame.sp = None,
        },
        0x81 | 0x83 if frame.bound.is_some_and(|(bound, _)| in_register(bound)) => {
            frame.bound = match (group, immediate, frame.bound) {
                (Some(5), Some(down), Some((register, at))) => {
                    at.checked_add(down).map(|at| (register, at))
                }
                (Some(7), ..) => frame.bound,
                _ => None,
            };
        }
        // where sp is to come down to: mov %rsp,%r11; lea -0x3000(%rsp),%r11
        0x89 if to == Some(RSP) && i.modrm.is_some_and(|(mode, _, rm)| mode == 3 && rm >= 8) => {
            let register = i.modrm.map_or(0, |(_, _, rm)| rm);
            frame.bound = frame.sp.map(|sp| (register, sp));
        }
        0x8d if i.base == Some(RSP) && to.is_some_and(|to| to >= 8) => {
            let below = frame.sp.and_then(|sp| sp.checked_sub(i.displacement));
            frame.bound = below.zip(to).map(|(below, to)| (to, below));
        }
        // mov between rsp and rbp, in both encodings
        0x89 if in_register(RBP) && to == Some(RSP) => frame.fp = frame.sp,
        0x8b if in_register(RSP) && to == Some(RBP) => frame.fp = frame.sp,
        // from elsewhere than the stack, while it is the caller's
        0x8b if to == Some(RBP) && i.base.is_some_and(|base| base != RSP && base != RBP) => {
            frame.foreign |= frame.saved_fp.is_none() && frame.fp.is_none();
        }
        0x8b if to.is_some_and(|to| to != RSP)
            && i.base.is_some_and(|base| base != RSP && base != RBP) =>
        {
            frame.loaded |= 1 << (to.unwrap_or(0) & 15);
        }
        0x89 if i
            .base
            .is_some_and(|base| frame.loaded >> (base & 15) & 1 == 1) =>
        {
            frame.stored = true;
        }
        0x89 if in_register(RSP) => frame.sp = frame.fp.filter(|_| to == Some(RBP)),
        0x8b if to == Some(RSP) => frame.sp = frame.fp.filter(|_| in_register(RBP)),
        0x8d if to == Some(RSP) || to == Some(RBP) => {
            let from = match i.base {
                Some(RSP) => frame.sp,
                Some(RBP) => frame.fp,
                _ => None,
            };
            let sum = from.and_then(|from| from.checked_sub(i.displacement));
            if to == Some(RSP) {
                frame.sp = sum;
            } else if i.base == Some(RSP) && frame.saved_fp.is_some() && i.displacement >= 0 {
                frame.fp = sum;
            }
        }
        0x29 if in_register(RSP) && to == Some(0) => match frame.eax {
            Some(down) => frame.move_sp(down),
            None => frame.sp = None,
        },
        // other sums into rsp
        0x01 | 0x21 | 0x29 | 0x87 if in_register(RSP) => frame.sp = None,
        0x03 | 0x23 | 0x2b if to == Some(RSP) => frame.sp = None,
        _ => {}
    }
}

/// Takes the instruction at the beginning of `code` apart; `None` where it is none or cut short.
pub(super) fn decode(code: &[u8]) -> Option<Instruction> {
    let mut i = Instruction::default();
    let mut at = 0;
    let byte = |at: usize| code.get(at).copied();
    let (mut operand16, mut address32) = (false, false);
    loop {
        match byte(at)? {
            0x66 => operand16 = true,
            0x67 => (address32, i.odd) = (true, true),
            0x64 | 0x65 => i.odd = true,
            0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 => {}
            _ => break,
        }
        at += 1;
    }
    if byte(at)? & 0xf0 == 0x40 {
        i.rex = byte(at)? & 0x0f;
        at += 1;
    }
    i.opcode = byte(at)?;
    at += 1;
    match i.opcode {
        0x0f => {
            i.map = 1;
            i.opcode = byte(at)?;
            at += 1;
            if let 0x38 | 0x3a = i.opcode {
                i.map = if i.opcode == 0x38 { 2 } else { 3 };
                i.opcode = byte(at)?;
                at += 1;
            }
        }
        0xc4 | 0xc5 | 0x62 => {
            let (map, skip) = match i.opcode {
                0xc5 => (1, 1),
                0xc4 => (byte(at)? & 0x1f, 2),
                _ => (byte(at)? & 0x07, 3),
            };
            at += skip;
            i.map = 8 | map;
            i.opcode = byte(at)?;
            at += 1;
        }
        _ => {}
    }
    let (has_modrm, immediate) = shape(i.map, i.opcode)?;
    let mut extra = 0;
    if has_modrm {
        let modrm = byte(at)?;
        at += 1;
        let (mode, register, mut rm) = (
            modrm >> 6,
            (i.rex & 4) << 1 | modrm >> 3 & 7,
            (i.rex & 1) << 3 | modrm & 7,
        );
        let mut displacement = match mode {
            1 => 1,
            2 => 4,
            _ => 0,
        };
        if mode != 3 && modrm & 7 == 4 {
            let sib = byte(at)?;
            at += 1;
            rm = (i.rex & 1) << 3 | sib & 7;
            if mode == 0 && sib & 7 == 5 {
                displacement = 4;
            }
            // An index other than rsp: the sum is not known.
            let index = (i.rex & 2) << 2 | sib >> 3 & 7;
            i.base = Some(rm).filter(|_| index == 4 && !(mode == 0 && sib & 7 == 5));
        } else if mode == 0 && modrm & 7 == 5 {
            displacement = 4;
            i.by_rip = true;
        } else if mode != 3 {
            i.base = Some(rm);
        }
        i.displacement = match displacement {
            1 => i32::from(byte(at)? as i8),
            4 => i32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?),
            _ => 0,
        };
        at += displacement;
        i.modrm = Some((mode, register, rm));
        // test, the only one of its group with an immediate
        if i.map == 0 && matches!(i.opcode, 0xf6 | 0xf7) && register & 7 < 2 {
            extra = if i.opcode == 0xf6 { 1 } else { Z };
        }
    }
    let size = match immediate.max(extra) {
        Z if operand16 => 2,
        Z if i.map == 0 && matches!(i.opcode, 0xb8..=0xbf) && i.rex & 8 != 0 => 8,
        Z => 4,
        ADDRESS if address32 => 4,
        ADDRESS => 8,
        bytes => bytes,
    };
    let value = code.get(at..at.checked_add(size)?)?;
    i.immediate = match *value {
        [a] => i64::from(a as i8),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => 0,
    };
    i.length = at + size;
    i.short = operand16 && !i.is_wide();
    Some(i)
}

/// An immediate of 2 or 4 bytes, and an absolute address.
const Z: usize = 100;
const ADDRESS: usize = 101;

/// Whether an instruction has a ModRM byte, and the size of its immediate.
fn shape(map: u8, opcode: u8) -> Option<(bool, usize)> {
    Some(match (map & 7, opcode) {
        (0, 0x00..=0x3f) => match opcode & 7 {
            0..=3 => (true, 0),
            4 => (false, 1),
            5 => (false, Z),
            _ => return None,
        },
        (0, 0x50..=0x5f) => (false, 0),
        (0, 0x63) => (true, 0),
        (0, 0x68) => (false, Z),
        (0, 0x69) => (true, Z),
        (0, 0x6a) => (false, 1),
        (0, 0x6b) => (true, 1),
        (0, 0x6c..=0x6f) => (false, 0),
        (0, 0x70..=0x7f) => (false, 1),
        (0, 0x80 | 0x83) => (true, 1),
        (0, 0x81) => (true, Z),
        (0, 0x84..=0x8f) => (true, 0),
        (0, 0x90..=0x99 | 0x9b..=0x9f) => (false, 0),
        (0, 0xa0..=0xa3) => (false, ADDRESS),
        (0, 0xa8) => (false, 1),
        (0, 0xa9) => (false, Z),
        (0, 0xa4..=0xa7 | 0xaa..=0xaf) => (false, 0),
        (0, 0xb0..=0xb7) => (false, 1),
        (0, 0xb8..=0xbf) => (false, Z),
        (0, 0xc0 | 0xc1) => (true, 1),
        (0, 0xc2 | 0xca) => (false, 2),
        (0, 0xc3 | 0xc9 | 0xcb | 0xcc | 0xcf) => (false, 0),
        (0, 0xc6) => (true, 1),
        (0, 0xc7) => (true, Z),
        (0, 0xc8) => (false, 3),
        (0, 0xcd) => (false, 1),
        (0, 0xd0..=0xd3 | 0xd8..=0xdf) => (true, 0),
        (0, 0xd7) => (false, 0),
        (0, 0xe0..=0xe7 | 0xeb) => (false, 1),
        // Never shortened by an operand prefix.
        (0, 0xe8 | 0xe9) => (false, 4),
        (0, 0xec..=0xef | 0xf1 | 0xf4 | 0xf5 | 0xf8..=0xfd) => (false, 0),
        (0, 0xf6 | 0xf7 | 0xfe | 0xff) => (true, 0),
        (0, _) => return None,
        (1, 0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x37 | 0x77) => (false, 0),
        (1, 0x80..=0x8f) if map < 8 => (false, 4),
        (1, 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf) if map < 8 => (false, 0),
        (1, 0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6) => (true, 1),
        (1, _) => (true, 0),
        (3, _) => (true, 1),
        (2 | 5 | 6, _) => (true, 0),
        _ => return None,
    })
}
