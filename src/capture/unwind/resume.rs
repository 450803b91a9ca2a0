//! Unwinds to a saved register context: out of a signal handler, or through a jump that restores another frame's
//! registers. Its pc is not a return address.

use super::{Walk, end_of};
use crate::capture::flow;
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::{Arch, Registers};
use crate::report::model::{Found, WalkEnd};

impl Walk<'_, dyn Memory + '_> {
    /// Leaves a signal handler to the code that the signal interrupted. Darwin's kernel saved its registers if the
    /// image is Mach-O, else Linux's did.
    #[cold]
    pub(super) fn leave_handler(&mut self) -> Result<(), WalkEnd> {
        if self.image().is_some_and(LoadedImage::is_mach_o) {
            self.leave_by_mach_context()
        } else {
            self.leave_by_signal_frame()
        }
    }

    /// Leaves a handler by the registers that Linux saved on its stack.
    ///
    /// Source: `struct rt_sigframe` in arch/x86/include/asm/sigframe.h (the stack pointer is at
    /// its `ucontext` once the handler has returned) and arch/arm64/kernel/signal.c (the stack
    /// pointer is at its `siginfo`, 128 bytes before); asm/sigcontext.h for what is inside.
    #[cold]
    pub(super) fn leave_by_signal_frame(&mut self) -> Result<(), WalkEnd> {
        /// DWARF's numbers of the registers, in the kernel's order.
        const NUMBERS: [usize; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
        let at = self.arch.select(40, 312) as u64;
        self.resume_saved(self.state.sp.wrapping_add(at), NUMBERS)
    }

    /// Leaves a handler by the registers that Darwin's kernel saved on its stack.
    ///
    /// Above the trampoline's own frame are a `siginfo_t` and a `ucontext_t`, at offsets that differ between
    /// processors and releases. The `ucontext_t` is recognized by its last two words: the size and the address of the
    /// `mcontext_t`, which follows it.
    ///
    /// Source: sys/_types/_ucontext64.h, mach/arm/_structs.h and mach/i386/_structs.h (an exception
    /// state of 16 bytes, then the thread's state).
    #[cold]
    fn leave_by_mach_context(&mut self) -> Result<(), WalkEnd> {
        /// Most words above the stack pointer that are searched for the `ucontext_t`.
        const WORDS: u64 = 128;
        /// Most bytes from the `ucontext_t` to the `mcontext_t`.
        const DISTANCE: u64 = 256;
        /// Sizes of an `mcontext_t`.
        const SIZES: std::ops::RangeInclusive<u64> = 512..=8192;
        /// DWARF's numbers of the registers, in the order of `x86_thread_state64_t`.
        const NUMBERS: [usize; 17] = [0, 3, 2, 1, 5, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        let sp = self.state.sp;
        let mut word = |at: u64| self.memory.read(at).map_err(end_of);
        for at in (0..WORDS).map(|index| sp.wrapping_add(index.wrapping_mul(8))) {
            // uc_link, uc_mcsize, uc_mcontext
            let mcontext = word(at.wrapping_add(48))?;
            if (56..DISTANCE).contains(&mcontext.wrapping_sub(at))
                && SIZES.contains(&word(at.wrapping_add(40))?)
                && word(at.wrapping_add(32))? == 0
            {
                return self.resume_saved(mcontext.wrapping_add(16), NUMBERS);
            }
        }
        Err(WalkEnd::NoUnwindInfo)
    }

    /// Continues the walk with the registers that were saved at an address: of x86_64 in the order of `numbers`, of arm64
    /// in that of DWARF.
    fn resume_saved(&mut self, at: u64, numbers: [usize; 17]) -> Result<(), WalkEnd> {
        let mut registers = Registers::new(self.arch);
        let count = self.arch.select(numbers.len(), 33);
        for (index, offset) in (0..count).zip((0u64..).step_by(8)) {
            let value = self.memory.read(at.wrapping_add(offset)).map_err(end_of)?;
            let number = match self.arch {
                Arch::X86_64 => numbers.get(index).copied().unwrap_or(index),
                Arch::Arm64 => index,
            };
            registers.set(number, value);
        }
        registers.set(self.arch.pc(), registers.pc() & self.pointer_mask);
        self.resume(registers)
    }

    /// Continues the walk at an instruction that was about to run; all registers are known.
    fn resume(&mut self, registers: Registers) -> Result<(), WalkEnd> {
        if registers.sp() <= self.state.sp {
            self.count_switch()?;
        }
        self.set_frame(registers, u64::MAX);
        Ok(())
    }

    /// Makes `registers` those of the next frame. `known` is a mask of the registers whose values are known.
    fn set_frame(&mut self, registers: Registers, known: u64) {
        self.state.set_all(registers);
        self.state.known = known;
        self.state.uncertain = 0;
        self.state.found = Found::Context;
        self.state.at_pc = true;
    }

    /// Leaves the frame to the one whose registers the code at pc restores. The walk continues at the target of the
    /// jump, and ends if the target is not known.
    #[cold]
    pub(super) fn leave_by_jump_target(&mut self) -> Result<(), WalkEnd> {
        let image = self.image().ok_or(WalkEnd::NoUnwindInfo)?;
        let svma = image.svma(self.state.pc);
        let before = self.state.all();
        let jump_target = image.function(svma, self.arch).and_then(|code| {
            let known = (&before, self.state.known);
            flow::jump_target(code, svma, known, &mut self.memory)
        });
        let (registers, known) = jump_target.ok_or(WalkEnd::NoUnwindInfo)?;
        let (pc, sp) = (registers.pc(), registers.sp());
        let pc = self.images.strip(pc);
        if !self.images.at(pc).is_some_and(|image| image.is_code(pc)) {
            return Err(WalkEnd::NoUnwindInfo);
        }
        if sp < self.state.sp {
            self.count_switch()?;
        }
        self.set_frame(registers, known);
        self.state.pc = pc;
        Ok(())
    }

    /// Returns true if pc is at the instructions by which a signal handler returns to the kernel: `mov $15, %rax;
    /// syscall` or `mov x8, #139; svc #0`. Finds trampolines that have no unwind information.
    pub(super) fn is_signal_trampoline(&self) -> bool {
        let pc = self.state.pc;
        let code = self.image().and_then(|image| image.instructions(pc, 9));
        match (self.arch, code) {
            (Arch::X86_64, Some(code)) => code == b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05",
            (Arch::Arm64, Some(code)) => code.starts_with(b"\x68\x11\x80\xd2\x01\x00\x00\xd4"),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::capture::tests::{bytes_of, image};
    use crate::capture::{Images, StackCopy, Unwinder};

    use super::*;

    const BASE: u64 = 0x5000_0000;
    const STACK: u64 = 0x7000;

    /// Walks over `stack` from the trampoline at 0x100. Returns the pc of each frame and how it was found, and the
    /// end.
    fn walk(arch: Arch, stack: &[u64]) -> (Vec<(u64, Found)>, Option<WalkEnd>) {
        let image = image(arch, BASE, 0, vec![0; 0x1000])
            // Functions at 0x100 and 0x140.
            .with_function_starts(&[0x80, 0x02, 0x40, 0])
            .with_signal_trampoline(0x100);
        let images = Images::new(vec![image]);
        let mut registers = Registers::new(arch);
        registers.set_frame(BASE + 0x110, STACK, 0);
        let stack = bytes_of(stack);
        let mut unwinder = Unwinder::new();
        let memory = StackCopy::new(STACK, &stack);
        let mut walk = unwinder.walk_from_call(&registers, &images, memory);
        let frames = walk.by_ref().map(|frame| (frame.pc, frame.found)).collect();
        (frames, walk.end())
    }

    /// A frame of 32 bytes, a `siginfo_t` of 104, and a context as in sys/_types/_ucontext64.h. The registers in it
    /// are 1, 2, 3 and so on, except pc and sp.
    fn stack(pc: usize, sp: usize, count: usize) -> Vec<u64> {
        let mut words = vec![0x1111; 4 + 13];
        let context = words.len() as u64;
        words.extend([0, 0, 0, 0, 0, 816, STACK + 8 * (context + 7)]);
        words.extend([0, 0]);
        let state = words.len();
        words.extend(1..=count as u64);
        words[state + pc] = BASE + 0x200;
        words[state + sp] = STACK + 0x400;
        words
    }

    #[test]
    fn the_caller_of_darwins_trampoline_is_what_the_signal_interrupted() {
        for (arch, stack) in [
            (Arch::Arm64, stack(32, 31, 34)),
            (Arch::X86_64, stack(16, 7, 21)),
        ] {
            let (frames, _) = walk(arch, &stack);
            let handled = (BASE + 0x110, Found::UnwindInfo);
            let interrupted = (BASE + 0x200, Found::Context);
            assert_eq!(
                frames.get(..2),
                Some(&[handled, interrupted][..]),
                "{arch:?}"
            );
        }
    }

    #[test]
    fn without_a_context_the_walk_ends_at_the_trampoline() {
        for arch in [Arch::Arm64, Arch::X86_64] {
            let (frames, end) = walk(arch, &[0x1111; 300]);
            assert_eq!((frames.len(), end), (1, Some(WalkEnd::NoUnwindInfo)));
            let (frames, end) = walk(arch, &[0; 4]);
            assert_eq!((frames.len(), end), (1, Some(WalkEnd::Truncated)));
        }
    }
}
