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
    /// Has no caller.
    Root,
    /// A signal trampoline: the caller is what the signal interrupted.
    Signal,
    /// Needs its whole row, each time.
    Full,
    /// No unwind information.
    Nothing,
}

impl Rule {
    /// From offsets in bytes; `None` where they do not fit.
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
            Rule::Root => 2,
            Rule::Signal => 3,
            Rule::Full => 4,
            Rule::Nothing => 5,
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

#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Set([(u64, u64); WAYS]);

const WAYS: usize = 4;
const SETS: usize = 2048;
const ADDRESS: u64 = (1 << 48) - 1;

impl RuleCache {
    /// Room for 8192 rules in 128 KiB.
    pub(crate) fn new() -> RuleCache {
        RuleCache {
            sets: vec![Set::default(); SETS].into_boxed_slice(),
            generation: 0,
        }
    }

    /// Empties the cache if it was filled under another generation of images. Signal-safe.
    pub(crate) fn use_generation(&mut self, generation: u64) {
        if self.generation != generation {
            self.sets.fill(Set::default());
            self.generation = generation;
        }
    }

    /// The rule and image of an address. Signal-safe.
    #[inline]
    pub(crate) fn get(&self, address: u64) -> Option<(Rule, Option<u32>)> {
        if address > ADDRESS {
            return None;
        }
        let set = self.sets.get(set_of(address))?;
        for (key, rule) in set.0 {
            if key & ADDRESS == address && key != 0 {
                let image = (key >> 48) as u32;
                return Some((Rule::unpack(rule), image.checked_sub(1)));
            }
        }
        None
    }

    /// Keeps a rule, in place of the one that its set was given first. Signal-safe.
    pub(crate) fn insert(&mut self, address: u64, image: Option<u32>, rule: Rule) {
        let image = match image {
            None => 0,
            Some(index) if index < 0xffff => u64::from(index) + 1,
            Some(_) => return,
        };
        if address > ADDRESS || address == 0 {
            return;
        }
        if let Some(set) = self.sets.get_mut(set_of(address)) {
            set.0.rotate_right(1);
            set.0[0] = (image << 48 | address, rule.pack());
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
            Rule::Nothing,
        ];
        let mut cache = RuleCache::new();
        cache.use_generation(1);
        for (rule, at) in rules.iter().zip(1u64..) {
            cache.insert(at * 0x1234, Some(at as u32), *rule);
        }
        for (rule, at) in rules.iter().zip(1u64..) {
            assert_eq!(cache.get(at * 0x1234), Some((*rule, Some(at as u32))));
        }
        cache.insert(77, None, Rule::Full);
        assert_eq!(cache.get(77), Some((Rule::Full, None)));
        assert_eq!(cache.get(78), None);
        assert_eq!(cache.get(u64::MAX), None);
        cache.use_generation(2);
        assert_eq!(cache.get(77), None);
    }

    #[test]
    fn what_does_not_fit_is_no_short_rule() {
        assert_eq!(Rule::frame(Base::Sp, 12, Some(-8), None), None);
        assert_eq!(Rule::frame(Base::Sp, -8, Some(-8), None), None);
        assert_eq!(Rule::frame(Base::Sp, 65536 * 8, Some(-8), None), None);
        assert_eq!(Rule::frame(Base::Sp, 8, Some(-32768 * 8), None), None);
    }
}
