//! Rules by address, as walks have learned them.

use super::{Packed, Rule, RuleSource, UNCHANGED};

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
pub(crate) struct KnownRule {
    word: u64,
    /// Plus one; 0 for none.
    image: u32,
}

/// A frame whose caller is found from sp or fp and two words of the stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameRule {
    pub(crate) by_fp: bool,
    pub(crate) cfa: u16,
    ra: i16,
    fp: i16,
}

impl FrameRule {
    pub(crate) fn ra(self) -> Option<i16> {
        Some(self.ra).filter(|words| *words != UNCHANGED)
    }

    pub(crate) fn fp(self) -> Option<i16> {
        Some(self.fp).filter(|words| *words != UNCHANGED)
    }
}

impl KnownRule {
    #[inline(always)]
    pub(crate) fn new(rule: Packed, image: Option<u32>) -> KnownRule {
        KnownRule {
            word: rule.0,
            image: image.map_or(0, |image| image.saturating_add(1)),
        }
    }

    /// The same, with where the rule is from, as far as the rule itself does not say so.
    pub(crate) fn from(self, source: RuleSource) -> KnownRule {
        let source = match source {
            RuleSource::Framehop => FRAMEHOP,
            RuleSource::Instructions => INSTRUCTIONS,
            _ => 0,
        };
        let word = self.word & !SOURCE | source;
        KnownRule { word, ..self }
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
    pub(crate) fn frame_rule(self) -> Option<FrameRule> {
        let offset = |word: u64| word as u16 as i16;
        (self.word & 6 == 0).then(|| FrameRule {
            by_fp: self.word & 1 != 0,
            cfa: (self.word >> 16) as u16,
            ra: offset(self.word >> 32),
            fp: offset(self.word >> 48),
        })
    }

    pub(crate) fn rule(self) -> Rule {
        Rule::unpack(self.word)
    }

    /// The rule of a guess, as it would be if it were certain.
    pub(crate) fn guess(self) -> Option<FrameRule> {
        let Rule::Guess { base, cfa, ra, fp } = self.rule() else {
            return None;
        };
        let rule = Rule::Frame { base, cfa, ra, fp };
        KnownRule::new(rule.packed(), self.image()).frame_rule()
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

    /// Forgets rules that were learnt under another generation of images. Signal-safe.
    ///
    /// Each rule carries the low bits of its generation; all are wiped when those wrap around.
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
    pub(crate) fn get(&self, address: u64) -> Option<KnownRule> {
        if address > ADDRESS {
            return None;
        }
        let set = self.sets.get(set_of(address))?;
        let tag = self.tag();
        for &(key, word) in &set.0 {
            if key & ADDRESS == address && word & TAG == tag && key != 0 {
                return Some(KnownRule {
                    word: word & !TAG,
                    image: (key >> 48) as u32,
                });
            }
        }
        None
    }

    /// Keeps a rule, in place of the one that its set was given first. Signal-safe.
    pub(crate) fn insert(&mut self, address: u64, known: KnownRule) {
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
    use super::super::Base;
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
            cache.insert(at * 0x1234, KnownRule::new(rule.packed(), Some(at as u32)));
        }
        for (rule, at) in rules.iter().zip(1u64..) {
            let known = cache.get(at * 0x1234).unwrap();
            assert_eq!((known.rule(), known.image()), (*rule, Some(at as u32)));
            assert_eq!(
                known.frame_rule().is_some(),
                matches!(rule, Rule::Frame { .. })
            );
        }
        cache.insert(77, KnownRule::new(Rule::Full.packed(), None));
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
}
