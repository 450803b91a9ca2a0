//! The state of a walk: the registers of one frame, and which of them are known.

use crate::capture::registers::Registers;
use crate::capture::rule::{Base, FrameRule};
use crate::report::model::Found;

/// The state of a walk at one frame.
#[derive(Debug, Clone)]
pub(super) struct WalkState {
    pub(super) pc: u64,
    pub(super) sp: u64,
    pub(super) fp: u64,
    /// All registers, except the three above, which are kept up to date apart.
    pub(super) registers: Registers,
    /// Bits of the registers whose values are known.
    pub(super) known: u64,
    /// Bits of those among them that may be another frame's, see `Walk::leave_by_row`.
    pub(super) uncertain: u64,
    /// A CFA, and the return address of its frame, in place of which something else may stand
    /// already, see `restore.rs`.
    pub(super) called: Option<(u64, u64)>,
    pub(super) found: Found,
    /// True if pc is an instruction about to run, rather than a return address.
    pub(super) at_pc: bool,
    pub(super) switches: u32,
}

impl WalkState {
    pub(super) fn new(registers: &Registers, at_pc: bool) -> WalkState {
        let found = if at_pc {
            Found::Context
        } else {
            Found::UnwindInfo
        };
        WalkState {
            pc: registers.pc(),
            sp: registers.sp(),
            fp: registers.fp(),
            registers: *registers,
            known: u64::MAX,
            uncertain: 0,
            called: None,
            found,
            at_pc,
            switches: 0,
        }
    }

    /// The CFA of a rule that holds here.
    #[inline(always)]
    pub(super) fn cfa(&self, rule: FrameRule) -> u64 {
        let base = match rule.base {
            Base::Sp => self.sp,
            Base::Fp => self.fp,
        };
        base.wrapping_add(u64::from(rule.cfa) * 8)
    }

    /// All registers, the three that are kept apart among them.
    pub(super) fn all(&self) -> Registers {
        let mut registers = self.registers;
        registers.set_frame(self.pc, self.sp, self.fp);
        registers
    }

    /// Takes over all registers.
    pub(super) fn set_all(&mut self, registers: Registers) {
        self.pc = registers.pc();
        self.sp = registers.sp();
        self.fp = registers.fp();
        self.registers = registers;
    }

    /// The address that tables are searched for: that of the call, not of what follows it.
    #[inline]
    pub(super) fn lookup(&self) -> u64 {
        if self.at_pc {
            self.pc
        } else {
            self.pc.wrapping_sub(1)
        }
    }
}
