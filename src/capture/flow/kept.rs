//! The earlier stack pointer that x86_64 assembly keeps, while its own is aligned or counted from a value
//! only known at run time: `mov %rsp,%rax; push ...; and $-64,%rsp; mov %rax,0x98(%rsp)`, and at the end
//! `mov 0x98(%rsp),%rsi; ...; lea (%rsi),%rsp; ret`.

use super::FrameState;
use super::jump::NUMBERS;
use crate::capture::instructions::Instruction;
use crate::capture::rule::Rule;

/// Numbers of registers as instructions encode them.
pub(super) const RSP: u8 = 4;
pub(super) const RBP: u8 = 5;

/// An earlier stack pointer, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeptSp {
    /// CFA - that.
    below: i32,
    register: Option<u8>,
    /// A word of the stack: bytes from sp, and the register whose value of words comes on top.
    slot: Option<(i32, Option<u8>)>,
}

impl KeptSp {
    /// The rule by it, where sp is not known; `saved_fp` is CFA - the place of the caller's frame pointer.
    pub(super) fn rule(&self, saved_fp: Option<i32>) -> Option<Rule> {
        let words = |bytes: i32| (bytes % 8 == 0).then_some(bytes / 8);
        let number = |encoded: u8| {
            NUMBERS
                .get(usize::from(encoded))
                .map(|number| *number as u8)
        };
        let (at, register) = match self.slot {
            Some((at, index)) => (Some(u16::try_from(words(at)?).ok()?), index),
            None => (None, Some(self.register?)),
        };
        let fp = match saved_fp {
            Some(offset) => Some(i16::try_from(words(offset)?).ok()?),
            None => None,
        };
        Some(Rule::KeptSp {
            at,
            register: register.and_then(number),
            above: u8::try_from(words(self.below)?).ok()?,
            fp,
        })
    }

    /// sp goes down by so many bytes, or up.
    pub(super) fn move_sp(&mut self, down: i32) {
        let moved = |(at, index): (i32, Option<u8>)| Some((at.checked_add(down)?, index));
        self.slot = self.slot.and_then(moved);
    }
}

/// Follows one instruction, behind which the frame is as it is, and before which CFA - sp was `before`.
pub(super) fn follow(i: &Instruction, before: Option<i32>, frame: &mut FrameState) {
    let moved = match (i.map, i.opcode, i.modrm) {
        (0, 0x89, Some((3, from, to))) | (0, 0x8b, Some((3, to, from))) => Some((from, to)),
        _ => None,
    };
    let Some(mut kept) = frame.kept else {
        if let (Some((RSP, register)), Some(below)) = (moved, before)
            && register != RBP
        {
            let (register, slot) = (Some(register), None);
            frame.kept = Some(KeptSp {
                below,
                register,
                slot,
            });
        }
        return;
    };
    let to = i.modrm.map(|(_, register, _)| register);
    let place = match i.modrm {
        Some((mode, ..)) if mode != 3 && i.by_stack => Some((i.displacement, i.index)),
        _ => None,
    };
    let by_kept = i.base.is_some() && i.base == kept.register;
    let offset = i.displacement.checked_sub(kept.below);
    match (i.map, i.opcode) {
        _ if !i.is_wide() => {}
        // mov %rax,0x98(%rsp)
        (0, 0x89) if place.is_some() && to == kept.register => kept.slot = place,
        // mov 0x98(%rsp),%rsi
        (0, 0x8b) if place.is_some() && place == kept.slot && to != Some(RSP) => {
            kept.register = to;
            frame.kept = Some(kept);
            return;
        }
        (0, 0x8b) if place.is_some() && place == kept.slot => frame.sp = Some(kept.below),
        // mov %rax,%rsp; lea (%rsi),%rsp
        _ if moved.is_some_and(|(from, to)| to == RSP && Some(from) == kept.register) => {
            frame.sp = Some(kept.below);
        }
        (0, 0x8d) if to == Some(RSP) && by_kept => {
            frame.sp = kept.below.checked_sub(i.displacement);
        }
        // mov -0x10(%rsi),%rbp
        (0, 0x8b) if to == Some(RBP) && by_kept && offset == frame.saved_fp => {
            frame.saved_fp = None
        }
        _ => {}
    }
    // The others move it by what is known, see [`KeptSp::move_sp`].
    let group = to.map(|to| to & 7);
    let is_sum = matches!((i.map, i.opcode, group), (0, 0x81 | 0x83, Some(0 | 5)));
    let index = kept.slot.and_then(|(_, index)| index);
    if writes(i, RSP) && !is_sum || index.is_some_and(|index| writes(i, index)) {
        kept.slot = None;
    }
    // Another value goes there.
    let stores = i.map == 0 && i.opcode == 0x89 && to != kept.register;
    if stores && place.is_some() && place == kept.slot {
        kept.slot = None;
    }
    kept.register = kept.register.filter(|register| !writes(i, *register));
    let is_somewhere = kept.register.is_some() || kept.slot.is_some();
    frame.kept = Some(kept).filter(|_| is_somewhere);
}

/// Forgets, behind a call, the registers that it need not preserve.
pub(super) fn call(frame: &mut FrameState) {
    const PRESERVED: [u8; 6] = [3, 5, 12, 13, 14, 15];
    if let Some(kept) = &mut frame.kept {
        let is_preserved = |register: &u8| PRESERVED.contains(register);
        kept.register = kept.register.filter(is_preserved);
        kept.slot = kept
            .slot
            .filter(|(_, index)| index.is_none_or(|index| is_preserved(&index)));
    }
}

/// Returns true if an instruction may write to a general register (Intel SDM volume 2, appendix A).
pub(super) fn writes(i: &Instruction, r: u8) -> bool {
    let (mode, register, rm) = i.modrm.unwrap_or((0, u8::MAX, u8::MAX));
    let low = (i.rex & 1) << 3 | i.opcode & 7;
    let group = register & 7;
    let (register, rm) = (register == r, mode == 3 && rm == r);
    match (i.map & 7, i.opcode) {
        (0, 0x00..=0x37) => match i.opcode & 7 {
            0 | 1 => rm,
            2 | 3 => register,
            _ => r == 0,
        },
        (0, 0x38..=0x3f | 0x50..=0x57 | 0x68 | 0x6a | 0x70..=0x7f | 0x84 | 0x85 | 0x90) => {
            i.opcode == 0x90 && low == r
        }
        (0, 0x58..=0x5f | 0xb0..=0xbf) => low == r,
        (0, 0x63 | 0x69 | 0x6b | 0x8a | 0x8b | 0x8d) => register,
        (
            0,
            0x80..=0x83
            | 0x88
            | 0x89
            | 0x8f
            | 0xc0
            | 0xc1
            | 0xc6
            | 0xc7
            | 0xd0..=0xd3
            | 0xfe
            | 0xff,
        ) => rm,
        // test, not, neg; mul, div, and extensions of rax
        (0, 0xf6 | 0xf7) if group < 4 => rm,
        (0, 0x98 | 0x99 | 0xf6 | 0xf7) => rm || r == 0 || r == 2,
        // Strings.
        (0, 0xa4..=0xaf) => matches!(r, 0 | 1 | 6 | 7),
        (1, 0x2c | 0x2d | 0x40..=0x50 | 0xaf | 0xb6..=0xb8 | 0xbc..=0xbf | 0xc5 | 0xd7) => register,
        (1, 0x7e | 0x90..=0x9f | 0xa4 | 0xa5 | 0xab..=0xad | 0xb3 | 0xba | 0xbb) => rm,
        (1, 0xc8..=0xcf) => low == r,
        (1, 0x01 | 0x05 | 0x31 | 0x34 | 0xa2 | 0xb0 | 0xb1 | 0xc0 | 0xc1 | 0xc7) => true,
        // Vectors, and what only touches memory.
        (1, _) => false,
        (2, opcode) => opcode >= 0xf0,
        (3, opcode) => matches!(opcode, 0x14..=0x17) && rm || opcode >= 0xf0,
        _ => true,
    }
}
