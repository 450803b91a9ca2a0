//! Effects of x86_64 instructions of a function on its frame.

use super::kept::{self, RBP, RSP};
use super::{FrameState, Successor};
use crate::capture::instructions::{Instruction, decode};

/// Follows one instruction.
pub(super) fn follow(code: &[u8], at: u64, frame: &mut FrameState) -> Option<(u64, Successor)> {
    let instruction = decode(code)?;
    let mut next = control(&instruction, at);
    if let Successor::Branch(target) = next {
        let unless_equal = matches!((instruction.map, instruction.opcode), (0, 0x75) | (1, 0x85));
        frame.leave_loop(at, target, unless_equal);
    }
    if matches!(next, Successor::Behind) {
        let before = frame.sp;
        effect(&instruction, frame);
        kept::follow(&instruction, before, frame);
        frame.at_bound = is_compared(&instruction, frame);
        point(&instruction, at, frame);
    } else if next == Successor::BehindCall {
        kept::call(frame);
    } else if next == Successor::ByTable {
        // Another register, or one loaded since: no table that was seen.
        let by = instruction.modrm.filter(|(mode, ..)| *mode == 3);
        let by = by.map(|(_, _, register)| register);
        frame.table = frame.table.filter(|(register, _)| by == Some(*register));
        let pointed = by.map_or(0, |register| frame.pointed[usize::from(register & 15)]);
        // As assembly jumps to its labels.
        if frame.table.is_none() && pointed != 0 {
            next = Successor::Jump(at & !0xffff_ffff | u64::from(pointed));
        }
    }
    Some((instruction.length as u64, next))
}

fn control(i: &Instruction, at: u64) -> Successor {
    let target = at
        .wrapping_add(i.length as u64)
        .wrapping_add_signed(i.immediate);
    let group = i.modrm.map_or(0, |(_, register, _)| register & 7);
    match (i.map, i.opcode) {
        (0, 0xe8) => Successor::BehindCall,
        (0, 0xe9 | 0xeb) => Successor::Jump(target),
        (0, 0x70..=0x7f | 0xe0..=0xe3) | (1, 0x80..=0x8f) => Successor::Branch(target),
        (0, 0xc2 | 0xc3 | 0xca | 0xcb | 0xcc | 0xcf | 0xf4) | (1, 0x0b | 0xb9) => Successor::Out,
        (0, 0xff) if group == 2 || group == 3 => Successor::BehindCall,
        (0, 0xff) if group == 4 || group == 5 => Successor::ByTable,
        _ => Successor::Behind,
    }
}

/// Returns the register that an instruction at `at` points to an address by rip, and that address.
pub(super) fn points_to(i: &Instruction, at: u64) -> Option<(u8, u64)> {
    let (_, register, _) = i.modrm?;
    let end = at.wrapping_add(i.length as u64);
    let is_lea = i.map == 0 && i.opcode == 0x8d && i.by_rip;
    is_lea.then(|| (register, end.wrapping_add_signed(i.displacement.into())))
}

/// Follows what code does before it jumps by a table: `lea table(%rip),%rdx; movslq (%rdx,%rcx,4),%rcx;
/// add %rdx,%rcx; jmp *%rcx`.
fn point(i: &Instruction, at: u64, frame: &mut FrameState) {
    if let (0, 0x01 | 0x03, Some((3, register, rm))) = (i.map, i.opcode, i.modrm) {
        let (from, to) = if i.opcode == 1 {
            (register, rm)
        } else {
            (rm, register)
        };
        let pointed = [from, to].map(|register| frame.pointed[usize::from(register & 15)]);
        let table = pointed.into_iter().find(|table| *table != 0);
        frame.table = table.map(|table| (to, table));
    }
    for (register, pointed) in (0..).zip(&mut frame.pointed) {
        if *pointed != 0 && kept::writes(i, register) {
            *pointed = 0;
        }
    }
    if let Some((register, to)) = points_to(i, at) {
        frame.pointed[usize::from(register & 15)] = to as u32;
    }
}

/// Returns true for `cmp %r11,%rsp`, where r11 is the register down to which sp is to come.
fn is_compared(i: &Instruction, frame: &FrameState) -> bool {
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

fn effect(i: &Instruction, frame: &mut FrameState) {
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
        0xb8 if number == 0 => frame.number = immediate.map(|value| (0, value)),
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
        // saved without a push, and given back so
        0x89 if i.is_wide() && to == Some(RBP) && i.base == Some(RSP) && frame.fp.is_none() => {
            let place = frame.sp.and_then(|sp| i.displacement.checked_sub(sp));
            frame.saved_fp = frame.saved_fp.or(place);
        }
        0x8b if i.is_wide() && to == Some(RBP) && i.base == Some(RSP) => {
            let place = frame.sp.and_then(|sp| i.displacement.checked_sub(sp));
            if place.is_some() && place == frame.saved_fp {
                (frame.saved_fp, frame.fp) = (None, None);
            }
        }
        // from elsewhere than the stack, while it is the caller's
        0x8b if to == Some(RBP) && i.base.is_some_and(|base| base != RSP && base != RBP) => {
            frame.restored |= frame.saved_fp.is_none() && frame.fp.is_none();
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
        0x29 if in_register(RSP) && to == Some(0) => match frame.number {
            Some((_, down)) => frame.move_sp(down),
            None => frame.sp = None,
        },
        // other sums into rsp
        0x01 | 0x21 | 0x29 | 0x87 if in_register(RSP) => frame.sp = None,
        0x03 | 0x23 | 0x2b if to == Some(RSP) => frame.sp = None,
        _ => {}
    }
}
