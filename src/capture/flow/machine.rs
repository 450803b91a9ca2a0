//! Code run on a copy of the registers, as far as its instructions are known: to where it jumps or returns.
//!
//! `longjmp`, and the code that brings an exception to its landing pad (LLVM libunwind's `jumpto`), restore another
//! frame's registers. They have written over their caller's frame pointer, over their return address, or over the stack
//! that they are about to leave, so the chain by which they were called no longer exists. The next frame is instead the
//! one whose registers they load, see [`jump_target`].

use super::Code;
use crate::capture::cfi;
use crate::capture::instructions::{Instruction, MemoryOperand, Op, Successor, Written, lift};
use crate::capture::memory::Memory;
use crate::capture::registers::{COUNT, Registers};

/// Most instructions that are run: `jumpto` has some sixty.
pub(super) const MAX_STEPS: usize = 256;

/// Most words that the code may write and read again.
const STORES: usize = 16;

/// The registers and what was written, as far as they are known.
pub(crate) struct Machine<'m> {
    /// Those that are not known are 0.
    registers: Registers,
    known: u64,
    written: [(u64, Option<u64>); STORES],
    count: usize,
    memory: &'m mut dyn Memory,
}

impl<'m> Machine<'m> {
    /// With these registers, those of the bits in `known`.
    pub(crate) fn new(
        registers: &Registers,
        known: u64,
        memory: &'m mut dyn Memory,
    ) -> Machine<'m> {
        let mut machine = Machine {
            registers: *registers,
            known,
            written: [(0, None); STORES],
            count: 0,
            memory,
        };
        machine.forget(!known);
        machine
    }

    pub(crate) fn get(&self, register: usize) -> Option<u64> {
        let is_known = register < COUNT && self.known >> register & 1 == 1;
        is_known.then(|| self.registers.get(register))
    }

    fn set(&mut self, register: u8, value: Option<u64>) {
        let bit = 1 << (register & 63);
        self.known = self.known & !bit | if value.is_some() { bit } else { 0 };
        self.registers
            .set(usize::from(register), value.unwrap_or(0));
    }

    /// The registers, and the bits of those that are known.
    pub(crate) fn result(&self) -> (Registers, u64) {
        (self.registers, self.known)
    }

    /// Runs one instruction; `None` if not all of its effects on memory are known.
    pub(crate) fn run(&mut self, i: &Instruction) -> Option<()> {
        let mut known = Some(());
        for op in i.ops {
            match op {
                Op::Nothing | Op::Compare(..) => {}
                Op::Set(to, value) => {
                    let value = self.value(value);
                    self.set(to, value);
                }
                Op::Load(to, from) => {
                    let from = self.address(from);
                    let words = [0, 8].map(|behind| self.load(from?.wrapping_add(behind)));
                    for (register, word) in to.into_iter().zip(words) {
                        register.inspect(|register| self.set(*register, word));
                    }
                }
                Op::Store { from, to, bytes } => {
                    let to = to.and_then(|to| self.address(to));
                    for word in 0..bytes.div_ceil(8) {
                        let register = from.get(usize::from(word)).copied().flatten();
                        let value = register.and_then(|register| self.get(register.into()));
                        let to = to.map(|to| to.wrapping_add(u64::from(word) * 8));
                        known = known.and(self.store(to, value));
                    }
                }
                Op::Other => known = None,
            }
        }
        self.forget(i.clobbers.into());
        known
    }

    /// Goes past a call whose callee keeps what a call preserves, and writes these registers alone.
    pub(crate) fn pass_call(&mut self, writes: u64) {
        self.forget(
            writes & !(cfi::preserved(self.registers.arch()) | 1 << self.registers.arch().sp()),
        );
    }

    /// The address from which an instruction loads a register, if it does; `Some(None)` if that is not known.
    pub(crate) fn loads_from(&self, i: &Instruction, register: u8) -> Option<Option<u64>> {
        let loads = i.ops.iter().find_map(|op| match op {
            Op::Load(to, from) if to.contains(&Some(register)) => Some(self.address(*from)),
            _ => None,
        });
        let is_unknown = i.clobbers >> register & 1 == 1;
        loads.or_else(|| is_unknown.then_some(None))
    }

    fn forget(&mut self, bits: u64) {
        for register in (0..COUNT as u8).filter(|register| bits >> register & 1 == 1) {
            self.set(register, None);
        }
    }

    fn value(&self, value: Written) -> Option<u64> {
        Some(match value {
            Written::Number(value) | Written::PcRelative(value) => value,
            Written::Sum(from, by) => self.get(from.into())?.wrapping_add_signed(by),
            Written::Bits { of, keep, set } => self.get(of.into())? & keep | set,
            Written::Of(operation, a, b) => {
                operation.apply(self.get(a.into())?, self.get(b.into())?)
            }
        })
    }

    fn address(&self, address: MemoryOperand) -> Option<u64> {
        let base = self.get(address.base.into())?;
        Some(base.wrapping_add_signed(address.offset.into()))
    }

    /// Writes a word; `None` where the address is not known, or too many have been written to remember all.
    fn store(&mut self, address: Option<u64>, value: Option<u64>) -> Option<()> {
        let slot = self.written.get_mut(self.count % STORES)?;
        *slot = (address?, value);
        self.count = self.count.wrapping_add(1);
        (self.count <= STORES).then_some(())
    }

    /// A word that was written here, or else that of memory; unknown where only some of its bytes were written.
    pub(crate) fn load(&mut self, address: u64) -> Option<u64> {
        let near = |at: u64| at.wrapping_sub(address).wrapping_add(7) < 15;
        for back in 1..=self.count.min(STORES) {
            let (at, value) = *self.written.get(self.count.wrapping_sub(back) % STORES)?;
            if near(at) {
                return value.filter(|_| at == address);
            }
        }
        self.memory.read(address).ok()
    }
}

/// The registers with which code that stands at `pc` (svma) of a function will arrive at the frame that it restores, and
/// the bits of those that are known: pc and sp always. `None` where that is not known: where the jump, the stack pointer
/// or an address of what is written hangs on an unknown value, or on a branch.
pub(crate) fn jump_target(
    code: Code<'_>,
    pc: u64,
    (registers, known): (&Registers, u64),
    memory: &mut dyn Memory,
) -> Option<(Registers, u64)> {
    let arch = code.arch;
    let mut machine = Machine::new(registers, known, memory);
    let mut at = pc;
    for _ in 0..MAX_STEPS {
        let i = lift(arch, code.at(at)?, at)?;
        machine.run(&i)?;
        match i.next {
            Successor::FallThrough => at = at.checked_add(i.length)?,
            Successor::Return | Successor::Indirect => {
                machine.get(arch.pc())?;
                machine.get(arch.sp())?;
                return Some(machine.result());
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests;
