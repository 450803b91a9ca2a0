//! Finds a function's return address at any of its instructions, by following its code.
//!
//! Tables without rows for prologues and epilogues (compact unwind, and call frame information that is right at calls
//! only) don't describe a thread that was stopped at any other instruction. But the code does: from the function's
//! first instruction, where everything is known, its branches are followed to the instruction in question, applying the
//! effect of each instruction on the stack pointer, the frame pointer and the return address. All ways that lead to an
//! instruction leave the stack the same, so the first one found is enough.
//!
//! Signal-safe, all of this module, once a [`Follower`] is made.

mod entry_kind;
mod frame;
mod machine;
mod search;
mod straight;

use std::ops::Range;

use super::instructions::{Instruction, LONGEST, Successor, lift};
use super::registers::Arch;
use super::rule::Rule;
use entry_kind::EntryKind;
pub(crate) use entry_kind::{falls_in, restores_link_register};
pub(crate) use frame::ExtendedFrame;
use frame::FrameState;
pub(crate) use machine::{Machine, jump_target};
use search::{Outcome, SearchTarget};
pub(crate) use straight::{
    after_epilogue, any_return, beginnings, follows_sp, jumps, loads_sp, moves, moves_by_numbers,
};
use straight::{block_start, loses_stack, straight};

/// Follows the instruction at `at`: its length and what runs next. `None` where it is not known.
#[inline(never)]
fn follow(code: Code<'_>, at: u64, frame: &mut FrameState) -> Option<(u64, Successor)> {
    let i = code.lift(at)?;
    Some((i.length, frame.follow(&i, at)))
}

/// Most instructions (arm64) or bytes (x86_64) of a function that are examined.
const MAX_EXAMINED: usize = 1 << 16;
/// Ways that wait to be followed.
const MAX_BRANCHES: usize = 256;
/// Places after calls that wait to be followed, should the call return.
const MAX_CALLS: usize = 512;

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
    Followed(ExtendedFrame),
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
    /// See [`MAX_CALLS`].
    calls: Box<[(u64, FrameState)]>,
    /// Possible starts of jump tables.
    tables: Box<[u64]>,
    /// True if the last search met code that takes down more than the function had put up.
    too_much: bool,
}

impl Follower {
    pub(crate) fn new() -> Follower {
        let none = (0, FrameState::at_entry(Arch::Arm64));
        Follower {
            visited: vec![0; MAX_EXAMINED / 64].into(),
            branches: vec![none; MAX_BRANCHES].into(),
            calls: vec![none; MAX_CALLS].into(),
            tables: vec![0; straight::MAX_TABLES].into(),
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
            (Arch::Arm64, None) => entry_kind::entry_kind(code),
            _ => EntryKind::Function,
        };
        let target = SearchTarget {
            pc,
            behind_call,
            body,
            rows,
        };
        let (resolved, either) = match self.search(code, target, entry) {
            Outcome::Found(frame) => {
                let lost = frame.stored_through && body.is_none() && loses_stack(code, pc, frame);
                let rule = if lost {
                    Rule::RestoredContext
                } else {
                    frame.rule()?
                };
                let rule = match entry {
                    EntryKind::Within => rule.guessed(),
                    _ => rule,
                };
                return Some((rule, RuleConfidence::Followed(frame.extended())));
            }
            Outcome::Ended { resolved, either } => (resolved, either),
        };
        let block = block_start(code, pc)?;
        let frame = match (resolved, body) {
            (Some(frame), _) => frame,
            (None, Some(rule)) => FrameState::from_rule(code.arch, rule)?,
            (None, None) => FrameState::at_entry(code.arch),
        };
        let from = if either {
            RuleConfidence::Either
        } else if pc == block {
            RuleConfidence::Body
        } else {
            RuleConfidence::FromBody(block)
        };
        let rule = straight(code, frame, block, pc).and_then(|frame| frame.rule());
        Some((rule.or(body)?, from))
    }

    /// The frame at `pc`, as [`Follower::rule`] finds it where no table has anything.
    pub(crate) fn depth(&mut self, code: Code<'_>, pc: u64, behind_call: bool) -> Option<Depth> {
        let target = SearchTarget::without_tables(pc, behind_call);
        let (frame, followed) = match self.search(code, target, EntryKind::Function) {
            Outcome::Found(frame) => (frame, true),
            Outcome::Ended { resolved, .. } => {
                let frame = straight(code, resolved?, block_start(code, pc)?, pc)?;
                (frame, false)
            }
        };
        Some(Depth {
            sp: frame.sp()?,
            saved_fp: frame.saved_fp,
            followed,
        })
    }

    /// Returns true if x86_64 code takes down more than it has put up since its beginning: no whole function does.
    pub(crate) fn pops_more_than_pushed(&mut self, code: Code<'_>) -> bool {
        let nowhere = SearchTarget::without_tables(u64::MAX, false);
        self.search(code, nowhere, EntryKind::Function);
        self.too_much
    }
}

#[cfg(test)]
mod tests;
