//! Rules by address, as walks have learned them.

use std::ops::Range;

use super::{FrameRule, Rule, RuleSource};

/// Rules by address: four ways a set.
#[derive(Debug)]
pub(crate) struct RuleCache {
    slots: Box<[Slot; SLOTS]>,
    sides: Box<[Side; SLOTS]>,
    generation: u64,
    tag: u64,
}

/// An address and the word of its rule. 16 bytes are found by one shift.
type Slot = (u64, u64);

/// The rest of a slot: the image, so that a hit needs no search for it; and the slot of the caller that was last found
/// behind this one. That is read while the return address is still on its way from the stack, and then compared with it.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    image: u16,
    caller: u16,
}
/// A rule as the cache keeps it, and its image; unpacked where it is not of the usual kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownRule {
    pub(crate) word: RuleWord,
    /// Plus one; 0 for none.
    image: u32,
    /// Its slot; any where it has none.
    slot: u32,
}

impl KnownRule {
    #[inline]
    pub(crate) fn new(word: RuleWord, image: Option<u32>) -> KnownRule {
        KnownRule {
            word,
            image: image.map_or(0, |image| image.saturating_add(1)),
            slot: 0,
        }
    }

    #[inline]
    pub(crate) fn image(self) -> Option<u32> {
        self.image.checked_sub(1)
    }
}

/// A rule and its source in one word, which functions return in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RuleWord(u64);

impl RuleWord {
    #[inline(always)]
    pub(crate) fn new(rule: Rule, source: RuleSource) -> RuleWord {
        let source = match source {
            RuleSource::Framehop => FRAMEHOP,
            RuleSource::Instructions => INSTRUCTIONS,
            _ => 0,
        };
        RuleWord(rule.pack() | source)
    }

    #[inline(always)]
    pub(crate) fn rule(self) -> Rule {
        Rule::unpack(self.0)
    }

    #[inline(always)]
    pub(crate) fn frame_rule(self) -> Option<FrameRule> {
        match self.rule() {
            Rule::Frame(frame) => Some(frame),
            _ => None,
        }
    }

    /// The same rule, found by the instructions of an async function that has set its bit and still holds its context
    /// in the register by which that was passed.
    pub(crate) fn with_extended_bit(self) -> RuleWord {
        RuleWord(self.0 | EXTENDED_FRAME)
    }

    pub(crate) fn sets_extended_bit(self) -> bool {
        self.0 & SOURCE == EXTENDED_FRAME
    }

    pub(crate) fn source(self) -> RuleSource {
        match self.rule() {
            _ if self.0 & SOURCE == FRAMEHOP => RuleSource::Framehop,
            Rule::Frame(_) if self.0 & SOURCE != 0 => RuleSource::Instructions,
            Rule::Frame(_) | Rule::WholeRow => RuleSource::Row,
            Rule::Guess(_) | Rule::LinkIn { .. } => RuleSource::Instructions,
            Rule::Signal => RuleSource::Signal,
            Rule::RestoredContext => RuleSource::JumpTarget,
            Rule::Root => RuleSource::Root,
            Rule::Nothing => RuleSource::Guess,
        }
    }
}

const WAYS: usize = 4;
const SETS: usize = 2048;
const SLOTS: usize = SETS * WAYS;
/// Bits of a rule's word that its kind does not use: where it is from in 3 and 4, its generation in 5 to 15.
const FRAMEHOP: u64 = 1 << 3;
const INSTRUCTIONS: u64 = 2 << 3;
/// The source is the instructions then, too.
const EXTENDED_FRAME: u64 = 3 << 3;
const SOURCE: u64 = 3 << 3;
const GENERATION_SHIFT: u32 = 5;
/// Count of generations that are told apart; tag 0 is that of an empty slot.
const GENERATIONS: u64 = (1 << 11) - 1;
const TAG: u64 = GENERATIONS << GENERATION_SHIFT;

impl RuleCache {
    /// Room for 8192 rules in 160 KiB.
    pub(crate) fn new() -> RuleCache {
        RuleCache {
            slots: zeroed_slots(),
            sides: zeroed_slots(),
            generation: 0,
            tag: 1 << GENERATION_SHIFT,
        }
    }

    /// Forgets rules that were learnt under another generation of images. Signal-safe.
    ///
    /// Each rule carries the remainder of its generation; all are wiped when those come round.
    pub(crate) fn use_generation(&mut self, generation: u64) {
        if self.generation == generation {
            return;
        }
        if self.generation / GENERATIONS != generation / GENERATIONS {
            self.slots.fill(Slot::default());
        }
        self.generation = generation;
        self.tag = (generation % GENERATIONS).wrapping_add(1) << GENERATION_SHIFT;
    }

    /// The rule and image of an address that the frame of another rule returns to. Signal-safe.
    #[inline(always)]
    pub(crate) fn caller(&mut self, callee: KnownRule, address: u64) -> Option<KnownRule> {
        self.known(self.side_of(callee.slot).caller.into(), address)
            .or_else(|| {
                let slot = self.other_caller(callee.slot, address)?;
                self.known(slot, address)
            })
    }

    /// Returns the slot of another caller than the last one. A whole rule would come back in memory: one load would wait for its
    /// two stores, which doubles the time that a frame takes.
    #[inline(never)]
    fn other_caller(&mut self, callee: u32, address: u64) -> Option<u32> {
        let slot = self.get(address)?.slot;
        self.sides.get_mut(callee as usize % SLOTS)?.caller = slot as u16;
        Some(slot)
    }

    /// The rule and image of an address. Signal-safe.
    pub(crate) fn get(&self, address: u64) -> Option<KnownRule> {
        set_of(address).find_map(|slot| self.known(slot as u32, address))
    }

    /// The rule and image in a slot, if they are those of an address.
    #[inline(always)]
    fn known(&self, slot: u32, address: u64) -> Option<KnownRule> {
        let (known, word) = *self.slots.get(slot as usize % SLOTS)?;
        (known == address && word & TAG == self.tag).then(|| KnownRule {
            word: RuleWord(word),
            image: self.side_of(slot).image.into(),
            slot,
        })
    }

    #[inline(always)]
    fn side_of(&self, slot: u32) -> Side {
        let side = self.sides.get(slot as usize % SLOTS);
        side.copied().unwrap_or_default()
    }

    /// Keeps a rule, in place of the one that its set was given first. Signal-safe.
    pub(crate) fn insert(&mut self, address: u64, known: KnownRule) {
        let (Ok(image), ways) = (known.image.try_into(), set_of(address)) else {
            return;
        };
        let slot = (address, known.word.0 & !TAG | self.tag);
        put_first(self.slots.get_mut(ways.clone()), slot);
        put_first(self.sides.get_mut(ways), Side { image, caller: 0 });
    }
}

/// Puts a value before those of a set, in place of the last one.
fn put_first<T>(set: Option<&mut [T]>, value: T) {
    if let Some(set) = set
        && let Some(last) = set.last_mut()
    {
        *last = value;
        set.rotate_right(1);
    }
}

fn zeroed_slots<T: Copy + Default>() -> Box<[T; SLOTS]> {
    let array = vec![T::default(); SLOTS].into_boxed_slice().try_into();
    array.unwrap_or_else(|_| Box::new([T::default(); SLOTS]))
}

/// The slots of an address's set, by Fibonacci hashing: neighbouring addresses go to different sets.
#[inline]
fn set_of(address: u64) -> Range<usize> {
    /// So many highest bits of the product remain.
    const SHIFT: u32 = 64 - SETS.trailing_zeros();
    let set = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT;
    let first = (set as usize).wrapping_mul(WAYS);
    first..first.wrapping_add(WAYS)
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
            Rule::WholeRow,
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
            Rule::RestoredContext,
            Rule::Nothing,
        ];
        let mut cache = RuleCache::new();
        cache.use_generation(1);
        for (rule, at) in rules.iter().zip(1u64..) {
            cache.insert(
                at * 0x1234,
                KnownRule::new(RuleWord::new(*rule, RuleSource::Row), Some(at as u32)),
            );
        }
        for (rule, at) in rules.iter().zip(1u64..) {
            let known = cache.get(at * 0x1234).unwrap();
            assert_eq!((known.word.rule(), known.image()), (*rule, Some(at as u32)));
            assert_eq!(
                known.word.frame_rule().is_some(),
                matches!(rule, Rule::Frame(_))
            );
        }
        cache.insert(
            77,
            KnownRule::new(RuleWord::new(Rule::WholeRow, RuleSource::Row), None),
        );
        assert_eq!(
            cache
                .get(77)
                .map(|known| (known.word.rule(), known.image())),
            Some((Rule::WholeRow, None))
        );
        assert_eq!(cache.get(78), None);
        assert_eq!(cache.get(u64::MAX), None);
        for other in [2, 1 + GENERATIONS] {
            cache.use_generation(other);
            assert_eq!(cache.get(77), None);
        }
    }
}
