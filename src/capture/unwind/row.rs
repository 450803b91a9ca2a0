//! Leaving a frame by all of its row, every preserved register among it.

use super::restore::{self, RestoringFrame, ReturnSlot};
use super::scan::{StopPlace, cfa_at};
use super::{Unwinder, Walk, WalkState, Way};
use crate::capture::cfi::{self, Fault, RowOutcome};
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;
use crate::report::model::{Found, WalkEnd};

/// Most restarts of a walk; after them every register is followed to the end.
const MOST_AGAIN: u32 = 8;

impl Walk<'_, dyn Memory + '_> {
    /// Leaves by all of the row; `Some` where the walk ends in good order.
    ///
    /// A function that restores the registers of another frame, as those of libgcc that raise
    /// exceptions do, first writes them over the ones that it has saved. What is restored from
    /// there may be a landing pad's and not the caller's: such registers are uncertain until a
    /// frame restores them from a slot of its own. Where a CFA hangs on one of them, it is counted
    /// from the stack pointer instead, by what the function's instructions have done to it.
    #[cold]
    pub(super) fn leave_by_row(&mut self, image: Option<u32>) -> Result<Option<WalkEnd>, Fault> {
        let arch = self.arch;
        let address = self.state.lookup();
        let image = image
            .and_then(|index| self.images.get(index))
            .ok_or(Fault::Bad)?;
        let cfi = image.cfi.as_ref().ok_or(Fault::Bad)?;
        let svma = image.svma(address);
        let Unwinder {
            context, follower, ..
        } = &mut *self.unwinder;
        // Only a function that is entered by a call can be read from its beginning.
        let begin = cfi.find(svma, context).ok_or(Fault::Bad)?.code.start;
        let whole = arch == Arch::X86_64 && cfi.is_entry(begin, context);
        let row = cfi.find(svma, context).ok_or(Fault::Bad)?;
        let column = self.arch.return_address();
        let in_register = row.row.register(gimli::Register(column as u16)).is_none();
        let lacks = self.state.known & (1 << column) == 0;
        if self.arch == Arch::Arm64 && self.state.exact && in_register && lacks {
            return Err(Fault::UnknownRegister);
        }
        let installs = row.restores_context();
        let (pc, sp) = (self.state.pc, self.state.sp);
        let function = image.avma(row.code.start)..image.avma(row.code.end);
        let start = function.start;
        let images = self.images;
        let called = self.state.called.map(|(cfa, _)| cfa);
        let place = StopPlace {
            images,
            image,
            pc,
            behind_call: !self.state.exact,
            sp,
        };
        let mut by_instructions = |memory: &mut dyn Memory, budget: &mut u32| match arch {
            Arch::X86_64 if whole => {
                cfa_at(place, function.clone(), called, follower, memory, budget)
            }
            _ => None,
        };
        let mut registers = self.state.all();
        let mut known = self.state.known;
        let mut uncertain = self.state.uncertain;
        let mut certain = true;
        let lacking = match self.way {
            Way::Full => !known,
            _ => 0,
        };
        match row.cfa_register() {
            Some((register, offset)) if (uncertain | lacking) & (1 << register) != 0 => {
                match by_instructions(&mut self.memory, &mut self.budget) {
                    Some((cfa, is_only)) => {
                        registers.set(register, cfa.wrapping_sub_signed(offset));
                        certain = is_only || lacking & (1 << register) == 0;
                        self.lacked |= !certain;
                        uncertain &= !(1 << register);
                        known |= 1 << register;
                    }
                    None => certain = false,
                }
            }
            None if uncertain != 0 => certain = false,
            _ => {}
        }
        let outcome = cfi.evaluate(&row, &mut registers, &mut known, &mut self.memory)?;
        let (mut return_address, mut found) = match outcome {
            RowOutcome::Root => return Ok(Some(WalkEnd::Root)),
            RowOutcome::Return(address) if certain => (address, Found::UnwindInfo),
            RowOutcome::Return(address) => (address, Found::FramePointer),
            RowOutcome::Jump(address) => (address, Found::LinkRegister),
        };
        uncertain = row.uncertain_behind(arch, uncertain);
        // About to change to another frame's stack, but not yet there: the caller is still its own.
        let of_context = row.is_of_context(arch);
        let changes = of_context
            || matches!(outcome, RowOutcome::Jump(_))
            || (installs && row.changes_stack(arch));
        let own = if changes && self.state.exact && registers.sp() != sp {
            by_instructions(&mut self.memory, &mut self.budget)
        } else {
            None
        };
        if own.is_none() && of_context {
            found = Found::LinkRegister;
        }
        if let Some((cfa, _)) = own {
            let slot = cfa.wrapping_sub(8);
            return_address = self.memory.read(slot).map_err(Fault::Missing)?;
            registers = self.state.all();
            registers.set(arch.sp(), cfa);
            known = self.state.known & cfi::preserved(arch) | 1 << arch.sp();
            uncertain = row.overwritten(arch);
        }
        let cfa = registers.sp();
        let has_locals = cfa.checked_sub(sp).is_some_and(|size| size > 64);
        if installs && has_locals {
            let frame = RestoringFrame {
                sp,
                cfa,
                start: whole.then_some(start),
                at: address,
            };
            let slot = match arch {
                Arch::X86_64 => {
                    let (memory, budget) = (&mut self.memory, &mut self.budget);
                    restore::slot((images, image), &frame, return_address, memory, budget)
                }
                Arch::Arm64 => ReturnSlot::Unknown,
            };
            match slot {
                ReturnSlot::Own => {}
                ReturnSlot::Installed { own, called } => {
                    self.state.called = called.map(|cfa| (cfa, return_address));
                    return_address = own;
                    found = Found::LinkRegister;
                }
                ReturnSlot::Unknown => found = Found::LinkRegister,
            }
        } else if let Some((called, address)) = self.state.called
            && called == cfa
        {
            // The slot already holds the address at which the exception will be caught.
            return_address = address;
            self.state.called = None;
        }
        if let Err(end) = self.check_advance(cfa, true) {
            return Ok(Some(end));
        }
        self.state.set_all(registers);
        self.state.known = known;
        self.state.uncertain = uncertain;
        if self.way == Way::Short && uncertain != 0 {
            self.way = Way::Uncertain;
        }
        let arrived = self.arrive(return_address, cfa, found);
        if installs && !has_locals {
            // The stack is the other frame's: this is where in it the jump will land.
            self.state.found = Found::Context;
            self.state.exact = true;
        }
        self.state.known |= 1 << arch.pc();
        Ok(arrived.err())
    }

    /// Walks again from the start with every register, past the frame that needs them.
    #[cold]
    pub(super) fn again_in_full(&mut self) -> Result<(), WalkEnd> {
        self.way = Way::Full;
        self.again = self.again.saturating_add(1);
        self.state = WalkState::new(&self.initial, self.exact);
        for left in (0..self.given).rev() {
            self.here = self.rule_here();
            self.behind = left;
            self.step()?;
        }
        Ok(())
    }

    /// Takes the short way again behind a frame that needed every register: further out they are seldom needed.
    pub(super) fn settle(&mut self) {
        let arrived = self.behind == 0 && (1..MOST_AGAIN).contains(&self.again);
        if self.way == Way::Full && !arrived {
            return;
        }
        let clear = self.state.uncertain == 0 && self.state.called.is_none();
        self.way = if clear { Way::Short } else { Way::Uncertain };
    }
}
