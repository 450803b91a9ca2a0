//! Tracks a frame's registers and saved values through a function's instructions, and makes the frame's unwind rule.

use crate::capture::cfi;
use crate::capture::instructions::{Instruction, MemoryOperand, Op, Operation, Successor, Written};
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, FrameRule, Rule};
use crate::capture::tasks::EXTENDED_BIT;

/// Count of the registers that are followed: all but pc.
const COUNT: usize = 32;

/// The value of a register, as far as it has to do with the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RegisterState {
    Unknown,
    /// The caller's frame pointer.
    CallersFp,
    /// The same with the bit of an extended frame set, see `unwind/extended.rs`.
    ExtendedFp,
    /// The return address, on arm64.
    Ra,
    /// An address in the stack: the CFA minus this.
    CfaMinus(i32),
    Number(i32),
    /// A pc-relative address, its lower half.
    Code(u32),
    /// A pc-relative address plus another value. A jump to the sum uses the jump table at that address.
    Table(u32),
    /// Loaded from memory other than the frame's.
    Loaded,
}

/// Progress of an async function with the bit that it sets in the frame pointer and saves, see `unwind/extended.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtendedFrame {
    None,
    /// It is set; the context is still in the register by which it was passed.
    Set,
    /// It was saved.
    Saved,
}

/// The state of a frame at one instruction. Offsets are from the CFA, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameState {
    arch: Arch,
    registers: [RegisterState; COUNT],
    /// Offset of the return address; `None` while it is in a register.
    pub(super) return_address: Option<i32>,
    /// Offset of the caller's frame pointer; `None` while fp still holds it.
    pub(super) saved_fp: Option<i32>,
    /// CFA - sp, if the registers that were compared last are equal.
    sp_if_equal: Option<i32>,
    /// The table by which a jump goes.
    pub(super) table: Option<u32>,
    /// True right after a call.
    follows_call: bool,
    /// True once code has moved sp down right after a call. It may only have taken back what the callee popped, so
    /// CFA - sp is uncertain.
    may_have_popped: bool,
    /// True once an epilogue has begun.
    pub(super) epilogue_begun: bool,
    /// True if the caller's frame pointer was saved with the bit of an extended frame.
    saved_extended: bool,
    /// True once the caller's frame pointer or the return address has been overwritten with another frame's: by
    /// `longjmp`, or by an exception on its way to its landing pad.
    other_context: bool,
    /// True once code has stored through a loaded pointer. If the code then switches stacks, the store was to the new
    /// stack.
    pub(super) stored_through: bool,
}

impl FrameState {
    /// The frame at the function's first instruction, right after the call.
    pub(super) fn at_entry(arch: Arch) -> FrameState {
        let (sp, return_address) = match arch {
            Arch::X86_64 => (8, Some(-8)),
            Arch::Arm64 => (0, None),
        };
        FrameState::new(arch, Some(sp), None, return_address, None)
    }

    /// A frame with this CFA - sp and CFA - fp, and these offsets.
    #[inline(never)]
    fn new(
        arch: Arch,
        sp: Option<i32>,
        fp: Option<i32>,
        return_address: Option<i32>,
        saved_fp: Option<i32>,
    ) -> FrameState {
        let mut frame = FrameState {
            arch,
            registers: [RegisterState::Unknown; COUNT],
            return_address,
            saved_fp,
            sp_if_equal: None,
            table: None,
            follows_call: false,
            may_have_popped: false,
            epilogue_begun: false,
            saved_extended: false,
            other_context: false,
            stored_through: false,
        };
        if let Some(sp) = sp {
            frame.set(arch.sp() as u8, RegisterState::CfaMinus(sp));
        }
        match fp {
            Some(fp) => frame.set(arch.fp() as u8, RegisterState::CfaMinus(fp)),
            None if saved_fp.is_none() => frame.set(arch.fp() as u8, RegisterState::CallersFp),
            None => {}
        }
        if arch == Arch::Arm64 && return_address.is_none() {
            frame.set(arch.return_address() as u8, RegisterState::Ra);
        }
        frame
    }

    /// The frame that a rule describes, which holds in a function's body.
    pub(super) fn from_rule(arch: Arch, rule: Rule) -> Option<FrameState> {
        let Rule::Frame(FrameRule { base, cfa, ra, fp }) = rule else {
            return None;
        };
        let cfa = Some(i32::from(cfa) << 3);
        let offset = |words: Option<i16>| words.map(|words| i32::from(words) << 3);
        let (sp, by_fp) = match base {
            Base::Sp => (cfa, None),
            Base::Fp => (None, cfa),
        };
        Some(FrameState::new(arch, sp, by_fp, offset(ra), offset(fp)))
    }

    /// arm64: the frame of code that is jumped to with the return address in this register.
    pub(super) fn at_entry_with_ra_in(register: u8) -> FrameState {
        let mut frame = FrameState::at_entry(Arch::Arm64);
        frame.forget_lr();
        frame.set(register, RegisterState::Ra);
        frame
    }

    fn get(&self, register: u8) -> RegisterState {
        let held = self.registers.get(usize::from(register));
        held.copied().unwrap_or(RegisterState::Unknown)
    }

    fn set(&mut self, register: u8, held: RegisterState) {
        if let Some(slot) = self.registers.get_mut(usize::from(register)) {
            *slot = held;
        }
    }

    fn cfa_minus(&self, register: usize) -> Option<i32> {
        match self.registers.get(register & 31)? {
            RegisterState::CfaMinus(value) => Some(*value),
            _ => None,
        }
    }

    /// CFA - sp.
    pub(super) fn sp(&self) -> Option<i32> {
        self.cfa_minus(self.arch.sp())
    }

    /// CFA - fp, where fp points into this frame.
    pub(super) fn fp(&self) -> Option<i32> {
        self.cfa_minus(self.arch.fp())
    }

    /// arm64's registers other than the link register that hold the return address.
    fn ra_copies(&self) -> impl Iterator<Item = u8> {
        let lr = self.arch.return_address();
        let held = self.registers.iter().zip(0..);
        held.filter(move |(held, at)| **held == RegisterState::Ra && usize::from(*at) != lr)
            .map(|(_, at)| at)
    }

    /// Progress with the bit of an extended frame.
    pub(super) fn extended(&self) -> ExtendedFrame {
        match self.get(self.arch.fp() as u8) {
            RegisterState::ExtendedFp if !self.epilogue_begun => ExtendedFrame::Set,
            RegisterState::ExtendedFp => ExtendedFrame::Saved,
            _ if self.saved_extended => ExtendedFrame::Saved,
            _ => ExtendedFrame::None,
        }
    }

    /// Returns true if neither the stack nor the link register has the return address.
    fn is_ra_elsewhere(&self) -> bool {
        let lr = self.arch.return_address() as u8;
        self.return_address.is_none() && self.get(lr) != RegisterState::Ra
    }

    /// Returns true if nothing known has the return address.
    pub(super) fn is_lost(&self) -> bool {
        self.is_ra_elsewhere() && self.ra_copies().next().is_none()
    }

    fn forget_lr(&mut self) {
        self.set(self.arch.return_address() as u8, RegisterState::Unknown);
    }

    /// Forgets that lr holds the return address, if a scratch register (x9 to x17) holds it too.
    pub(super) fn forget_copied_lr(&mut self) {
        if self.ra_copies().any(|register| (9..18).contains(&register)) {
            self.forget_lr();
        }
    }

    /// Returns the rule for this frame. It is based on fp if fp points at the saved fp, as fp does not move. Else it is
    /// based on sp, which may differ on paths that were not followed, or on fp if sp is unknown.
    pub(super) fn rule(&self) -> Option<Rule> {
        if self.other_context {
            return Some(Rule::RestoredContext);
        }
        if self.is_ra_elsewhere() {
            let register = self.ra_copies().next()?;
            let saved_fp = self.saved_fp.map(i64::from);
            return Rule::frame(Base::Sp, self.sp()?.into(), None, saved_fp)?.linked_in(register);
        }
        let (base, cfa) = match (self.fp(), self.sp()) {
            (Some(fp), _) if self.saved_fp == fp.checked_neg() => (Base::Fp, fp),
            // An outlined epilogue pops what other code pushed, so sp rises above the CFA.
            (_, Some(sp)) if sp < 0 && self.return_address.is_none() => (Base::Sp, 0),
            (_, Some(sp)) => (Base::Sp, sp),
            (Some(fp), None) => (Base::Fp, fp),
            (None, None) => return None,
        };
        Rule::frame(
            base,
            cfa.into(),
            self.return_address.map(i64::from),
            self.saved_fp.map(i64::from),
        )
    }

    /// Returns the rule, but never based on fp.
    pub(super) fn rule_by_sp(&self) -> Option<Rule> {
        let mut frame = *self;
        frame.set(self.arch.fp() as u8, RegisterState::Unknown);
        frame.rule()
    }

    /// Returns true if the frame is torn down, as at a return.
    pub(super) fn is_torn_down(&self) -> bool {
        let at_entry = FrameState::at_entry(self.arch);
        self.other_context
            || (self.sp(), self.return_address) == (at_entry.sp(), at_entry.return_address)
                && self.saved_fp.is_none()
                && self.fp().is_none()
    }

    /// Returns true if a jump through a register is a tail call: it is after an epilogue. Taking arguments off the stack is
    /// not an epilogue.
    pub(super) fn is_tail_call(&self) -> bool {
        self.epilogue_begun && self.is_torn_down()
    }

    /// Follows one instruction, which lies at `at`, and returns what runs next, as far as the frame tells.
    pub(super) fn follow(&mut self, i: &Instruction, at: u64) -> Successor {
        let equal = self.sp_if_equal.take();
        let follows_call = std::mem::take(&mut self.follows_call);
        match i.next {
            Successor::FallThrough => {
                let sp = self.sp();
                for op in i.ops {
                    self.apply(op);
                }
                for register in (0..COUNT as u8).filter(|register| i.clobbers >> register & 1 == 1)
                {
                    // `or (symbol),%rbp` sets the bit. The operand is 0 on systems that want none.
                    let held = match self.get(register) {
                        RegisterState::CallersFp => RegisterState::ExtendedFp,
                        _ => RegisterState::Unknown,
                    };
                    self.set(register, held);
                }
                let moved = self.sp().zip(sp);
                self.epilogue_begun |= moved.is_some_and(|(now, before)| now < before);
                self.may_have_popped |=
                    follows_call && moved.is_some_and(|(now, before)| now > before);
            }
            Successor::Call(_) => {
                self.follows_call = true;
                let preserved = cfi::preserved(self.arch) | 1 << self.arch.sp();
                for register in 0..COUNT as u8 {
                    let is_lr = usize::from(register) == self.arch.return_address();
                    if is_lr
                        || preserved >> register & 1 == 0 && self.get(register) != RegisterState::Ra
                    {
                        self.set(register, RegisterState::Unknown);
                    }
                }
            }
            // The loop runs until sp equals the value it is compared with. So sp has that value where the loop ends.
            Successor::Branch { to, unless_equal } => {
                if let Some(sp) = equal
                    && unless_equal
                    && to < at
                {
                    self.set(self.arch.sp() as u8, RegisterState::CfaMinus(sp));
                }
            }
            Successor::Indirect => {
                let by = match i.ops[0] {
                    Op::Set(_, Written::Sum(by, 0)) => self.get(by),
                    _ => RegisterState::Unknown,
                };
                self.table = match by {
                    RegisterState::Table(table) => Some(table),
                    _ => None,
                };
                // As assembly jumps to its labels.
                if let RegisterState::Code(to) = by {
                    return Successor::Jump(at & !0xffff_ffff | u64::from(to));
                }
            }
            _ => {}
        }
        i.next
    }

    fn apply(&mut self, op: Op) {
        let sp = self.arch.sp() as u8;
        match op {
            Op::Set(to, value) => {
                let lr = usize::from(to) == self.arch.return_address();
                let held = match value {
                    // A thread's first function has no caller.
                    Written::Number(0) if lr => self.get(to),
                    _ => self.value(value),
                };
                if to == sp {
                    self.move_sp(value, held);
                }
                self.set(to, held);
            }
            Op::Load(to, from) => self.load(to, from),
            Op::Store {
                from, to: Some(to), ..
            } => self.store(from, to),
            Op::Compare(a, b) => {
                let other = if a == sp { b } else { a };
                self.sp_if_equal = self.cfa_minus(other.into()).filter(|_| a == sp || b == sp);
            }
            Op::Store { .. } | Op::Nothing | Op::Other => {}
        }
    }

    fn value(&self, value: Written) -> RegisterState {
        let at = |value: Option<i32>| value.map_or(RegisterState::Unknown, RegisterState::CfaMinus);
        let number = |number: i64| {
            i32::try_from(number).map_or(RegisterState::Unknown, RegisterState::Number)
        };
        match value {
            Written::Number(value) => number(value as i64),
            Written::PcRelative(to) => RegisterState::Code(to as u32),
            Written::Sum(from, by) => match (self.get(from), i32::try_from(by)) {
                (held @ RegisterState::Loaded, _) | (held, Ok(0)) => held,
                (RegisterState::CfaMinus(from), Ok(by)) => at(from.checked_sub(by)),
                (RegisterState::Number(from), Ok(by)) => {
                    number(i64::from(from).wrapping_add(by.into()))
                }
                _ => RegisterState::Unknown,
            },
            Written::Bits { of, keep, set } => match self.get(of) {
                RegisterState::CallersFp if set == EXTENDED_BIT => RegisterState::ExtendedFp,
                RegisterState::ExtendedFp if keep == !EXTENDED_BIT => RegisterState::CallersFp,
                RegisterState::Number(of) => number((of as i64 as u64 & keep | set) as i64),
                _ => RegisterState::Unknown,
            },
            Written::Of(operation, a, b) => match (operation, self.get(a), self.get(b)) {
                (Operation::Or, RegisterState::CallersFp, _) => RegisterState::ExtendedFp,
                (Operation::Add, RegisterState::CfaMinus(from), RegisterState::Number(by))
                | (Operation::Add, RegisterState::Number(by), RegisterState::CfaMinus(from)) => {
                    at(from.checked_sub(by))
                }
                (Operation::Subtract, RegisterState::CfaMinus(from), RegisterState::Number(by)) => {
                    at(from.checked_add(by))
                }
                (Operation::Add, RegisterState::Code(table), _)
                | (Operation::Add, _, RegisterState::Code(table)) => RegisterState::Table(table),
                _ => RegisterState::Unknown,
            },
        }
    }

    /// What becomes of the frame when sp gets another value.
    fn move_sp(&mut self, value: Written, held: RegisterState) {
        let (sp, fp) = (self.arch.sp() as u8, self.arch.fp() as u8);
        // Another stack, where nothing of this one was kept.
        if let Written::Sum(from, _) = value
            && from != sp
            && from != fp
            && !matches!(held, RegisterState::CfaMinus(_))
        {
            let keeps =
                self.fp().is_some() || self.saved_fp.is_some() || self.return_address.is_some();
            self.other_context |= !keeps;
        }
    }

    fn load(&mut self, to: [Option<u8>; 2], from: MemoryOperand) {
        let (sp, fp) = (self.arch.sp() as u8, self.arch.fp() as u8);
        let lr = self.arch.return_address() as u8;
        let is_unsure = self.sp().is_none() || self.may_have_popped;
        if from.base == sp && is_unsure && self.fp().is_some() {
            // Compilers load the frame pointer from nowhere but where it was saved.
            let saved = match to {
                [Some(first), _] if first == fp => self.saved_fp,
                [_, Some(second)] if second == fp => {
                    self.saved_fp.and_then(|offset| offset.checked_sub(8))
                }
                _ => None,
            };
            if let Some(offset) = saved {
                let new_sp = from.offset.checked_sub(offset);
                self.set(
                    sp,
                    new_sp.map_or(RegisterState::Unknown, RegisterState::CfaMinus),
                );
            }
        }
        let first = self.cfa_offset(from);
        let is_elsewhere = from.base != sp
            && from.base != fp
            && !matches!(self.get(from.base), RegisterState::CfaMinus(_));
        let fp_is_callers = self.saved_fp.is_none() && self.fp().is_none();
        for (register, displacement) in to.into_iter().zip([0, 8]) {
            let Some(register) = register else { continue };
            let offset = first.and_then(|first| first.checked_add(displacement));
            let held = if register == fp && offset.is_some() && offset == self.saved_fp {
                self.saved_fp = None;
                self.epilogue_begun = true;
                if self.saved_extended {
                    RegisterState::ExtendedFp
                } else {
                    RegisterState::CallersFp
                }
            } else if register == lr && offset.is_some() && offset == self.return_address {
                self.return_address = None;
                RegisterState::Ra
            } else if is_elsewhere {
                self.other_context |= register == fp && fp_is_callers
                    || register == lr && self.return_address.is_none();
                RegisterState::Loaded
            } else if register == lr && self.return_address.is_none() {
                // An outlined epilogue.
                RegisterState::Ra
            } else {
                RegisterState::Unknown
            };
            self.set(register, held);
        }
    }

    fn store(&mut self, from: [Option<u8>; 2], to: MemoryOperand) {
        self.stored_through |= from[0].is_some() && self.get(to.base) == RegisterState::Loaded;
        let first = self.cfa_offset(to);
        for (register, displacement) in from.into_iter().zip([0, 8]) {
            let Some(register) = register else { continue };
            let offset = first.and_then(|first| first.checked_add(displacement));
            let is_fp = usize::from(register) == self.arch.fp();
            match self.get(register) {
                RegisterState::Ra if self.return_address.is_none() => self.return_address = offset,
                held if is_fp && self.saved_fp.is_none() && self.fp().is_none() => {
                    self.saved_fp = offset;
                    self.saved_extended = held == RegisterState::ExtendedFp;
                }
                _ => {}
            }
        }
    }

    /// Returns the offset of an address from the CFA.
    fn cfa_offset(&self, address: MemoryOperand) -> Option<i32> {
        let cfa_minus = self.cfa_minus(address.base.into())?;
        address.offset.checked_sub(cfa_minus)
    }
}
