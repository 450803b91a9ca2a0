//! Functions that restore the registers of another frame, and what that does to their own.

use gimli::{CfaRule, Register, RegisterRule};

use super::{FoundRow, preserved};
use crate::capture::registers::Arch;

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
