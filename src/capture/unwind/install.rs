//! The return address of a function that installs another frame's registers.
//!
//! libgcc's `uw_install_context` writes the catching frame's return address over that of the
//! function which raised the exception. Its own is then found in the unwinder's context, which is
//! among its locals (`struct _Unwind_Context` in libgcc/unwind-dw2.c holds it from the start).
//!
//! The last write before the jump is where to: over the return address of what the catching
//! function had called. That one is nowhere else, so that all frames behind a function which has
//! installed already are marked as guesses.

use std::ops::Range;

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

/// The frame of such a function.
pub(super) struct Frame {
    pub(super) sp: u64,
    pub(super) cfa: u64,
    /// Where its instructions lie (avma).
    pub(super) function: Range<u64>,
}

/// The return address of a frame in whose slot `stored` stands; `None` where
/// nothing tells whether that is its own. Signal-safe.
pub(super) fn return_address<M: Memory>(
    images: &Images,
    arch: Arch,
    frame: &Frame,
    stored: u64,
    context: &mut Context,
    memory: &mut M,
    budget: &mut u32,
) -> Option<u64> {
    let (sp, cfa) = (frame.sp, frame.cfa);
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
    match fits(images, stored, cfa, context, memory, budget) {
        Some(true) => return Some(stored),
        Some(false) => {}
        None => return None,
    }
    // While the context is made, it holds an address of the function itself.
    locals().find_map(|slot| {
        let word = memory.read(slot).ok()?;
        let fits = !frame.function.contains(&word)
            && fits(images, word, cfa, context, memory, budget) == Some(true);
        fits.then_some(word)
    })
}

/// Whether a function that a call returns to at `address`, with this stack pointer, has a caller
/// where its information and its instructions say, and that one too; `None` where they do not say.
fn fits<M: Memory>(
    images: &Images,
    mut address: u64,
    mut sp: u64,
    context: &mut Context,
    memory: &mut M,
    budget: &mut u32,
) -> Option<bool> {
    for _ in 0..CALLERS {
        if !is_behind_call(images, Arch::X86_64, address) {
            return Some(false);
        }
        let image = images.get(images.find(address)?)?;
        let cfi = image.cfi.as_ref()?;
        let row = cfi.find(image.svma(address).wrapping_sub(1), context)?;
        if row.is_root(Arch::X86_64) {
            return Some(true);
        }
        let start = row.start;
        let cfa = match row.cfa_register() {
            Some((register, offset)) if register == Arch::X86_64.sp() => {
                sp.checked_add_signed(offset)?
            }
            _ if cfi.is_entry(start, context) => {
                let place = (image.avma(start), address, sp);
                match cfa_at(images, image, place, memory, budget) {
                    Some(cfa) => cfa,
                    None => return Some(false),
                }
            }
            _ => return None,
        };
        let caller = memory.read(cfa.wrapping_sub(8)).ok()?;
        (address, sp) = (caller, cfa);
    }
    Some(true)
}
