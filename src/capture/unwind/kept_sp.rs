//! Leaving a frame whose own stack pointer says nothing: by an earlier one, which assembly keeps in a register or
//! in a word of the stack (x86_64).

use super::{Walk, end_of};
use crate::capture::memory::Memory;
use crate::report::model::{Found, WalkEnd};

impl<M: Memory> Walk<'_, M> {
    /// Leaves the frame by the value in a register, or in a word of the stack at `at` words from sp and, with a
    /// register, as many more; the CFA is `above` words further, the caller's frame pointer in the slot, if it was
    /// saved.
    #[cold]
    pub(super) fn leave_by_kept_sp(
        &mut self,
        image: Option<u32>,
        (at, register): (Option<u16>, Option<u8>),
        above: u8,
        fp: Option<i16>,
    ) -> Result<(), WalkEnd> {
        let value = match register.map(usize::from) {
            // A callee may have changed the register.
            Some(register) if !self.knows(register) => return self.leave_by_guess(image),
            Some(register) => self.state.registers.get(register),
            None => 0,
        };
        let kept = match at {
            Some(words) => {
                let words = u64::from(words).wrapping_add(value);
                let slot = self.state.sp.wrapping_add(words.wrapping_mul(8));
                self.memory.read(slot).map_err(end_of)?
            }
            None => value,
        };
        let cfa = kept.wrapping_add(u64::from(above) * 8);
        let target = self.memory.read(cfa.wrapping_sub(8)).map_err(end_of)?;
        self.restore_fp(cfa, fp)?;
        self.check_advance(cfa, false)?;
        self.arrive(target, cfa, Found::UnwindInfo)?;
        self.state.known = self.three();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::capture::section::Section;
    use crate::capture::{Arch, Images, LoadedImage, Registers, StackCopy, Unwinder};
    use crate::report::model::Found;

    #[test]
    fn the_caller_of_code_that_has_aligned_its_stack_is_found_by_the_old_one() {
        const BASE: u64 = 0x5000_0000;
        // 0x100: mov %rsp,%rax; and $-64,%rsp; mov %rax,0x18(%rsp); xor %eax,%eax; call; nop
        let code = [
            0x48, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x89, 0x44, 0x24, 0x18, 0x31, 0xc0,
            0xe8, 0, 0, 0, 0, 0x90,
        ];
        let text = Section {
            svma: 0x100,
            bytes: code.to_vec().into(),
        };
        let image = LoadedImage::new("aligns", BASE, 0, 0x1000)
            .with_arch(Arch::X86_64)
            .with_text(text)
            .with_function_starts(&[0x80, 0x02, 0]);
        let images = Images::new(vec![image]);
        // The old stack pointer, and there the return address.
        let caller = BASE + 0x300;
        let stack: Vec<u8> = [0, 0, 0, 0x1030, 0, 0, caller, 0]
            .iter()
            .flat_map(|word: &u64| word.to_le_bytes())
            .collect();
        let mut unwinder = Unwinder::new();
        let mut second = |pc: u64, rax: u64, in_call: bool| {
            let mut registers = Registers::x86_64(BASE + pc, 0x1000, 8);
            registers.set(0, rax);
            let memory = StackCopy::new(0x1000, &stack);
            let mut walk = match in_call {
                true => unwinder.walk_from_call(&registers, &images, memory),
                false => unwinder.walk(&registers, &images, memory),
            };
            walk.nth(1).map(|frame| (frame.pc, frame.found))
        };
        let found = Some((caller, Found::UnwindInfo));
        assert_eq!(second(0x107, 0x1030, false), found, "in a register");
        assert_eq!(second(0x10e, 0, false), found, "in a slot");
        assert_eq!(second(0x113, 0, true), found, "while it calls");
        assert_eq!(second(0x107, 0x8000, false), None, "where nothing is");
    }
}
