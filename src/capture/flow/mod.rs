//! Finds a function's return address at any of its instructions, by following its code.
//!
//! Tables without rows for prologues and epilogues (compact unwind, and call frame information that is right at calls
//! only) don't describe a thread that was stopped at any other instruction. But the code does: from the function's
//! first instruction, where everything is known, its branches are followed to the instruction in question, applying the
//! effect of each instruction on the stack pointer, the frame pointer and the return address. All ways that lead to an
//! instruction leave the stack the same, so the first one found is enough.
//!
//! Signal-safe, all of this module, once a [`Follower`] is made.

mod frame;
mod labels;
mod machine;
mod straight;

use std::ops::Range;

use super::instructions::{Instruction, LONGEST, Successor, lift};
use super::registers::Arch;
use super::rule::Rule;
use frame::FrameState;
use labels::{Labelled, call_piece};
pub(crate) use labels::{falls_in, gives_link_back};
pub(crate) use machine::{Machine, jump_target};
pub(crate) use straight::{
    any_return, beginnings, behind_epilogue, jumps, moves, moves_by_numbers, moves_with,
    takes_stack,
};
use straight::{last_block, loses_stack, straight};

/// Follows the instruction at `at`: its length and what runs next. `None` where it is not known.
fn follow(code: Code<'_>, at: u64, frame: &mut FrameState) -> Option<(u64, Successor)> {
    let i = code.lift(at)?;
    Some((i.length, frame.follow(&i, at)))
}

/// Most instructions (arm64) or bytes (x86_64) of a function that are examined.
const REACH: usize = 1 << 16;
/// Ways that wait to be followed.
const BRANCHES: usize = 256;
const CALLS: usize = 512;

/// A function's instructions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code<'t> {
    pub(crate) arch: Arch,
    /// Address of the first byte.
    pub(crate) start: u64,
    pub(crate) bytes: &'t [u8],
    /// All instructions around it, and the address of the first.
    pub(crate) around: (u64, &'t [u8]),
}

impl<'t> Code<'t> {
    /// These instructions, without others around them.
    pub(crate) fn of(arch: Arch, start: u64, bytes: &'t [u8]) -> Code<'t> {
        Code {
            arch,
            start,
            bytes,
            around: (start, bytes),
        }
    }

    fn at(&self, address: u64) -> Option<&'t [u8]> {
        instruction(self.bytes, self.start, address)
    }

    /// The instruction at an address.
    fn lift(&self, at: u64) -> Option<Instruction> {
        lift(self.arch, self.at(at)?, at)
    }

    /// The instruction at an address of any function around.
    fn anywhere(&self, address: u64) -> Option<&'t [u8]> {
        instruction(self.around.1, self.around.0, address)
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.bytes.len() as u64)
    }
}

fn instruction(bytes: &[u8], start: u64, address: u64) -> Option<&[u8]> {
    let offset = usize::try_from(address.checked_sub(start)?).ok()?;
    let rest = bytes.get(offset..)?;
    let rest = rest.get(..LONGEST).unwrap_or(rest);
    (!rest.is_empty()).then_some(rest)
}

/// The certainty of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleConfidence {
    /// A way from the function's start was found.
    Followed,
    /// The rule of the body: a way leads here by a jump table or an exception alone, as it seems.
    Body,
    /// The same at this address, and then what the instructions since do.
    FromBody(u64),
    /// The rule of the body, or the one behind a jump table that is not in the function's own bytes, before which the
    /// frame was left.
    Either,
}

/// The depth of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depth {
    /// CFA - sp.
    pub(crate) sp: i32,
    /// The place of the caller's frame pointer, from the CFA, if it is saved.
    pub(crate) saved_fp: Option<i32>,
    /// True if a way from the function's start was found.
    pub(crate) followed: bool,
}

/// The memory that following needs; made once, and never on the stack of its maker.
#[derive(Debug, Clone)]
pub(crate) struct Follower {
    visited: Box<[u64]>,
    branches: Box<[(u64, FrameState)]>,
    calls: Box<[(u64, FrameState)]>,
    /// Possible starts of jump tables.
    tables: Box<[u64]>,
    /// True if the last search met code that takes down more than the function had put up.
    too_much: bool,
}

impl Follower {
    pub(crate) fn new() -> Follower {
        let none = (0, FrameState::entered(Arch::Arm64));
        Follower {
            visited: vec![0; REACH / 64].into(),
            branches: vec![none; BRANCHES].into(),
            calls: vec![none; CALLS].into(),
            tables: vec![0; straight::TABLES].into(),
            too_much: false,
        }
    }

    /// The rule at `pc` of the function that `code` is all of: an instruction about to run or,
    /// `behind_call`, what a call returns to. `body` is what tables say, and `rows` whether they
    /// say it of each instruction.
    pub(crate) fn rule(
        &mut self,
        code: Code<'_>,
        pc: u64,
        behind_call: bool,
        body: Option<Rule>,
        rows: bool,
    ) -> Option<(Rule, RuleConfidence)> {
        let entry = match (code.arch, body) {
            (Arch::Arm64, None) => labels::entry(code),
            _ => Labelled::Function,
        };
        let (found, settled, either) = self.search(code, pc, behind_call, body, rows, entry);
        if let Some(frame) = found {
            let lost = frame.stored && body.is_none() && loses_stack(code, pc, frame);
            let rule = if lost {
                Rule::RestoredContext
            } else {
                frame.rule()?
            };
            let rule = match entry {
                Labelled::Within => rule.guessed(),
                _ => rule,
            };
            return Some((rule, RuleConfidence::Followed));
        }
        let block = last_block(code, pc)?;
        let frame = match (settled, body) {
            (Some(frame), _) => frame,
            (None, Some(rule)) => FrameState::body(code.arch, rule)?,
            (None, None) => FrameState::entered(code.arch),
        };
        let from = match pc == block {
            _ if either => RuleConfidence::Either,
            true => RuleConfidence::Body,
            false => RuleConfidence::FromBody(block),
        };
        let rule = straight(code, frame, block, pc).and_then(|frame| frame.rule());
        Some((rule.or(body)?, from))
    }

    /// The frame at `pc`, as [`Follower::rule`] finds it where no table has anything.
    pub(crate) fn depth(&mut self, code: Code<'_>, pc: u64, behind_call: bool) -> Option<Depth> {
        let entry = Labelled::Function;
        let (found, settled, _) = self.search(code, pc, behind_call, None, false, entry);
        let frame = match found {
            Some(frame) => frame,
            None => straight(code, settled?, last_block(code, pc)?, pc)?,
        };
        Some(Depth {
            sp: frame.sp()?,
            saved_fp: frame.saved_fp,
            followed: found.is_some(),
        })
    }

    /// Returns true if x86_64 code takes down more than it has put up since its beginning: no whole function does.
    pub(crate) fn takes_down_more(&mut self, code: Code<'_>) -> bool {
        self.search(code, u64::MAX, false, None, false, Labelled::Function);
        self.too_much
    }

    /// Searches the ways from the function's start to `pc`, first those with few calls, since a call may never return
    /// and the code behind it then belongs to another way. Returns the frame at `pc`; or else the frame where such ways
    /// end: at a jump by a table, or at the first call that agrees with `body`. The last value is true if that may as
    /// well be the body's frame, see [`RuleConfidence::Either`].
    fn search(
        &mut self,
        code: Code<'_>,
        pc: u64,
        behind_call: bool,
        body: Option<Rule>,
        rows: bool,
        entry: Labelled,
    ) -> (Option<FrameState>, Option<FrameState>, bool) {
        let mut range = code.range();
        let unit = match code.arch {
            Arch::Arm64 => 4,
            Arch::X86_64 => 1,
        };
        let units = (code.bytes.len() / unit).min(REACH);
        if let Some(words) = self.visited.get_mut(..units.div_ceil(64)) {
            words.fill(0);
        }
        let (mut settled, mut either) = (None, false);
        let mut tables = None;
        self.too_much = false;
        let mut settle = |frame: FrameState, by_table: bool| {
            // Rows of GCC's count from sp where that does not move.
            let agrees = body
                .is_none_or(|body| frame.rule() == Some(body) || frame.rule_by_sp() == Some(body));
            let leads_here = by_table && !frame.is_tail_call() && !rows;
            if leads_here || (settled.is_none() && agrees) {
                settled = Some(frame);
            }
        };
        let (mut branches, mut first_call, mut calls) = (0, 0, 0);
        let entered = match entry {
            Labelled::LinkIn(register) => FrameState::entered_by_link(register),
            _ => FrameState::entered(code.arch),
        };
        let mut way = Some((code.start, entered));
        while let Some((mut at, mut frame)) = way {
            while self.visit(at, &range, unit) {
                if at == pc && !behind_call {
                    return (Some(frame), None, false);
                }
                let Some((length, next)) = follow(code, at, &mut frame) else {
                    break;
                };
                self.too_much |= code.arch == Arch::X86_64 && frame.sp().is_some_and(|sp| sp < 8);
                // Assembly that keeps the link register elsewhere need not have called on every way here.
                if body.is_none() {
                    frame.lose_kept_link();
                }
                let behind = at + length;
                match next {
                    Successor::Behind => at = behind,
                    Successor::Jump(target) => at = target,
                    Successor::Return | Successor::Stop => break,
                    Successor::ByPc => {
                        settle(frame, true);
                        let Some(low) = frame.table.take() else {
                            break;
                        };
                        let table = code.start & !0xffff_ffff | u64::from(low);
                        if !code.range().contains(&table) {
                            either |= frame.is_tail_call();
                            break;
                        }
                        let found = *tables
                            .get_or_insert_with(|| straight::note_tables(code, &mut self.tables));
                        let others = found.and_then(|found| self.tables.get(..found));
                        let targets = others.map(|others| straight::targets(code, table, others));
                        let mut is_read = false;
                        for (word, target) in targets.into_iter().flatten() {
                            is_read = true;
                            // The table may stand behind a call that never returns.
                            for at in word..word + 4 {
                                self.visit(at, &range, unit);
                            }
                            let waiting = self.branches.get(..branches).unwrap_or_default();
                            if target != table
                                && !waiting.iter().any(|way| way.0 == target)
                                && let Some(slot) = self.branches.get_mut(branches)
                            {
                                *slot = (target, frame);
                                branches += 1;
                            }
                        }
                        // A table that could not be read ends the instructions.
                        if table > at && !is_read {
                            range.end = range.end.min(table);
                        }
                        break;
                    }
                    Successor::Branch { to: target, .. } => {
                        if range.contains(&target)
                            && let Some(slot) = self.branches.get_mut(branches)
                        {
                            *slot = (target, frame);
                            branches += 1;
                        }
                        at = behind;
                    }
                    Successor::Call(_) => {
                        settle(frame, false);
                        if behind == pc && behind_call {
                            return (Some(frame), None, false);
                        }
                        if code.arch == Arch::Arm64 {
                            call_piece(code, at, &mut frame);
                        }
                        // Such a call never returns, or the caller would be lost.
                        if !frame.is_lost()
                            && calls - first_call < CALLS
                            && let Some(slot) = self.calls.get_mut(calls % CALLS)
                        {
                            *slot = (behind, frame);
                            calls += 1;
                        }
                        break;
                    }
                }
            }
            way = if branches > 0 {
                branches -= 1;
                self.branches.get(branches).copied()
            } else if first_call < calls {
                first_call += 1;
                self.calls.get((first_call - 1) % CALLS).copied()
            } else {
                None
            };
        }
        (None, settled, either)
    }

    /// Marks an address; whether it is one that was not marked yet.
    fn visit(&mut self, at: u64, range: &Range<u64>, unit: usize) -> bool {
        let Some(index) = at
            .checked_sub(range.start)
            .map(|offset| offset as usize / unit)
            .filter(|index| *index < REACH && at < range.end)
        else {
            return false;
        };
        match self.visited.get_mut(index / 64) {
            Some(word) if *word >> (index % 64) & 1 == 0 => {
                *word |= 1 << (index % 64);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
