//! The stack layout of an x86_64 function as its instructions show it, where unwind information does not.
//!
//! It answers three questions: does an address follow a call, as return addresses do; how far is the stack pointer below the
//! CFA, by the instructions since the function's start; and where is that start, by the call that leads there.

use std::ops::Range;

use crate::capture::flow::{Code, Depth, Follower, moves_by_numbers};
use crate::capture::images::Images;
use crate::capture::instructions::{Instruction, LONGEST, Successor, lift};
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;

/// Most bytes that are examined from a function's beginning, and instructions until its first call.
const MAX_BYTES: u64 = 1 << 15;
const MAX_TO_CALL: usize = 512;

/// Most beginnings of a function that are tried.
const MAX_STARTS: u64 = 64;

/// Most instructions that one walk may examine, so that no stack can make it long.
pub(super) const MAX_INSTRUCTIONS: u32 = 1 << 18;

/// A function that stands at `pc` (avma), which a call returns to if it is `behind_call`.
#[derive(Clone, Copy)]
pub(super) struct FramePlace<'i> {
    pub(super) images: &'i Images,
    pub(super) image: &'i LoadedImage,
    pub(super) pc: u64,
    pub(super) behind_call: bool,
    pub(super) sp: u64,
}

/// Returns true if an address is in known code and, if its instructions are known, behind a call.
pub(super) fn follows_call(images: &Images, arch: Arch, address: u64) -> bool {
    let before = address.wrapping_sub(1);
    let Some(image) = images.at(before) else {
        return false;
    };
    image.is_code(before)
        && (image.instructions(before, 1).is_none() || call_before(image, arch, address).is_some())
}

/// Returns the callee of the call that ends at an address, as far as it is known; `None` without a call.
fn call_before(image: &LoadedImage, arch: Arch, address: u64) -> Option<Option<u64>> {
    // Direct calls first.
    let lengths: &[u8] = match arch {
        Arch::X86_64 => &[5, 2, 3, 4, 6, 7, 8],
        Arch::Arm64 => &[4],
    };
    lengths.iter().find_map(|length| {
        let at = address.checked_sub(u64::from(*length))?;
        let i = lift(arch, image.instructions(at, usize::from(*length))?, at)?;
        match i.next {
            Successor::Call(to) if i.length == u64::from(*length) => Some(to),
            _ => None,
        }
    })
}

/// Returns the target of the direct x86_64 call that ends at an address.
fn called_before(images: &Images, address: u64) -> Option<u64> {
    let call = address.checked_sub(5)?;
    let image = images.at(call)?;
    image
        .is_code(call)
        .then(|| call_before(image, Arch::X86_64, address))??
}

/// The CFA of a function (avma) that was entered by a call to its start, from its stack pointer; checked by what then is
/// its return address, where it is not `known`. With it true if no other way to this place can have left another one.
pub(super) fn cfa_at(
    place: FramePlace<'_>,
    function: Range<u64>,
    known: Option<u64>,
    follower: &mut Follower,
    memory: &mut dyn Memory,
    budget: &mut u32,
) -> Option<(u64, bool)> {
    let depth = depth_at(place, function.start, follower, budget)?;
    let cfa = place.sp.checked_add_signed(depth.sp.into())?;
    if known == Some(cfa) {
        return Some((cfa, false));
    }
    let return_address = memory.read(cfa.checked_sub(8)?).ok()?;
    if !follows_call(place.images, Arch::X86_64, return_address) {
        return None;
    }
    let length = function.end.saturating_sub(function.start);
    let whole =
        (length < MAX_BYTES).then(|| place.image.instructions(function.start, length as usize));
    let is_only = |code| moves_by_numbers(Code::of(Arch::X86_64, function.start, code));
    Some((cfa, depth.followed && whole.flatten().is_some_and(is_only)))
}

/// The CFA of a function of which neither the beginning nor a return is known, as `abort` of a C library that was built
/// without unwind information. Aligned starts before `pc` are tried: the CFA is right where the call before its return address
/// leads to that start; or, where calls to it are indirect, where all starts agree. With it the return address, and the
/// caller's frame pointer where that was saved.
pub(super) fn cfa_by_call(
    place: FramePlace<'_>,
    follower: &mut Follower,
    memory: &mut dyn Memory,
    budget: &mut u32,
) -> Option<(u64, u64, Option<u64>)> {
    let mut indirect: Option<(u64, u64, Option<u64>)> = None;
    let mut is_one = true;
    for back in 0..MAX_STARTS {
        // Compilers align functions; others are not found.
        let Some(start) = (place.pc & !15).checked_sub(back.saturating_mul(16)) else {
            break;
        };
        let Some(depth) = depth_at(place, start, follower, budget) else {
            continue;
        };
        let cfa = place.sp.wrapping_add_signed(depth.sp.into());
        let Ok(return_address) = memory.read(cfa.wrapping_sub(8)) else {
            continue;
        };
        let fp = match depth.saved_fp {
            Some(saved) => memory.read(cfa.wrapping_add_signed(saved.into())).ok(),
            None => None,
        };
        match called_before(place.images, return_address) {
            Some(called) if called == start => return Some((cfa, return_address, fp)),
            None if follows_call(place.images, Arch::X86_64, return_address) => {
                is_one &= indirect.is_none_or(|(known, ..)| known == cfa);
                let fp = fp.filter(|_| indirect.is_none_or(|(.., known)| known == fp));
                indirect = Some((cfa, return_address, fp));
            }
            _ => {}
        }
    }
    indirect.filter(|_| is_one)
}

fn depth_at(
    place: FramePlace<'_>,
    start: u64,
    follower: &mut Follower,
    budget: &mut u32,
) -> Option<Depth> {
    let length = place
        .pc
        .checked_sub(start)
        .filter(|length| *length < MAX_BYTES)?;
    let bytes = place
        .image
        .instructions(start, (length as usize).saturating_add(LONGEST))?;
    *budget = budget.checked_sub((length as u32 / 2).saturating_add(1))?;
    let code = Code::of(Arch::X86_64, start, bytes);
    follower.depth(code, place.pc, place.behind_call)
}

/// The instruction at an avma.
pub(super) fn instruction(image: &LoadedImage, at: u64, budget: &mut u32) -> Option<Instruction> {
    *budget = budget.checked_sub(1)?;
    lift(Arch::X86_64, image.instructions(at, LONGEST)?, at)
}

/// Returns the return address of the first call of a function that begins at `start`.
pub(super) fn after_first_call(image: &LoadedImage, start: u64, budget: &mut u32) -> Option<u64> {
    let mut at = start;
    for _ in 0..MAX_TO_CALL {
        let i = instruction(image, at, budget)?;
        at = at.checked_add(i.length)?;
        match i.next {
            Successor::Call(_) => return Some(at),
            Successor::FallThrough | Successor::Branch { .. } => {}
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::look_ahead::{LookAhead, Return, to_return};
    use super::*;
    use crate::capture::memory::StackCopy;
    use crate::capture::registers::Registers;
    use crate::capture::tests::{bytes_of, image, x86_64};

    const BASE: u64 = 0x40_0000;
    const STACK: u64 = 0x7000;

    /// Code at svma 0x100, at 0x80 a call to it that returns to 0x85, and at 0x73 an indirect one.
    fn images(code: &[u8]) -> Images {
        let mut text = vec![0xcc; 0x100];
        text[0x73..0x75].copy_from_slice(&[0xff, 0xd0]);
        text[0x80..0x85].copy_from_slice(&[0xe8, 0x7b, 0, 0, 0]);
        text.extend_from_slice(code);
        Images::new(vec![image(Arch::X86_64, BASE, 0, text)])
    }

    fn place(images: &Images, pc: u64, sp: u64) -> FramePlace<'_> {
        FramePlace {
            images,
            image: images.get(0).unwrap(),
            pc,
            behind_call: false,
            sp,
        }
    }

    const RETURN: u64 = BASE + 0x85;

    fn found(images: &Images, at: &Registers, memory: &mut StackCopy<'_>) -> Option<Return> {
        match to_return(images, (at, !0), memory, &mut { MAX_INSTRUCTIONS }) {
            LookAhead::Returns(found) => Some(found),
            _ => None,
        }
    }

    /// At 0x100, 0x107, 0x109, 0x10a, 0x10d, 0x111, 0x116, 0x11a and 0x11b.
    fn frame() -> Vec<u8> {
        x86_64(
            "cmpb $0,0(%rip); jne .+24; push %rbp; mov %rsp,%rbp; sub $16,%rsp; call .+5; add $16,%rsp; pop %rbp; ret",
        )
    }

    #[test]
    fn each_instruction_of_a_frame_knows_its_caller_both_ways() {
        let images = images(&frame());
        let caller_fp = 0x7777;
        // From the return address down: it, the pushed frame pointer, two words.
        let bytes = bytes_of(&[1, 2, caller_fp, RETURN, 9]);
        let cfa = STACK + 32;
        let top = cfa - 8;
        let mut memory = StackCopy::new(STACK, &bytes);
        let places = [
            (0x100, top, caller_fp),
            (0x107, top, caller_fp),
            (0x109, top, caller_fp),
            (0x10a, top - 8, caller_fp),
            (0x10d, top - 8, top - 8),
            (0x111, top - 24, top - 8),
            (0x116, top - 24, top - 8),
            (0x11a, top - 8, top - 8),
            (0x11b, top, caller_fp),
        ];
        let mut follower = Follower::new();
        for (pc, sp, fp) in places {
            let place = place(&images, BASE + pc, sp);
            let registers = Registers::x86_64(place.pc, sp, fp);
            let found = found(&images, &registers, &mut memory).unwrap();
            assert_eq!(
                (found.slot, found.registers.fp()),
                (top, caller_fp),
                "{pc:#x}"
            );
            assert_eq!(found.known >> Arch::X86_64.fp() & 1, 1, "{pc:#x}");
            let budget = &mut { MAX_INSTRUCTIONS };
            let function = BASE + 0x100..BASE + 0x100 + frame().len() as u64;
            let found = cfa_at(place, function, None, &mut follower, &mut memory, budget);
            assert_eq!(found, Some((cfa, true)), "{pc:#x}");
        }
    }

    #[test]
    fn a_return_that_is_far_is_found() {
        for (nops, is_found) in [(10_000, true), (20_000, false)] {
            let code: Vec<u8> = std::iter::repeat_n(0x90, nops).chain([0xc3]).collect();
            let images = Images::new(vec![image(Arch::X86_64, BASE, 0x100, code)]);
            let registers = Registers::x86_64(BASE + 0x100, STACK, 0);
            let bytes = bytes_of(&[RETURN]);
            let mut memory = StackCopy::new(STACK, &bytes);
            let left = found(&images, &registers, &mut memory);
            assert_eq!(
                left.map(|left| left.slot),
                is_found.then_some(STACK),
                "{nops}"
            );
        }
    }

    #[test]
    fn what_cannot_be_followed_is_not_guessed() {
        let bytes = bytes_of(&[RETURN; 8]);
        let mut memory = StackCopy::new(STACK, &bytes);
        let hopeless = [
            x86_64("movslq (%rdi),%rsp; ret"),
            x86_64("ud2"),
            x86_64("jmp ."),
            // No instruction.
            vec![0x06],
            vec![],
        ];
        for code in hopeless {
            let images = images(&code);
            let registers = Registers::x86_64(BASE + 0x100, STACK, 0);
            let found = found(&images, &registers, &mut memory);
            assert!(found.is_none(), "{code:x?}");
            let place = place(&images, BASE + 0x104, STACK);
            let (mut follower, budget) = (Follower::new(), &mut { MAX_INSTRUCTIONS });
            let function = BASE + 0x100..BASE + 0x100 + code.len() as u64;
            let found = cfa_at(place, function, None, &mut follower, &mut memory, budget);
            assert_eq!(found, None, "{code:x?}");
        }
    }

    /// As musl's `abort`.
    #[test]
    fn a_function_that_never_returns_is_left_by_the_call_that_leads_to_it() {
        let images = images(&x86_64("sub $0x48,%rsp; xor %eax,%eax; call .+5; hlt"));
        let mut follower = Follower::new();
        let mut found = |pc: u64, sp: u64, memory: &mut StackCopy<'_>| {
            let place = place(&images, BASE + pc, sp);
            cfa_by_call(place, &mut follower, memory, &mut { MAX_INSTRUCTIONS })
        };
        let bytes = bytes_of(&[0, RETURN, 0, RETURN + 1, 0, 0, 0, 0, 0, RETURN, 0]);
        let mut memory = StackCopy::new(STACK, &bytes);
        let cfa = STACK + 0x50;
        for (pc, sp) in [(0x100, cfa - 8), (0x104, STACK), (0x10b, STACK)] {
            let wanted = Some((cfa, RETURN, None));
            assert_eq!(found(pc, sp, &mut memory), wanted, "{pc:#x}");
        }
        // Indirect calls, which may lead there: call rax.
        let bytes = bytes_of(&[0, RETURN + 1, 0, 0, 0, 0, 0, 0, 0, RETURN - 0x10, 0]);
        let mut memory_of = StackCopy::new(STACK, &bytes);
        let wanted = Some((cfa, RETURN - 0x10, None));
        assert_eq!(found(0x10b, STACK, &mut memory_of), wanted);
        // No call leads to what begins before it; nor does one that returns elsewhere.
        assert_eq!(found(0x10b, STACK + 8, &mut memory), None);
    }
}
