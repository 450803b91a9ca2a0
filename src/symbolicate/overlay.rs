//! Which of several overlapping ranges holds an address: one sweep for inlined functions over their
//! callers, units over units, and symbols over symbols.

use std::collections::BinaryHeap;

/// A range of addresses that claims them with a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim<T> {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// The claim with the highest rank wins.
    pub rank: u64,
    pub value: T,
}

/// A range of addresses with its one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment<T> {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    pub value: T,
}

/// Cuts overlapping claims into segments in order of address, each owned by the claim with the
/// highest rank there (among equal ranks, by the one that comes last). Touching segments of one
/// value are joined. Takes O(n log n).
pub(crate) fn overlay<T: Copy + Eq>(mut claims: Vec<Claim<T>>) -> Vec<Segment<T>> {
    claims.retain(|claim| claim.start < claim.end);
    claims.sort_by_key(|claim| claim.start); // stable: equal starts keep their order
    let mut segments: Vec<Segment<T>> = Vec::with_capacity(claims.len());
    let mut active: BinaryHeap<(u64, usize)> = BinaryHeap::new(); // (rank, index)
    let mut next = 0;
    let mut at = 0;
    loop {
        while let Some(&(_, index)) = active.peek() {
            if claims[index].end > at {
                break;
            }
            active.pop();
        }
        if active.is_empty() {
            match claims.get(next) {
                Some(claim) => at = claim.start,
                None => return segments,
            }
        }
        while let Some(claim) = claims.get(next) {
            if claim.start > at {
                break;
            }
            active.push((claim.rank, next));
            next += 1;
        }
        let Some(&(_, top)) = active.peek() else {
            continue;
        };
        let Claim { end, value, .. } = claims[top];
        let end = claims.get(next).map_or(end, |claim| end.min(claim.start));
        if end > at {
            match segments.last_mut() {
                Some(last) if last.end == at && last.value == value => last.end = end,
                _ => segments.push(Segment {
                    start: at,
                    end,
                    value,
                }),
            }
            at = end;
        }
    }
}

/// The segment that holds `address`.
pub(crate) fn find<T>(segments: &[Segment<T>], address: u64) -> Option<&Segment<T>> {
    let after = segments.partition_point(|segment| segment.start <= address);
    let segment = segments.get(after.checked_sub(1)?)?;
    (address < segment.end).then_some(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer by trying every claim at every address.
    fn naive(claims: &[Claim<u32>], address: u64) -> Option<u32> {
        let mut best: Option<(u64, u32)> = None;
        let mut sorted = claims.to_vec();
        sorted.sort_by_key(|c| c.start);
        for claim in sorted
            .iter()
            .filter(|c| c.start <= address && address < c.end)
        {
            if best.is_none_or(|(rank, _)| claim.rank >= rank) {
                best = Some((claim.rank, claim.value));
            }
        }
        best.map(|(_, value)| value)
    }

    #[test]
    fn agrees_with_trying_every_claim() {
        let mut seed = 0x2545_f491_4f6c_dd1du64;
        let mut random = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for _ in 0..500 {
            let claims: Vec<Claim<u32>> = (0..random(12))
                .map(|value| {
                    let start = random(40);
                    Claim {
                        start,
                        end: start + random(12),
                        rank: random(4),
                        value: value as u32,
                    }
                })
                .collect();
            let segments = overlay(claims.clone());
            assert!(segments.windows(2).all(|w| w[0].end <= w[1].start));
            for address in 0..60 {
                assert_eq!(
                    find(&segments, address).map(|s| s.value),
                    naive(&claims, address),
                    "{claims:?} at {address}"
                );
            }
        }
    }
}
