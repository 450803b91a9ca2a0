//! Effects of x86_64 instructions on registers, as far as code that restores them needs.
//!
//! Source: Intel Software Developer's Manual volume 2, appendix A (opcode maps).

use super::{Machine, Step};
use crate::capture::instructions::{Instruction, decode};
use crate::capture::memory::Memory;

/// DWARF's numbers of the registers, in the order of their encoding.
pub(in crate::capture::flow) const NUMBERS: [usize; 16] =
    [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
const RSP: usize = 7;
const RBP: usize = 6;

/// The operand that ModRM speaks of beside the register.
#[derive(Clone, Copy)]
enum Operand {
    Register(usize),
    /// Its address, as far as it is known.
    Memory(Option<u64>),
}

/// Runs the instruction at the beginning of `code`. `None` if it is not one of those known here.
pub(super) fn step<M: Memory>(code: &[u8], machine: &mut Machine<'_, M>) -> Option<Step> {
    let i = decode(code)?;
    let length = Some(Step::On(i.length as u64));
    let low = number((i.rex & 1) << 3 | i.opcode & 7);
    match (i.map, i.opcode) {
        (0, 0x50..=0x57) => push(machine, machine.get(low))?,
        (0, 0x58..=0x5f) => {
            let value = pop(machine);
            machine.set(low, value);
        }
        (0, 0xc3) => return Some(Step::To(pop(machine))),
        (0, 0xc9) => {
            machine.set(RSP, machine.get(RBP));
            let value = pop(machine);
            machine.set(RBP, value);
        }
        (0, 0x90) | (1, 0x1e | 0x1f) => {}
        (0, 0xb8..=0xbf) => machine.set(low, None),
        (0, 0xff) if i.modrm.is_some_and(|(_, register, _)| register & 7 == 4) => {
            let from = operand(&i, machine)?;
            return Some(Step::To(fetch(machine, from)));
        }
        (0, _) => general(&i, machine)?,
        // movups, movaps, movdqa and their like: from memory, and to it
        (1, 0x10 | 0x28 | 0x6f) => {}
        (1, 0x11 | 0x29 | 0x7f) => {
            if let Operand::Memory(address) = operand(&i, machine)? {
                machine.store(address, None)?;
                machine.store(address.map(|address| address.wrapping_add(8)), None)?;
            }
        }
        _ => return None,
    }
    length
}

/// Moves and sums.
fn general<M: Memory>(i: &Instruction, machine: &mut Machine<'_, M>) -> Option<()> {
    let (_, register, _) = i.modrm?;
    let (group, register) = (register & 7, number(register));
    let to = operand(i, machine)?;
    let narrow = |value: Option<u64>| match i.rex & 8 {
        0 => value.map(|value| value & 0xffff_ffff),
        _ => value,
    };
    if i.short && !matches!(i.opcode, 0x38..=0x3b | 0x84 | 0x85) {
        return None;
    }
    match i.opcode {
        // cmp, test
        0x38..=0x3b | 0x84 | 0x85 => {}
        0x89 => {
            let value = narrow(machine.get(register));
            put(
                machine,
                to,
                value.filter(|_| i.is_wide() || is_register(to)),
            )?;
        }
        0x8b => {
            let value = narrow(fetch(machine, to));
            machine.set(register, value);
        }
        0x8d => {
            let Operand::Memory(address) = to else {
                return None;
            };
            machine.set(register, narrow(address));
        }
        // add, sub, xor of registers, and with what is in memory
        0x01 | 0x29 | 0x31 => {
            let values = fetch(machine, to).zip(machine.get(register));
            let same = matches!(to, Operand::Register(to) if to == register);
            let value = combine(i.opcode, values, same);
            put(
                machine,
                to,
                narrow(value).filter(|_| i.is_wide() || is_register(to)),
            )?;
        }
        0x03 | 0x2b | 0x33 => {
            let values = machine.get(register).zip(fetch(machine, to));
            let same = matches!(to, Operand::Register(to) if to == register);
            let value = combine(i.opcode - 2, values, same);
            machine.set(register, narrow(value));
        }
        0x81 | 0x83 if group == 7 => {}
        0x81 | 0x83 => {
            let by = Some(i.immediate as u64);
            let value = match group {
                0 => combine(0x01, fetch(machine, to).zip(by), false),
                5 => combine(0x29, fetch(machine, to).zip(by), false),
                6 => combine(0x31, fetch(machine, to).zip(by), false),
                4 => fetch(machine, to).zip(by).map(|(a, b)| a & b),
                _ => None,
            };
            put(
                machine,
                to,
                narrow(value).filter(|_| i.is_wide() || is_register(to)),
            )?;
        }
        0xc7 => put(
            machine,
            to,
            Some(i.immediate as u64).filter(|_| i.is_wide()),
        )?,
        0xff => match group {
            0 | 1 => put(machine, to, None)?,
            6 => {
                let value = fetch(machine, to);
                push(machine, value)?;
            }
            _ => return None,
        },
        _ => return None,
    }
    Some(())
}

fn combine(opcode: u8, values: Option<(u64, u64)>, same: bool) -> Option<u64> {
    match (opcode, values) {
        (0x29 | 0x31, _) if same => Some(0),
        (0x01, Some((a, b))) => Some(a.wrapping_add(b)),
        (0x29, Some((a, b))) => Some(a.wrapping_sub(b)),
        (0x31, Some((a, b))) => Some(a ^ b),
        _ => None,
    }
}

fn number(encoded: u8) -> usize {
    NUMBERS.get(usize::from(encoded & 15)).copied().unwrap_or(0)
}

fn is_register(operand: Operand) -> bool {
    matches!(operand, Operand::Register(_))
}

fn operand<M: Memory>(i: &Instruction, machine: &Machine<'_, M>) -> Option<Operand> {
    let (mode, _, rm) = i.modrm?;
    if mode == 3 {
        return Some(Operand::Register(number(rm)));
    }
    // An address by an index, by rip, or in a segment is not known.
    let base = i.base.filter(|_| !i.odd).map(number);
    let from = base.and_then(|base| machine.get(base));
    Some(Operand::Memory(
        from.map(|from| from.wrapping_add_signed(i.displacement.into())),
    ))
}

fn fetch<M: Memory>(machine: &mut Machine<'_, M>, from: Operand) -> Option<u64> {
    match from {
        Operand::Register(register) => machine.get(register),
        Operand::Memory(address) => machine.load(address),
    }
}

fn put<M: Memory>(machine: &mut Machine<'_, M>, to: Operand, value: Option<u64>) -> Option<()> {
    match to {
        Operand::Register(register) => {
            machine.set(register, value);
            Some(())
        }
        Operand::Memory(address) => machine.store(address, value),
    }
}

fn push<M: Memory>(machine: &mut Machine<'_, M>, value: Option<u64>) -> Option<()> {
    let sp = machine.get(RSP)?.wrapping_sub(8);
    machine.set(RSP, Some(sp));
    machine.store(Some(sp), value)
}

fn pop<M: Memory>(machine: &mut Machine<'_, M>) -> Option<u64> {
    let sp = machine.get(RSP);
    machine.set(RSP, sp.map(|sp| sp.wrapping_add(8)));
    machine.load(sp)
}
