//! Effects of arm64 instructions on the frame.
//!
//! Source: Arm Architecture Reference Manual for A-profile, C4.1 (encodings).

use super::{Code, FrameState, Successor};

const FP: u32 = 29;
const LR: u32 = 30;
const SP: u32 = 31;

/// Follows one instruction.
pub(super) fn follow(code: &[u8], at: u64, frame: &mut FrameState) -> Option<(u64, Successor)> {
    let word = u32::from_le_bytes(code.get(..4)?.try_into().ok()?);
    let next = control(word, at);
    match next {
        Successor::Behind => {
            load_or_store(word, frame);
            arithmetic(word, frame);
            note_number(word, frame);
            move_link(word, frame);
            // cmp sp, x9
            let compared = frame
                .bound
                .is_some_and(|(register, _)| word == 0xeb20_63ff | u32::from(register) << 16);
            frame.at_bound = compared;
        }
        Successor::BehindCall => {
            frame.link_lost |= frame.return_address.is_none();
            frame.number = None;
        }
        // b.ne
        Successor::Branch(target) => {
            frame.leave_loop(at, target, word & 0xff00_001f == 0x5400_0001)
        }
        _ => {}
    }
    Some((4, next))
}

/// `mov x12, #imm`, by which GCC moves sp where a frame is large, and whatever else writes that register.
fn note_number(word: u32, frame: &mut FrameState) {
    let register = (word & 31) as u8;
    let half = u64::from(word >> 5 & 0xffff) << (16 * (word >> 21 & 3));
    let before = frame.number.filter(|known| known.0 == register);
    let value = match word >> 23 {
        // movz
        0xa5 | 0x1a5 => Some(half),
        // movk, into the upper half
        0x1e5 if word >> 21 & 3 == 1 => {
            before.map(|(_, value)| u64::from(value as u32 & 0xffff) | half)
        }
        // orr of a run of ones
        0x164 if word & 0xffc0_03e0 == 0xb240_03e0 => {
            let ones = u64::MAX >> (63 - (word >> 10 & 63));
            Some(ones.rotate_right(word >> 16 & 63))
        }
        _ => None,
    };
    let value = value.and_then(|value| i32::try_from(value).ok());
    if value.is_some() || before.is_some() && writes(word, register.into()) {
        frame.number = value.map(|value| (register, value));
    }
}

/// Returns the target of a branch whose distance has `bits` bits, the lowest of them at bit `low`.
fn target(word: u32, at: u64, bits: u32, low: u32) -> u64 {
    let distance = i64::from(word << (32 - bits - low)) << 32 >> (64 - bits) << 2;
    at.wrapping_add_signed(distance)
}

/// Returns the target of `bl`.
pub(super) fn callee(word: u32, at: u64) -> Option<u64> {
    (word >> 26 == 0x25).then(|| target(word, at, 26, 0))
}

/// The register that `ret` goes by.
fn returns_by(word: u32) -> Option<u32> {
    (word & 0xffff_fc1f == 0xd65f_0000).then_some(word >> 5 & 31)
}

/// The register that `mov xN, x30` writes.
fn link_kept_in(word: u32) -> Option<u8> {
    (word & 0xffff_ffe0 == 0xaa1e_03e0).then_some((word & 31) as u8)
}

fn control(word: u32, at: u64) -> Successor {
    let signed = |bits: u32, low: u32| target(word, at, bits, low);
    match word {
        // b, bl
        _ if word >> 26 == 0x05 => Successor::Jump(signed(26, 0)),
        _ if callee(word, at).is_some() => Successor::BehindCall,
        // b.cond, bc.cond; cbz, cbnz; tbz, tbnz
        _ if word >> 24 == 0x54 => Successor::Branch(signed(19, 5)),
        _ if word & 0x7e00_0000 == 0x3400_0000 => Successor::Branch(signed(19, 5)),
        _ if word & 0x7e00_0000 == 0x3600_0000 => Successor::Branch(signed(14, 5)),
        // blr, blraa, ...; br, braa, ...; ret, eret, ...
        _ if word >> 25 == 0x6b && word >> 21 & 7 == 1 => Successor::BehindCall,
        _ if word >> 25 == 0x6b && word >> 21 & 7 == 0 => Successor::ByTable,
        _ if word >> 25 == 0x6b => Successor::Out,
        // brk, udf
        _ if word & 0xffe0_001f == 0xd420_0000 || word >> 16 == 0 => Successor::Out,
        _ => Successor::Behind,
    }
}

/// `mov xN, x30` while that is the return address, and back.
fn move_link(word: u32, frame: &mut FrameState) {
    let is_link = frame.return_address.is_none() && !frame.link_lost;
    if let Some(register) = link_kept_in(word).filter(|_| is_link) {
        frame.link_in = Some(register);
    } else if is_link_back(word) && frame.link_in == Some((word >> 16 & 31) as u8) {
        frame.link_lost = false;
    }
}

/// `mov x30, xN`.
pub(super) fn is_link_back(word: u32) -> bool {
    word & 0xffe0_ffff == 0xaa00_03fe
}

/// The kind of code that begins at a label which is listed as a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Labelled {
    /// It may be called.
    Function,
    /// It is jumped to, with the return address in this register, by which it returns.
    LinkIn(u8),
    /// It is jumped to by code that has saved the link register: it restores what it has not saved.
    Within,
}

/// Most instructions that [`entry`] examines.
const LOOKED_AT: usize = 4096;

/// Classifies the code at the beginning of `code`, which no unwind table covers.
pub(super) fn entry(code: Code<'_>) -> Labelled {
    let mut found = Labelled::Function;
    for word in words(code) {
        let (first, second, base) = (word & 31, word >> 10 & 31, word >> 5 & 31);
        // str x30 and stp with it; mov xN, x30
        let pair = word & 0xfe40_0000 == 0xa800_0000 && (first == LR || second == LR);
        let one = word & 0xffc0_0000 == 0xf900_0000 || word & 0xffe0_0000 == 0xf800_0000;
        if (pair || one && first == LR) && base == SP || link_kept_in(word).is_some() {
            return Labelled::Function;
        }
        // ldr x30 and ldp with it
        let pair = word & 0xfe40_0000 == 0xa840_0000 && (first == LR || second == LR);
        let one = word & 0xffc0_0000 == 0xf940_0000 || word & 0xffe0_0000 == 0xf840_0000;
        if (pair || one && first == LR) && base == SP {
            found = Labelled::Within;
        } else if let Some(register) = returns_by(word)
            && register != LR
            && found == Labelled::Function
        {
            found = Labelled::LinkIn(register as u8);
        }
    }
    match found {
        // A register that the code has itself written holds the target of its jump.
        Labelled::LinkIn(register) if words(code).any(|word| writes(word, register.into())) => {
            Labelled::Function
        }
        found => found,
    }
}

fn words(code: Code<'_>) -> impl Iterator<Item = u32> {
    let words = code.bytes.chunks_exact(4).take(LOOKED_AT);
    words.map(|bytes| bytes.try_into().map_or(0, u32::from_le_bytes))
}

/// Returns true if an instruction may write a general register.
fn writes(word: u32, register: u32) -> bool {
    let (first, second) = (word & 31, word >> 10 & 31);
    match word >> 25 & 15 {
        // data processing, of immediates and of registers
        0b1000 | 0b1001 | 0b0101 | 0b1101 => first == register,
        // loads and stores of general registers
        0b0100 | 0b1100 => first == register || second == register,
        _ => false,
    }
}

/// Most instructions in a piece of a prologue or of an epilogue that a compiler moves out of functions.
pub(super) const PIECE: usize = 16;

/// Applies the effect of a call at `at` on the frame beyond overwriting the link register, if it calls a piece of a
/// prologue or of an epilogue: behind the call the frame is as this piece leaves it. A call of a whole function does
/// not change the frame.
pub(super) fn call_piece(code: Code<'_>, at: u64, frame: &mut FrameState) {
    let word = |at: u64| {
        let bytes = code.anywhere(at).and_then(|bytes| bytes.get(..4));
        Some(u32::from_le_bytes(bytes?.try_into().ok()?))
    };
    let Some(mut at) = word(at).and_then(|call| callee(call, at)) else {
        return;
    };
    let mut inner = *frame;
    let mut first = true;
    for _ in 0..PIECE {
        let Some(word) = word(at) else {
            return;
        };
        if returns_by(word).is_some() {
            let moved = inner.sp != frame.sp || inner.saved_fp != frame.saved_fp;
            if moved {
                // If the piece has loaded the link register, it holds the return address again.
                inner.link_lost = inner.return_address.is_none() && frame.return_address.is_none();
                *frame = inner;
            }
            return;
        }
        // Its own link register is not the function's.
        if std::mem::take(&mut first) {
            inner.link_lost = false;
        }
        match follow(&word.to_le_bytes(), at, &mut inner) {
            Some((length, Successor::Behind)) => at += length,
            _ => return,
        }
    }
}

/// Loads and stores that move sp, or that save or restore fp and lr.
fn load_or_store(word: u32, frame: &mut FrameState) {
    let (first, second, base) = (word & 31, word >> 10 & 31, word >> 5 & 31);
    let is_pair = word >> 27 & 7 == 0b101 && word >> 25 & 1 == 0 && word >> 23 & 7 != 0;
    let is_single = word >> 27 & 7 == 0b111 && word >> 25 & 1 == 0;
    if !(is_pair || is_single) {
        return;
    }
    if base != SP {
        load_from_elsewhere(word, is_pair, frame);
        return;
    }
    let vector = word >> 26 & 1 == 1;
    // Offset of the access, the changes of sp before and after it, and whether it loads.
    let (offset, before, after, load) = if is_pair {
        let scale = if vector {
            2 + (word >> 30)
        } else {
            2 + (word >> 31)
        };
        let offset = ((word << 10) as i32 >> 25) << scale;
        let load = word >> 22 & 1 == 1;
        match word >> 23 & 3 {
            1 => (0, 0, offset, load),
            3 => (0, offset, 0, load),
            _ => (offset, 0, 0, load),
        }
    } else {
        // Of the general registers only 64-bit ones matter: 11 at the top; opc 0 stores, else loads.
        let load = word >> 22 & 3 != 0;
        if word >> 24 & 1 == 1 {
            let scale = word >> 30;
            (((word >> 10 & 0xfff) << scale) as i32, 0, 0, load)
        } else if word >> 21 & 1 == 1 {
            return; // by a register
        } else {
            let offset = (word << 11) as i32 >> 23;
            match word >> 10 & 3 {
                1 => (0, 0, offset, load),
                3 => (0, offset, 0, load),
                _ => (offset, 0, 0, load),
            }
        }
    };
    if load && frame.sp.is_none() && frame.fp.is_some() && !vector && is_pair && word >> 30 == 2 {
        // Compilers load it from nowhere but where it was saved.
        let at = match (first, second) {
            (FP, _) => frame.saved_fp,
            (_, FP) => frame.saved_fp.map(|place| place.wrapping_sub(8)),
            _ => None,
        };
        frame.sp = at.map(|place| (offset + before).wrapping_sub(place));
    }
    frame.move_sp(-before);
    let place = frame.sp.and_then(|sp| offset.checked_sub(sp));
    let whole = if is_pair {
        word >> 30 == 2
    } else {
        word >> 30 == 3
    };
    if !vector && whole {
        access(frame, first, place, load);
        if is_pair {
            access(frame, second, place.map(|place| place + 8), load);
        }
    }
    frame.move_sp(-after);
}

/// Loads that do not count from sp: whether they overwrite the caller's fp, or lr, where these are
/// not saved.
fn load_from_elsewhere(word: u32, is_pair: bool, frame: &mut FrameState) {
    let (first, second, base) = (word & 31, word >> 10 & 31, word >> 5 & 31);
    let vector = word >> 26 & 1 == 1;
    let whole_load = if is_pair {
        word >> 30 == 2 && word >> 22 & 1 == 1
    } else {
        word >> 30 == 3 && word >> 22 & 3 == 1
    };
    if vector || !whole_load || base == FP {
        return;
    }
    let loads = |register| first == register || (is_pair && second == register);
    let fp_is_callers = frame.saved_fp.is_none() && frame.fp.is_none();
    frame.restored |= loads(FP) && fp_is_callers;
    frame.restored |= loads(LR) && frame.return_address.is_none();
}

fn access(frame: &mut FrameState, register: u32, place: Option<i32>, load: bool) {
    match (register, load) {
        (LR, false) if frame.return_address.is_none() => frame.return_address = place,
        (FP, false) if frame.saved_fp.is_none() && frame.fp.is_none() => frame.saved_fp = place,
        (LR, true) if place.is_some() && frame.return_address == place => {
            frame.return_address = None;
        }
        (FP, true) if place.is_some() && frame.saved_fp == place => {
            (frame.saved_fp, frame.fp, frame.left) = (None, None, true);
        }
        _ => {}
    }
}

/// Sums that set sp or fp.
fn arithmetic(word: u32, frame: &mut FrameState) {
    let (to, from) = (word & 31, word >> 5 & 31);
    if to != SP && to != FP {
        // sub x9, sp, #0x3, lsl #12
        if word & 0xff80_03e0 == 0xd100_03e0 {
            let value = (word >> 10 & 0xfff) << (12 * (word >> 22 & 1));
            let below = frame.sp.and_then(|sp| sp.checked_add(value as i32));
            frame.bound = below.map(|below| (to as u8, below));
        }
        return;
    }
    // add and sub (immediate), 64 bits, not setting flags
    if word & 0xbf80_0000 == 0x9100_0000 {
        let value = (word >> 10 & 0xfff) << (12 * (word >> 22 & 1));
        let value = if word >> 30 & 1 == 1 {
            value as i32
        } else {
            -(value as i32)
        };
        let source = match from {
            SP => frame.sp,
            FP => frame.fp,
            _ => None,
        };
        let result = source.and_then(|source| source.checked_add(value));
        // Another stack, where nothing of this one was kept.
        let keeps =
            frame.fp.is_some() || frame.saved_fp.is_some() || frame.return_address.is_some();
        frame.restored |= to == SP && from != SP && from != FP && !keeps;
        match to {
            SP => frame.sp = result,
            _ => frame.fp = result,
        }
        return;
    }
    // add and sub (extended register), and (immediate): the forms that may write sp
    let writes_sp = word & 0xbfe0_0000 == 0x8b20_0000 || word & 0xff80_0000 == 0x9200_0000;
    if to == SP && writes_sp {
        let number = frame
            .number
            .filter(|known| u32::from(known.0) == word >> 16 & 31);
        match (number, word & 0xffe0_ffff) {
            (Some((_, up)), 0x8b20_63ff) => frame.move_sp(-up),
            (Some((_, down)), 0xcb20_63ff) => frame.move_sp(down),
            _ => frame.sp = None,
        }
    }
}
