//! The target of code that is about to restore another frame's registers: `longjmp`, and the code that brings an
//! exception to its landing pad (LLVM libunwind's `jumpto`).
//!
//! Such code has written over its caller's frame pointer, over its return address, or over the stack that it is about
//! to leave, so the chain by which it was called no longer exists. The next frame is instead the one whose registers it
//! loads: its remaining instructions are run here on a copy of the registers, up to the jump. An unknown value stays
//! unknown, and ends the run if the jump, the stack pointer or an address depends on it; no branch is taken.

mod arm64;
mod x86_64;

pub(super) use x86_64::NUMBERS;

use super::Code;
use crate::capture::memory::Memory;
use crate::capture::registers::{Arch, COUNT, Registers};

/// Most instructions that are run: `jumpto` has some sixty.
pub(super) const STEPS: usize = 256;

/// Most words that the code may write and read again.
const WRITTEN: usize = 16;

/// The result of one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The next one is so many bytes behind.
    On(u64),
    /// The jump: where to, as far as that is known.
    To(Option<u64>),
}

/// The registers and what was written, as far as they are known.
struct Machine<'m, M> {
    registers: [Option<u64>; COUNT],
    written: [(u64, Option<u64>); WRITTEN],
    count: usize,
    memory: &'m mut M,
}

impl<M: Memory> Machine<'_, M> {
    fn get(&self, register: usize) -> Option<u64> {
        self.registers.get(register).copied().flatten()
    }

    fn set(&mut self, register: usize, value: Option<u64>) {
        if let Some(slot) = self.registers.get_mut(register) {
            *slot = value;
        }
    }

    /// Writes a word; `None` where the address is not known, or too many have been written.
    fn store(&mut self, address: Option<u64>, value: Option<u64>) -> Option<()> {
        *self.written.get_mut(self.count)? = (address?, value);
        self.count += 1;
        Some(())
    }

    /// A word that was written here, or else that of memory; unknown where its address is, or where
    /// only some of its bytes were written.
    fn load(&mut self, address: Option<u64>) -> Option<u64> {
        let address = address?;
        let written = self.written.get(..self.count)?;
        let near = |at: u64| at.wrapping_sub(address).wrapping_add(7) < 15;
        match written.iter().rev().find(|(at, _)| near(*at)) {
            Some((at, value)) if *at == address => *value,
            Some(_) => None,
            None => self.memory.read(address).ok(),
        }
    }
}

/// The registers with which code that stands at `pc` (svma) of a function will arrive at the frame
/// that it restores, and the bits of those that are known: pc and sp always. `None` where that
/// is not known. Signal-safe.
pub(crate) fn jump_target<M: Memory>(
    code: Code<'_>,
    pc: u64,
    (registers, known): (&Registers, u64),
    memory: &mut M,
) -> Option<(Registers, u64)> {
    let arch = code.arch;
    let mut machine = Machine {
        registers: [None; COUNT],
        written: [(0, None); WRITTEN],
        count: 0,
        memory,
    };
    for (number, slot) in machine.registers.iter_mut().enumerate() {
        *slot = Some(registers.get(number)).filter(|_| known >> number & 1 == 1);
    }
    let mut at = pc;
    for _ in 0..STEPS {
        let bytes = code.at(at)?;
        let step = match arch {
            Arch::Arm64 => arm64::step(bytes, &mut machine),
            Arch::X86_64 => x86_64::step(bytes, &mut machine),
        };
        match step? {
            Step::On(length) => at = at.checked_add(length)?,
            Step::To(target) => {
                machine.set(arch.pc(), target);
                machine.get(arch.pc())?;
                machine.get(arch.sp())?;
                return Some(result(arch, &machine.registers));
            }
        }
    }
    None
}

fn result(arch: Arch, values: &[Option<u64>; COUNT]) -> (Registers, u64) {
    let mut registers = Registers::new(arch);
    let mut known = 0;
    for (number, value) in values.iter().enumerate() {
        if let Some(value) = value {
            registers.set(number, *value);
            known |= 1 << number;
        }
    }
    (registers, known)
}

#[cfg(test)]
mod tests;
