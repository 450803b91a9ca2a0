//! The state of a function's frame at one of its instructions.

use super::kept::KeptSp;
use crate::capture::registers::Arch;
use crate::capture::rule::{Base, FrameRule, Rule};

/// The state of a frame at one instruction. Offsets are counted from the CFA, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FrameState {
    /// CFA - sp.
    pub(super) sp: Option<i32>,
    /// CFA - fp, where fp points into this frame.
    pub(super) fp: Option<i32>,
    /// Place of the return address; `None` while it is in the link register.
    pub(super) return_address: Option<i32>,
    /// Place of the caller's frame pointer; `None` while fp still holds it.
    pub(super) saved_fp: Option<i32>,
    /// A register whose value is known, and that: for `sub %rax, %rsp`, `add sp, sp, x12`.
    pub(super) number: Option<(u8, i32)>,
    /// A register that points below sp, and CFA - that: how far a loop will move sp down, page by
    /// page, so that no guard page is passed over.
    pub(super) bound: Option<(u8, i32)>,
    /// True if the last instruction compared sp with it.
    pub(super) at_bound: bool,
    /// Address that x86_64 code has last put into each register by a `lea` on rip, its lower half; 0 if none.
    pub(super) pointed: [u32; 16],
    /// A register to which such an address was added: a jump by it goes by the table there.
    pub(super) table: Option<(u8, u32)>,
    /// The register that arm64's link register was moved to while it held the return address.
    pub(super) link_in: Option<u8>,
    /// True once a call has overwritten the link register since.
    pub(super) link_lost: bool,
    /// An earlier stack pointer of x86_64, and where it is.
    pub(super) kept: Option<KeptSp>,
    /// True once an epilogue has begun.
    pub(super) left: bool,
    /// True once the caller's frame pointer or the return address has been overwritten with another frame's: by
    /// `longjmp`, or by an exception on its way to its landing pad.
    pub(super) restored: bool,
    /// x86_64's registers that were loaded from memory other than the stack: bits by encoding.
    pub(super) loaded: u16,
    /// True once x86_64 code has written through one of them: to a stack, if it goes on to install one.
    pub(super) stored: bool,
}

impl FrameState {
    /// The frame at the function's first instruction, behind the call.
    pub(super) fn entered(arch: Arch) -> FrameState {
        let (sp, return_address) = match arch {
            Arch::X86_64 => (8, Some(-8)),
            Arch::Arm64 => (0, None),
        };
        FrameState {
            sp: Some(sp),
            return_address,
            ..FrameState::default()
        }
    }

    /// The frame that a rule describes, which holds in a function's body.
    pub(super) fn body(rule: Rule) -> Option<FrameState> {
        let Rule::Frame(FrameRule { base, cfa, ra, fp }) = rule else {
            return None;
        };
        let cfa = Some(i32::from(cfa) * 8);
        Some(FrameState {
            sp: cfa.filter(|_| base == Base::Sp),
            fp: cfa.filter(|_| base == Base::Fp),
            return_address: ra.map(|words| i32::from(words) * 8),
            saved_fp: fp.map(|words| i32::from(words) * 8),
            ..FrameState::default()
        })
    }

    /// Returns true if the link register was moved to one that neither passes arguments nor is preserved.
    pub(super) fn keeps_link(&self) -> bool {
        self.link_in
            .is_some_and(|register| (9..18).contains(&register))
    }

    /// The rule for this frame: by fp if that points to the caller's, since it does not move, as sp may on ways that
    /// were not followed; by sp otherwise.
    pub(super) fn rule(&self) -> Option<Rule> {
        if self.restored {
            return Some(Rule::RestoredContext);
        }
        if self.link_lost && self.return_address.is_none() {
            return Some(Rule::LinkIn {
                register: self.link_in?,
                cfa: u16::try_from(self.sp? / 8).ok()?,
                fp: match self.saved_fp {
                    Some(offset) => Some(i16::try_from(offset / 8).ok()?),
                    None => None,
                },
            });
        }
        let (base, cfa) = match (self.fp, self.sp) {
            (Some(fp), _) if self.saved_fp == Some(-fp) => (Base::Fp, fp),
            // An epilogue in a piece of code of its own takes down what is not its own.
            (_, Some(sp)) if sp < 0 && self.return_address.is_none() => (Base::Sp, 0),
            (_, Some(sp)) => (Base::Sp, sp),
            (Some(fp), None) => (Base::Fp, fp),
            (None, None) => return self.kept?.rule(self.saved_fp),
        };
        Rule::frame(
            base,
            cfa.into(),
            self.return_address.map(i64::from),
            self.saved_fp.map(i64::from),
        )
    }

    /// Leaves a loop that moves sp: at a branch back that is not taken because sp has reached its bound. The flags of
    /// the comparison tell if a branch to `target` from `at` is one.
    pub(super) fn leave_loop(&mut self, at: u64, target: u64, unless_equal: bool) {
        if let Some((_, bound)) = self.bound
            && self.at_bound
            && unless_equal
            && target < at
        {
            (self.sp, self.bound) = (Some(bound), None);
        }
        self.at_bound = false;
    }

    /// Returns true if nothing of the frame is left, as at a return.
    pub(super) fn is_left(&self, arch: Arch) -> bool {
        let entered = FrameState::entered(arch);
        self.restored
            || (self.sp, self.return_address) == (entered.sp, entered.return_address)
                && self.saved_fp.is_none()
                && self.fp.is_none()
    }

    /// Returns true if a jump through a register is a tail call: it stands behind an epilogue. Arguments that were
    /// taken off the stack are not an epilogue.
    pub(super) fn is_tail_call(&self, arch: Arch) -> bool {
        self.left && self.is_left(arch)
    }

    /// sp goes down by so many bytes, or up.
    pub(super) fn move_sp(&mut self, down: i32) {
        self.sp = self.sp.and_then(|sp| sp.checked_add(down));
        self.left |= down < 0;
        if let Some(kept) = &mut self.kept {
            kept.move_sp(down);
        }
    }
}
