//! Rules by which frames are left, in eight bytes each.

mod cache;

pub(crate) use cache::{KnownRule, RuleCache, RuleWord};

/// The register from which a frame's CFA is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Sp,
    Fp,
}

/// CFA = base + `cfa` × 8; return address at CFA + `ra` × 8, or still in the link register;
/// the caller's frame pointer at CFA + `fp` × 8, or unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameRule {
    pub(crate) base: Base,
    pub(crate) cfa: u16,
    pub(crate) ra: Option<i16>,
    pub(crate) fp: Option<i16>,
}

/// The rule by which the frame of one instruction is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Frame(FrameRule),
    /// As a frame, but not for certain: the function may be another one than is thought.
    Guess(FrameRule),
    /// The frame has no caller.
    Root,
    /// A signal trampoline: the caller is what the signal interrupted.
    Signal,
    /// Needs its whole row, each time.
    WholeRow,
    /// CFA = sp + `cfa` × 8; the return address is in a register that it was moved to, since a call
    /// has overwritten the link register; the caller's frame pointer as for a frame.
    LinkIn {
        register: u8,
        cfa: u16,
        fp: Option<i16>,
    },
    /// Registers are another frame's in part: the way out is to where the code is about to jump.
    RestoredContext,
    /// No unwind information.
    Nothing,
}

impl Rule {
    /// From offsets in bytes; `None` where they do not fit.
    #[inline]
    pub(crate) fn frame(base: Base, cfa: i64, ra: Option<i64>, fp: Option<i64>) -> Option<Rule> {
        let words = |offset: i64| {
            let words = i16::try_from(offset / 8).ok()?;
            (offset % 8 == 0 && words != UNCHANGED).then_some(words)
        };
        Some(Rule::Frame(FrameRule {
            base,
            cfa: u16::try_from(cfa / 8).ok().filter(|_| cfa % 8 == 0)?,
            ra: ra.map_or(Some(None), |offset| words(offset).map(Some))?,
            fp: fp.map_or(Some(None), |offset| words(offset).map(Some))?,
        }))
    }

    /// The same, but not for certain; nothing where there is no room to say so. Signal-safe.
    pub(crate) fn guessed(self) -> Rule {
        match self {
            Rule::Frame(frame) if frame.cfa <= GUESS_CFA => Rule::Guess(frame),
            Rule::Frame(_) | Rule::LinkIn { .. } => Rule::Nothing,
            other => other,
        }
    }

    /// The same with the return address in a register. Signal-safe.
    pub(crate) fn linked_in(self, register: u8) -> Option<Rule> {
        match self {
            Rule::Frame(FrameRule { cfa, fp, .. }) => Some(Rule::LinkIn { register, cfa, fp }),
            _ => None,
        }
    }

    /// In one word. Signal-safe.
    #[inline(always)]
    fn pack(self) -> u64 {
        let frame = |kind: u64, cfa: u16, ra: Option<i16>, fp: Option<i16>| {
            let word = |offset: Option<i16>| u64::from(offset.unwrap_or(UNCHANGED) as u16);
            kind | u64::from(cfa) << 16 | word(ra) << 32 | word(fp) << 48
        };
        match self {
            Rule::Frame(FrameRule { base, cfa, ra, fp }) => frame(base as u64, cfa, ra, fp),
            // The base in the highest bit.
            Rule::Guess(FrameRule { base, cfa, ra, fp }) => {
                frame(7, cfa & GUESS_CFA | (base as u16) << 15, ra, fp)
            }
            Rule::Root => 2,
            Rule::Signal => 3,
            Rule::WholeRow => 4,
            Rule::Nothing => 5,
            Rule::RestoredContext => 6,
            // The same kind, with a register.
            Rule::LinkIn { register, cfa, fp } => {
                frame(6, cfa, Some(i16::from(register).wrapping_add(1)), fp)
            }
        }
    }

    #[inline(always)]
    fn unpack(word: u64) -> Rule {
        let offset = |word: u64| Some(word as i16).filter(|word| *word != UNCHANGED);
        let frame = |base: u64, cfa: u16| FrameRule {
            base: if base == 0 { Base::Sp } else { Base::Fp },
            cfa,
            ra: offset(word >> 32),
            fp: offset(word >> 48),
        };
        let cfa = (word >> 16) as u16;
        match word & 7 {
            _ if word & 6 == 0 => Rule::Frame(frame(word & 1, cfa)),
            2 => Rule::Root,
            3 => Rule::Signal,
            4 => Rule::WholeRow,
            6 => match ((word >> 32) as u8).checked_sub(1) {
                Some(register) => Rule::LinkIn {
                    register,
                    cfa,
                    fp: offset(word >> 48),
                },
                None => Rule::RestoredContext,
            },
            7 => Rule::Guess(frame(word >> 31 & 1, cfa & GUESS_CFA)),
            _ => Rule::Nothing,
        }
    }
}

/// The source of the rule by which a frame is left: [`Walk::rule_source`](crate::unwind::Walk::rule_source).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RuleSource {
    /// A rule of framehop's: the frame's unwind entry is plain.
    Framehop,
    /// A row of call frame information, or an entry of compact unwind information, evaluated here.
    Row,
    /// The function's instructions.
    Instructions,
    /// A signal's frame: the registers that the kernel has saved.
    Signal,
    /// Code that is about to continue in another frame, such as `longjmp`.
    JumpTarget,
    /// Nothing: what is found by the frame pointer or on the stack is a guess.
    Guess,
    /// The frame has no caller.
    Root,
}

/// The highest CFA of a guess, words.
const GUESS_CFA: u16 = 0x7fff;

/// Stands for "not saved" in a packed rule: nothing is saved at the CFA, which is the caller's.
const UNCHANGED: i16 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_no_short_rule() {
        assert_eq!(Rule::frame(Base::Sp, 12, Some(-8), None), None);
        assert_eq!(Rule::frame(Base::Sp, -8, Some(-8), None), None);
        assert_eq!(Rule::frame(Base::Sp, 65536 * 8, Some(-8), None), None);
        assert_eq!(Rule::frame(Base::Sp, 8, Some(0), None), None);
    }
}
