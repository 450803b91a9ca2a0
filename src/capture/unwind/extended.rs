//! Extended frames, which Swift's async functions have: bit 60 is set in the frame pointer that they save, and the word
//! below it holds their async context.
//!
//! A function sets the bit in the frame pointer itself, saves that, and clears the bit after it has loaded it again. In
//! between the register points to the function's own frame, without the bit. So the bit is only taken off what a frame
//! has saved, and what the register holds before the function saves it or after it has loaded it. No other value has this
//! bit alone above an address further out in the stack.
//!
//! Source: `hasSwiftAsyncContext` in LLVM's X86FrameLowering.cpp and AArch64FrameLowering.cpp.

use super::{Unwinder, Walk};
use crate::capture::flow::{Code, ExtendedFrame, RuleConfidence};
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::rule::{Base, RuleSource, RuleWord};
use crate::capture::tasks::{self, AsyncFrame};

/// Most bytes between a stack pointer and the frame pointer of a caller.
const MAX_STACK: u64 = 64 << 20;

/// The frame that is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeftFrame {
    pub(super) sp: u64,
    pub(super) fp: u64,
    /// True if its program counter is that of an instruction about to run, not a return address.
    pub(super) at_pc: bool,
}

impl Walk<'_, dyn Memory + '_> {
    /// Clears the bit in the frame pointer with which a frame has been left.
    #[cold]
    #[inline(never)]
    pub(super) fn clear_extended_bit(&mut self, left: LeftFrame) {
        let extended = self.state.fp;
        let Some(fp) = tasks::plain_fp(extended).filter(|_| !self.state.at_pc) else {
            return;
        };
        if fp % 8 != 0 || fp.wrapping_sub(left.sp) > MAX_STACK {
            return;
        }
        let found = match self.saved_at(left) {
            _ if left.at_pc && left.fp == extended && self.here.word.sets_extended_bit() => {
                AsyncFrame::InRegister
            }
            // The code has loaded it, and perhaps cleared the bit.
            _ if left.at_pc && (left.fp == extended || left.fp == fp) => AsyncFrame::Unknown,
            Some(slot) => match self.context_below(slot) {
                Some(context) => {
                    let sp = if left.at_pc { slot } else { left.sp };
                    AsyncFrame::Saved { slot, context, sp }
                }
                None => return,
            },
            None => return,
        };
        self.state.fp = fp;
        self.task = Some(found);
    }

    /// The place at which the frame that was left had saved the frame pointer that the state has now.
    fn saved_at(&mut self, left: LeftFrame) -> Option<u64> {
        let (extended, cfa) = (self.state.fp, self.state.sp);
        let mut places = [left.fp, cfa.wrapping_sub(16)].into_iter();
        let memory = &mut self.memory;
        places.find(|place| *place < cfa && memory.read(*place) == Ok(extended))
    }

    /// The word below the saved frame pointer, if that is a context, or 0 for none.
    fn context_below(&mut self, slot: u64) -> Option<u64> {
        let context = self.memory.read(slot.wrapping_sub(8)).ok()?;
        let is_context = context == 0 || tasks::is_context(context & self.arch.address_mask());
        is_context.then_some(context)
    }

    /// The rule at an instruction where the frame pointer has the bit, or the record that it points to, by the function's
    /// own instructions: in prologues and epilogues of ELF images rows count from the frame pointer though that is the
    /// caller's again, or from the stack pointer as it was one push before.
    pub(super) fn rule_of_extended(&mut self, image: &LoadedImage, found: RuleWord) -> RuleWord {
        let is_extended = |fp| tasks::plain_fp(fp).is_some();
        let in_register = is_extended(self.state.fp);
        let by_sp = matches!(found.frame_rule(), Some(frame) if frame.base == Base::Sp);
        let is_near = self.state.at_pc
            && (in_register || by_sp && self.memory.read(self.state.fp).is_ok_and(is_extended));
        if !is_near {
            return found;
        }
        let (arch, svma) = (self.arch, image.svma(self.state.pc));
        let Unwinder {
            context, follower, ..
        } = &mut *self.unwinder;
        let by_entry = image.cfi.as_ref().and_then(|cfi| cfi.find(svma, context));
        let code = match by_entry {
            Some(entry) => {
                let (start, end) = (entry.code.start, entry.code.end);
                let length = usize::try_from(end.saturating_sub(start)).unwrap_or_default();
                let bytes = image.instructions(image.avma(start), length);
                bytes.map(|bytes| Code::of(arch, start, bytes))
            }
            None => image.function(svma, arch),
        };
        let body = found.frame_rule().map(|_| found.rule());
        let followed = code.and_then(|code| follower.rule(code, svma, false, body, true));
        match followed {
            Some((rule, RuleConfidence::Followed(ExtendedFrame::Set))) => {
                RuleWord::new(rule, RuleSource::Instructions).with_extended_bit()
            }
            Some((rule, RuleConfidence::Followed(ExtendedFrame::Saved))) => {
                RuleWord::new(rule, RuleSource::Instructions)
            }
            Some((rule, RuleConfidence::FromBody(_))) if in_register => {
                RuleWord::new(rule, RuleSource::Instructions)
            }
            _ => found,
        }
    }
}

#[cfg(test)]
mod tests;
