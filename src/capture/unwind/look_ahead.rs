//! The place of a function's return address by its instructions until it returns (x86_64).

use super::frame_layout::instruction;
use crate::capture::flow::Machine;
use crate::capture::images::Images;
use crate::capture::instructions::Successor;
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::{Arch, Registers};

/// Most instructions until its return: ciphers and codecs in assembly have loops that are unrolled over tens of KB.
const TO_RETURN: usize = 1 << 14;

/// The return of a function, as its code will perform it.
pub(super) struct Return {
    /// Address of its return address slot.
    pub(super) slot: u64,
    /// What is there by then, which the code itself may have pushed.
    pub(super) target: Option<u64>,
    /// The registers there, and the bits of those that are known.
    pub(super) registers: Registers,
    pub(super) known: u64,
}

/// What the code ahead does.
#[allow(clippy::large_enum_variant, reason = "signal-safe code has no box")]
pub(super) enum LookAhead {
    Returns(Return),
    /// It takes its stack pointer from a register or a place that is not known, or from another stack: the frame pointer
    /// is not its own.
    StackSwitch,
    Unknown,
}

/// Most bytes from a stack pointer to an earlier one that a function has kept.
const KEPT: u64 = 1 << 16;

/// Follows code from where these registers stand to its return, taking no branch and stepping over calls.
pub(super) fn to_return(
    images: &Images,
    (registers, known): (&Registers, u64),
    memory: &mut dyn Memory,
    budget: &mut u32,
) -> LookAhead {
    return_ahead(images, (registers, known), memory, budget).unwrap_or(LookAhead::Unknown)
}

fn return_ahead(
    images: &Images,
    (registers, known): (&Registers, u64),
    memory: &mut dyn Memory,
    budget: &mut u32,
) -> Option<LookAhead> {
    let mut at = registers.pc();
    let image = images.at(at)?;
    let mut machine = Machine::new(registers, known, memory);
    let sp = Arch::X86_64.sp();
    for _ in 0..TO_RETURN {
        let i = instruction(image, at, budget)?;
        let behind = at.checked_add(i.length)?;
        at = match i.next {
            Successor::FallThrough | Successor::Branch { .. } => {
                let before = machine.get(sp);
                let loaded_from = machine.loads_from(&i, sp as u8);
                // It is a guess: what it may have written elsewhere does not end it.
                let _ = machine.run(&i);
                if let Some(from) = loaded_from
                    && !is_kept(before, from, machine.get(sp))
                {
                    return Some(LookAhead::StackSwitch);
                }
                behind
            }
            Successor::Call(to) => {
                let writes = to.and_then(|to| written_by(image, to, budget));
                machine.pass_call(writes.unwrap_or(u32::MAX).into());
                behind
            }
            Successor::Jump(to) => to,
            // A jump to another function, which returns to this one's caller in its stead.
            Successor::Return | Successor::Indirect => {
                let (registers, known) = machine.result();
                return Some(match machine.get(sp) {
                    Some(slot) => LookAhead::Returns(Return {
                        slot,
                        target: machine.load(slot),
                        registers,
                        known,
                    }),
                    None => LookAhead::StackSwitch,
                });
            }
            Successor::Stop => return None,
        };
    }
    None
}

/// Returns true if a stack pointer that was loaded `from` memory is an earlier one of the same frame, which holds it.
fn is_kept(before: Option<u64>, from: Option<u64>, loaded: Option<u64>) -> bool {
    let (Some(before), Some(from), Some(loaded)) = (before, from, loaded) else {
        return false;
    };
    (before..loaded).contains(&from) && loaded.wrapping_sub(before) < KEPT
}

/// Most instructions of a helper.
const HELPER: usize = 256;

/// Bits of the registers that a helper may write, which calls nothing and returns at its end; `None` where another
/// function's code may run.
fn written_by(image: &LoadedImage, start: u64, budget: &mut u32) -> Option<u32> {
    let (mut at, mut last, mut written) = (start, start, 0);
    for _ in 0..HELPER {
        let i = instruction(image, at, budget)?;
        for register in (0..32u8).filter(|register| i.writes(*register)) {
            written |= 1u32.wrapping_shl(register.into());
        }
        match i.next {
            Successor::FallThrough => {}
            Successor::Branch { to, .. } if to >= start => last = last.max(to),
            Successor::Return if at >= last => return Some(written),
            Successor::Return => {}
            _ => return None,
        }
        at = at.checked_add(i.length)?;
    }
    None
}
