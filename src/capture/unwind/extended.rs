//! Extended frames, which Swift's async functions have: bit 60 is set in the frame pointer that they save, and the word
//! below it holds their async context.
//!
//! A function sets the bit in the frame pointer itself, saves that, and clears the bit after it has loaded it again. In
//! between the register points to the function's own frame, without the bit. So the bit is only taken off what a frame
//! has saved, and what the register holds before the function saves it or after it has loaded it.
//!
//! Source: `hasSwiftAsyncContext` in LLVM's X86FrameLowering.cpp and AArch64FrameLowering.cpp.

use super::Walk;
use crate::capture::images::Images;
use crate::capture::instructions::{Op, Successor, Written, lift};
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, Rule};
use crate::capture::tasks::{self, AsyncFrame};

/// `bts $60,%rbp`, `btr $60,%rbp` and `lea 8(%rsp),%rbp`.
const SETS: &[u8] = b"\x48\x0f\xba\xed\x3c";
const CLEARS: &[u8] = b"\x48\x0f\xba\xf5\x3c";
const POINTS: &[u8] = b"\x48\x8d\x6c\x24\x08";

/// The bytes by which x86_64 code saves the context: `push %r14`, or `push $0` without one.
const SAVES: [&[u8]; 2] = [b"\x41\x56", b"\x6a\x00"];

/// `or (symbol),%rbp`: the bit as the system that runs wants it, which may be 0.
const SETS_AS_WANTED: &[u8] = b"\x48\x0b\x2d";

/// Count of the arm64 instructions between the one that sets or clears the bit and the one that stores or has loaded
/// the register.
const NEAR: u64 = 4;

/// Bytes at the beginning of a function in which it sets the bit.
const PROLOGUE: usize = 48;

/// The code at a stop, as far as it is about such a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Around {
    /// The bit was set and will be saved: the context is in its register.
    Prologue,
    /// The register was loaded, and the bit will be cleared.
    Epilogue,
}

/// The frame that is left: where it stood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    pub(super) pc: u64,
    pub(super) fp: u64,
    pub(super) exact: bool,
}

impl Walk<'_, dyn Memory + '_> {
    /// Takes the mark off the frame pointer with which a frame has been left, if that frame may have set it.
    #[cold]
    #[inline(never)]
    pub(super) fn take_off_mark(&mut self, left: Left) {
        let Some(fp) = tasks::without_mark(self.state.fp).filter(|_| !self.state.exact) else {
            return;
        };
        let in_register = left.exact && left.fp == self.state.fp;
        let found = match self.saved_at(left) {
            _ if in_register => self.of_register(left.pc),
            Some(slot) if self.has_context(slot, left) => Some(AsyncFrame::Saved(slot)),
            _ => None,
        };
        if let Some(found) = found {
            self.state.fp = fp;
            self.task = Some(found);
        }
    }

    /// The place at which the frame that was left had saved the frame pointer that the state has now.
    fn saved_at(&mut self, left: Left) -> Option<u64> {
        let (marked, cfa) = (self.state.fp, self.state.sp);
        let mut places = [left.fp, cfa.wrapping_sub(16)].into_iter();
        let memory = &mut self.memory;
        places.find(|place| *place < cfa && memory.read(*place) == Ok(marked))
    }

    /// Returns true if the word below the saved frame pointer is a context, or nothing where the function's code sets
    /// the mark.
    fn has_context(&mut self, slot: u64, left: Left) -> bool {
        match self.memory.read(slot.wrapping_sub(8)) {
            Ok(0) => self.sets_mark(left),
            Ok(context) => tasks::is_context(self.images.strip(context)),
            Err(_) => false,
        }
    }

    /// Returns true if the function that was left sets the mark at its beginning, or if its code is not known.
    fn sets_mark(&mut self, left: Left) -> bool {
        let images = self.images;
        let at = match left.exact {
            true => left.pc,
            false => left.pc.wrapping_sub(1),
        };
        let Some(image) = images.find(at).and_then(|index| images.get(index)) else {
            return true;
        };
        let svma = image.svma(at);
        let context = &mut self.unwinder.context;
        let by_entry = image.cfi.as_ref().and_then(|cfi| cfi.find(svma, context));
        let start = match by_entry {
            Some(found) => Some(found.code.start),
            None => image.function(svma, self.arch).map(|code| code.start),
        };
        let code = start.and_then(|start| image.instructions(image.avma(start), PROLOGUE));
        code.is_none_or(|code| match self.arch {
            Arch::X86_64 => has(code, SETS) || has(code, SETS_AS_WANTED),
            Arch::Arm64 => words(code).any(sets),
        })
    }

    /// The frame of a function whose mark is in the register still, or again.
    fn of_register(&self, pc: u64) -> Option<AsyncFrame> {
        match around(self.images, self.arch, pc)? {
            Around::Prologue => Some(AsyncFrame::InRegister),
            Around::Epilogue => Some(AsyncFrame::Unknown),
        }
    }

    /// Returns true if the walk begins at the instruction by which a function sets the mark: nothing shows the mark yet.
    pub(super) fn is_before_mark(&self) -> bool {
        let code = code_at(self.images, self.state.pc, 0, SETS.len());
        code.is_some_and(|code| match self.arch {
            Arch::X86_64 => code == SETS,
            Arch::Arm64 => words(code).next().is_some_and(sets),
        })
    }
}

/// The rule at an instruction of an ELF image where rows of such functions are wrong: they count from the frame pointer
/// though that is the caller's again, or from the stack pointer as it was one push before.
pub(super) fn rule_of_elf(image: &LoadedImage, arch: Arch, pc: u64) -> Option<Rule> {
    let code = |from: u64, length: usize| image.instructions(from, length);
    match arch {
        Arch::X86_64 => {
            let next = code(pc, 6).unwrap_or_default();
            let leaves = |code: &u8| matches!(code, 0xc2 | 0xc3 | 0xe9 | 0xeb | 0xff);
            if next.starts_with(CLEARS) && next.get(CLEARS.len()).is_some_and(leaves) {
                return Rule::frame(Base::Sp, 8, Some(-8), None);
            }
            match prologue(image, pc)? {
                Pushed::Context if next.starts_with(POINTS) => {
                    Rule::frame(Base::Sp, 24, Some(-8), Some(-16))
                }
                Pushed::All => Rule::frame(Base::Fp, 16, Some(-8), Some(-16)),
                _ => None,
            }
        }
        Arch::Arm64 => {
            const LONGEST: usize = 16;
            let clears = words(code(pc, 4)?).next().is_some_and(clears);
            let ahead = code(pc, LONGEST * 4).filter(|_| clears)?;
            cfa_ahead(ahead, pc).and_then(|cfa| Rule::frame(Base::Sp, cfa, None, None))
        }
    }
}

/// The part of an x86_64 prologue that has run since the mark was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pushed {
    Nothing,
    FramePointer,
    Context,
    /// The frame pointer is the frame's own.
    All,
}

/// The part of such a prologue that ends right before an instruction.
fn prologue(image: &LoadedImage, pc: u64) -> Option<Pushed> {
    /// The longest prologue.
    const BYTES: usize = 7 + 1 + 2 + 5;
    // Fewer bytes where the section begins with it.
    let before = (1..=BYTES).rev().find_map(|length| {
        let code = image.instructions(pc.checked_sub(length as u64)?, length)?;
        Some(code).filter(|code| code.len() == length)
    })?;
    let marks = |code: &[u8]| {
        let as_wanted = code.len().checked_sub(7).and_then(|from| code.get(from..));
        code.ends_with(SETS) || as_wanted.is_some_and(|code| code.starts_with(SETS_AS_WANTED))
    };
    let after_fp = |code: &[u8]| code.strip_suffix(b"\x55").is_some_and(marks);
    let after_context = |code: &[u8]| {
        let before = SAVES.iter().find_map(|save| code.strip_suffix(*save));
        before.is_some_and(after_fp)
    };
    match before {
        code if marks(code) => Some(Pushed::Nothing),
        code if after_fp(code) => Some(Pushed::FramePointer),
        code if after_context(code) => Some(Pushed::Context),
        code if code.strip_suffix(POINTS).is_some_and(after_context) => Some(Pushed::All),
        _ => None,
    }
}

/// The distance by which the stack pointer moves until arm64 code returns or jumps away, if no branch or call comes before.
fn cfa_ahead(code: &[u8], pc: u64) -> Option<i64> {
    let sp = Arch::Arm64.sp() as u8;
    let mut moved = 0i64;
    for (bytes, at) in code.chunks_exact(4).zip((pc..).step_by(4)) {
        let i = lift(Arch::Arm64, bytes, at)?;
        if !matches!(i.next, Successor::Behind) {
            return matches!(
                i.next,
                Successor::Return | Successor::Jump(_) | Successor::ByPc
            )
            .then_some(moved);
        }
        for op in i.ops {
            match op {
                Op::Set(to, Written::Sum(from, by)) if to == sp && from == sp => {
                    moved = moved.wrapping_add(by);
                }
                Op::Set(to, _) if to == sp => return None,
                _ => {}
            }
        }
    }
    None
}

/// The place of an instruction about to run in the prologue or epilogue of such a function, while the register has the
/// mark.
fn around(images: &Images, arch: Arch, pc: u64) -> Option<Around> {
    let at = |back: u64, length: usize| code_at(images, pc, back, length).unwrap_or_default();
    let (before, after) = match arch {
        Arch::X86_64 => {
            let image = images.find(pc).and_then(|index| images.get(index));
            let before = image.and_then(|image| prologue(image, pc));
            (
                before.is_some_and(|pushed| pushed != Pushed::All),
                at(0, CLEARS.len()) == CLEARS,
            )
        }
        Arch::Arm64 => {
            let near = |at: &[u8], test: fn(u32) -> bool| words(at).next().is_some_and(test);
            (
                (1..=NEAR).any(|back| near(at(back.wrapping_mul(4), 4), sets)),
                (0..NEAR).any(|ahead| {
                    near(
                        code_at(images, pc.wrapping_add(ahead.wrapping_mul(4)), 0, 4)
                            .unwrap_or_default(),
                        clears,
                    )
                }),
            )
        }
    };
    match (before, after) {
        (_, true) => Some(Around::Epilogue),
        (true, false) => Some(Around::Prologue),
        _ => None,
    }
}

/// Bytes of code from a place before an address.
fn code_at(images: &Images, pc: u64, back: u64, length: usize) -> Option<&[u8]> {
    let image = images.get(images.find(pc)?)?;
    image.instructions(pc.checked_sub(back)?, length)
}

fn words(code: &[u8]) -> impl Iterator<Item = u32> {
    code.chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()))
}

/// `orr x29, x29, #1 << 60`, or `orr x29, x29, x16` with the bit as the system that runs wants it.
fn sets(instruction: u32) -> bool {
    instruction == 0xb244_03bd || instruction & 0xffe0_ffff == 0xaa00_03bd
}

/// `and x29, x29, #~(1 << 60)`.
fn clears(instruction: u32) -> bool {
    instruction == 0x9243_fbbd
}

fn has(code: &[u8], what: &[u8]) -> bool {
    code.windows(what.len()).any(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::tests::{arm64, bytes_of, image, x86_64};
    use crate::capture::{Registers, StackCopy, Unwinder};
    use crate::report::model::{Found, WalkEnd};

    const BASE: u64 = 0x5000_0000;
    const MARK: u64 = 1 << 60;
    /// The return addresses of the async function and of its caller, which both are in a function at 0x200.
    const X86_64: [u64; 2] = [BASE + 0x209, BASE + 0x20e];
    const ARM64: [u64; 2] = [BASE + 0x20c, BASE + 0x210];
    /// The caller's frame pointer, its own caller's, and an async context.
    const FP: u64 = 0x1080;
    const CONTEXT: u64 = 0x6000_0040;

    /// The frames of a walk from a function at 0x100 that a function with a frame pointer at 0x200 has called.
    fn walk(
        arch: Arch,
        mut text: Vec<u8>,
        registers: &Registers,
        stack: &[u64],
    ) -> (Vec<(u64, Found)>, Option<WalkEnd>) {
        let calls = match arch {
            Arch::X86_64 => {
                x86_64("push %rbp; mov %rsp,%rbp; call .-0x104; call .-0x109; call .-0x10e; nop")
            }
            Arch::Arm64 => arm64(
                "stp x29, x30, [sp, #-16]!; mov x29, sp; bl .-0x108; bl .-0x10c; bl .-0x110; nop; nop",
            ),
        };
        text.resize(0x100, 0);
        text.extend(calls);
        let image =
            image(arch, BASE, 0x100, text).with_function_starts(&[0x80, 0x02, 0x80, 0x02, 0]);
        let images = Images::new(vec![image]);
        let stack = bytes_of(stack);
        let mut unwinder = Unwinder::new();
        let mut walk = unwinder.walk(registers, &images, StackCopy::new(0x1000, &stack));
        let frames = walk.by_ref().map(|frame| (frame.pc, frame.found)).collect();
        (frames, walk.end())
    }

    /// A stack of 24 words from 0x1000, with some of them.
    fn stack(words: &[(u64, u64)]) -> Vec<u64> {
        let mut stack = vec![7; 24];
        for (at, word) in words {
            stack[(at - 0x1000) as usize / 8] = *word;
        }
        stack
    }

    fn is_whole(arch: Arch, frames: &[(u64, Found)], at: &str) {
        let pcs: Vec<u64> = frames.iter().skip(1).map(|frame| frame.0).collect();
        let callers = match arch {
            Arch::X86_64 => X86_64,
            Arch::Arm64 => ARM64,
        };
        assert_eq!(pcs, callers, "{arch:?} {at}");
        let certain = frames
            .iter()
            .skip(1)
            .all(|frame| frame.1 == Found::UnwindInfo);
        assert!(certain, "{arch:?} {at}: {frames:x?}");
    }

    #[test]
    fn each_instruction_of_an_x86_64_async_function_of_mach_o_has_its_callers() {
        let code = x86_64(
            "bts $60,%rbp; push %rbp; push %r14; lea 8(%rsp),%rbp; sub $8,%rsp; nop; add $16,%rsp; pop %rbp; \
                    btr $60,%rbp; ret",
        );
        // Pushed from 0x1060 down; the caller's frame record is at FP.
        let own = 0x1058;
        let stack = stack(&[
            (0x1060, X86_64[0]),
            (own, FP | MARK),
            (0x1050, CONTEXT),
            (FP, 0),
            (FP + 8, X86_64[1]),
        ]);
        let places = [
            (0, 0x1060, FP),
            (5, 0x1060, FP | MARK),
            (6, own, FP | MARK),
            (8, 0x1050, FP | MARK),
            (13, 0x1050, own),
            (17, 0x1048, own),
            (18, 0x1048, own),
            (22, own, own),
            (23, 0x1060, FP | MARK),
            (28, 0x1060, FP),
        ];
        for (at, sp, fp) in places {
            let registers = Registers::x86_64(BASE + 0x100 + at, sp, fp);
            let (frames, _) = walk(Arch::X86_64, code.clone(), &registers, &stack);
            is_whole(Arch::X86_64, &frames, &format!("at {at}"));
        }
    }

    #[test]
    fn each_instruction_of_an_arm64_async_function_of_mach_o_has_its_callers() {
        let code = arm64(
            "orr x29, x29, #0x1000000000000000; sub sp, sp, #0x30; stp x29, x30, [sp, #0x20]; \
                    str x22, [sp, #0x18]; add x29, sp, #0x20; nop; ldp x29, x30, [sp, #0x20]; \
                    and x29, x29, #0xefffffffffffffff; add sp, sp, #0x30; ret",
        );
        let (below, own, above) = (0x1030, 0x1050, 0x1060);
        let stack = stack(&[
            (own, FP | MARK),
            (own + 8, ARM64[0]),
            (own - 8, CONTEXT),
            (FP, 0),
            (FP + 8, ARM64[1]),
        ]);
        let places = [
            (above, FP),
            (above, FP | MARK),
            (below, FP | MARK),
            (below, FP | MARK),
            (below, FP | MARK),
            (below, own),
            (below, own),
            (below, FP | MARK),
            (below, FP),
            (above, FP),
        ];
        for ((sp, fp), at) in places.into_iter().zip((0..).step_by(4)) {
            let registers = Registers::arm64(BASE + 0x100 + at, sp, fp, ARM64[0]);
            let (frames, _) = walk(Arch::Arm64, code.clone(), &registers, &stack);
            is_whole(Arch::Arm64, &frames, &format!("at {at}"));
        }
    }

    #[test]
    fn a_plain_frame_pointer_that_has_the_bit_by_chance_ends_the_walk() {
        let code =
            x86_64("push %rbp; mov %rsp,%rbp; sub $16,%rsp; nop; add $16,%rsp; pop %rbp; ret");
        let at = |pc: u64, sp: u64, fp: u64, words: &[(u64, u64)]| {
            let registers = Registers::x86_64(BASE + 0x100 + pc, sp, fp);
            walk(Arch::X86_64, code.clone(), &registers, &stack(words)).0
        };
        let record = [(0x1060, X86_64[0]), (FP, 0), (FP + 8, X86_64[1])];
        let with = |saved: u64, below: u64| {
            let mut words = record.to_vec();
            words.extend([(0x1058, saved), (0x1050, below)]);
            words
        };
        // Below a saved one is no context, or what is above the address is more than the bit.
        assert_eq!(at(8, 0x1048, 0x1058, &with(FP, CONTEXT)).len(), 3);
        assert_eq!(at(8, 0x1048, 0x1058, &with(FP | MARK, 7)).len(), 2);
        assert_eq!(at(8, 0x1048, 0x1058, &with(FP | MARK, 0)).len(), 2);
        assert_eq!(at(8, 0x1048, 0x1058, &with(FP | 3 << 60, CONTEXT)).len(), 2);
        // A frame's own, and a caller's that the function leaves as it is.
        assert_eq!(at(8, 0x1048, 0x1058 | MARK, &with(FP, CONTEXT)).len(), 1);
        assert_eq!(at(0, 0x1060, FP | MARK, &record).len(), 2);
        assert_eq!(at(0, 0x1060, FP, &record).len(), 3);
    }
}
