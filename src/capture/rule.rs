//! How to leave a frame, in eight bytes, and the cache of these rules by address.

/// What a frame's CFA is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Sp,
    Fp,
}

/// How to leave the frame of one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// CFA = base + `cfa` × 8; return address at CFA + `ra` × 8, or still in the link register;
    /// the caller's frame pointer at CFA + `fp` × 8, or unchanged.
    Frame {
        base: Base,
        cfa: u16,
        ra: Option<i16>,
        fp: Option<i16>,
    },
    /// As a frame, but not for certain: the function may be another one than is thought.
    Guess {
        base: Base,
        cfa: u16,
        ra: Option<i16>,
        fp: Option<i16>,
    },
    /// Has no caller.
    Root,
    /// A signal trampoline: the caller is what the signal interrupted.
    Signal,
    /// Needs its whole row, each time.
    Full,
    /// CFA = sp + `cfa` × 8; the return address is in a register that it was moved to, since a call
    /// has overwritten the link register; the caller's frame pointer as for a frame.
    LinkIn {
        register: u8,
        cfa: u16,
        fp: Option<i16>,
    },
    /// CFA = an earlier stack pointer + `above` × 8; that is in a register, or at sp + `at` × 8 + the
    /// register × 8; the return address is below the CFA; the caller's frame pointer as for a frame.
    KeptSp {
        at: Option<u16>,
        register: Option<u8>,
        above: u8,
        fp: Option<i16>,
    },
    /// Registers are another frame's in part: the way out is to where the code is about to jump.
    RestoredContext,
    /// No unwind information.
    Nothing,
}

impl Rule {
    /// From offsets in bytes; `None` where they do not fit.
    #[inline(always)]
    pub(crate) fn frame(base: Base, cfa: i64, ra: Option<i64>, fp: Option<i64>) -> Option<Rule> {
        let words = |offset: i64| {
            let words = i16::try_from(offset / 8).ok()?;
            (offset % 8 == 0 && words != UNCHANGED).then_some(words)
        };
        let ra = match ra {
            Some(offset) => Some(words(offset)?),
            None => None,
        };
        let fp = match fp {
            Some(offset) => Some(words(offset)?),
            None => None,
        };
        let cfa = u16::try_from(cfa / 8).ok().filter(|_| cfa % 8 == 0)?;
        Some(Rule::Frame { base, cfa, ra, fp })
    }

    /// The same, but not for certain; nothing where there is no room to say so. Signal-safe.
    pub(crate) fn guessed(self) -> Rule {
        match self {
            Rule::Frame { base, cfa, ra, fp } if cfa <= GUESS_CFA => {
                Rule::Guess { base, cfa, ra, fp }
            }
            Rule::Frame { .. } | Rule::LinkIn { .. } | Rule::KeptSp { .. } => Rule::Nothing,
            other => other,
        }
    }

    /// In one word. Signal-safe.
    #[inline(always)]
    pub(crate) fn packed(self) -> Packed {
        Packed(self.pack())
    }

    #[inline(always)]
    fn pack(self) -> u64 {
        let frame = |kind: u64, cfa: u16, ra: Option<i16>, fp: Option<i16>| {
            let word = |offset: Option<i16>| u64::from(offset.unwrap_or(UNCHANGED) as u16);
            kind | u64::from(cfa) << 16 | word(ra) << 32 | word(fp) << 48
        };
        match self {
            Rule::Frame {
                base: Base::Sp,
                cfa,
                ra,
                fp,
            } => frame(0, cfa, ra, fp),
            Rule::Frame {
                base: Base::Fp,
                cfa,
                ra,
                fp,
            } => frame(1, cfa, ra, fp),
            // The base in the highest bit.
            Rule::Guess { base, cfa, ra, fp } => {
                let by_fp = u16::from(base == Base::Fp) << 15;
                frame(7, cfa & GUESS_CFA | by_fp, ra, fp)
            }
            Rule::Root => 2,
            Rule::Signal => 3,
            Rule::Full => 4,
            Rule::Nothing => 5,
            Rule::RestoredContext => 6,
            // The same kind, with a register.
            Rule::LinkIn { register, cfa, fp } => frame(6, cfa, Some(i16::from(register) + 1), fp),
            // And with more than that.
            Rule::KeptSp {
                at,
                register,
                above,
                fp,
            } => {
                let register = register.map_or(NO_REGISTER, |register| register & NO_REGISTER);
                let in_slot = i16::from(at.is_some()) << 5;
                let place = KEPT_SP | i16::from(above) << 6 | in_slot | i16::from(register);
                frame(6, at.unwrap_or(0), Some(place), fp)
            }
        }
    }

    #[inline]
    fn unpack(word: u64) -> Rule {
        let offset = |word: u64| Some(word as u16 as i16).filter(|word| *word != UNCHANGED);
        let base = match word & 7 {
            0 => Base::Sp,
            1 => Base::Fp,
            2 => return Rule::Root,
            3 => return Rule::Signal,
            4 => return Rule::Full,
            6 if (word >> 32) as i16 & KEPT_SP != 0 => {
                let register = (word >> 32) as u8 & NO_REGISTER;
                return Rule::KeptSp {
                    at: Some((word >> 16) as u16).filter(|_| word >> 37 & 1 == 1),
                    register: Some(register).filter(|register| *register != NO_REGISTER),
                    above: (word >> 38) as u8,
                    fp: offset(word >> 48),
                };
            }
            6 => {
                let register = (word >> 32) as u8;
                return match register.checked_sub(1) {
                    Some(register) => Rule::LinkIn {
                        register,
                        cfa: (word >> 16) as u16,
                        fp: offset(word >> 48),
                    },
                    None => Rule::RestoredContext,
                };
            }
            7 => {
                let cfa = (word >> 16) as u16;
                let base = if cfa > GUESS_CFA { Base::Fp } else { Base::Sp };
                return Rule::Guess {
                    base,
                    cfa: cfa & GUESS_CFA,
                    ra: offset(word >> 32),
                    fp: offset(word >> 48),
                };
            }
            _ => return Rule::Nothing,
        };
        Rule::Frame {
            base,
            cfa: (word >> 16) as u16,
            ra: offset(word >> 32),
            fp: offset(word >> 48),
        }
    }
}

/// Where the rule comes from by which a frame is left: [`Walk::rule_source`](crate::unwind::Walk::rule_source).
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
    /// Code that is about to go on in another frame.
    JumpTarget,
    /// Nothing: what is found by the frame pointer or on the stack is a guess.
    Guess,
    /// The frame has no caller.
    Root,
}

/// A rule in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed(u64);

/// The highest CFA of a guess, words.
const GUESS_CFA: u16 = 0x7fff;

/// In a packed rule: that it is by an earlier stack pointer, and that no register has to do with it.
const KEPT_SP: i16 = 1 << 14;
const NO_REGISTER: u8 = 0x1f;

/// Stands for "not saved" in a packed rule.
const UNCHANGED: i16 = i16::MIN;

/// Rules by address: four ways a set, a set a cache line.
///
/// The key is an address of at most 48 bits with its image's index above (plus one; 0 for none),
/// so that a hit needs no search for the image.
#[derive(Debug)]
pub(crate) struct RuleCache {
    sets: Box<[Set]>,
    generation: u64,
}

/// A rule as the cache keeps it, and its image; unpacked where it is not of the usual kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    word: u64,
    /// Plus one; 0 for none.
    image: u32,
}

/// A frame whose caller is found from sp or fp and two words of the stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usual {
    pub(crate) by_fp: bool,
    pub(crate) cfa: u16,
    ra: i16,
    fp: i16,
}

impl Usual {
    pub(crate) fn ra(self) -> Option<i16> {
        Some(self.ra).filter(|words| *words != UNCHANGED)
    }

    pub(crate) fn fp(self) -> Option<i16> {
        Some(self.fp).filter(|words| *words != UNCHANGED)
    }
}

impl Known {
    #[inline(always)]
    pub(crate) fn new(rule: Packed, image: Option<u32>) -> Known {
        Known {
            word: rule.0,
            image: image.map_or(0, |image| image.saturating_add(1)),
        }
    }

    /// The same, with where the rule is from, as far as the rule itself does not say so.
    pub(crate) fn from(self, source: RuleSource) -> Known {
        let source = match source {
            RuleSource::Framehop => FRAMEHOP,
            RuleSource::Instructions => INSTRUCTIONS,
            _ => 0,
        };
        let word = self.word & !SOURCE | source;
        Known { word, ..self }
    }

    pub(crate) fn source(self) -> RuleSource {
        match self.rule() {
            _ if self.word & SOURCE == FRAMEHOP => RuleSource::Framehop,
            Rule::Frame { .. } if self.word & SOURCE == INSTRUCTIONS => RuleSource::Instructions,
            Rule::Frame { .. } | Rule::Full => RuleSource::Row,
            Rule::Guess { .. } | Rule::LinkIn { .. } | Rule::KeptSp { .. } => {
                RuleSource::Instructions
            }
            Rule::Signal => RuleSource::Signal,
            Rule::RestoredContext => RuleSource::JumpTarget,
            Rule::Root => RuleSource::Root,
            Rule::Nothing => RuleSource::Guess,
        }
    }

    #[inline]
    pub(crate) fn usual(self) -> Option<Usual> {
        let offset = |word: u64| word as u16 as i16;
        (self.word & 6 == 0).then(|| Usual {
            by_fp: self.word & 1 != 0,
            cfa: (self.word >> 16) as u16,
            ra: offset(self.word >> 32),
            fp: offset(self.word >> 48),
        })
    }

    pub(crate) fn rule(self) -> Rule {
        Rule::unpack(self.word)
    }

    /// Of a guess: what would be usual if it were certain.
    pub(crate) fn guess(self) -> Option<Usual> {
        let Rule::Guess { base, cfa, ra, fp } = self.rule() else {
            return None;
        };
        let rule = Rule::Frame { base, cfa, ra, fp };
        Known::new(rule.packed(), self.image()).usual()
    }

    #[inline]
    pub(crate) fn image(self) -> Option<u32> {
        self.image.checked_sub(1)
    }
}

#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Set([(u64, u64); WAYS]);

const WAYS: usize = 4;
const SETS: usize = 2048;
const ADDRESS: u64 = (1 << 48) - 1;
/// Bits of a rule's word that its kind does not use: where it is from in 3 and 4, its generation in 5 to 15.
const FRAMEHOP: u64 = 1 << 3;
const INSTRUCTIONS: u64 = 2 << 3;
const SOURCE: u64 = 3 << 3;
const GENERATION_SHIFT: u32 = 5;
const GENERATION_BITS: u32 = 11;
const TAG: u64 = ((1 << GENERATION_BITS) - 1) << GENERATION_SHIFT;

impl RuleCache {
    /// Room for 8192 rules in 128 KiB.
    pub(crate) fn new() -> RuleCache {
        RuleCache {
            sets: vec![Set::default(); SETS].into_boxed_slice(),
            generation: 0,
        }
    }

    /// Has the cache forget what was learnt under another generation of images. Signal-safe.
    ///
    /// Each rule carries the low bits of its generation; all are wiped when those come round.
    pub(crate) fn use_generation(&mut self, generation: u64) {
        if self.generation >> GENERATION_BITS != generation >> GENERATION_BITS {
            self.sets.fill(Set::default());
        }
        self.generation = generation;
    }

    /// The low bits of the generation, where a rule's word has room for them.
    fn tag(&self) -> u64 {
        (self.generation << GENERATION_SHIFT) & TAG
    }

    /// The rule and image of an address. Signal-safe.
    #[inline]
    pub(crate) fn get(&self, address: u64) -> Option<Known> {
        if address > ADDRESS {
            return None;
        }
        let set = self.sets.get(set_of(address))?;
        let tag = self.tag();
        for (key, word) in set.0 {
            if key & ADDRESS == address && word & TAG == tag && key != 0 {
                return Some(Known {
                    word: word & !TAG,
                    image: (key >> 48) as u32,
                });
            }
        }
        None
    }

    /// Keeps a rule, in place of the one that its set was given first. Signal-safe.
    pub(crate) fn insert(&mut self, address: u64, known: Known) {
        let tag = self.tag();
        if address > ADDRESS || address == 0 || known.image > 0xffff {
            return;
        }
        if let Some(set) = self.sets.get_mut(set_of(address)) {
            let [first, second, third, _] = set.0;
            let new = (u64::from(known.image) << 48 | address, known.word | tag);
            set.0 = [new, first, second, third];
        }
    }
}

/// Fibonacci hashing: neighbouring addresses go to different sets.
#[inline]
fn set_of(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SETS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_out_of_the_cache_as_they_went_in() {
        let rules = [
            Rule::frame(Base::Sp, 8, Some(-8), None).unwrap(),
            Rule::frame(Base::Fp, 16, Some(-8), Some(-16)).unwrap(),
            Rule::frame(Base::Sp, 0, None, None).unwrap(),
            Rule::frame(Base::Sp, 65535 * 8, Some(-32767 * 8), Some(32767 * 8)).unwrap(),
            Rule::Root,
            Rule::Signal,
            Rule::Full,
            Rule::LinkIn {
                register: 14,
                cfa: 14,
                fp: Some(-2),
            },
            Rule::LinkIn {
                register: 0,
                cfa: 0,
                fp: None,
            },
            Rule::KeptSp {
                at: Some(19),
                register: None,
                above: 1,
                fp: Some(-3),
            },
            Rule::KeptSp {
                at: None,
                register: Some(15),
                above: 255,
                fp: None,
            },
            Rule::RestoredContext,
            Rule::Nothing,
        ];
        let mut cache = RuleCache::new();
        cache.use_generation(1);
        for (rule, at) in rules.iter().zip(1u64..) {
            cache.insert(at * 0x1234, Known::new(rule.packed(), Some(at as u32)));
        }
        for (rule, at) in rules.iter().zip(1u64..) {
            let known = cache.get(at * 0x1234).unwrap();
            assert_eq!((known.rule(), known.image()), (*rule, Some(at as u32)));
            assert_eq!(known.usual().is_some(), matches!(rule, Rule::Frame { .. }));
        }
        cache.insert(77, Known::new(Rule::Full.packed(), None));
        assert_eq!(
            cache.get(77).map(|known| (known.rule(), known.image())),
            Some((Rule::Full, None))
        );
        assert_eq!(cache.get(78), None);
        assert_eq!(cache.get(u64::MAX), None);
        for other in [2, 1 + (1 << GENERATION_BITS)] {
            cache.use_generation(other);
            assert_eq!(cache.get(77), None);
        }
    }

    #[test]
    fn what_does_not_fit_is_no_short_rule() {
        assert_eq!(Rule::frame(Base::Sp, 12, Some(-8), None), None);
        assert_eq!(Rule::frame(Base::Sp, -8, Some(-8), None), None);
        assert_eq!(Rule::frame(Base::Sp, 65536 * 8, Some(-8), None), None);
        assert_eq!(Rule::frame(Base::Sp, 8, Some(-32768 * 8), None), None);
    }
}
