//! The stack layout of a function as its instructions show it, where unwind information does not.
//!
//! It answers three questions, all about x86_64: the depth of a function in its frame, by its instructions since its
//! beginning; the place of its return address, by its instructions until it returns; and its beginning, by the call
//! that leads there.

use super::effect::{Effect, decode};
use crate::capture::images::Images;
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;

use super::calls::{called_before, is_behind_call};

/// The longest instruction, bytes.
const LONGEST: usize = 15;

/// Most instructions that are examined: from a function's beginning, and until its return.
const BEFORE: usize = 8192;
const BEHIND: usize = 512;

/// Most beginnings of a function that are tried.
const BEGINNINGS: u64 = 64;

/// Most instructions that one walk may examine, so that no stack can make it long.
pub(super) const BUDGET: u32 = 1 << 18;

/// A branch target further on, and the depth there.
#[derive(Clone, Copy)]
struct Arrival {
    at: u64,
    depth: Depth,
}

/// Distances of sp and fp below the CFA, and of the slot of the caller's frame pointer, as far as they are known.
#[derive(Clone, Copy)]
struct Depth {
    sp: Option<i64>,
    fp: Option<i64>,
    saved_fp: Option<i64>,
}

/// The CFA of a function that was entered by a call to `start` and stands at `pc`, from its stack
/// pointer; checked by what then is its return address, where it is not `known`. Signal-safe.
pub(super) fn cfa_at<M: Memory>(
    images: &Images,
    image: &LoadedImage,
    (start, pc, sp): (u64, u64, u64),
    known: Option<u64>,
    memory: &mut M,
    budget: &mut u32,
) -> Option<u64> {
    let cfa = sp.checked_add_signed(depth_at(image, start, pc, budget)?.sp?)?;
    if known == Some(cfa) {
        return Some(cfa);
    }
    let return_address = memory.read(cfa.checked_sub(8)?).ok()?;
    is_behind_call(images, Arch::X86_64, return_address).then_some(cfa)
}

/// The CFA of a function of which neither the beginning nor a return is known, as `abort` of a C library that was built
/// without unwind information. It is that of the beginning before `pc` to which the call leads that is then returned
/// to; or, where calls to it are indirect, the one that all beginnings agree on. With it the return address, and the
/// caller's frame pointer where that was saved. Signal-safe.
pub(super) fn cfa_by_call<M: Memory>(
    images: &Images,
    image: &LoadedImage,
    (pc, sp): (u64, u64),
    memory: &mut M,
    budget: &mut u32,
) -> Option<(u64, u64, Option<u64>)> {
    let mut indirect: Option<(u64, u64, Option<u64>)> = None;
    let mut is_one = true;
    for back in 0..BEGINNINGS {
        // Compilers align functions; others are not found.
        let Some(start) = (pc & !15).checked_sub(16 * back) else {
            break;
        };
        let Some(depth) = depth_at(image, start, pc, budget) else {
            continue;
        };
        let Some(cfa) = depth.sp.and_then(|depth| sp.checked_add_signed(depth)) else {
            continue;
        };
        let Ok(return_address) = memory.read(cfa.wrapping_sub(8)) else {
            continue;
        };
        let fp = match depth.saved_fp {
            Some(depth) => memory.read(cfa.wrapping_sub_signed(depth)).ok(),
            None => None,
        };
        match called_before(images, return_address) {
            Some(called) if called == start => return Some((cfa, return_address, fp)),
            None if is_behind_call(images, Arch::X86_64, return_address) => {
                is_one &= indirect.is_none_or(|(known, ..)| known == cfa);
                let fp = fp.filter(|_| indirect.is_none_or(|(.., known)| known == fp));
                indirect = Some((cfa, return_address, fp));
            }
            _ => {}
        }
    }
    indirect.filter(|_| is_one)
}

/// Reads a function from its beginning, in the order in which it lies in memory; behind a jump it
/// goes on with what a branch from before brings there, or else with what held at the first call.
fn depth_at(image: &LoadedImage, start: u64, pc: u64, budget: &mut u32) -> Option<Depth> {
    let entered = Depth {
        sp: Some(8),
        fp: None,
        saved_fp: None,
    };
    let mut arrivals = [Arrival {
        at: 0,
        depth: entered,
    }; 32];
    let mut next_arrival = 0;
    let mut body = None;
    let mut deepest = entered;
    let mut now = Some(entered);
    let mut at = start;
    for _ in 0..BEFORE {
        let depth = now.unwrap_or_else(|| {
            let arrival = arrivals.iter().find(|arrival| arrival.at == at);
            arrival.map_or(body.unwrap_or(deepest), |arrival| arrival.depth)
        });
        if at >= pc {
            return (at == pc).then_some(depth);
        }
        *budget = budget.checked_sub(1)?;
        let (length, effect) = decode(image.instructions(at, LONGEST)?)?;
        at = at.checked_add(length as u64)?;
        if let Effect::Branch(by) | Effect::Jump(Some(by)) = effect
            && by > 0
            && let Some(slot) = arrivals.get_mut(next_arrival % 32)
        {
            *slot = Arrival {
                at: at.checked_add_signed(by)?,
                depth,
            };
            next_arrival = next_arrival.wrapping_add(1);
        }
        if effect == Effect::Call && body.is_none() {
            body = Some(depth);
        }
        now = depth.behind(effect);
        if let Some(depth) = now
            && depth.sp > deepest.sp
        {
            deepest = depth;
        }
    }
    None
}

impl Depth {
    /// `None` where what follows is not run next.
    fn behind(self, effect: Effect) -> Option<Depth> {
        let Depth {
            sp,
            fp,
            mut saved_fp,
        } = self;
        let less = |depth: Option<i64>, by: i64| depth?.checked_sub(by);
        let (sp, fp) = match effect {
            Effect::None | Effect::Call | Effect::Branch(_) => (sp, fp),
            Effect::Push { frame } => {
                saved_fp = saved_fp.or_else(|| less(sp, -8).filter(|_| frame));
                (less(sp, -8), fp)
            }
            Effect::Pop { frame } => (less(sp, 8), fp.filter(|_| !frame)),
            Effect::Move(by) => (less(sp, by), fp),
            Effect::FrameFromStack(by) => (sp, less(sp, by)),
            Effect::StackFromFrame(by) => (less(fp, by), fp),
            Effect::Leave => (less(fp, 8), None),
            Effect::LosesStack => (None, fp),
            Effect::LosesFrame => (sp, None),
            Effect::Return | Effect::Jump(_) | Effect::Stop => return None,
        };
        Some(Depth { sp, fp, saved_fp })
    }
}

/// Returns the return address of the first call of a function that begins at `start`. Signal-safe.
pub(super) fn first_call(image: &LoadedImage, start: u64, budget: &mut u32) -> Option<u64> {
    let mut at = start;
    for _ in 0..BEHIND {
        *budget = budget.checked_sub(1)?;
        let (length, effect) = decode(image.instructions(at, LONGEST)?)?;
        at = at.checked_add(length as u64)?;
        match effect {
            Effect::Call => return Some(at),
            Effect::Return | Effect::Jump(_) | Effect::Stop => return None,
            _ => {}
        }
    }
    None
}

/// The return of a function, as its code will perform it.
pub(super) struct Return {
    /// Address of its return address slot.
    pub(super) slot: u64,
    /// The caller's frame pointer.
    pub(super) fp: Option<u64>,
    /// True if it has other registers to restore.
    pub(super) pops: bool,
}

/// Follows code from `pc` to its return, taking no branch and stepping over calls. Signal-safe.
pub(super) fn to_return<M: Memory>(
    images: &Images,
    (pc, mut sp, fp): (u64, u64, u64),
    memory: &mut M,
    budget: &mut u32,
) -> Option<Return> {
    let image = images.get(images.find(pc)?)?;
    let mut fp = Some(fp);
    let mut pushed = None;
    let mut pops = false;
    let mut at = pc;
    for _ in 0..BEHIND {
        *budget = budget.checked_sub(1)?;
        let (length, effect) = decode(image.instructions(at, LONGEST)?)?;
        at = at.checked_add(length as u64)?;
        let mut pop = |from: u64| match pushed {
            Some((slot, value)) if slot == from => value,
            _ => memory.read(from).ok(),
        };
        match effect {
            Effect::None | Effect::Call | Effect::Branch(_) => {}
            Effect::Push { frame } => {
                sp = sp.checked_sub(8)?;
                if frame {
                    pushed = Some((sp, fp));
                }
            }
            Effect::Pop { frame } => {
                if frame {
                    fp = pop(sp);
                }
                pops |= !frame;
                sp = sp.checked_add(8)?;
            }
            Effect::Move(by) => sp = sp.checked_add_signed(by)?,
            Effect::FrameFromStack(by) => fp = sp.checked_add_signed(by),
            Effect::StackFromFrame(by) => sp = fp?.checked_add_signed(by)?,
            Effect::Leave => {
                let frame = fp?;
                fp = pop(frame);
                sp = frame.checked_add(8)?;
            }
            Effect::LosesFrame => fp = None,
            Effect::Jump(Some(by)) => at = at.checked_add_signed(by)?,
            // A jump to another function, which returns to this one's caller in its stead.
            Effect::Return | Effect::Jump(None) => return Some(Return { slot: sp, fp, pops }),
            Effect::Stop | Effect::LosesStack => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::memory::StackCopy;
    use crate::capture::section::Section;

    const BASE: u64 = 0x40_0000;
    const STACK: u64 = 0x7000;

    /// Code at svma 0x100, at 0x80 a call to it that returns to 0x85, and at 0x73 an indirect one.
    fn images(code: &[u8]) -> Images {
        let mut text = vec![0xcc; 0x100];
        text[0x73..0x75].copy_from_slice(&[0xff, 0xd0]);
        text[0x80..0x85].copy_from_slice(&[0xe8, 0x7b, 0, 0, 0]);
        text.extend_from_slice(code);
        let image = LoadedImage::new("app", BASE, 0, 0x1000)
            .with_arch(Arch::X86_64)
            .with_text(Section {
                svma: 0,
                bytes: text.into(),
            });
        Images::new(vec![image])
    }

    fn stack(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    const RETURN: u64 = BASE + 0x85;

    /// cmpb; jne; push rbp; mov rsp, rbp; sub 16; call; add 16; pop rbp; ret.
    const FRAME: &[u8] = &[
        0x80, 0x3d, 0, 0, 0, 0, 0, // 0x100
        0x75, 0x16, // 0x107
        0x55, // 0x109
        0x48, 0x89, 0xe5, // 0x10a
        0x48, 0x83, 0xec, 0x10, // 0x10d
        0xe8, 0, 0, 0, 0, // 0x111
        0x48, 0x83, 0xc4, 0x10, // 0x116
        0x5d, // 0x11a
        0xc3, // 0x11b
    ];

    #[test]
    fn each_instruction_of_a_frame_knows_its_caller_both_ways() {
        let images = images(FRAME);
        let image = images.get(0).unwrap();
        let caller_fp = 0x7777;
        // From the return address down: it, the pushed frame pointer, two words.
        let bytes = stack(&[1, 2, caller_fp, RETURN, 9]);
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
        for (pc, sp, fp) in places {
            let pc = BASE + pc;
            let found = to_return(&images, (pc, sp, fp), &mut memory, &mut { BUDGET }).unwrap();
            assert_eq!((found.slot, found.fp), (top, Some(caller_fp)), "{pc:#x}");
            assert!(!found.pops);
            let place = (BASE + 0x100, pc, sp);
            assert_eq!(
                cfa_at(&images, image, place, None, &mut memory, &mut { BUDGET }),
                Some(cfa),
                "{pc:#x}"
            );
        }
    }

    #[test]
    fn what_cannot_be_followed_is_not_guessed() {
        let bytes = stack(&[RETURN; 8]);
        let mut memory = StackCopy::new(STACK, &bytes);
        let hopeless: [&[u8]; 5] = [
            &[0x48, 0x83, 0xe4, 0xf0, 0xc3], // and -16, rsp; ret
            &[0x0f, 0x0b],                   // ud2
            &[0xeb, 0xfe],                   // jumps to itself
            &[0x06],                         // no instruction
            &[],
        ];
        for code in hopeless {
            let images = images(code);
            let found = to_return(&images, (BASE + 0x100, STACK, 0), &mut memory, &mut {
                BUDGET
            });
            assert!(found.is_none(), "{code:x?}");
            let image = images.get(0).unwrap();
            let place = (BASE + 0x100, BASE + 0x104, STACK);
            assert_eq!(
                cfa_at(&images, image, place, None, &mut memory, &mut { BUDGET }),
                None,
                "{code:x?}"
            );
        }
    }

    /// As musl's `abort`: sub 0x48, rsp; xor eax, eax; call; hlt.
    #[test]
    fn a_function_that_never_returns_is_left_by_the_call_that_leads_to_it() {
        let code = [0x48, 0x83, 0xec, 0x48, 0x31, 0xc0, 0xe8, 0, 0, 0, 0, 0xf4];
        let images = images(&code);
        let image = images.get(0).unwrap();
        let bytes = stack(&[0, RETURN, 0, RETURN + 1, 0, 0, 0, 0, 0, RETURN, 0]);
        let mut memory = StackCopy::new(STACK, &bytes);
        let cfa = STACK + 0x50;
        for (pc, sp) in [(0x100, cfa - 8), (0x104, STACK), (0x10b, STACK)] {
            let place = (BASE + pc, sp);
            let found = cfa_by_call(&images, image, place, &mut memory, &mut { BUDGET });
            assert_eq!(found, Some((cfa, RETURN, None)), "{pc:#x}");
        }
        // Indirect calls, which may lead there: call rax.
        let bytes = stack(&[0, RETURN + 1, 0, 0, 0, 0, 0, 0, 0, RETURN - 0x10, 0]);
        let mut memory_of = StackCopy::new(STACK, &bytes);
        let place = (BASE + 0x10b, STACK);
        let found = cfa_by_call(&images, image, place, &mut memory_of, &mut { BUDGET });
        assert_eq!(found, Some((cfa, RETURN - 0x10, None)));
        // No call leads to what begins before it; nor does one that returns elsewhere.
        let place = (BASE + 0x10b, STACK + 8);
        let found = cfa_by_call(&images, image, place, &mut memory, &mut { BUDGET });
        assert_eq!(found, None);
    }
}
