//! Plain entries: those for whose every row framehop's rules are right.
//!
//! framehop knows rows by the stack pointer and the frame pointer, that save the frame pointer and the return address;
//! for any other row it uses the frame pointer without saying so. Signal-safe.

use gimli::{
    CallFrameInstruction as Code, CallFrameInstructionIter, CommonInformationEntry, EhFrame,
    Register,
};

use super::{Cfi, CfiSlice, FdeEntry};
use crate::capture::registers::Arch;

/// The furthest that a CFA lies from its register, and that anything is saved from the CFA, bytes.
const FURTHEST: u64 = 1 << 18;

/// Rows that framehop remembers at a time; it has room for one more.
const REMEMBERED: u32 = 2;

impl Cfi {
    /// Returns if a plain entry has one row alone; `None` if the entry is not plain. No row is built.
    pub(super) fn is_plain(
        &self,
        section: &EhFrame<CfiSlice<'_>>,
        entry: &FdeEntry<'_>,
        arch: Arch,
    ) -> Option<bool> {
        let common = entry.cie();
        let reading = Instructions::new(common, arch);
        let usual = common.return_address_register() == reading.return_address
            && !entry.is_signal_trampoline();
        let seen = reading.common(common.instructions(section, &self.bases))?;
        // Without a return address in memory or in a register the function has no caller.
        let whole = seen.cfa && (seen.return_address || arch == Arch::Arm64);
        let own = reading.instructions(entry.instructions(section, &self.bases))?;
        (usual && whole).then_some(!own.advances)
    }
}

/// A reader of an entry's instructions.
struct Instructions {
    arch: Arch,
    return_address: Register,
    /// The unit of the offsets of saved registers, in bytes.
    align: i64,
}

/// Rules that the instructions have defined so far.
#[derive(Default)]
struct Defined {
    cfa: bool,
    return_address: bool,
    advances: bool,
}

impl Instructions {
    fn new(common: &CommonInformationEntry<CfiSlice<'_>>, arch: Arch) -> Instructions {
        Instructions {
            arch,
            return_address: Register(arch.return_address() as u16),
            align: common.data_alignment_factor(),
        }
    }

    /// Reads the instructions of a CIE, which define the row with which all of its entries begin; `None` if they are
    /// not plain.
    fn common(&self, code: CallFrameInstructionIter<'_, CfiSlice<'_>>) -> Option<Defined> {
        let mut each = code.clone();
        while let Some(code) = each.next().ok()? {
            // They have no place, and nothing to go back to.
            let defines = !matches!(
                code,
                Code::AdvanceLoc { .. }
                    | Code::Restore { .. }
                    | Code::RememberState
                    | Code::RestoreState
            );
            if !defines {
                return None;
            }
        }
        self.instructions(code)
    }

    /// `None` where one of them is not plain.
    fn instructions(
        &self,
        mut code: CallFrameInstructionIter<'_, CfiSlice<'_>>,
    ) -> Option<Defined> {
        let mut seen = Defined::default();
        let mut remembered = 0u32;
        while let Some(code) = code.next().ok()? {
            match code {
                Code::AdvanceLoc { .. } => seen.advances = true,
                Code::Nop | Code::ArgsSize { .. } => {}
                Code::RememberState => {
                    remembered = remembered.wrapping_add(1);
                    if remembered > REMEMBERED {
                        return None;
                    }
                }
                Code::RestoreState => remembered = remembered.checked_sub(1)?,
                Code::DefCfa { register, offset } => {
                    self.cfa_by(register)?;
                    self.cfa_at(offset)?;
                    seen.cfa = true;
                }
                Code::DefCfaRegister { register } => self.cfa_by(register)?,
                Code::DefCfaOffset { offset } => self.cfa_at(offset)?,
                Code::Offset {
                    register,
                    factored_offset,
                } => {
                    self.own(register)?;
                    let offset = i64::try_from(factored_offset).ok()?;
                    let offset = offset.checked_mul(self.align)?;
                    if offset % 8 != 0 || offset.unsigned_abs() > FURTHEST {
                        return None;
                    }
                    seen.return_address |= register == self.return_address;
                }
                Code::Restore { register } => self.own(register)?,
                // x86_64: a function without a return address has no caller, whatever else its row holds.
                // arm64: framehop takes it for one that has it in the link register.
                Code::Undefined { register } if register == self.return_address => {
                    if self.arch != Arch::X86_64 {
                        return None;
                    }
                }
                Code::SameValue { register } if register == self.return_address => return None,
                Code::Undefined { register } | Code::SameValue { register } => {
                    self.own(register)?;
                }
                _ => return None,
            }
        }
        Some(seen)
    }

    fn cfa_by(&self, register: Register) -> Option<()> {
        let number = usize::from(register.0);
        (number == self.arch.sp() || number == self.arch.fp()).then_some(())
    }

    fn cfa_at(&self, offset: u64) -> Option<()> {
        // framehop counts arm64's stack pointer in steps of 16 bytes.
        let step = match self.arch {
            Arch::X86_64 => 8,
            Arch::Arm64 => 16,
        };
        (offset.is_multiple_of(step) && offset <= FURTHEST).then_some(())
    }

    /// Refuses the registers in which a landing pad is given an exception: a function that saves them
    /// restores another frame's registers.
    fn own(&self, register: Register) -> Option<()> {
        (register.0 > 1).then_some(())
    }
}
