//! Counts the launches of a group's reports, in memory that does not grow with them.

use std::collections::BTreeSet;

/// Hashes kept.
const KEPT: usize = 128;

/// The smallest hashes of the launches seen. All of them while there are few; then their density says how many there are.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Launches(BTreeSet<u64>);

impl Launches {
    /// Counts a launch; one without an id is another than all before, and is told apart by the `number` of its report.
    pub(super) fn add(&mut self, id: &[u8; 16], number: u64) {
        let words = match u128::from_be_bytes(*id) {
            0 => u128::from(number),
            id => id,
        };
        // Ids may count up: the finalizer of SplitMix64 spreads them.
        let mut hash = (words as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (words >> 64) as u64;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0.insert(hash ^ (hash >> 31));
        if self.0.len() > KEPT {
            self.0.pop_last();
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self.0.last() {
            Some(largest) if self.0.len() == KEPT => {
                let share = *largest as f64 / u64::MAX as f64;
                ((KEPT - 1) as f64 / share).round() as u64
            }
            _ => self.0.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_counted_and_many_are_estimated() {
        for many in [1_u128, 100, 5_000, 100_000] {
            let mut launches = Launches::default();
            for id in (1..=many).chain(1..=many.min(50)) {
                launches.add(&id.to_be_bytes(), 0);
            }
            let (many, found) = (many as f64, launches.count() as f64);
            assert!(
                (found - many).abs() <= if many > 100.0 { many / 4.0 } else { 0.0 },
                "{found} of {many}"
            );
        }
        let mut without_ids = Launches::default();
        (1..=7).for_each(|number| without_ids.add(&[0; 16], number));
        assert_eq!(without_ids.count(), 7);
    }
}
