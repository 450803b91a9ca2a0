//! Leaving a frame whose return address is in another register than the link register (arm64).
//!
//! Compilers move pieces out of functions, those of prologues among them, and call them with the link
//! register kept in another one: `mov x5, x30; bl PIECE; mov x30, x5`. Assembly that calls helpers of its
//! own does so too.

use super::{Walk, end_of};
use crate::capture::memory::Memory;
use crate::report::model::{Found, WalkEnd};

impl Walk<'_, dyn Memory + '_> {
    /// Leaves the frame by the register that has the return address. The CFA is `cfa` words above sp; `fp` is the slot
    /// of the caller's frame pointer, if it was saved.
    ///
    /// If the frame has made a call, the register is only known if its callees have saved nothing: then it still has
    /// the value with which the walk began.
    #[cold]
    pub(super) fn leave_by_link(
        &mut self,
        register: u8,
        cfa: u16,
        fp: Option<i16>,
    ) -> Result<(), WalkEnd> {
        let bit = 1u32.checked_shl(register.into()).unwrap_or(0);
        if bit == 0 || self.links & bit != 0 || !self.has_saved_nothing() {
            return self.leave_by_guess();
        }
        let cfa = self.state.sp.wrapping_add(u64::from(cfa) * 8);
        self.restore_fp(cfa, fp)?;
        if cfa < self.state.sp {
            return Err(WalkEnd::NoUnwindInfo);
        }
        self.links |= bit;
        let target = self.initial.get(usize::from(register));
        self.set_caller(target, cfa, Found::UnwindInfo)?;
        self.state.known = self.pc_sp_fp();
        Ok(())
    }

    /// Reads the caller's frame pointer from its slot, so many words from the CFA, if it was saved.
    pub(super) fn restore_fp(&mut self, cfa: u64, slot: Option<i16>) -> Result<(), WalkEnd> {
        if let Some(words) = slot {
            let slot = cfa.wrapping_add_signed(i64::from(words).wrapping_mul(8));
            self.state.fp = self.memory.read(slot).map_err(end_of)?;
        }
        Ok(())
    }

    /// Returns true if all frames before this one have left the registers as they were.
    fn has_saved_nothing(&self) -> bool {
        let left = self.yielded.saturating_sub(1);
        let by_link = self.links.count_ones();
        if by_link == left {
            return true;
        }
        let first = self.unwinder.cache.get(self.initial.pc());
        let first = first.and_then(|first| first.word.frame_rule());
        let is_leaf = first.is_some_and(|frame| frame.ra.is_none());
        self.at_pc && is_leaf && left.checked_sub(1) == Some(by_link)
    }
}

#[cfg(test)]
mod tests {
    use crate::capture::tests::{arm64, image};
    use crate::capture::{Arch, Images, Registers, StackCopy, Unwinder};
    use crate::report::model::{Found, WalkEnd};

    #[test]
    fn a_caller_whose_return_address_is_in_a_register_is_found_from_the_piece_that_it_calls() {
        const BASE: u64 = 0x5000_0000;
        // At 0x100, 0x114 and 0x124.
        let code = arm64(
            "stp x29, x30, [sp, #-16]!; mov x29, sp; bl 1f; ldp x29, x30, [sp], #16; ret; \
             1: mov x5, x30; bl 2f; mov x30, x5; ret; 2: sub sp, sp, #0x70; ret",
        );
        let image = image(Arch::Arm64, BASE, 0x100, code)
            .with_function_starts(&[0x80, 0x02, 0x14, 0x10, 0]);
        let images = Images::new(vec![image]);
        // The outer function's record, at the thread's root.
        let stack = [0u8; 16];
        let frames = |pc: u64, sp: u64| {
            let mut registers = Registers::new(Arch::Arm64);
            registers.set_frame(BASE + pc, sp, 0x2000);
            registers.set(5, BASE + 0x10c);
            registers.set(30, BASE + 0x11c);
            let mut unwinder = Unwinder::new();
            let mut walk = unwinder.walk(&registers, &images, StackCopy::new(0x2000, &stack));
            let frames: Vec<_> = walk
                .by_ref()
                .map(|frame| (frame.pc - BASE, frame.found))
                .collect();
            (frames, walk.end())
        };
        let (context, certain) = (Found::Context, Found::UnwindInfo);
        let root = Some(WalkEnd::Root);
        let in_piece = vec![(0x124, context), (0x11c, certain), (0x10c, certain)];
        assert_eq!(frames(0x124, 0x2000), (in_piece, root));
        let behind = vec![(0x11c, context), (0x10c, certain)];
        assert_eq!(frames(0x11c, 0x2000 - 0x70), (behind, root));
    }
}
