//! Leaving code that has no unwind information.

use super::frame_layout::{FramePlace, cfa_by_call, follows_call};
use super::look_ahead::{LookAhead, to_return};
use super::{Walk, end_of};
use crate::capture::cfi;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;
use crate::report::model::{Found, WalkEnd};

/// What the code ahead has made of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeOutcome {
    /// The frame is left.
    Left,
    /// The walk stays, and the frame pointer is not this frame's.
    StackSwitch,
    Stays,
}

impl Walk<'_, dyn Memory + '_> {
    /// Without unwind information: the return address where the code ahead will find it, or where
    /// a call has just put it, or else a frame record; whichever leads behind a call in known code.
    #[cold]
    pub(super) fn leave_by_guess(&mut self) -> Result<(), WalkEnd> {
        let arch = self.arch;
        let (sp, fp) = (self.state.sp, self.state.fp);
        if self.is_signal_trampoline() {
            return self.leave_by_signal_frame();
        }
        if self.arch == Arch::X86_64 && !self.state.at_pc && self.begins_without_caller() {
            return Err(WalkEnd::Root);
        }
        let by_code = self.leave_by_code()?;
        if by_code == CodeOutcome::Left || self.leave_by_call()? {
            return Ok(());
        }
        if self.state.at_pc && (arch == Arch::X86_64 || self.is_known(arch.return_address())) {
            let (target, new_sp) = match arch {
                Arch::X86_64 => (self.memory.read(sp).ok(), sp.wrapping_add(8)),
                Arch::Arm64 => (Some(self.images.strip(self.state.registers.lr())), sp),
            };
            if let Some(target) = target.filter(|target| follows_call(self.images, arch, *target)) {
                self.set_caller(target, new_sp, Found::LeafReturnAddress)?;
                self.state.known &= cfi_preserved(arch);
                return Ok(());
            }
        }
        if !self.is_known(arch.fp()) {
            return self.end_unknown();
        }
        // It would be the frame pointer of a caller, which would be skipped.
        if by_code == CodeOutcome::StackSwitch {
            return Err(WalkEnd::NoUnwindInfo);
        }
        let aligned = fp != 0 && fp % 8 == 0 && fp >= sp;
        if !aligned {
            return Err(WalkEnd::NoUnwindInfo);
        }
        let target = self.memory.read(fp.wrapping_add(8)).map_err(end_of)?;
        let target = self.images.strip(target);
        let new_fp = self.memory.read(fp).map_err(end_of)?;
        if !follows_call(self.images, arch, target) {
            return Err(WalkEnd::NoUnwindInfo);
        }
        self.set_caller(target, fp.wrapping_add(16), Found::FramePointer)?;
        self.state.fp = new_fp;
        self.state.known = self.pc_sp_fp();
        Ok(())
    }

    /// x86_64: to where the code ahead will return, if that leads behind a call in known code, or to where a function
    /// begins: a context that begins is entered by a return.
    pub(super) fn leave_by_code(&mut self) -> Result<CodeOutcome, WalkEnd> {
        if self.arch != Arch::X86_64 {
            return Ok(CodeOutcome::Stays);
        }
        let before = (&self.state.all(), self.state.known | self.pc_sp_fp());
        let found = match to_return(self.images, before, &mut self.memory, &mut self.budget) {
            LookAhead::Returns(found) => found,
            LookAhead::StackSwitch => return Ok(CodeOutcome::StackSwitch),
            LookAhead::Unknown => return Ok(CodeOutcome::Stays),
        };
        let Some(target) = found.target else {
            return Ok(CodeOutcome::Stays);
        };
        let sp = found.slot.wrapping_add(8);
        let returns = follows_call(self.images, self.arch, target);
        let enters = !returns && self.state.at_pc && self.is_entry(target);
        if !(returns || enters) || self.check_advance(sp, false).is_err() {
            return Ok(CodeOutcome::Stays);
        }
        // Helpers of assembly are called with registers that calls do not preserve.
        let known = if self.state.at_pc {
            found.known
        } else {
            found.known & cfi_preserved(self.arch)
        };
        self.state.set_all(found.registers);
        self.set_caller(target, sp, Found::LeafReturnAddress)?;
        self.state.known = known;
        if enters {
            self.state.found = Found::Context;
            self.state.at_pc = true;
        }
        Ok(CodeOutcome::Left)
    }

    /// Returns true if a function begins at the return address, which no call has put there: a context that was made
    /// begins so, as glibc's does with `__start_context`.
    fn begins_without_caller(&mut self) -> bool {
        let pc = self.state.pc;
        !follows_call(self.images, self.arch, pc) && self.is_entry(pc)
    }

    /// Returns true if a function with call frame information begins at an address.
    fn is_entry(&mut self, address: u64) -> bool {
        let context = &mut self.unwinder.context;
        self.images.at(address).is_some_and(|image| {
            let cfi = image.cfi.as_ref();
            cfi.is_some_and(|cfi| cfi.is_entry(image.svma(address), context))
        })
    }

    /// x86_64: to where the call has come from that leads to a beginning before here; whether there is one.
    fn leave_by_call(&mut self) -> Result<bool, WalkEnd> {
        let (Some(image), Arch::X86_64) = (self.image(), self.arch) else {
            return Ok(false);
        };
        let place = FramePlace {
            images: self.images,
            image,
            pc: self.state.pc,
            behind_call: !self.state.at_pc,
            sp: self.state.sp,
        };
        let (memory, budget) = (&mut self.memory, &mut self.budget);
        let found = cfa_by_call(place, &mut self.unwinder.follower, memory, budget);
        let Some((cfa, target, fp)) = found else {
            return Ok(false);
        };
        self.check_advance(cfa, false)?;
        self.set_caller(target, cfa, Found::LeafReturnAddress)?;
        // The registers that the function has saved are not known. Its apparent frame pointer leads further, but not
        // for certain: the beginning may be another function's.
        self.state.known = 1 << self.arch.sp() | 1 << self.arch.pc();
        self.state.fp = fp.unwrap_or(self.state.fp);
        Ok(true)
    }
}

/// Registers, as bits, that are still known behind a guess that the callee had not saved anything.
fn cfi_preserved(arch: Arch) -> u64 {
    cfi::preserved(arch) | 1 << arch.sp() | 1 << arch.pc()
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use crate::capture::tests::{bytes_of, image, x86_64};
    use crate::capture::{Arch, ImageTable, Images, LoadedImage, Registers, StackCopy, Unwinder};
    use crate::report::model::{Found, WalkEnd};

    // A naked function as compilers emit it: its unwind information leaves out its pushes.
    std::arch::global_asm!(
        ".text",
        ".cfi_startproc",
        "wedjat_test_pushes: push rdi",
        "nop",
        "wedjat_test_pushed: pop rdi",
        "ret",
        ".cfi_endproc",
        ".cfi_startproc",
        "wedjat_test_calls: call wedjat_test_pushes",
        "wedjat_test_called: ret",
        ".cfi_endproc",
    );
    unsafe extern "C" {
        fn wedjat_test_pushed();
        fn wedjat_test_called();
    }

    #[test]
    fn where_information_leads_nowhere_the_code_is_followed_and_nothing_is_certain() {
        ImageTable::refresh();
        let images = ImageTable::enter();
        let (pc, caller) = (
            wedjat_test_pushed as *const () as u64,
            wedjat_test_called as *const () as u64,
        );
        let walk_from = |pc: u64, fp: u64, words: &[u64]| {
            let stack = bytes_of(words);
            let registers = Registers::x86_64(pc, 0x1000, fp);
            let mut unwinder = Unwinder::new();
            let mut walk = unwinder.walk(&registers, images.set(), StackCopy::new(0x1000, &stack));
            let frames: Vec<_> = walk.by_ref().map(|frame| (frame.pc, frame.found)).collect();
            (frames, walk.end())
        };
        let walk = |words: &[u64]| walk_from(pc, 0, words);
        let (frames, end) = walk(&[3, caller, 0]);
        assert_eq!(
            frames,
            [(pc, Found::Context), (caller, Found::LeafReturnAddress)]
        );
        assert_eq!(end, Some(WalkEnd::NoUnwindInfo));
        // Nowhere at all: what the information gives is kept, as a guess.
        let (frames, _) = walk(&[3, 5, 0]);
        assert_eq!(
            frames,
            [(pc, Found::Context), (3, Found::LeafReturnAddress)]
        );
        // A frame further out.
        let (frames, _) = walk_from(caller, 0, &[caller, 5, 0]);
        let found: Vec<_> = frames.iter().map(|frame| frame.1).collect();
        let certain = (Found::Context, Found::UnwindInfo);
        assert_eq!(found, [certain.0, certain.1, Found::LeafReturnAddress]);
        // In an image, but among its data.
        static DATA: [u64; 2] = [7, 8];
        let data = &raw const DATA as u64 + 8;
        let (frames, _) = walk(&[data, 5, 0]);
        assert_eq!(
            frames,
            [(pc, Found::Context), (data, Found::LeafReturnAddress)]
        );
    }

    #[test]
    fn a_frame_pointer_that_a_guess_has_not_followed_makes_no_certain_frame() {
        // A call to 0x1000; no table knows where that goes, nor where it returns.
        let caller = x86_64("push %rbp; mov %rsp,%rbp; call .+0xefc; nop");
        let walk = |callee: &[u8], fp: u64, words: &[u64]| {
            let calls = image(Arch::X86_64, 0x5000_0000, 0x100, caller.clone())
                .with_function_starts(&[0x80, 0x02, 0]);
            let called = image(Arch::X86_64, 0x5000_1000, 0, callee.to_vec());
            let images = Images::new(vec![calls, called]);
            let stack = bytes_of(words);
            let pc = 0x5000_1000 + callee.len() as u64 - 2;
            let registers = Registers::x86_64(pc, 0x1000, fp);
            let mut unwinder = Unwinder::new();
            let mut walk = unwinder.walk(&registers, &images, StackCopy::new(0x1000, &stack));
            let frames: Vec<_> = walk.by_ref().collect();
            let frames = frames.iter().skip(1).map(|frame| (frame.pc, frame.found));
            (frames.collect::<Vec<_>>(), walk.end())
        };
        let (first, outer) = (0x5000_0109, 0x5000_010a);
        let guess = (first, Found::LeafReturnAddress);
        // A pushed word is the caller's, if the function begins there.
        let pushes = x86_64("push %rbx; push %rbp; mov $2,%ebp; jmp .");
        let words = [0x1018, 7, first, 0, outer];
        let (frames, _) = walk(&pushes, 2, &words);
        assert_eq!(frames[..2], [guess, (outer, Found::FramePointer)]);
        // It may have changed what it has not pushed.
        let changes = x86_64("push %rbx; mov $2,%ebp; jmp .");
        let (frames, _) = walk(&changes, 0x1018, &[7, first, 0, 0, outer]);
        assert_eq!(frames[..2], [guess, (outer, Found::FramePointer)]);
        let (frames, end) = walk(&changes, 0x1018, &[7, first, 0, 0, 0]);
        assert_eq!(
            (&frames[..], end),
            (&[guess][..], Some(WalkEnd::NoUnwindInfo))
        );
    }

    #[test]
    fn a_return_address_of_0_is_no_root_where_the_entry_does_not_say_so() {
        ImageTable::refresh();
        let images = ImageTable::enter();
        let end = |set: &Images, pc: u64, fp: u64, words: &[u64]| {
            let stack = bytes_of(words);
            let registers = Registers::x86_64(pc, 0x1000, fp);
            let mut unwinder = Unwinder::new();
            let mut walk = unwinder.walk(&registers, set, StackCopy::new(0x1000, &stack));
            (walk.by_ref().count(), walk.end())
        };
        let unsure = (1, Some(WalkEnd::NoUnwindInfo));
        // A runtime with a stack of its own may have one entry for all of its code, as LuaJIT's interpreter has.
        let called = wedjat_test_called as *const () as u64;
        assert_eq!(end(images.set(), called, 0, &[0]), unsure);
        assert_eq!(end(images.set(), called, 0x1008, &[0, 0]), unsure);
        // Without information, a frame record of zeros need not be this function's.
        let bare = || LoadedImage::new("bare", 0x5000_0000, 0, 0x1000);
        let set = Images::new(vec![bare()]);
        assert_eq!(end(&set, 0x5000_0123, 0x1000, &[0, 0]), unsure);
        // Darwin's threads begin with a call that has nowhere to return to.
        let code = x86_64("push %rbp; mov %rsp,%rbp; nop");
        let begins = image(Arch::X86_64, 0x5000_0000, 0x100, code);
        let begins = Images::new(vec![begins.with_function_starts(&[0x80, 0x02, 0])]);
        assert_eq!(end(&begins, 0x5000_0100, 0, &[0]), (1, Some(WalkEnd::Root)));
        assert_eq!(end(&begins, 0x5000_0100, 8, &[0]), unsure);
    }
}
