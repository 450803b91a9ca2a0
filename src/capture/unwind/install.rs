//! The return address of a function that installs another frame's registers.
//!
//! libgcc's `uw_install_context` writes the catching frame's return address over that of the
//! function which raised the exception. Its own is then found in the unwinder's context, which is
//! among its locals (`struct _Unwind_Context` in libgcc/unwind-dw2.c holds it from the start).
//!
//! The last write before the jump is where to: over the return address of what the catching
//! function had called. That one is nowhere else, so that all frames behind a function which has
//! installed already are marked as guesses.

use super::calls::is_behind_call;
use super::scan::cfa_at;
use crate::capture::cfi::Context;
use crate::capture::images::Images;
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;

/// How many bytes of locals are searched.
const LOCALS: u64 = 4096;

/// How many callers of an address must fit the stack for it to be believed.
const CALLERS: usize = 2;

/// The return address of a frame from `sp` to `cfa` in whose slot `stored` stands; `None` where
/// nothing tells whether that is its own. Signal-safe.
pub(super) fn return_address<M: Memory>(
    images: &Images,
    arch: Arch,
    (sp, cfa): (u64, u64),
    stored: u64,
    context: &mut Context,
    memory: &mut M,
    budget: &mut u32,
) -> Option<u64> {
    let locals = || {
        (sp..cfa.saturating_sub(16))
            .step_by(8)
            .take((LOCALS / 8) as usize)
    };
    if locals().any(|slot| memory.read(slot) == Ok(stored)) {
        return Some(stored);
    }
    if arch != Arch::X86_64 {
        return None;
    }
    if fits(images, stored, cfa, context, memory, budget) {
        return Some(stored);
    }
    locals().find_map(|slot| {
        let word = memory.read(slot).ok()?;
        fits(images, word, cfa, context, memory, budget).then_some(word)
    })
}

/// Whether a function that a call returns to at `address`, with this stack pointer, has a caller
/// where its instructions say, and that one too.
fn fits<M: Memory>(
    images: &Images,
    mut address: u64,
    mut sp: u64,
    context: &mut Context,
    memory: &mut M,
    budget: &mut u32,
) -> bool {
    for _ in 0..CALLERS {
        if !is_behind_call(images, Arch::X86_64, address) {
            return false;
        }
        let Some(image) = images.find(address).and_then(|index| images.get(index)) else {
            return false;
        };
        let svma = image.svma(address).wrapping_sub(1);
        let Some(row) = image.cfi.as_ref().and_then(|cfi| cfi.find(svma, context)) else {
            return false;
        };
        if row.is_root(Arch::X86_64) {
            return true;
        }
        let start = image.avma(row.start);
        let Some(cfa) = cfa_at(images, image, (start, address, sp), memory, budget) else {
            return false;
        };
        let Ok(caller) = memory.read(cfa.wrapping_sub(8)) else {
            return false;
        };
        (address, sp) = (caller, cfa);
    }
    true
}
