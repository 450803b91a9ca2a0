//! A copy of the async callers of one stack, in fixed room.
// Signal-safe: nothing here can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

use crate::report::{AsyncEnd, Chains, RawChain, RawChains};

/// Most chains that are kept.
const MAX_CHAINS: usize = 16;

/// The async callers of a stack that was taken before. What there is no room for is cut.
#[derive(Debug, Clone)]
pub struct KeptChains {
    chains: [RawChain; MAX_CHAINS],
    count: usize,
    callers: Box<[u64]>,
}

impl KeptChains {
    /// Reserves and touches room for so many callers of all chains.
    #[inline(never)]
    pub fn new(callers: usize) -> KeptChains {
        KeptChains {
            chains: [RawChain::default(); MAX_CHAINS],
            count: 0,
            callers: vec![u64::MAX; std::hint::black_box(callers)].into_boxed_slice(),
        }
    }

    /// Copies chains, in place of those it had. Signal-safe.
    pub fn set(&mut self, chains: RawChains<'_>) {
        self.count = 0;
        let mut used = 0usize;
        let all = (0..chains.chains.len()).filter_map(|index| chains.at(index));
        for (slot, (frame, callers, end)) in self.chains.iter_mut().zip(all) {
            let room = self.callers.get_mut(used..).unwrap_or_default();
            let count = callers.len().min(room.len());
            room.iter_mut()
                .zip(callers)
                .for_each(|(to, from)| *to = *from);
            *slot = RawChain {
                frame: frame as u32,
                first_caller: used as u32,
                count: count as u32,
                end: if count < callers.len() {
                    AsyncEnd::Limit
                } else {
                    end
                },
            };
            used = used.saturating_add(count);
            self.count = self.count.saturating_add(1);
        }
    }

    /// The chains.
    pub fn chains(&self) -> RawChains<'_> {
        RawChains {
            chains: self.chains.get(..self.count).unwrap_or_default(),
            callers: &self.callers,
        }
    }

    /// Returns true if these are the chains that were copied, as far as there was room.
    pub fn is(&self, chains: RawChains<'_>) -> bool {
        let own = self.chains();
        let count = chains.chains.len().min(MAX_CHAINS);
        self.count == count
            && (0..count).all(|index| match (own.at(index), chains.at(index)) {
                (Some((frame, kept, end)), Some((of, callers, other))) => {
                    let whole = kept.len() == callers.len() && end == other;
                    frame == of && callers.starts_with(kept) && (whole || end == AsyncEnd::Limit)
                }
                _ => false,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_room_for_is_cut_and_still_the_same() {
        let chain = |frame, first_caller, count| RawChain {
            frame,
            first_caller,
            count,
            end: AsyncEnd::Root,
        };
        let both = [chain(2, 0, 3), chain(5, 3, 2)];
        let of = |callers| RawChains {
            chains: &both,
            callers,
        };
        let callers = [1, 2, 3, 4, 5];
        for room in 0..7 {
            let mut kept = KeptChains::new(room);
            assert!(kept.is(RawChains::default()));
            kept.set(of(&callers));
            let chains = kept.chains();
            let (frame, second, end) = chains.at(1).unwrap();
            assert_eq!((frame, second.len()), (5, room.saturating_sub(3).min(2)));
            assert_eq!(end == AsyncEnd::Limit, room < 5);
            assert!(kept.is(of(&callers)));
            assert!(!kept.is(RawChains {
                chains: &both[..1],
                callers: &callers
            }));
            assert_eq!(kept.is(of(&[1, 2, 3, 4, 9])), room < 5, "{room}");
        }
    }
}
