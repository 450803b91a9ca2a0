//! Leaving a signal handler: to what the signal interrupted.

use super::{Walk, end_of};
use crate::capture::memory::Memory;
use crate::capture::registers::{Arch, Registers};
use crate::report::model::{Found, WalkEnd};

impl<M: Memory> Walk<'_, M> {
    /// From the registers that the kernel has put on the stack of a handler.
    ///
    /// Source: `struct rt_sigframe` in arch/x86/include/asm/sigframe.h (the stack pointer is at
    /// its `ucontext` once the handler has returned) and arch/arm64/kernel/signal.c (the stack
    /// pointer is at its `siginfo`, 128 bytes before); asm/sigcontext.h for what is inside.
    #[cold]
    pub(super) fn leave_by_signal_frame(&mut self) -> Result<(), WalkEnd> {
        const X86_64: [usize; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
        let arch = self.arch;
        let sp = self.state.sp;
        let mut registers = Registers::new(arch);
        let mut read = |offset: u64| self.memory.read(sp.wrapping_add(offset)).map_err(end_of);
        match arch {
            Arch::X86_64 => {
                for (number, at) in X86_64.into_iter().zip(0u64..) {
                    registers.set(number, read(40 + 8 * at)?);
                }
            }
            Arch::Arm64 => {
                for number in 0..33usize {
                    registers.set(number, read(312 + 8 * number as u64)?);
                }
            }
        }
        if registers.sp() <= sp {
            self.count_switch()?;
        }
        self.state.set_all(registers);
        self.state.known = u64::MAX;
        self.state.doubt = 0;
        self.state.found = Found::Context;
        self.state.exact = true;
        Ok(())
    }

    /// Whether the instructions at pc are those by which a handler returns to the kernel, where
    /// no unwind information says so: `mov $15, %rax; syscall` and `mov x8, #139; svc #0`.
    pub(super) fn is_signal_trampoline(&self, image: Option<u32>) -> bool {
        let pc = self.state.pc;
        let code = image
            .and_then(|index| self.images.get(index))
            .and_then(|image| image.instructions(pc, 9));
        match (self.arch, code) {
            (Arch::X86_64, Some(code)) => code == b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05",
            (Arch::Arm64, Some(code)) => code.starts_with(b"\x68\x11\x80\xd2\x01\x00\x00\xd4"),
            _ => false,
        }
    }
}
