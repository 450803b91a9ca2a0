//! Numbers that look random and are the same for the same seed (Steele, Lea, Flood: SplitMix64).

/// A stream of numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True so often.
    pub fn chance(&mut self, share: f64) -> bool {
        self.share() < share
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }

    /// An index, by cumulated weights.
    pub fn weighted(&mut self, cumulated: &[f64]) -> usize {
        let whole = cumulated.last().copied().unwrap_or(0.0);
        let at = self.share() * whole;
        cumulated
            .partition_point(|sum| *sum <= at)
            .min(cumulated.len().saturating_sub(1))
    }
}
