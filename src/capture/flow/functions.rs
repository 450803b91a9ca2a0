//! Finds function starts in an image without `LC_FUNCTION_STARTS`.
//!
//! Function starts are the entries of its tables, the targets of calls, and the targets of jumps from one function to
//! another. Between two such places lies one function or, if neighbours share an entry of `__unwind_info` and nothing
//! calls them directly, several: code that no branch from the first start reaches belongs to the next function. A
//! prologue after a call also starts a new function: a function saves its registers only once, so the call must be
//! noreturn. So does code after a call that would return or jump away while those registers are still saved. A function
//! with a jump table may have such pieces of its own: they stay with it, and results for them are marked as guesses.

use std::collections::{BTreeMap, HashSet};

use super::{Code, FrameState, Successor, arm64, follow, is_return};
use crate::capture::registers::Arch;

/// The instructions of a function for which its start can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryConfidence {
    /// Each of its instructions.
    All,
    /// The instructions that a way from the beginning leads to.
    Followed,
    /// None: a way from there does not agree with itself.
    Nothing,
}

/// The functions that lie in `code`: where each begins, and what that is good for. `entries` are
/// beginnings, each with whether nothing else begins before the next one.
pub(crate) fn functions(code: Code<'_>, entries: &[(u64, bool)]) -> BTreeMap<u64, EntryConfidence> {
    let range = code.range();
    let entries = entries.iter().copied();
    let starts = entries.filter(|(start, _)| range.contains(start)).collect();
    let mut search = Search { code, starts };
    let first: Vec<u64> = search.starts.keys().copied().collect();
    search.note_callees(first);
    let mut found = BTreeMap::new();
    loop {
        let starts = search.starts.keys().copied();
        let new: Vec<u64> = starts.filter(|start| !found.contains_key(start)).collect();
        if new.is_empty() {
            return found;
        }
        for start in new {
            // As often as it turns out to end earlier.
            let confidence = std::iter::repeat_with(|| search.split(start))
                .flatten()
                .next();
            found.insert(start, confidence.unwrap_or(EntryConfidence::Nothing));
        }
    }
}

struct Search<'t> {
    code: Code<'t>,
    /// Beginnings, and whether the function reaches to the next one for certain.
    starts: BTreeMap<u64, bool>,
}

/// The result of following all branches from a function's start.
#[derive(Default)]
struct Ways {
    reached: HashSet<u64>,
    /// Targets of calls, and of jumps out of the function.
    leads_to: Vec<u64>,
    /// True if there is a jump through a register that is no tail call.
    by_table: bool,
    /// Start of another function behind a call that does not return.
    other: Option<u64>,
    /// True if the function returns without having left its frame.
    odd: bool,
}

impl Search<'_> {
    fn after(&self, start: u64) -> Option<u64> {
        let behind = self.starts.range(start.saturating_add(1)..);
        behind.map(|(at, _)| *at).next()
    }

    fn end(&self, start: u64) -> u64 {
        self.after(start).unwrap_or(self.code.range().end)
    }

    fn note_callees(&mut self, mut functions: Vec<u64>) {
        while let Some(start) = functions.pop() {
            for target in self.ways(start).leads_to {
                let around = self.starts.range(..=target).next_back();
                let inside = around.is_none_or(|(start, whole)| *whole || *start == target);
                if !inside && self.code.range().contains(&target) {
                    self.starts.insert(target, false);
                    functions.push(target);
                }
            }
        }
    }

    /// Looks for another beginning before the next one that is known: `None` where there is one.
    fn split(&mut self, start: u64) -> Option<EntryConfidence> {
        if self.starts.get(&start) == Some(&true) {
            return Some(EntryConfidence::All);
        }
        let ways = self.ways(start);
        let end = self.end(start);
        let missed = self.missed(start, end, &ways.reached);
        let other = match ways.other {
            Some(other) => Some(other),
            None if ways.by_table => {
                missed.and_then(|missed| self.prologue(missed, end, &ways.reached))
            }
            None => missed,
        };
        if let Some(other) = other.filter(|other| *other > start && *other < end) {
            self.starts.insert(other, false);
            self.note_callees(vec![other]);
            return None;
        }
        Some(match (ways.odd, missed) {
            (true, _) => EntryConfidence::Nothing,
            (false, Some(_)) => EntryConfidence::Followed,
            (false, None) => EntryConfidence::All,
        })
    }

    fn ways(&self, start: u64) -> Ways {
        let arch = self.code.arch;
        let range = start..self.end(start);
        let mut ways = Ways::default();
        // Each with where the last call on the way returns to, and the frame there.
        let mut waiting = vec![(start, FrameState::entered(arch), None::<(u64, FrameState)>)];
        while let Some((mut at, mut frame, mut call)) = waiting.pop() {
            while range.contains(&at) && ways.reached.insert(at) {
                let Some(bytes) = self.code.at(at) else {
                    break;
                };
                if is_saved(arch, &frame) && saves_frame(arch, bytes) {
                    ways.odd |= call.is_none();
                    self.note_other(&mut ways, call, range.end);
                    break;
                }
                let before = frame;
                // Code with a frame that it has not touched since a call leaves it before it leaves.
                let bare = call.filter(|(_, then)| {
                    arch == Arch::Arm64 && *then == frame && !frame.is_left(arch)
                });
                let Some((length, next)) = follow(arch, bytes, at, &mut frame) else {
                    break;
                };
                let behind = at + length;
                match next {
                    Successor::Behind => at = behind,
                    Successor::Jump(target) if range.contains(&target) && target != start => {
                        at = target
                    }
                    Successor::Jump(target) => {
                        // With a frame, arm64 code jumps into the middle of another function that has the same.
                        if arch == Arch::X86_64 || frame.is_left(arch) {
                            ways.leads_to.push(target);
                        }
                        let other = bare.filter(|_| !self.leaves(target, frame));
                        self.note_other(&mut ways, other, range.end);
                        break;
                    }
                    Successor::Branch(target) => {
                        if range.contains(&target) {
                            waiting.push((target, frame, call));
                        }
                        at = behind;
                    }
                    Successor::BehindCall => {
                        ways.leads_to.extend(callee(arch, bytes, at));
                        if arch == Arch::Arm64 {
                            arm64::call_piece(self.code, at, &mut frame);
                        }
                        // A call that moves sp does return, and so does one across which the link register is kept.
                        if frame.sp == before.sp && !self.gives_link_back(behind) {
                            call = Some((behind, frame));
                        }
                        at = behind;
                    }
                    Successor::ByTable => {
                        ways.by_table |= !before.is_tail_call(arch);
                        ways.odd |= bare.is_some() && !self.has_table(at);
                        break;
                    }
                    // A trap may be gone on from, as a call may return.
                    Successor::Out if is_trap(arch, bytes) => {
                        (at, call) = (behind, Some((behind, frame)))
                    }
                    Successor::Out => {
                        let other = bare.filter(|_| is_return(arch, bytes));
                        self.note_other(&mut ways, other, range.end);
                        ways.odd |= is_return(arch, bytes) && !before.is_left(arch);
                        break;
                    }
                }
            }
        }
        ways
    }

    /// Returns true if the arm64 code at `at`, behind a call, moves the kept link register back.
    fn gives_link_back(&self, at: u64) -> bool {
        self.code.arch == Arch::Arm64
            && self
                .code
                .at(at)
                .is_some_and(|bytes| arm64::is_link_back(word(bytes)))
    }

    /// Another function begins behind a call that does not return.
    fn note_other(&self, ways: &mut Ways, call: Option<(u64, FrameState)>, end: u64) {
        let other = call.map(|(behind, _)| self.behind_padding(behind, end));
        ways.other = ways.other.into_iter().chain(other).min();
    }

    /// Returns true if the arm64 code at `at` is a piece of an epilogue, which leaves the frame.
    fn leaves(&self, mut at: u64, mut frame: FrameState) -> bool {
        for _ in 0..arm64::PIECE {
            let before = frame;
            let bytes = self.code.at(at);
            match bytes.and_then(|bytes| follow(self.code.arch, bytes, at, &mut frame)) {
                Some((length, Successor::Behind)) => at += length,
                Some((_, Successor::Jump(target))) if !before.is_left(self.code.arch) => {
                    at = target
                }
                _ => return before.is_left(self.code.arch),
            }
        }
        false
    }

    /// Returns true if the arm64 jump at `at`, through a register, goes by a table: those hold distances.
    fn has_table(&self, at: u64) -> bool {
        /// Instructions before the jump that are searched.
        const NEAR: u64 = 16;
        let word = |at: u64| self.code.at(at).map_or(0, word);
        let register = word(at) >> 5 & 31;
        // add x8, x8, x9
        let sums = |word: u32| word >> 24 == 0x8b && word & 31 == register;
        (1..=NEAR).any(|back| sums(word(at.saturating_sub(4 * back))))
    }

    /// The first instruction that no way has led to and that is no padding.
    fn missed(&self, start: u64, end: u64, reached: &HashSet<u64>) -> Option<u64> {
        let mut at = start;
        while at < end {
            let bytes = self.code.at(at)?;
            match padding(self.code.arch, bytes) {
                Some(length) if !reached.contains(&at) => at += length,
                _ if !reached.contains(&at) => return Some(at),
                _ => at += follow(self.code.arch, bytes, at, &mut FrameState::default())?.0,
            }
        }
        None
    }

    fn behind_padding(&self, mut at: u64, end: u64) -> u64 {
        while let Some(length) = self
            .code
            .at(at)
            .and_then(|bytes| padding(self.code.arch, bytes))
            .filter(|_| at < end)
        {
            at += length;
        }
        at
    }

    /// Returns the start of the first function that saves registers as a body never does and that no branch has
    /// reached.
    fn prologue(&self, missed: u64, end: u64, reached: &HashSet<u64>) -> Option<u64> {
        let arch = self.code.arch;
        let step = match arch {
            Arch::Arm64 => 4,
            Arch::X86_64 => 1,
        };
        let saves = (missed..end).step_by(step).find(|at| {
            !reached.contains(at)
                && self
                    .code
                    .at(*at)
                    .is_some_and(|code| saves_frame(arch, code))
        })?;
        // It is the first instruction on x86_64; on arm64 others of the prologue may come before.
        let is_before = |at: &u64| {
            let bytes = self.code.at(*at).unwrap_or_default();
            let next = follow(arch, bytes, *at, &mut FrameState::default());
            // A piece of the prologue is called while the link register is kept elsewhere.
            let goes_on = match next {
                Some((_, Successor::Behind)) => true,
                Some((length, Successor::BehindCall)) => self.gives_link_back(*at + length),
                _ => false,
            };
            goes_on && padding(arch, bytes).is_none() && !reached.contains(at)
        };
        let before = (missed..saves).rev().step_by(4).map(|at| at & !3);
        match arch {
            Arch::Arm64 => before.take_while(is_before).last().or(Some(saves)),
            Arch::X86_64 => Some(saves),
        }
    }
}

fn word(bytes: &[u8]) -> u32 {
    let word = bytes.get(..4).and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u32::from_le_bytes)
}

/// Returns the target of a direct call.
pub(super) fn callee(arch: Arch, bytes: &[u8], at: u64) -> Option<u64> {
    match (arch, bytes) {
        (Arch::Arm64, _) => arm64::callee(word(bytes), at),
        (Arch::X86_64, [0xe8, distance @ ..]) => {
            let distance = i64::from(word(distance) as i32);
            Some(at.wrapping_add(5).wrapping_add_signed(distance))
        }
        _ => None,
    }
}

/// Returns true if the frame has saved the registers that [`saves_frame`] looks for.
fn is_saved(arch: Arch, frame: &FrameState) -> bool {
    match arch {
        Arch::Arm64 => frame.return_address.is_some(),
        Arch::X86_64 => frame.saved_fp.is_some(),
    }
}

/// `stp x29, x30, [sp, #n]` with and without `!`; `push %rbp; mov %rsp, %rbp`.
fn saves_frame(arch: Arch, bytes: &[u8]) -> bool {
    match arch {
        Arch::Arm64 => word(bytes) & 0xfe40_7fff == 0xa800_7bfd,
        Arch::X86_64 => bytes.starts_with(&[0x55, 0x48, 0x89, 0xe5]),
    }
}

/// `brk`; `int3`.
fn is_trap(arch: Arch, bytes: &[u8]) -> bool {
    match arch {
        Arch::Arm64 => word(bytes) & 0xffe0_001f == 0xd420_0000,
        Arch::X86_64 => bytes.first() == Some(&0xcc),
    }
}

pub(super) fn is_padding(arch: Arch, bytes: &[u8]) -> bool {
    padding(arch, bytes).is_some()
}

/// Returns the length in bytes of the padding there: `nop` of any length, zeros. `None` if it is other code.
fn padding(arch: Arch, bytes: &[u8]) -> Option<u64> {
    match (arch, bytes) {
        (Arch::Arm64, _) => matches!(word(bytes), 0 | 0xd503_201f).then_some(4),
        (Arch::X86_64, [0 | 0x90, ..]) => Some(1),
        (Arch::X86_64, _) => {
            let prefixes = bytes.iter().take_while(|byte| matches!(byte, 0x66 | 0x2e));
            let rest = bytes.get(prefixes.count()..)?;
            let is_nop = matches!(rest, [0x90, ..] | [0x0f, 0x1f, ..]);
            let (length, _) =
                follow(arch, bytes, 0, &mut FrameState::default()).filter(|_| is_nop)?;
            Some(length)
        }
    }
}

#[cfg(test)]
mod tests;
