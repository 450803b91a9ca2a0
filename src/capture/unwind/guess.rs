//! Leaving code that has no unwind information.

use super::calls::is_behind_call;
use super::scan::to_return;
use super::{Walk, end_of};
use crate::capture::cfi;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;
use crate::report::model::{Found, WalkEnd};

impl<M: Memory> Walk<'_, M> {
    /// Without unwind information: the return address where the code ahead will find it, or where
    /// a call has just put it, or else a frame record; whichever leads behind a call in known code.
    #[cold]
    pub(super) fn leave_by_guess(&mut self, image: Option<u32>) -> Result<(), WalkEnd> {
        let arch = self.arch;
        let (sp, fp) = (self.state.sp, self.state.fp);
        if self.is_signal_trampoline(image) {
            return self.leave_by_signal_frame();
        }
        if arch == Arch::X86_64
            && let Some(found) = to_return(
                self.images,
                (self.state.pc, sp, fp),
                &mut self.memory,
                &mut self.budget,
            )
            && let Ok(target) = self.memory.read(found.slot)
            && is_behind_call(self.images, arch, target)
            && self
                .check_advance(found.slot.wrapping_add(8), false)
                .is_ok()
        {
            self.arrive(target, found.slot.wrapping_add(8), Found::LinkRegister)?;
            let followed = if found.pops { 0 } else { cfi_preserved(arch) };
            self.state.known = self.state.known & followed | self.three();
            match found.fp {
                Some(fp) => self.state.fp = fp,
                None => self.state.known &= !(1 << arch.fp()),
            }
            return Ok(());
        }
        if self.state.exact && (arch == Arch::X86_64 || self.knows(arch.return_address())) {
            let (target, new_sp) = match arch {
                Arch::X86_64 => (self.memory.read(sp).ok(), sp.wrapping_add(8)),
                Arch::Arm64 => (Some(self.images.strip(self.state.registers.lr())), sp),
            };
            if let Some(target) = target.filter(|target| is_behind_call(self.images, arch, *target))
            {
                self.arrive(target, new_sp, Found::LinkRegister)?;
                self.state.known &= cfi_preserved(arch);
                return Ok(());
            }
        }
        if !self.knows(arch.fp()) {
            return self.lack();
        }
        let aligned = fp != 0 && fp % 8 == 0 && fp >= sp;
        if !aligned {
            return Err(WalkEnd::NoUnwindInfo);
        }
        let target = self.memory.read(fp.wrapping_add(8)).map_err(end_of)?;
        let target = self.images.strip(target);
        let new_fp = self.memory.read(fp).map_err(end_of)?;
        if target == 0 {
            // As the first function of a thread leaves it.
            return Err(WalkEnd::Root);
        }
        if !is_behind_call(self.images, arch, target) {
            return Err(WalkEnd::NoUnwindInfo);
        }
        self.arrive(target, fp.wrapping_add(16), Found::FramePointer)?;
        self.state.fp = new_fp;
        self.state.known = self.three();
        Ok(())
    }
}

/// What is still known behind a guess that the callee had not saved anything.
fn cfi_preserved(arch: Arch) -> u64 {
    cfi::preserved(arch) | 1 << arch.sp() | 1 << arch.pc()
}
