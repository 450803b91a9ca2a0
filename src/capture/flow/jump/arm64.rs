//! Effects of arm64 instructions on registers, as far as code that restores them needs.
//!
//! Source: Arm Architecture Reference Manual for A-profile, C4.1 (encodings).

use super::{Machine, Step};
use crate::capture::memory::Memory;

const LR: usize = 30;
const SP: usize = 31;

/// Runs the instruction at the beginning of `code`. `None` if it is not one of those known here.
pub(super) fn step<M: Memory>(code: &[u8], machine: &mut Machine<'_, M>) -> Option<Step> {
    let word = u32::from_le_bytes(code.get(..4)?.try_into().ok()?);
    let (first, base) = ((word & 31) as usize, (word >> 5 & 31) as usize);
    match word {
        // br, ret and their authenticating kin, which name no register where it is lr
        _ if word >> 25 == 0x6b => {
            return match (word >> 21 & 0xf, base) {
                (0 | 2 | 8, SP) => Some(Step::To(machine.get(LR))),
                (0 | 2 | 8, register) => Some(Step::To(machine.get(register))),
                _ => None,
            };
        }
        // hints: nop, bti; and what signs or authenticates, since only the top bits change
        _ if word & 0xffff_f01f == 0xd503_201f || word >> 16 == 0xdac1 => {}
        _ if word >> 27 & 7 == 0b101 && word >> 25 & 1 == 0 => pair(word, machine)?,
        _ if word >> 27 & 7 == 0b111 && word >> 25 & 1 == 0 => single(word, machine)?,
        // add and sub (immediate), 64 bits, setting no flags
        _ if word & 0xbf80_0000 == 0x9100_0000 => {
            let value = u64::from(word >> 10 & 0xfff) << (12 * (word >> 22 & 1));
            let from = machine.get(base);
            let sum = match word >> 30 & 1 {
                0 => from.map(|from| from.wrapping_add(value)),
                _ => from.map(|from| from.wrapping_sub(value)),
            };
            machine.set(first, sum);
        }
        // orr and eor (shifted register), 64 bits, unshifted: mov, and how pointers are mangled
        _ if word & 0xffe0_fc00 == 0xaa00_0000 || word & 0xffe0_fc00 == 0xca00_0000 => {
            let values = read(machine, base).zip(read(machine, (word >> 16 & 31) as usize));
            let or = word >> 29 & 3 == 1;
            let value = values.map(|(a, b)| if or { a | b } else { a ^ b });
            write(machine, first, value);
        }
        // Other sums, moves and selections, mrs: no longer known. Number 31 is sp in some of them.
        _ if word >> 26 & 7 == 0b100 => {
            let sets_flags = word >> 29 & 1 == 1;
            if first == SP && !sets_flags {
                return None;
            }
            write(machine, first, None);
        }
        _ if word & 0xffe0_0000 == 0x8b20_0000 || word & 0xffe0_0000 == 0xcb20_0000 => return None,
        _ if word >> 25 & 7 == 0b101 || word & 0xfff0_0000 == 0xd530_0000 => {
            write(machine, first, None);
        }
        _ => return None,
    }
    Some(Step::On(4))
}

/// Number 31 is the zero register here.
fn read<M: Memory>(machine: &Machine<'_, M>, register: usize) -> Option<u64> {
    match register {
        SP => Some(0),
        other => machine.get(other),
    }
}

fn write<M: Memory>(machine: &mut Machine<'_, M>, register: usize, value: Option<u64>) {
    if register != SP {
        machine.set(register, value);
    }
}

/// One access to a word of memory, by a register whose number is given.
#[derive(Clone, Copy)]
struct Access {
    load: bool,
    vector: bool,
    /// True for an access of eight bytes.
    whole: bool,
}

impl Access {
    fn run<M: Memory>(
        self,
        machine: &mut Machine<'_, M>,
        register: u32,
        address: Option<u64>,
    ) -> Option<()> {
        match (self.load, self.vector) {
            (true, true) => {}
            (true, false) => {
                let value = machine.load(address).filter(|_| self.whole);
                write(machine, register as usize, value);
            }
            // The value of a vector register is not known, only that not more than 16 bytes are written.
            (false, true) => {
                machine.store(address, None)?;
                machine.store(address.map(|address| address.wrapping_add(8)), None)?;
            }
            (false, false) => {
                let value = read(machine, register as usize).filter(|_| self.whole);
                machine.store(address, value)?;
            }
        }
        Some(())
    }
}

/// ldp, stp and their like.
fn pair<M: Memory>(word: u32, machine: &mut Machine<'_, M>) -> Option<()> {
    let mode = word >> 23 & 7;
    let vector = word >> 26 & 1 == 1;
    let size = word >> 30;
    // 3 is reserved; of the general registers 1 is ldpsw.
    if mode > 3 || size == 3 || (size == 1 && !vector) {
        return None;
    }
    let scale = if vector { 2 + size } else { 2 + (size >> 1) };
    let offset = i64::from((word << 10) as i32 >> 25) << scale;
    let base = (word >> 5 & 31) as usize;
    let from = machine.get(base);
    let moved = from.map(|from| from.wrapping_add_signed(offset));
    let address = if mode == 1 { from } else { moved };
    let access = Access {
        load: word >> 22 & 1 == 1,
        vector,
        whole: size == 2,
    };
    access.run(machine, word & 31, address)?;
    let second = address.map(|address| address.wrapping_add(1 << scale));
    access.run(machine, word >> 10 & 31, second)?;
    if mode == 1 || mode == 3 {
        machine.set(base, moved);
    }
    Some(())
}

/// ldr, str and their like, of one register.
fn single<M: Memory>(word: u32, machine: &mut Machine<'_, M>) -> Option<()> {
    let vector = word >> 26 & 1 == 1;
    let base = (word >> 5 & 31) as usize;
    let from = machine.get(base);
    let kind = word >> 22 & 3;
    let access = Access {
        load: if vector { kind & 1 == 1 } else { kind != 0 },
        vector,
        whole: word >> 30 == 3 && kind < 2,
    };
    if word >> 24 & 1 == 1 {
        let offset = u64::from(word >> 10 & 0xfff) << (word >> 30);
        let address = from.filter(|_| !vector || word >> 23 & 1 == 0);
        let address = address.map(|from| from.wrapping_add(offset));
        return access.run(machine, word & 31, address);
    }
    if word >> 21 & 1 == 1 {
        // An offset in a register: the address is not known.
        return access.run(machine, word & 31, None);
    }
    let offset = i64::from((word << 11) as i32 >> 23);
    let moved = from.map(|from| from.wrapping_add_signed(offset));
    let mode = word >> 10 & 3;
    let address = if mode == 1 { from } else { moved };
    access.run(machine, word & 31, address)?;
    if mode == 1 || mode == 3 {
        machine.set(base, moved);
    }
    Some(())
}
