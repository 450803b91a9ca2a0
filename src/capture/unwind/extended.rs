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

/// Most arm64 instructions of a prologue or an epilogue: saved registers are stored and loaded in between.
const NEAR: u64 = 32;

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
        // The code has loaded it and cleared the bit; the row still leads to where it was saved.
        let is_cleared = left.exact && left.fp == fp;
        let found = match self.saved_at(left) {
            _ if in_register => self.of_register(left.pc),
            _ if is_cleared => Some(AsyncFrame::Unknown),
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
            Ok(context) => tasks::is_context(context & self.address_bits()),
            Err(_) => false,
        }
    }

    /// The bits of an address of data. Those of code may be fewer, in a program that is linked low.
    fn address_bits(&self) -> u64 {
        match self.arch {
            Arch::X86_64 => u64::MAX,
            Arch::Arm64 => (1 << tasks::ADDRESS_BITS) - 1,
        }
    }

    /// Returns true if the function that was left sets the mark at its beginning, or if its code is not known.
    fn sets_mark(&mut self, left: Left) -> bool {
        let images = self.images;
        let at = if left.exact {
            left.pc
        } else {
            left.pc.wrapping_sub(1)
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
}

/// Returns true at the instruction by which a function sets the mark: nothing shows the mark yet.
pub(super) fn is_at_mark(image: &LoadedImage, arch: Arch, pc: u64) -> bool {
    let code = image.instructions(pc, SETS.len());
    code.is_some_and(|code| match arch {
        Arch::X86_64 => code == SETS,
        Arch::Arm64 => words(code).next().is_some_and(sets),
    })
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
        if !matches!(i.next, Successor::FallThrough) {
            return matches!(
                i.next,
                Successor::Return | Successor::Jump(_) | Successor::Indirect
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
    let (before, after) = match arch {
        Arch::X86_64 => {
            let image = images.find(pc).and_then(|index| images.get(index));
            let before = image.and_then(|image| prologue(image, pc));
            (
                before.is_some_and(|pushed| pushed != Pushed::All),
                code_at(images, pc, CLEARS.len()) == Some(CLEARS),
            )
        }
        Arch::Arm64 => (is_set_before(images, pc), is_cleared_ahead(images, pc)),
    };
    match (before, after) {
        (_, true) => Some(Around::Epilogue),
        (true, false) => Some(Around::Prologue),
        _ => None,
    }
}

/// Returns true if arm64 code before `pc` sets the bit, and the frame pointer is the same since then.
fn is_set_before(images: &Images, pc: u64) -> bool {
    let mut before =
        (1..=NEAR).map_while(|back| word_at(images, pc.checked_sub(back.wrapping_mul(4))?));
    before
        .find(|word| sets(*word) || !keeps_fp(*word))
        .is_some_and(sets)
}

/// Returns true if arm64 code at or after `pc` clears the bit before it loads the frame pointer.
fn is_cleared_ahead(images: &Images, pc: u64) -> bool {
    let mut ahead =
        (0..NEAR).map_while(|ahead| word_at(images, pc.checked_add(ahead.wrapping_mul(4))?));
    ahead
        .find(|word| clears(*word) || !keeps_fp(*word))
        .is_some_and(clears)
}

/// Returns true for an arm64 instruction that leaves the frame pointer as it is, and runs into the next one.
fn keeps_fp(instruction: u32) -> bool {
    let i = lift(Arch::Arm64, &instruction.to_le_bytes(), 0);
    i.is_some_and(|i| i.next == Successor::FallThrough && !i.writes(Arch::Arm64.fp() as u8))
}

fn word_at(images: &Images, at: u64) -> Option<u32> {
    words(code_at(images, at, 4)?).next()
}

/// Bytes of code from an address on.
fn code_at(images: &Images, pc: u64, length: usize) -> Option<&[u8]> {
    let image = images.get(images.find(pc)?)?;
    image.instructions(pc, length)
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
mod tests;
