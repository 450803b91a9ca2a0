//! The search for an instruction on the ways from a function's start.

use std::ops::Range;

use super::entry_kind::{EntryKind, call_piece};
use super::frame::FrameState;
use super::{Code, Follower, MAX_CALLS, MAX_EXAMINED, follow, straight};
use crate::capture::instructions::Successor;
use crate::capture::registers::Arch;
use crate::capture::rule::Rule;

/// The instruction that is searched for, and what tables have of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchTarget {
    pub(super) pc: u64,
    /// True if a call returns to `pc`, so that the frame is the one at that call.
    pub(super) behind_call: bool,
    /// The rule of the body.
    pub(super) body: Option<Rule>,
    /// True if tables say it of each instruction.
    pub(super) rows: bool,
}

impl SearchTarget {
    /// An instruction of which no table has anything.
    pub(super) fn without_tables(pc: u64, behind_call: bool) -> SearchTarget {
        SearchTarget {
            pc,
            behind_call,
            body: None,
            rows: false,
        }
    }
}

/// The end of a search.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    /// A way leads there, with this frame.
    Found(FrameState),
    /// None does.
    Ended {
        /// The frame where such ways end: at a jump by a table, or at the first call that agrees with the body.
        resolved: Option<FrameState>,
        /// True if the body's frame may as well be the one, see [`super::RuleConfidence::Either`].
        either: bool,
    },
}

/// One search, with the memory of its [`Follower`].
struct Search<'f, 'c> {
    follower: &'f mut Follower,
    code: Code<'c>,
    target: SearchTarget,
    /// The instructions that are not known to be a table.
    range: Range<u64>,
    /// Bits of an address below those that count instructions.
    shift: u32,
    /// Count of the possible starts of jump tables in [`Follower::tables`], once they are noted; `None` within if they
    /// are too many.
    tables: Option<Option<usize>>,
    resolved: Option<FrameState>,
    either: bool,
    /// Count of the branches that wait.
    branches: usize,
    /// Numbers of the first call that waits, and of the next one that will.
    first_call: usize,
    calls: usize,
}

impl Follower {
    /// Searches the ways from the function's start, first those with few calls, since a call may never return and the
    /// code after it then belongs to another way.
    pub(super) fn search(
        &mut self,
        code: Code<'_>,
        target: SearchTarget,
        entry: EntryKind,
    ) -> Outcome {
        let shift = match code.arch {
            Arch::Arm64 => 2,
            Arch::X86_64 => 0,
        };
        let units = (code.bytes.len() >> shift).min(MAX_EXAMINED);
        if let Some(words) = self.visited.get_mut(..units.div_ceil(64)) {
            words.fill(0);
        }
        self.too_much = false;
        let entered = match entry {
            EntryKind::LinkIn(register) => FrameState::at_entry_with_ra_in(register),
            _ => FrameState::at_entry(code.arch),
        };
        let search = Search {
            follower: self,
            code,
            target,
            range: code.range(),
            shift,
            tables: None,
            resolved: None,
            either: false,
            branches: 0,
            first_call: 0,
            calls: 0,
        };
        search.run(entered)
    }
}

impl<'c> Search<'_, 'c> {
    fn run(mut self, entered: FrameState) -> Outcome {
        let (mut at, mut frame) = (self.code.start, entered);
        while !self.leads_to_target(at, &mut frame) {
            let Some((next, before)) = self.next_way() else {
                return Outcome::Ended {
                    resolved: self.resolved,
                    either: self.either,
                };
            };
            (at, frame) = (next, *before);
        }
        Outcome::Found(frame)
    }

    /// Takes a way that waits: branches first, the last one first; then calls, in their order.
    fn next_way(&mut self) -> Option<(u64, &FrameState)> {
        let (at, frame) = if let Some(last) = self.branches.checked_sub(1) {
            self.branches = last;
            self.follower.branches.get(last)?
        } else if self.first_call < self.calls {
            let call = self.first_call;
            self.first_call = call.wrapping_add(1);
            self.follower.calls.get(call % MAX_CALLS)?
        } else {
            return None;
        };
        Some((*at, frame))
    }

    /// Follows a way to its end, or to the first instruction that was visited before. Returns true if it comes to the
    /// instruction that is searched for, whose frame `frame` then is.
    fn leads_to_target(&mut self, mut at: u64, frame: &mut FrameState) -> bool {
        let SearchTarget {
            pc, behind_call, ..
        } = self.target;
        while self.visit(at) {
            if at == pc && !behind_call {
                return true;
            }
            let Some((length, next)) = follow(self.code, at, frame) else {
                return false;
            };
            let is_above_entry = frame.sp().is_some_and(|sp| sp < 8);
            self.follower.too_much |= self.code.arch == Arch::X86_64 && is_above_entry;
            // Assembly that keeps the link register elsewhere need not have called on every way here.
            if self.target.body.is_none() {
                frame.forget_copied_lr();
            }
            let behind = at.wrapping_add(length);
            match next {
                Successor::FallThrough => at = behind,
                Successor::Jump(target) => at = target,
                Successor::Branch { to, .. } => {
                    if self.range.contains(&to) {
                        self.push_branch(to, frame);
                    }
                    at = behind;
                }
                Successor::Indirect => {
                    self.jump_by_table(at, frame);
                    return false;
                }
                Successor::Call(_) => {
                    self.resolve(frame, false);
                    if behind == pc && behind_call {
                        return true;
                    }
                    self.push_return(at, behind, frame);
                    return false;
                }
                Successor::Return | Successor::Stop => return false,
            }
        }
        false
    }

    /// Takes a frame at which a way ends for the one that is searched for, if it agrees with the body, or if a jump
    /// table may lead on from there.
    fn resolve(&mut self, frame: &FrameState, by_table: bool) {
        // Rows of GCC's count from sp where that does not move.
        let agrees = (self.target.body)
            .is_none_or(|body| frame.rule() == Some(body) || frame.rule_by_sp() == Some(body));
        let leads_here = by_table && !frame.is_tail_call() && !self.target.rows;
        if leads_here || (self.resolved.is_none() && agrees) {
            self.resolved = Some(*frame);
        }
    }

    /// Has the targets of a jump by a table followed, if the table is in the function's own bytes.
    #[inline(never)]
    fn jump_by_table(&mut self, at: u64, frame: &mut FrameState) {
        self.resolve(frame, true);
        let Some(low) = frame.table.take() else {
            return;
        };
        let table = self.code.start & !0xffff_ffff | u64::from(low);
        if !self.code.range().contains(&table) {
            self.either |= frame.is_tail_call();
            return;
        }
        let mut is_read = false;
        for (word, target) in self.targets(table).into_iter().flatten() {
            is_read = true;
            // The table may follow a call that never returns.
            for at in word..word.wrapping_add(4) {
                self.visit(at);
            }
            let waiting = self.follower.branches.get(..self.branches);
            let mut waiting = waiting.unwrap_or_default().iter();
            if target != table && !waiting.any(|way| way.0 == target) {
                self.push_branch(target, frame);
            }
        }
        // A table that could not be read ends the instructions.
        if table > at && !is_read {
            self.range.end = self.range.end.min(table);
        }
    }

    /// The words of a table, and where each leads; `None` if the code points to too many places to know where it ends.
    fn targets(&mut self, table: u64) -> Option<impl Iterator<Item = (u64, u64)> + use<'c>> {
        let code = self.code;
        let possible = &mut self.follower.tables;
        let noted = *(self.tables).get_or_insert_with(|| straight::note_tables(code, possible));
        let others = self.follower.tables.get(..noted?)?;
        Some(straight::targets(code, table, others))
    }

    /// Has a branch followed later, if there is room for it.
    #[inline(never)]
    fn push_branch(&mut self, target: u64, frame: &FrameState) {
        if let Some(slot) = self.follower.branches.get_mut(self.branches) {
            *slot = (target, *frame);
            self.branches = self.branches.wrapping_add(1);
        }
    }

    /// Has the code after the call at `at` followed later, if there is room for it and the frame has a caller there:
    /// a call that loses the caller never returns.
    fn push_return(&mut self, at: u64, behind: u64, frame: &mut FrameState) {
        if self.code.arch == Arch::Arm64 {
            call_piece(self.code, at, frame);
        }
        if !frame.is_lost()
            && self.calls.wrapping_sub(self.first_call) < MAX_CALLS
            && let Some(slot) = self.follower.calls.get_mut(self.calls % MAX_CALLS)
        {
            *slot = (behind, *frame);
            self.calls = self.calls.wrapping_add(1);
        }
    }

    /// Marks an instruction; returns true if it was not marked before.
    fn visit(&mut self, at: u64) -> bool {
        let Some(index) = at
            .checked_sub(self.range.start)
            .map(|offset| (offset >> self.shift) as usize)
            .filter(|index| *index < MAX_EXAMINED && at < self.range.end)
        else {
            return false;
        };
        match self.follower.visited.get_mut(index / 64) {
            Some(word) if *word >> (index % 64) & 1 == 0 => {
                *word |= 1 << (index % 64);
                true
            }
            _ => false,
        }
    }
}
