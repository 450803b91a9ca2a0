//! Frames that are left by a short rule: from sp or fp and two words of the stack to the caller.

use super::{Walk, end_of};
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::rule::{Base, FrameRule};
use crate::capture::tasks::EXTENDED_BIT;
use crate::report::model::{Found, RawFrame, WalkEnd};

/// Most steps of a walk to a lower stack pointer, as at the entry of a coroutine, a grown stack or a handler on an
/// alternate stack.
const MAX_SWITCHES: u32 = 64;

impl<M: Memory> Walk<'_, M> {
    /// Leaves a frame that has a short rule for one that has one too, as most do. `None` if anything is unusual: the walk
    /// then stands where it stood.
    #[inline(always)]
    pub(super) fn leave_quickly(&mut self) -> Option<RawFrame> {
        let rule = self.here.word.frame_rule()?;
        let cfa = self.state.cfa(rule);
        let slot = |words: i16| cfa.wrapping_add_signed(i64::from(words).wrapping_mul(8));
        let pc = self.memory.read(slot(rule.ra?)).ok()? & self.pointer_mask;
        if pc == 0 || cfa <= self.state.sp {
            return None;
        }
        let here = self.unwinder.cache.caller(self.here, pc.wrapping_sub(1))?;
        here.word.frame_rule()?;
        if let Some(words) = rule.fp {
            // One with the bit was saved by an async function.
            let saved = self.memory.read(slot(words)).ok()?;
            self.state.fp = Some(saved).filter(|fp| fp & EXTENDED_BIT == 0)?;
        }
        (self.state.pc, self.state.sp) = (pc, cfa);
        self.here = here;
        // Above 0.
        self.short_budget = self.short_budget.wrapping_sub(1);
        Some(self.frame())
    }
}

impl Walk<'_, dyn Memory + '_> {
    #[inline]
    pub(super) fn leave_by_frame(&mut self, rule: FrameRule) -> Result<(), WalkEnd> {
        let cfa = self.state.cfa(rule);
        let slot = |words: i16| cfa.wrapping_add_signed(i64::from(words).wrapping_mul(8));
        let by_fp = rule.base == Base::Fp;
        let return_address = match rule.ra {
            Some(words) => self.memory.read(slot(words)).map_err(end_of)?,
            None if self.state.at_pc => self.state.registers.lr(),
            // The link register of a frame that has made a call is not its own.
            None => return Err(WalkEnd::NoUnwindInfo),
        };
        let by_own_fp = self.is_known(self.arch.fp());
        let mut known = self.state.known & self.pc_sp_fp();
        if let Some(words) = rule.fp {
            match self.memory.read(slot(words)) {
                Ok(value) => (self.state.fp, known) = (value, known | 1 << self.arch.fp()),
                // Popped already: the register has the caller's value.
                Err(_) if self.state.at_pc && slot(words) < self.state.sp => {}
                Err(missing) => return Err(end_of(missing)),
            }
        }
        self.check_advance(cfa, by_fp)?;
        // The frame pointer behind a guess may be another frame's.
        let found = if by_fp && !by_own_fp {
            Found::FramePointer
        } else {
            Found::UnwindInfo
        };
        self.set_caller(return_address, cfa, found)?;
        self.state.known = known;
        Ok(())
    }

    /// The bits of pc, sp and fp.
    #[inline]
    pub(super) fn pc_sp_fp(&self) -> u64 {
        1 << self.arch.sp() | 1 << self.arch.fp() | 1 << self.arch.pc()
    }

    /// Callers' stack pointers lie above their callees', but where stacks were switched.
    #[inline]
    pub(super) fn check_advance(&mut self, cfa: u64, may_switch: bool) -> Result<(), WalkEnd> {
        let sp = self.state.sp;
        if cfa > sp || (cfa == sp && self.state.at_pc) {
            return Ok(());
        }
        if !may_switch || cfa == sp {
            return Err(WalkEnd::NoUnwindInfo);
        }
        self.count_switch()
    }

    #[cold]
    pub(super) fn count_switch(&mut self) -> Result<(), WalkEnd> {
        self.state.switches = self.state.switches.saturating_add(1);
        if self.state.switches > MAX_SWITCHES {
            Err(WalkEnd::Limit)
        } else {
            Ok(())
        }
    }

    /// A return address of 0. On Darwin it ends the stack if the frame pointer is 0, too (Procedure Call Standard for the Arm
    /// 64-bit Architecture, 6.4.6; System V ABI, AMD64, 3.4.1). On Linux the entries of such functions state that they have no
    /// caller, and where one states otherwise it is wrong, as that of code which keeps a stack of its own is at times.
    #[cold]
    fn end_at_null(&self, found: Found) -> WalkEnd {
        let by_zeros = self.image().is_some_and(LoadedImage::is_mach_o);
        match found {
            Found::UnwindInfo if self.state.fp == 0 && by_zeros => WalkEnd::Root,
            _ => WalkEnd::NoUnwindInfo,
        }
    }

    #[inline]
    pub(super) fn set_caller(
        &mut self,
        return_address: u64,
        sp: u64,
        found: Found,
    ) -> Result<(), WalkEnd> {
        let pc = return_address & self.pointer_mask;
        if pc == 0 {
            return Err(self.end_at_null(found));
        }
        self.state.pc = pc;
        self.state.sp = sp;
        self.state.found = found;
        self.state.at_pc = false;
        Ok(())
    }
}
