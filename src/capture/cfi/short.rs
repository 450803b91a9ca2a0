//! The short form of a row, where it has one.

use gimli::{CfaRule, Register, RegisterRule, UnwindTableRow};

use super::{Fixed, Found};
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, Rule};

/// The short form of a row, where it has one. Signal-safe.
pub(crate) fn rule(found: &Found<'_>, arch: Arch) -> Rule {
    if found.signal {
        return Rule::Signal;
    }
    if found.installs() {
        return Rule::Full;
    }
    short(found.row, arch).unwrap_or(Rule::Full)
}

fn short(row: &UnwindTableRow<usize, Fixed>, arch: Arch) -> Option<Rule> {
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Some((u64::from(register.0), *offset)),
        CfaRule::Expression(_) => None,
    };
    let saved = |register: usize| match row.register(Register(register as u16)) {
        None | Some(RegisterRule::SameValue) => Saved::Nowhere,
        Some(RegisterRule::Undefined) => Saved::Lost,
        Some(RegisterRule::Offset(offset)) => Saved::At(offset),
        Some(_) => Saved::Otherwise,
    };
    let return_address = match row.register(Register(arch.return_address() as u16)) {
        // No return address at all, where it is not in a register.
        None if arch == Arch::X86_64 => Saved::Lost,
        _ => saved(arch.return_address()),
    };
    of_row(cfa, return_address, saved(arch.fp()), arch)
}

/// Where a row says that a register of the caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    /// Still in the register.
    Nowhere,
    /// Gone.
    Lost,
    /// So many bytes from the CFA.
    At(i64),
    Otherwise,
}

/// The short form of what a row says of these three, where it has one; the CFA as a register and what
/// is added to it, if it is that. Signal-safe.
#[inline(always)]
pub(super) fn of_row(
    cfa: Option<(u64, i64)>,
    return_address: Saved,
    fp: Saved,
    arch: Arch,
) -> Option<Rule> {
    let return_address = match return_address {
        Saved::Lost => return Some(Rule::Root),
        Saved::Nowhere => None,
        Saved::At(offset) => Some(offset),
        Saved::Otherwise => return None,
    };
    let fp = match fp {
        Saved::Nowhere | Saved::Lost => None,
        Saved::At(offset) => Some(offset),
        Saved::Otherwise => return None,
    };
    let (register, offset) = cfa?;
    let base = match register {
        number if number == arch.sp() as u64 => Base::Sp,
        number if number == arch.fp() as u64 => Base::Fp,
        _ => return None,
    };
    Rule::frame(base, offset, return_address, fp)
}
