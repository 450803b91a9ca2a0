//! The short form of a row, where it has one.

use gimli::{CfaRule, Register, RegisterRule, UnwindTableRow};

use super::{Fixed, FoundRow};
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, Rule};

/// The short form of a row, where it has one. Signal-safe.
pub(crate) fn rule(found: &FoundRow<'_>, arch: Arch) -> Rule {
    if found.signal {
        return Rule::Signal;
    }
    if found.restores_context() {
        return Rule::Full;
    }
    short(found.row, arch).unwrap_or(Rule::Full)
}

fn short(row: &UnwindTableRow<usize, Fixed>, arch: Arch) -> Option<Rule> {
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
