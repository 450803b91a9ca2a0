//! Code that is no whole function: labels within functions that are listed as functions, and pieces of prologues and
//! epilogues that a compiler has moved out of functions (arm64).

use super::straight::is_padding;
use super::{Code, FrameState, Successor, follow};
use crate::capture::instructions::{Instruction, MemoryOperand, Op, Written, lift};
use crate::capture::registers::Arch;

const LR: u8 = 30;
const SP: u8 = 31;
const PC: u8 = 32;

/// The kind of code that begins at a label which is listed as a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// It may be called.
    Function,
    /// It is jumped to, with the return address in this register, by which it returns.
    LinkIn(u8),
    /// It is jumped to by code that has saved the link register: it restores what it has not saved.
    Within,
}

/// Most instructions that [`entry_kind`] examines.
const MAX_EXAMINED: u64 = 4096;

/// Classifies the code at the beginning of `code`, which no unwind table covers.
pub(super) fn entry_kind(code: Code<'_>) -> EntryKind {
    let instructions =
        || (0..MAX_EXAMINED).map_while(|at| code.lift(code.start.wrapping_add(at << 2)));
    let mut found = EntryKind::Function;
    for i in instructions() {
        for op in i.ops {
            match op {
                Op::Store {
                    from,
                    to: Some(MemoryOperand { base: SP, .. }),
                    ..
                } if from.contains(&Some(LR)) => return EntryKind::Function,
                Op::Set(to, Written::Sum(LR, 0)) if to != PC => return EntryKind::Function,
                Op::Load(to, MemoryOperand { base: SP, .. }) if to.contains(&Some(LR)) => {
                    found = EntryKind::Within;
                }
                _ => {}
            }
        }
        if let (Successor::Return, Some(register)) = (i.next, i.copies_to(PC))
            && register != LR
            && found == EntryKind::Function
        {
            found = EntryKind::LinkIn(register);
        }
    }
    match found {
        // A register that the code has itself written holds the target of its jump.
        EntryKind::LinkIn(register) if instructions().any(|i| i.writes(register)) => {
            EntryKind::Function
        }
        found => found,
    }
}

/// Most instructions in a piece of a prologue or of an epilogue.
const MAX_PIECE: usize = 16;

/// Applies the effect of a call at `at` on the frame beyond overwriting the link register, if it calls a piece of a
/// prologue or of an epilogue: behind the call the frame is as this piece leaves it. A call of a whole function does
/// not change the frame.
pub(super) fn call_piece(code: Code<'_>, at: u64, frame: &mut FrameState) {
    let lifted = |at: u64| lift(code.arch, code.anywhere(at)?, at);
    let Some(Successor::Call(Some(mut at))) = lifted(at).map(|call| call.next) else {
        return;
    };
    let mut inner = *frame;
    for _ in 0..MAX_PIECE {
        let Some(i) = lifted(at) else {
            return;
        };
        match inner.follow(&i, at) {
            Successor::FallThrough => at = at.wrapping_add(i.length),
            Successor::Return => {
                if inner.sp() != frame.sp() || inner.saved_fp != frame.saved_fp {
                    *frame = inner;
                }
                return;
            }
            _ => return,
        }
    }
}

/// Returns true if this arm64 instruction moves the link register back from the register in which it was kept during a
/// call of a piece of the prologue.
pub(crate) fn restores_link_register(code: &[u8]) -> bool {
    let is_back = |i: Instruction| i.copies_to(LR).is_some_and(|from| from != SP);
    lift(Arch::Arm64, code, 0).is_some_and(is_back)
}

/// Returns true if the arm64 code before a function's first instruction runs on into it: then that instruction is a
/// label within `before`, which ends where `code` begins.
pub(crate) fn falls_in(before: Code<'_>) -> bool {
    let mut ignored = FrameState::at_entry(before.arch);
    let end = before.range().end;
    let last = end.saturating_sub(MAX_PADDING).max(before.start);
    let mut goes_on = false;
    for at in (last..end).step_by(4) {
        let padding = before
            .at(at)
            .is_some_and(|bytes| is_padding(before.arch, bytes));
        goes_on = match follow(before, at, &mut ignored) {
            // A function may end in a call that does not return.
            Some((_, Successor::FallThrough | Successor::Branch { .. })) => goes_on || !padding,
            _ => false,
        };
    }
    goes_on
}

/// Most bytes of padding between functions.
const MAX_PADDING: u64 = 64;
