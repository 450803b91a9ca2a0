//! The return address of a function that restores another frame's registers.
//!
//! libgcc's `uw_install_context` writes the words that the catching frame has for each register
//! over those of the function that raised the exception, its return address among them; and last
//! of all, where to jump to over the return address of what the catching function had called. Both
//! are still there: the first one in the unwinder's context of its own frame, which is among its
//! locals, the second one in place of the first one.
//!
//! Source: `struct _Unwind_Context`, `uw_init_context` and `uw_install_context` of GCC's
//! libgcc/unwind-dw2.c.

use super::frame_layout::{after_first_call, follows_call};
use crate::capture::images::Images;
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;

/// Most bytes of locals that are searched.
const MAX_LOCALS: u64 = 4096;

/// The frame of such a function.
pub(super) struct RestoringFrame {
    pub(super) sp: u64,
    pub(super) cfa: u64,
    /// Its first instruction, where the frame is of a whole function (avma).
    pub(super) start: Option<u64>,
    /// Its current instruction, or the call that it has made (avma).
    pub(super) at: u64,
}

/// The value in the frame's return address slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReturnSlot {
    /// Its return address.
    Own,
    /// The return address of a function that the catching function had called; `own` is the frame's. `called` is that
    /// function's CFA, if it is known.
    Installed { own: u64, called: Option<u64> },
    /// Nothing shows it.
    Unknown,
}

/// Classifies the return address slot of an x86_64 frame, whose value is `stored`.
pub(super) fn return_slot(
    (images, image): (&Images, &LoadedImage),
    frame: &RestoringFrame,
    stored: u64,
    memory: &mut dyn Memory,
    budget: &mut u32,
) -> ReturnSlot {
    let first = frame
        .start
        .and_then(|start| after_first_call(image, start, budget));
    if first.is_some_and(|behind| frame.at < behind) {
        // The context is not yet made.
        return ReturnSlot::Own;
    }
    // A context holds where each register is saved: the return address, number 16, just below the
    // CFA, which stands two words behind, and then the address to go on at.
    let (mut own, mut called) = (None, None);
    let mut before = [None; 2];
    for slot in (frame.sp..frame.cfa.saturating_sub(24))
        .step_by(8)
        .take((MAX_LOCALS / 8) as usize)
    {
        let Some(rest) = budget.checked_sub(1) else {
            return ReturnSlot::Unknown;
        };
        *budget = rest;
        let word = memory.read(slot).ok();
        if let (Some(saved), Some(cfa)) = (before[0], word)
            && cfa.checked_sub(8) == Some(saved)
        {
            let goes_on = memory.read(slot.wrapping_add(8)).ok();
            if cfa == frame.cfa {
                // The context of a catching caller goes on at a landing pad, to which no call returns.
                match goes_on.filter(|at| follows_call(images, Arch::X86_64, *at)) {
                    Some(other) if own.is_some_and(|own| own != other) => {
                        return ReturnSlot::Unknown;
                    }
                    None => {}
                    found => own = found,
                }
            } else if cfa > frame.cfa
                && let Ok(there) = memory.read(saved)
                && (there == stored || Some(there) == goes_on)
            {
                // Other words may look like a context, but the address that they name does not hold such a return address.
                called = Some(cfa);
            }
        }
        before = [before[1], word];
    }
    match own {
        Some(own) if own == stored => ReturnSlot::Own,
        Some(own) => ReturnSlot::Installed { own, called },
        None => ReturnSlot::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::memory::StackCopy;
    use crate::capture::tests::{bytes_of, image};
    use crate::capture::unwind::frame_layout::MAX_INSTRUCTIONS;

    const SP: u64 = 0x7000;
    const CFA: u64 = SP + 8 * 64;
    /// In the function of the test, its own return address, the landing pad, and the call that the
    /// catching function made.
    const INSIDE: u64 = 0x40_0018;
    const OWN: u64 = 0x40_0100;
    const JUMP_TARGET: u64 = 0x40_0200;
    const CAUGHT: u64 = 0x40_0300;

    /// An image with a function at 0x40_0000 that pushes, calls (to return to 0x40_0006), and pops; and the calls
    /// that return to the two addresses above.
    fn images() -> Images {
        let mut bytes = vec![0x90; 0x1000];
        bytes[..2].copy_from_slice(&[0x55, 0xe8]);
        bytes[2..8].copy_from_slice(&[0, 0, 0, 0, 0x5d, 0xc3]);
        bytes[0xfb] = 0xe8;
        bytes[0x2fb] = 0xe8;
        Images::new(vec![image(Arch::X86_64, 0x40_0000, 0, bytes)])
    }

    /// A context among 64 words: which word it begins at, its CFA, where it goes on.
    fn slot_of(contexts: &[(usize, u64, u64)], at: u64, stored: u64) -> ReturnSlot {
        let mut words = [0u64; 128];
        // The jump target is written last.
        words[64 + 32 - 1] = JUMP_TARGET;
        for &(first, cfa, goes_on) in contexts {
            words[first + 16] = cfa - 8;
            words[first + 18] = cfa;
            words[first + 19] = goes_on;
        }
        let bytes = bytes_of(&words);
        let frame = RestoringFrame {
            sp: SP,
            cfa: CFA,
            start: Some(0x40_0000),
            at,
        };
        let images = images();
        return_slot(
            (&images, images.get(0).unwrap()),
            &frame,
            stored,
            &mut StackCopy::new(SP, &bytes),
            &mut { MAX_INSTRUCTIONS },
        )
    }

    #[test]
    fn what_was_restored_is_distinguished_from_what_is_its_own() {
        let own = (0, CFA, OWN);
        // Words that look like a context, as offsets among the rows that libgcc has just read do.
        let chance = (50 - 16, u64::MAX - 23, 7);
        let catching = (30, CFA + 0x100, JUMP_TARGET);
        // Raised, not yet caught; caught; installed.
        assert_eq!(
            slot_of(&[own, (30, CFA, OWN)], INSIDE, OWN),
            ReturnSlot::Own
        );
        assert_eq!(slot_of(&[own, catching], INSIDE, OWN), ReturnSlot::Own);
        let installed = ReturnSlot::Installed {
            own: OWN,
            called: Some(CFA + 0x100),
        };
        assert_eq!(slot_of(&[own, catching], INSIDE, CAUGHT), installed);
        assert_eq!(
            slot_of(
                &[own, (10, CFA + 0x100, JUMP_TARGET), chance],
                INSIDE,
                CAUGHT
            ),
            installed
        );
        assert_eq!(
            slot_of(
                &[(40, CFA, OWN), (0, CFA + 0x100, JUMP_TARGET)],
                INSIDE,
                CAUGHT
            ),
            installed
        );
    }

    #[test]
    fn caught_by_the_caller_itself() {
        let contexts = [(0, CFA, OWN), (30, CFA, JUMP_TARGET)];
        assert_eq!(slot_of(&contexts, INSIDE, OWN), ReturnSlot::Own);
        let contexts = [(30, CFA, OWN), (0, CFA, JUMP_TARGET)];
        assert_eq!(slot_of(&contexts, INSIDE, OWN), ReturnSlot::Own);
        // About to jump there.
        let installed = ReturnSlot::Installed {
            own: OWN,
            called: None,
        };
        assert_eq!(slot_of(&contexts, INSIDE, JUMP_TARGET), installed);
        let alike = [(30, CFA, OWN), (0, CFA, CAUGHT)];
        assert_eq!(slot_of(&alike, INSIDE, OWN), ReturnSlot::Unknown);
    }

    #[test]
    fn before_a_context_is_made_nothing_is_installed() {
        // As an earlier exception left it.
        let stale = [(0, CFA, JUMP_TARGET)];
        assert_eq!(slot_of(&stale, 0x40_0001, OWN), ReturnSlot::Own);
        assert_eq!(slot_of(&[], 0x40_0005, OWN), ReturnSlot::Own);
        assert_eq!(slot_of(&[], 0x40_0006, OWN), ReturnSlot::Unknown);
    }
}
