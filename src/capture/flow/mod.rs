//! Where a function's return address is at one of its instructions, by following its code.
//!
//! Tables without rows for prologues and epilogues (compact unwind, and call frame information
//! that is right at calls only) say nothing of a thread that was stopped just anywhere. But the
//! code does: from the function's first instruction, where everything is known, its branches are
//! followed to the one in question, with what each instruction does to the stack pointer, the
//! frame pointer and the return address. All ways that lead to an instruction leave the stack
//! the same, so that the first one found is enough.

mod arm64;
mod jump;
mod x86_64;

use std::ops::Range;

use super::registers::Arch;
use super::rule::{Base, Rule};
pub(crate) use jump::landing;

/// What is known at one instruction. Offsets are counted from the CFA, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    /// CFA - sp.
    sp: Option<i32>,
    /// CFA - fp, where fp points into this frame.
    fp: Option<i32>,
    /// Where the return address is; none while it is in the link register.
    return_address: Option<i32>,
    /// Where the caller's frame pointer is; none while fp still holds it.
    saved_fp: Option<i32>,
    /// What x86_64's eax is known to hold, for `sub %rax, %rsp`.
    eax: Option<i32>,
    /// A register that points below sp, and CFA - that: how far a loop will move sp down, page by
    /// page, so that no guard page is passed over.
    bound: Option<(u8, i32)>,
    /// Whether sp has just been compared with it.
    at_bound: bool,
    /// Where x86_64 code has last pointed to by rip: a table, if a jump by a register follows.
    table: Option<u64>,
    /// Whether an epilogue has begun.
    left: bool,
    /// Whether the caller's frame pointer or the return address has been overwritten by what another
    /// frame left: `longjmp`, or an exception on its way to its landing pad.
    foreign: bool,
    /// Which of x86_64's registers were loaded from memory, not from the stack: bits by encoding.
    loaded: u16,
    /// Whether x86_64 code has written through one of them: to a stack, if it goes on to install one.
    stored: bool,
}

impl Frame {
    /// Behind a call, at the function's first instruction.
    fn entered(arch: Arch) -> Frame {
        let (sp, return_address) = match arch {
            Arch::X86_64 => (8, Some(-8)),
            Arch::Arm64 => (0, None),
        };
        Frame {
            sp: Some(sp),
            fp: None,
            return_address,
            saved_fp: None,
            eax: None,
            bound: None,
            at_bound: false,
            table: None,
            left: false,
            foreign: false,
            loaded: 0,
            stored: false,
        }
    }

    /// What a rule says, which holds in a function's body.
    fn body(rule: Rule) -> Option<Frame> {
        let Rule::Frame { base, cfa, ra, fp } = rule else {
            return None;
        };
        let cfa = Some(i32::from(cfa) * 8);
        Some(Frame {
            sp: cfa.filter(|_| base == Base::Sp),
            fp: cfa.filter(|_| base == Base::Fp),
            return_address: ra.map(|words| i32::from(words) * 8),
            saved_fp: fp.map(|words| i32::from(words) * 8),
            eax: None,
            bound: None,
            at_bound: false,
            table: None,
            left: false,
            foreign: false,
            loaded: 0,
            stored: false,
        })
    }

    /// fp where it points to the usual place in the frame, since it does not move; sp otherwise.
    fn rule(&self) -> Option<Rule> {
        if self.foreign {
            return Some(Rule::Foreign);
        }
        let (base, cfa) = match (self.fp, self.sp) {
            (Some(16), _) => (Base::Fp, 16),
            (_, Some(sp)) => (Base::Sp, sp),
            (Some(fp), None) => (Base::Fp, fp),
            (None, None) => return None,
        };
        Rule::frame(
            base,
            cfa.into(),
            self.return_address.map(i64::from),
            self.saved_fp.map(i64::from),
        )
    }

    /// Behind a branch back that was not taken since sp is where it is to be. Whether a branch to
    /// `target` from `at` is one, the flags of the comparison tell.
    fn leave_loop(&mut self, at: u64, target: u64, unless_equal: bool) {
        if let Some((_, bound)) = self.bound
            && self.at_bound
            && unless_equal
            && target < at
        {
            (self.sp, self.bound) = (Some(bound), None);
        }
        self.at_bound = false;
    }

    /// sp goes down by so many bytes, or up.
    fn move_sp(&mut self, down: i32) {
        self.sp = self.sp.and_then(|sp| sp.checked_add(down));
        self.left |= down < 0;
    }
}

/// Where an instruction leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Behind it.
    Behind,
    /// Behind it, unless the callee does not return.
    BehindCall,
    /// There.
    Jump(u64),
    /// There, or behind it.
    Branch(u64),
    /// Wherever a register says: into the function, by a table, or out of it.
    ByTable,
    /// Out of the function.
    Out,
}

/// Follows the instruction at the beginning of `code`, which lies at `at`: its length and where it
/// leads. `None` where it is not known.
fn follow(arch: Arch, code: &[u8], at: u64, frame: &mut Frame) -> Option<(u64, Next)> {
    match arch {
        Arch::Arm64 => arm64::follow(code, at, frame),
        Arch::X86_64 => x86_64::follow(code, at, frame),
    }
}

/// Longest instruction, bytes.
const LONGEST: usize = 15;
/// How many instructions (arm64) or bytes (x86_64) of a function are looked at.
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
}

impl<'t> Code<'t> {
    fn at(&self, address: u64) -> Option<&'t [u8]> {
        let start = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let rest = self.bytes.get(start..)?;
        let rest = rest.get(..LONGEST).unwrap_or(rest);
        (!rest.is_empty()).then_some(rest)
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.bytes.len() as u64)
    }
}

/// How sure a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sure {
    /// A way from the function's start was found.
    Followed,
    /// By a jump table or an exception alone, as it seems: as in the body.
    Body,
    /// The same at this address, and then what the instructions since do.
    FromBody(u64),
}

/// The memory that following needs; made once.
#[derive(Debug, Clone)]
pub(crate) struct Follower {
    visited: [u64; REACH / 64],
    branches: [(u64, Frame); BRANCHES],
    calls: [(u64, Frame); CALLS],
}

impl Follower {
    pub(crate) fn new() -> Follower {
        let none = (0, Frame::entered(Arch::Arm64));
        Follower {
            visited: [0; REACH / 64],
            branches: [none; BRANCHES],
            calls: [none; CALLS],
        }
    }

    /// The rule at `pc` of the function that `code` is all of: an instruction about to run or,
    /// `behind_call`, what a call returns to. `body` is what tables say, and `rows` whether they
    /// say it of each instruction. Signal-safe.
    pub(crate) fn rule(
        &mut self,
        code: Code<'_>,
        pc: u64,
        behind_call: bool,
        body: Option<Rule>,
        rows: bool,
    ) -> Option<(Rule, Sure)> {
        let (found, settled) = self.search(code, pc, behind_call, body, rows);
        if let Some(frame) = found {
            let lost = frame.stored && body.is_none() && loses_stack(code, pc, frame);
            let rule = if lost { Rule::Foreign } else { frame.rule()? };
            return Some((rule, Sure::Followed));
        }
        let block = last_block(code, pc)?;
        let mut frame = match (settled, body) {
            (Some(frame), _) => frame,
            (None, Some(rule)) => Frame::body(rule)?,
            (None, None) => Frame::entered(code.arch),
        };
        let mut at = block;
        while at < pc {
            at += follow(code.arch, code.at(at)?, at, &mut frame)?.0;
        }
        let from = if at == block {
            Sure::Body
        } else {
            Sure::FromBody(block)
        };
        Some((frame.rule()?, from)).filter(|_| at == pc)
    }

    /// What holds at `pc`, by the ways that lead there from the start: first those with few calls,
    /// since a call may never return, and what stands behind it then belongs to another way. And
    /// what holds where such ways end: at a jump by a table, or else at the first call that agrees
    /// with `body`.
    fn search(
        &mut self,
        code: Code<'_>,
        pc: u64,
        behind_call: bool,
        body: Option<Rule>,
        rows: bool,
    ) -> (Option<Frame>, Option<Frame>) {
        let mut range = code.range();
        let unit = match code.arch {
            Arch::Arm64 => 4,
            Arch::X86_64 => 1,
        };
        let units = (code.bytes.len() / unit).min(REACH);
        if let Some(words) = self.visited.get_mut(..units.div_ceil(64)) {
            words.fill(0);
        }
        let mut settled = None;
        let mut settle = |frame: Frame, by_table: bool| {
            let agrees = body.is_none_or(|body| frame.rule() == Some(body));
            // One in an epilogue is a tail call.
            let leads_here = by_table && !frame.left && !rows;
            if leads_here || (settled.is_none() && agrees) {
                settled = Some(frame);
            }
        };
        let (mut branches, mut first_call, mut calls) = (0, 0, 0);
        let mut way = Some((code.start, Frame::entered(code.arch)));
        while let Some((mut at, mut frame)) = way {
            while self.visit(at, &range, unit) {
                if at == pc && !behind_call {
                    return (Some(frame), None);
                }
                let Some((length, next)) = code
                    .at(at)
                    .and_then(|bytes| follow(code.arch, bytes, at, &mut frame))
                else {
                    break;
                };
                let behind = at + length;
                match next {
                    Next::Behind => at = behind,
                    Next::Jump(target) => at = target,
                    Next::Out => break,
                    Next::ByTable => {
                        settle(frame, true);
                        let table = frame.table.filter(|table| *table > at && !frame.left);
                        // Instructions end there: what stands behind a call that never returns
                        // may be the table.
                        range.end = table.map_or(range.end, |table| range.end.min(table));
                        break;
                    }
                    Next::Branch(target) => {
                        if range.contains(&target)
                            && let Some(slot) = self.branches.get_mut(branches)
                        {
                            *slot = (target, frame);
                            branches += 1;
                        }
                        at = behind;
                    }
                    Next::BehindCall => {
                        settle(frame, false);
                        if behind == pc && behind_call {
                            return (Some(frame), None);
                        }
                        if calls - first_call < CALLS
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
        (None, settled)
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

/// Whether code leaves its function, without a branch or a call, on another stack than its own.
fn loses_stack(code: Code<'_>, pc: u64, mut frame: Frame) -> bool {
    let mut at = pc;
    for _ in 0..jump::STEPS {
        let next = code
            .at(at)
            .and_then(|bytes| follow(code.arch, bytes, at, &mut frame));
        match next {
            Some((length, Next::Behind)) => at += length,
            Some((_, Next::Out | Next::ByTable)) => return frame.sp.is_none(),
            _ => return false,
        }
    }
    false
}

/// The first instruction behind the last one before `pc` that leads elsewhere for good.
fn last_block(code: Code<'_>, pc: u64) -> Option<u64> {
    let mut ignored = Frame::entered(code.arch);
    let mut at = code.start;
    let mut block = at;
    if code.arch == Arch::Arm64 {
        at = pc;
        for _ in 0..REACH {
            if at <= code.start {
                return Some(code.start);
            }
            let before = at - 4;
            let (_, next) = follow(code.arch, code.at(before)?, before, &mut ignored)?;
            if matches!(next, Next::Out | Next::ByTable | Next::Jump(_)) {
                return Some(at);
            }
            at = before;
        }
        return None;
    }
    while at < pc {
        let (length, next) = follow(code.arch, code.at(at)?, at, &mut ignored)?;
        at += length;
        if matches!(next, Next::Out | Next::ByTable | Next::Jump(_)) {
            block = at;
        }
    }
    Some(block).filter(|_| at == pc)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(arch: Arch, code: &[u8], ends: &[u64]) -> Vec<Option<Rule>> {
        let code = Code {
            arch,
            start: 0x1000,
            bytes: code,
        };
        let mut follower = Follower::new();
        let at = |end: &u64| follower.rule(code, 0x1000 + end, false, None, false);
        ends.iter()
            .map(at)
            .map(|found| found.map(|(rule, _)| rule))
            .collect()
    }

    #[test]
    fn registers_of_another_frame_are_no_way_to_a_caller() {
        // ldp x26, x27, [x0, #0xd0]; ldp x28, x29, [x0, #0xe0]; ldr x30, [x0, #0x100]; ret
        let words = [0xa94d_6c1au32, 0xa94e_741c, 0xf940_801e, 0xd65f_03c0];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let entered = Rule::frame(Base::Sp, 0, None, None);
        let foreign = Some(Rule::Foreign);
        assert_eq!(
            rules(Arch::Arm64, &code, &[0, 4, 8, 12]),
            [entered, entered, foreign, foreign]
        );
        // mov 0x30(%rdi),%rbp; mov 0x38(%rdi),%rsp; pop %rdi; ret
        let code = [0x48, 0x8b, 0x6f, 0x30, 0x48, 0x8b, 0x67, 0x38, 0x5f, 0xc3];
        let entered = Rule::frame(Base::Sp, 8, Some(-8), None);
        assert_eq!(
            rules(Arch::X86_64, &code, &[0, 4, 8, 9]),
            [entered, foreign, foreign, foreign]
        );
    }

    #[test]
    fn a_frame_whose_pages_are_touched_one_by_one_is_as_large_as_all() {
        // stp x29, x30, [sp, #-16]!; mov x29, sp; sub x9, sp, #3, lsl #12; 1: sub sp, sp, #1, lsl #12;
        // str xzr, [sp]; cmp sp, x9; b.ne 1b; nop; add sp, sp, #3, lsl #12; ldp x29, x30, [sp], #16; ret
        let words = [
            0xa9bf_7bfdu32,
            0x9100_03fd,
            0xd140_0fe9,
            0xd140_07ff,
            0xf900_03ff,
            0xeb29_63ff,
            0x54ff_ffa1,
            0xd503_201f,
            0x9140_0fff,
            0xa8c1_7bfd,
            0xd65f_03c0,
        ];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let entered = Rule::frame(Base::Sp, 0, None, None);
        let body = Rule::frame(Base::Fp, 16, Some(-8), Some(-16));
        assert_eq!(
            rules(Arch::Arm64, &code, &[20, 28, 36, 40]),
            [body, body, body, entered]
        );
        // push %rbx; mov %rsp,%r11; sub $0x3000,%r11; 1: sub $0x1000,%rsp; movq $0,(%rsp);
        // cmp %r11,%rsp; jne 1b; nop; add $0x3000,%rsp; pop %rbx; ret
        let code = [
            0x53, 0x49, 0x89, 0xe3, 0x49, 0x81, 0xeb, 0, 0x30, 0, 0, 0x48, 0x81, 0xec, 0, 0x10, 0,
            0, 0x48, 0xc7, 0x04, 0x24, 0, 0, 0, 0, 0x4c, 0x39, 0xdc, 0x75, 0xec, 0x90, 0x48, 0x81,
            0xc4, 0, 0x30, 0, 0, 0x5b, 0xc3,
        ];
        let of = |size| Rule::frame(Base::Sp, size, Some(-8), None);
        assert_eq!(
            rules(Arch::X86_64, &code, &[31, 39, 40]),
            [of(0x3010), of(16), of(8)]
        );
    }

    #[test]
    fn a_stack_that_is_written_to_for_another_frame_is_no_way_to_a_caller() {
        // mov 0x38(%rdi),%rax; mov %rax,0x38(%rdi); mov %rbx,(%rax); mov 0x38(%rdi),%rsp; ret: what
        // rdi points to is not that stack.
        let code = [
            0x48, 0x8b, 0x47, 0x38, 0x48, 0x89, 0x47, 0x38, 0x48, 0x89, 0x18, 0x48, 0x8b, 0x67,
            0x38, 0xc3,
        ];
        let entered = Rule::frame(Base::Sp, 8, Some(-8), None);
        let foreign = Some(Rule::Foreign);
        assert_eq!(
            rules(Arch::X86_64, &code, &[0, 4, 8, 11, 15]),
            [entered, entered, entered, foreign, foreign]
        );
        // Without the other stack: mov %rbx,(%rax); ret
        assert_eq!(
            rules(Arch::X86_64, &[0x48, 0x89, 0x18, 0xc3], &[3]),
            [entered]
        );
        // push %rbx; mov 0x20(%rdi),%rbx; pop %rbx; ret
        let code = [0x53, 0x48, 0x8b, 0x5f, 0x20, 0x5b, 0xc3];
        let pushed = Rule::frame(Base::Sp, 16, Some(-8), None);
        assert_eq!(rules(Arch::X86_64, &code, &[5, 6]), [pushed, entered]);
    }

    #[test]
    fn a_frame_pointer_that_was_saved_may_hold_anything() {
        // push %rbp; mov 0x30(%rdi),%rbp; pop %rbp; ret
        let code = [0x55, 0x48, 0x8b, 0x6f, 0x30, 0x5d, 0xc3];
        assert_eq!(
            rules(Arch::X86_64, &code, &[5, 6]),
            [
                Rule::frame(Base::Sp, 16, Some(-8), Some(-16)),
                Rule::frame(Base::Sp, 8, Some(-8), None)
            ]
        );
    }
}
