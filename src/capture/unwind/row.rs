//! Leaving a frame by all of its row, every preserved register among it.

use std::ops::Range;

use super::frame_layout::{FramePlace, cfa_at};
use super::restore::{self, RestoringFrame, ReturnSlot};
use super::{RuleKind, Unwinder, Walk, WalkState};
use crate::capture::cfi::{self, Cfi, FoundRow, RowError, RowOutcome};
use crate::capture::flow::Follower;
use crate::capture::loaded_image::LoadedImage;
use crate::capture::memory::Memory;
use crate::capture::registers::{Arch, Registers};
use crate::report::model::{Found, WalkEnd};

/// A frame and its row.
struct RowFrame<'w> {
    cfi: &'w Cfi,
    row: FoundRow<'w>,
    /// The code of its function (avma).
    function: Range<u64>,
    /// True if that is a whole function of x86_64, so that its instructions can be followed from its start.
    is_whole: bool,
    place: FramePlace<'w>,
    state: &'w WalkState,
    /// Bits of the registers that were not known from the start, for a walk that follows all.
    lacking: u64,
    /// See [`Walk::lacked`].
    lacked: &'w mut bool,
    follower: &'w mut Follower,
    memory: &'w mut dyn Memory,
    budget: &'w mut u32,
}

/// The caller of such a frame.
struct RowCaller {
    registers: Registers,
    /// As in [`WalkState`].
    known: u64,
    uncertain: u64,
    return_address: u64,
    found: Found,
    /// True if the function that was left restores the registers of another frame.
    installs: bool,
    /// First instruction of that function, if it is a whole one (avma).
    start: Option<u64>,
}

impl RowFrame<'_> {
    /// Evaluates the row; `None` for a frame without a caller.
    fn caller(mut self) -> Result<Option<RowCaller>, RowError> {
        let arch = self.state.registers.arch();
        let mut caller = RowCaller {
            registers: self.state.all(),
            known: self.state.known,
            uncertain: self.state.uncertain,
            return_address: 0,
            found: Found::UnwindInfo,
            installs: self.row.restores_context(),
            start: self.is_whole.then_some(self.function.start),
        };
        let is_certain = self.complete_cfa_register(&mut caller);
        let (registers, known) = (&mut caller.registers, &mut caller.known);
        let outcome = self
            .cfi
            .evaluate(&self.row, registers, known, self.memory)?;
        (caller.return_address, caller.found) = match outcome {
            RowOutcome::Root => return Ok(None),
            RowOutcome::Return(address) if is_certain => (address, Found::UnwindInfo),
            RowOutcome::Return(address) => (address, Found::FramePointer),
            RowOutcome::Jump(address) => (address, Found::LeafReturnAddress),
        };
        caller.uncertain = self.row.uncertain_behind(arch, caller.uncertain);
        let of_context = self.row.is_of_context(arch);
        let changes_stack = of_context
            || matches!(outcome, RowOutcome::Jump(_))
            || (caller.installs && self.row.changes_stack(arch));
        if changes_stack
            && self.state.at_pc
            && caller.registers.sp() != self.state.sp
            && let Some((cfa, _)) = self.cfa_by_instructions()
        {
            self.stay_on_stack(cfa, &mut caller)?;
        } else if of_context {
            caller.found = Found::LeafReturnAddress;
        }
        Ok(Some(caller))
    }

    /// Sets the register from which the row counts the CFA by the function's instructions, if it is uncertain or not
    /// known. Returns true if the CFA is certain then.
    fn complete_cfa_register(&mut self, caller: &mut RowCaller) -> bool {
        let Some((register, offset)) = self.row.cfa_register() else {
            return caller.uncertain == 0;
        };
        let bit = 1 << register;
        if (caller.uncertain | self.lacking) & bit == 0 {
            return true;
        }
        let Some((cfa, is_only)) = self.cfa_by_instructions() else {
            return false;
        };
        caller
            .registers
            .set(register, cfa.wrapping_sub_signed(offset));
        caller.uncertain &= !bit;
        caller.known |= bit;
        let is_certain = is_only || self.lacking & bit == 0;
        *self.lacked |= !is_certain;
        is_certain
    }

    /// Sets the caller of a frame that is about to change to another frame's stack, but not yet there: the caller is
    /// still its own, whose CFA this is.
    fn stay_on_stack(&mut self, cfa: u64, caller: &mut RowCaller) -> Result<(), RowError> {
        let arch = self.state.registers.arch();
        let slot = cfa.wrapping_sub(8);
        caller.return_address = self.memory.read(slot).map_err(RowError::Missing)?;
        caller.registers = self.state.all();
        caller.registers.set(arch.sp(), cfa);
        caller.known = self.state.known & cfi::preserved(arch) | 1 << arch.sp();
        caller.uncertain = self.row.overwritten(arch);
        Ok(())
    }

    /// See [`cfa_at`].
    fn cfa_by_instructions(&mut self) -> Option<(u64, bool)> {
        if !self.is_whole {
            return None;
        }
        let called = self.state.called.map(|(cfa, _)| cfa);
        let function = self.function.clone();
        let (memory, budget) = (&mut *self.memory, &mut *self.budget);
        cfa_at(self.place, function, called, self.follower, memory, budget)
    }
}

/// Most restarts of a walk; after them every register is followed to the end.
const MAX_RESTARTS: u32 = 8;

impl Walk<'_, dyn Memory + '_> {
    /// Leaves by all of the row; `Some` where the walk ends in good order.
    ///
    /// A function that restores the registers of another frame, as those of libgcc that raise
    /// exceptions do, first writes them over the ones that it has saved. What is restored from
    /// there may be a landing pad's and not the caller's: such registers are uncertain until a
    /// frame restores them from a slot of its own. Where a CFA hangs on one of them, it is counted
    /// from the stack pointer instead, by what the function's instructions have done to it.
    #[cold]
    pub(super) fn leave_by_row(&mut self) -> Result<Option<WalkEnd>, RowError> {
        let image = self.image().ok_or(RowError::Bad)?;
        let Some(mut caller) = self.row_frame(image)?.caller()? else {
            return Ok(Some(WalkEnd::Root));
        };
        let cfa = caller.registers.sp();
        let size = cfa.checked_sub(self.state.sp);
        let has_locals = size.is_some_and(|size| size > 64);
        if caller.installs && has_locals {
            self.find_own_return_address(image, &mut caller);
        } else if let Some((called, address)) = self.state.called
            && called == cfa
        {
            // The slot already holds the address at which the exception will be caught.
            caller.return_address = address;
            self.state.called = None;
        }
        if let Err(end) = self.check_advance(cfa, true) {
            return Ok(Some(end));
        }
        self.state.set_all(caller.registers);
        self.state.known = caller.known;
        self.state.uncertain = caller.uncertain;
        if self.rule_kind == RuleKind::Short && caller.uncertain != 0 {
            self.rule_kind = RuleKind::Uncertain;
        }
        let arrived = self.set_caller(caller.return_address, cfa, caller.found);
        if caller.installs && !has_locals {
            // The stack is the other frame's: this is where in it the jump will land.
            self.state.found = Found::Context;
            self.state.at_pc = true;
        }
        self.state.known |= 1 << self.arch.pc();
        Ok(arrived.err())
    }

    /// Finds the row of the frame that the walk stands at.
    fn row_frame<'w>(&'w mut self, image: &'w LoadedImage) -> Result<RowFrame<'w>, RowError> {
        let arch = self.arch;
        let cfi = image.cfi.as_ref().ok_or(RowError::Bad)?;
        let svma = image.svma(self.state.lookup());
        let Unwinder {
            context, follower, ..
        } = &mut *self.unwinder;
        // Only a function that is entered by a call can be read from its beginning.
        let begin = cfi.find(svma, context).ok_or(RowError::Bad)?.code.start;
        let is_whole = arch == Arch::X86_64 && cfi.is_entry(begin, context);
        let row = cfi.find(svma, context).ok_or(RowError::Bad)?;
        let column = arch.return_address();
        let in_register = row.row.register(gimli::Register(column as u16)).is_none();
        let lacks = self.state.known & (1 << column) == 0;
        if arch == Arch::Arm64 && self.state.at_pc && in_register && lacks {
            return Err(RowError::UnknownRegister);
        }
        let function = image.avma(row.code.start)..image.avma(row.code.end);
        Ok(RowFrame {
            cfi,
            row,
            function,
            is_whole,
            place: FramePlace {
                images: self.images,
                image,
                pc: self.state.pc,
                behind_call: !self.state.at_pc,
                sp: self.state.sp,
            },
            state: &self.state,
            lacking: match self.rule_kind {
                RuleKind::Full => !self.state.known,
                _ => 0,
            },
            lacked: &mut self.lacked,
            follower,
            memory: &mut self.memory,
            budget: &mut self.budget,
        })
    }

    /// Replaces the caller's return address by the frame's own one, if another frame's is in its slot. The caller is
    /// less certain if nothing shows which one is there.
    fn find_own_return_address(&mut self, image: &LoadedImage, caller: &mut RowCaller) {
        let frame = RestoringFrame {
            sp: self.state.sp,
            cfa: caller.registers.sp(),
            start: caller.start,
            at: self.state.lookup(),
        };
        let stored = caller.return_address;
        let slot = match self.arch {
            Arch::X86_64 => {
                let (memory, budget) = (&mut self.memory, &mut self.budget);
                restore::return_slot((self.images, image), &frame, stored, memory, budget)
            }
            Arch::Arm64 => ReturnSlot::Unknown,
        };
        match slot {
            ReturnSlot::Own => {}
            ReturnSlot::Installed { own, called } => {
                self.state.called = called.map(|cfa| (cfa, stored));
                caller.return_address = own;
                caller.found = Found::LeafReturnAddress;
            }
            ReturnSlot::Unknown => caller.found = Found::LeafReturnAddress,
        }
    }

    /// Walks again from the start with every register, past the frame that needs them.
    #[cold]
    pub(super) fn restart_in_full(&mut self) -> Result<(), WalkEnd> {
        self.rule_kind = RuleKind::Full;
        self.restarts = self.restarts.saturating_add(1);
        self.state = WalkState::new(self.initial, self.at_pc);
        for left in (0..self.yielded).rev() {
            self.look_up_rule();
            self.to_replay = left;
            self.step()?;
        }
        Ok(())
    }

    /// Takes the short way again behind a frame that needed every register: further out they are seldom needed.
    pub(super) fn return_to_short_rules(&mut self) {
        let arrived = self.to_replay == 0 && (1..MAX_RESTARTS).contains(&self.restarts);
        if self.rule_kind == RuleKind::Full && !arrived {
            return;
        }
        let clear = self.state.uncertain == 0 && self.state.called.is_none();
        self.rule_kind = if clear {
            RuleKind::Short
        } else {
            RuleKind::Uncertain
        };
    }
}
