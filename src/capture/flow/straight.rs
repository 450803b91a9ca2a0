//! Code read from one address to the next: branches are not followed. Jump tables of x86_64 within a function's bytes are
//! read too.
//!
//! Clang puts them behind the function's last instruction, one behind the other, assembly also between its blocks:
//! words of four bytes, each the distance of a block from the beginning of its table, or 0 for no block. The code has
//! that beginning in a `lea` by rip. `LC_DATA_IN_CODE` lists them only where the linker has kept it, and neighbours as
//! one.

use super::frame::FrameState;
use super::{Code, MAX_EXAMINED, Successor, follow, machine};
use crate::capture::instructions::{Instruction, Op, Written};
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
        at = at.wrapping_add(follow(code, at, &mut frame)?.0);
    }
    (at == pc).then_some(frame)
}

/// Most instructions that are compared with rows.
const MAX_AHEAD: usize = 16;

/// Returns true if some instruction moves the stack pointer, reading from first to last.
pub(crate) fn moves(code: Code<'_>) -> bool {
    let entered = FrameState::at_entry(code.arch);
    let mut at = code.start;
    for _ in 0..MAX_EXAMINED {
        let mut frame = entered;
        match follow(code, at, &mut frame) {
            Some((length, _)) if frame.sp() == entered.sp() => at = at.wrapping_add(length),
            next => return next.is_some(),
        }
    }
    false
}

/// Returns true if each instruction of a whole function, read from first to last, moves the stack pointer by a number
/// alone, if at all. As it returns to its caller, no way to an instruction can then have left another depth than
/// another way.
pub(crate) fn moves_by_numbers(code: Code<'_>) -> bool {
    let sp = code.arch.sp() as u8;
    let mut end = code.start;
    let by_number = |i: &Instruction| {
        i.ops.iter().all(|op| match op {
            Op::Set(to, written) if *to == sp => {
                matches!(written, Written::Sum(from, _) if *from == sp)
            }
            Op::Load(to, _) => !to.contains(&Some(sp)),
            _ => true,
        })
    };
    let all = instructions(code, code.start).all(|(at, i)| {
        end = at.wrapping_add(i.length);
        by_number(&i) && i.clobbers & 1 << sp == 0
    });
    all && end == code.range().end
}

/// Returns true if `rule`, which counts from the stack pointer, agrees with the code ahead: up to the first branch or
/// call, `row` must give the frame that each instruction leaves.
pub(crate) fn follows_sp(
    code: Code<'_>,
    rule: Rule,
    row: &mut dyn FnMut(u64) -> Option<Rule>,
) -> bool {
    let Some(mut frame) = FrameState::from_rule(code.arch, rule) else {
        return true;
    };
    let mut at = code.start;
    for _ in 0..MAX_AHEAD {
        if code.lift(at).is_some_and(|i| returns(code.arch, &i)) {
            return frame.sp() == FrameState::at_entry(code.arch).sp();
        }
        let before = frame.sp();
        let Some((length, Successor::FallThrough)) = follow(code, at, &mut frame) else {
            return true;
        };
        at = at.wrapping_add(length);
        let (Some(sp), true) = (frame.sp(), frame.sp() != before) else {
            continue;
        };
        match row(at) {
            Some(Rule::Frame(frame)) if frame.base == Base::Sp => {
                if i32::from(frame.cfa) << 3 != sp {
                    return false;
                }
            }
            _ => return true,
        }
    }
    true
}

/// Most instructions between the one that takes another frame's stack pointer and the jump there.
const MAX_TO_JUMP: usize = 4;

/// Returns true if code jumps by a register or memory after a few instructions.
pub(crate) fn jumps(code: Code<'_>) -> bool {
    let mut ahead = instructions(code, code.start).take(MAX_TO_JUMP);
    let last = ahead.find(|(_, i)| i.next != Successor::FallThrough);
    last.is_some_and(|(_, i)| i.next == Successor::Indirect)
}

/// Returns true if x86_64 code that is read up to `pc` has loaded a stack pointer from memory out of its frame, with no
/// branch since.
pub(crate) fn loads_sp(code: Code<'_>, pc: u64) -> bool {
    let (sp, fp) = (code.arch.sp() as u8, code.arch.fp() as u8);
    let is_own = |op: &Op| match op {
        Op::Set(to, _) => *to == sp,
        Op::Load(to, from) => to.contains(&Some(sp)) && [sp, fp].contains(&from.base),
        _ => false,
    };
    let (mut taken, mut end) = (false, code.start);
    for (at, i) in instructions(code, code.start) {
        end = at.wrapping_add(i.length);
        let takes = i.writes(sp) && !i.ops.iter().any(is_own);
        taken = i.next == Successor::FallThrough && (taken || takes);
    }
    taken && end == pc
}

/// Most returns of a function that are searched for.
const MAX_RETS: usize = 32;

/// Returns true if `wrong` holds for the address of one of the function's returns.
pub(crate) fn any_return(code: Code<'_>, wrong: &mut dyn FnMut(u64) -> bool) -> bool {
    let end = code.start.saturating_add(MAX_EXAMINED as u64);
    let near = instructions(code, code.start).take_while(|(at, _)| *at < end);
    let mut returns = near.filter(|(_, i)| returns(code.arch, i)).take(MAX_RETS);
    returns.any(|(at, _)| wrong(at))
}

/// The instructions from `at` on, as far as they are valid, with their addresses.
fn instructions<'t>(
    code: Code<'t>,
    mut at: u64,
) -> impl Iterator<Item = (u64, Instruction)> + use<'t> {
    std::iter::from_fn(move || {
        let i = code.lift(at)?;
        let here = at;
        at = at.wrapping_add(i.length);
        Some((here, i))
    })
}

/// Places at which functions seem to begin, read from first to last past what is no instruction, each behind the place
/// that shows it: the targets of direct calls, and frames that are made behind code that leads elsewhere for good, or
/// behind a call and padding.
pub(crate) fn beginnings(code: Code<'_>) -> impl Iterator<Item = (u64, u64)> {
    let sp = code.arch.sp() as u8;
    let (mut at, mut is_behind, mut is_called) = (code.start, false, false);
    let next = move || {
        let bytes = code.at(at)?;
        let here = at;
        let Some(i) = code.lift(at) else {
            at = at.wrapping_add(1);
            return Some(None);
        };
        at = at.wrapping_add(i.length);
        let makes_frame =
            matches!(i.ops[0], Op::Set(to, Written::Sum(from, ..0)) if (to, from) == (sp, sp));
        // A function on arm64 makes its frame once; on x86_64 it also pushes arguments.
        let begins = makes_frame && (is_behind || is_called && code.arch == Arch::Arm64);
        let goes_on = is_padding(code.arch, bytes) && (is_behind || is_called);
        is_behind = is_unconditional(&i) || goes_on;
        is_called = matches!(i.next, Successor::Call(_));
        Some(match i.next {
            Successor::Call(Some(to)) => Some((here, to)),
            _ => begins.then_some((here, here)),
        })
    };
    std::iter::from_fn(next).flatten()
}

/// Returns true for the bytes between functions: `nop` of any length, zeros.
pub(super) fn is_padding(arch: Arch, bytes: &[u8]) -> bool {
    match arch {
        Arch::Arm64 => matches!(bytes, [0, 0, 0, 0, ..] | [0x1f, 0x20, 0x03, 0xd5, ..]),
        Arch::X86_64 => {
            let prefixes = bytes.iter().take_while(|byte| matches!(byte, 0x66 | 0x2e));
            let rest = bytes.get(prefixes.count()..).unwrap_or_default();
            matches!(rest, [0 | 0x90, ..] | [0x0f, 0x1f, ..])
        }
    }
}

/// Returns true for a return by the register that calls leave the return address in.
fn returns(arch: Arch, i: &Instruction) -> bool {
    let lr = arch.return_address() as u8;
    i.next == Successor::Return
        && (arch == Arch::X86_64 || i.copies_to(arch.pc() as u8) == Some(lr))
}

/// The rule at `pc`, where a table's rule holds at `from`, if by then the frame pointer has been
/// given back.
pub(crate) fn after_epilogue(code: Code<'_>, from: u64, table: Rule, pc: u64) -> Option<Rule> {
    let frame = straight(code, FrameState::from_rule(code.arch, table)?, from, pc)?;
    let given_back = frame.epilogue_begun && frame.fp().is_none() && frame.saved_fp.is_none();
    frame.rule().filter(|_| given_back)
}

/// Returns true if code leaves its function, without a branch or a call, on another stack than its own.
pub(super) fn loses_stack(code: Code<'_>, pc: u64, mut frame: FrameState) -> bool {
    let mut at = pc;
    for _ in 0..machine::MAX_STEPS {
        match follow(code, at, &mut frame) {
            Some((length, Successor::FallThrough)) => at = at.wrapping_add(length),
            Some((_, Successor::Return | Successor::Stop | Successor::Indirect)) => {
                return frame.sp().is_none();
            }
            _ => return false,
        }
    }
    false
}

/// Returns true if what lies behind an instruction does not run next.
fn is_unconditional(i: &Instruction) -> bool {
    !matches!(
        i.next,
        Successor::FallThrough | Successor::Call(_) | Successor::Branch { .. }
    )
}

/// The first instruction behind the last one before `pc` that leads elsewhere for good.
pub(super) fn block_start(code: Code<'_>, pc: u64) -> Option<u64> {
    if code.arch == Arch::Arm64 {
        let before = |at: &u64| at.checked_sub(4).filter(|at| *at >= code.start);
        let mut back = std::iter::successors(Some(pc), before).take(MAX_EXAMINED);
        return back.find(|at| {
            let previous = at.checked_sub(4).and_then(|previous| code.lift(previous));
            *at <= code.start || previous.is_none_or(|i| is_unconditional(&i))
        });
    }
    let (mut block, mut at) = (code.start, code.start);
    for (address, i) in instructions(code, code.start).take_while(|(at, _)| *at < pc) {
        at = address.wrapping_add(i.length);
        if is_unconditional(&i) {
            block = at;
        }
    }
    (at == pc).then_some(block)
}

/// Most places in a function's own bytes that it may point to, for its tables to be read.
pub(super) const MAX_TABLES: usize = 64;

/// Notes all places in the function's bytes that its code points to by rip, in no order: the tables are among
/// them. How many there are; `None` where there is not room for all.
pub(super) fn note_tables(code: Code<'_>, found: &mut [u64]) -> Option<usize> {
    let range = code.range();
    let (mut at, mut count) = (code.start, 0usize);
    while range.contains(&at) {
        let Some(instruction) = code.lift(at) else {
            at = at.wrapping_add(1);
            continue;
        };
        if let Some((_, to)) = instruction.points_to()
            && range.contains(&to)
        {
            *found.get_mut(count)? = to;
            count = count.wrapping_add(1);
        }
        at = at.wrapping_add(instruction.length);
    }
    Some(count)
}

/// The words of the table at `table`: where each stands, and where it leads. `others` are where other tables may
/// begin; it ends there, before the first block that it leads to further on, and where a word leads out of the
/// function.
pub(super) fn targets<'t>(
    code: Code<'t>,
    table: u64,
    others: &[u64],
) -> impl Iterator<Item = (u64, u64)> + use<'t> {
    let range = code.range();
    let others = others.iter().filter(|other| **other > table);
    let mut end = others.min().copied().unwrap_or(range.end);
    let words = (table..end).step_by(4).take(MAX_EXAMINED / 4);
    words.map_while(move |at| {
        let word = code.at(at)?.get(..4)?.try_into().ok()?;
        let target = table.wrapping_add_signed(i32::from_le_bytes(word).into());
        if target > table {
            end = end.min(target);
        }
        (at < end && range.contains(&target)).then_some((at, target))
    })
}
