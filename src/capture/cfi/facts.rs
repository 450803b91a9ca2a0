//! Facts of a row: its short form and, where its function restores another frame's registers, what that does to its own.
//! Signal-safe.

use gimli::{CfaRule, Register, RegisterRule, UnwindTableRow};

use super::{FoundRow, RuleStorage, preserved};
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, Rule};

/// The short form of a row, where it has one.
pub(crate) fn rule(found: &FoundRow<'_>, arch: Arch) -> Rule {
    if found.signal {
        return Rule::Signal;
    }
    if found.restores_context() {
        return Rule::WholeRow;
    }
    short(found.row, arch).unwrap_or(Rule::WholeRow)
}

fn short(row: &UnwindTableRow<usize, RuleStorage>, arch: Arch) -> Option<Rule> {
    let column = Register(arch.return_address() as u16);
    let return_address = match row.register(column) {
        Some(RegisterRule::Undefined) => return Some(Rule::Root),
        // No return address at all, where it is not in a register.
        None if arch == Arch::X86_64 => return Some(Rule::Root),
        None | Some(RegisterRule::SameValue) => None,
        Some(RegisterRule::Offset(offset)) => Some(offset),
        Some(_) => return None,
    };
    let fp = match row.register(Register(arch.fp() as u16)) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => None,
        Some(RegisterRule::Offset(offset)) => Some(offset),
        Some(_) => return None,
    };
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        return None;
    };
    let base = match usize::from(register.0) {
        number if number == arch.sp() => Base::Sp,
        number if number == arch.fp() => Base::Fp,
        _ => return None,
    };
    Rule::frame(base, *offset, return_address, fp)
}

impl FoundRow<'_> {
    /// Returns true if the function ends in `__builtin_eh_return`: only such a function saves the registers in which
    /// a landing pad is given the exception, which no call preserves (GCC internals,
    /// `EH_RETURN_DATA_REGNO`: 0 and 1 on both architectures).
    pub(crate) fn restores_context(&self) -> bool {
        let saved = |number: u16| {
            matches!(
                self.row.register(Register(number)),
                Some(RegisterRule::Offset(_))
            )
        };
        saved(0) && saved(1)
    }

    /// The register that the CFA is counted from, and how far it lies from there; `None` where it
    /// is an expression.
    pub(crate) fn cfa_register(&self) -> Option<(usize, i64)> {
        match self.row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } if register.0 < 64 => {
                Some((usize::from(register.0), *offset))
            }
            _ => None,
        }
    }

    /// Returns true if the CFA is counted from neither the stack pointer nor the frame pointer.
    pub(crate) fn changes_stack(&self, arch: Arch) -> bool {
        self.cfa_register()
            .is_some_and(|(register, _)| register != arch.sp() && register != arch.fp())
    }

    /// Returns true if the row is that of another frame, whose registers lie in memory: `setcontext` loads them.
    pub(crate) fn is_of_context(&self, arch: Arch) -> bool {
        let sp = self.row.register(Register(arch.sp() as u16));
        self.changes_stack(arch) && matches!(sp, Some(RegisterRule::Offset(_)))
    }

    /// Returns the caller's registers that are uncertain, as bits, given the ones that are uncertain here.
    pub(crate) fn uncertain_behind(&self, arch: Arch, uncertain: u64) -> u64 {
        let restores = self.restores_context();
        let is_uncertain = |register: usize| uncertain & 1 << (register & 63) != 0;
        each_preserved(arch)
            .filter(
                |&register| match self.row.register(Register(register as u16)) {
                    None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => {
                        is_uncertain(register)
                    }
                    Some(RegisterRule::Register(other)) => is_uncertain(usize::from(other.0)),
                    Some(RegisterRule::Expression(_) | RegisterRule::ValExpression(_)) => {
                        restores || uncertain != 0
                    }
                    Some(_) => restores,
                },
            )
            .fold(0, |bits, register| bits | 1 << register)
    }

    /// Returns the registers, as bits, that already hold the values to be installed; the new values of the others
    /// still wait in other registers.
    pub(crate) fn overwritten(&self, arch: Arch) -> u64 {
        each_preserved(arch)
            .filter(|&register| {
                let rule = self.row.register(Register(register as u16));
                !matches!(rule, Some(RegisterRule::Register(_)))
            })
            .fold(0, |bits, register| bits | 1 << register)
    }
}

fn each_preserved(arch: Arch) -> impl Iterator<Item = usize> {
    (0..64).filter(move |register| preserved(arch) & 1 << register != 0)
}
