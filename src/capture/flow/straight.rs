//! Code read in one go, from one address to the next: branches are not taken.

use super::frame::FrameState;
use super::functions::callee;
use super::{Code, REACH, Successor, follow, jump};
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, Rule};

/// Returns the frame at `pc`, given the `frame` at `from`, if no branch lies between them.
pub(super) fn straight(
    code: Code<'_>,
    mut frame: FrameState,
    from: u64,
    pc: u64,
) -> Option<FrameState> {
    let mut at = from;
    while at < pc {
        at += follow(code.arch, code.at(at)?, at, &mut frame)?.0;
    }
    Some(frame).filter(|_| at == pc)
}

/// Most instructions that are compared with rows.
const AHEAD: usize = 16;

/// Returns true if some instruction moves the stack pointer, reading from first to last. Signal-safe.
pub(crate) fn moves(code: Code<'_>) -> bool {
    let entered = FrameState::entered(code.arch);
    let mut at = code.start;
    for _ in 0..REACH {
        let mut frame = entered;
        let length = code
            .at(at)
            .and_then(|bytes| follow(code.arch, bytes, at, &mut frame));
        match length {
            Some((length, _)) if frame.sp == entered.sp => at += length,
            next => return next.is_some(),
        }
    }
    false
}

/// Returns true if `rule`, which counts from the stack pointer, agrees with the code ahead: up to the first branch or
/// call, `row` must give the frame that each instruction leaves. Signal-safe.
pub(crate) fn moves_with(
    code: Code<'_>,
    rule: Rule,
    row: &mut dyn FnMut(u64) -> Option<Rule>,
) -> bool {
    let Some(mut frame) = FrameState::body(rule) else {
        return true;
    };
    let mut at = code.start;
    for _ in 0..AHEAD {
        let Some(bytes) = code.at(at) else {
            return true;
        };
        if is_return(code.arch, bytes) {
            return frame.sp == FrameState::entered(code.arch).sp;
        }
        let before = frame.sp;
        let Some((length, Successor::Behind)) = follow(code.arch, bytes, at, &mut frame) else {
            return true;
        };
        at += length;
        let (Some(sp), true) = (frame.sp, frame.sp != before) else {
            continue;
        };
        match row(at) {
            Some(Rule::Frame(frame)) if frame.base == Base::Sp => {
                if i32::from(frame.cfa) * 8 != sp {
                    return false;
                }
            }
            _ => return true,
        }
    }
    true
}

/// Most returns of a function that are searched for.
const RETURNS: usize = 32;

/// Returns true if `wrong` holds for the address of one of the function's returns. Signal-safe.
pub(crate) fn any_return(code: Code<'_>, wrong: &mut dyn FnMut(u64) -> bool) -> bool {
    let mut ignored = FrameState::entered(code.arch);
    let (mut at, mut found) = (code.start, 0);
    let end = code.start.saturating_add(REACH as u64);
    while let Some(bytes) = code.at(at).filter(|_| found < RETURNS && at < end) {
        let is_return = is_return(code.arch, bytes);
        found += usize::from(is_return);
        if is_return && wrong(at) {
            return true;
        }
        match follow(code.arch, bytes, at, &mut ignored) {
            Some((length, _)) => at += length,
            None => return false,
        }
    }
    false
}

/// Returns true if code calls a function that begins behind its start, and not behind `pc`. Signal-safe.
pub(crate) fn calls_before(code: Code<'_>, pc: u64) -> bool {
    let mut ignored = FrameState::entered(code.arch);
    let mut at = code.start;
    while let Some(bytes) = code.at(at).filter(|_| at < pc) {
        if callee(code.arch, bytes, at).is_some_and(|to| code.start < to && to <= pc) {
            return true;
        }
        match follow(code.arch, bytes, at, &mut ignored) {
            Some((length, _)) => at += length,
            None => return false,
        }
    }
    false
}

pub(super) fn is_return(arch: Arch, code: &[u8]) -> bool {
    match (arch, code) {
        (Arch::X86_64, [0xc2 | 0xc3, ..]) => true,
        // ret, retaa, retab
        (Arch::Arm64, [0xc0, 0x03, 0x5f, 0xd6, ..] | [0xff, 0x0b | 0x0f, 0x5f, 0xd6, ..]) => true,
        _ => false,
    }
}

/// The rule at `pc`, where a table's rule holds at `from`, if by then the frame pointer has been
/// given back. Signal-safe.
pub(crate) fn behind_epilogue(code: Code<'_>, from: u64, table: Rule, pc: u64) -> Option<Rule> {
    let frame = straight(code, FrameState::body(table)?, from, pc)?;
    let given_back = frame.left && frame.fp.is_none() && frame.saved_fp.is_none();
    frame.rule().filter(|_| given_back)
}

/// Returns true if code leaves its function, without a branch or a call, on another stack than its own.
pub(super) fn loses_stack(code: Code<'_>, pc: u64, mut frame: FrameState) -> bool {
    let mut at = pc;
    for _ in 0..jump::STEPS {
        let next = code
            .at(at)
            .and_then(|bytes| follow(code.arch, bytes, at, &mut frame));
        match next {
            Some((length, Successor::Behind)) => at += length,
            Some((_, Successor::Out | Successor::ByTable)) => return frame.sp.is_none(),
            _ => return false,
        }
    }
    false
}

/// The first instruction behind the last one before `pc` that leads elsewhere for good.
pub(super) fn last_block(code: Code<'_>, pc: u64) -> Option<u64> {
    let mut ignored = FrameState::entered(code.arch);
    let mut at = code.start;
    let mut block = at;
    if code.arch == Arch::Arm64 {
        at = pc;
        for _ in 0..REACH {
            if at <= code.start {
                return Some(code.start);
            }
            let before = at.checked_sub(4)?;
            let (_, next) = follow(code.arch, code.at(before)?, before, &mut ignored)?;
            if matches!(
                next,
                Successor::Out | Successor::ByTable | Successor::Jump(_)
            ) {
                return Some(at);
            }
            at = before;
        }
        return None;
    }
    while at < pc {
        let (length, next) = follow(code.arch, code.at(at)?, at, &mut ignored)?;
        at += length;
        if matches!(
            next,
            Successor::Out | Successor::ByTable | Successor::Jump(_)
        ) {
            block = at;
        }
    }
    Some(block).filter(|_| at == pc)
}
