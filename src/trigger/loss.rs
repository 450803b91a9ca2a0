//! Events not reported since launch, by reason: counted where they are dropped, listed in every report.
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

use std::sync::atomic::{AtomicU64, Ordering};

use super::stall::Reason;

/// The reason why something is not in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The same stall was reported often enough.
    BackOff,
    /// There were reports, bytes or captures enough for this hour.
    Quota,
    /// The folder did not take it, or not all of it: the disk is full, say.
    Unwritten,
    /// A stack: the thread did not answer.
    Unanswered,
    /// A stack: the signal that stops the thread could not be sent.
    Unsent,
    /// It was no stall, for this reason.
    NoStall(Reason),
}

/// Counts of losses. Signal-safe to read and to write.
#[derive(Debug)]
pub struct Losses([AtomicU64; COUNT]);

/// The words of those that are no [`Reason`], in the order of [`LossReason`].
const OWN: [&str; 5] = ["back_off", "quota", "unwritten", "unanswered", "unsent"];
/// Kinds of loss.
pub const COUNT: usize = OWN.len() + Reason::ALL.len();

/// The process' own.
pub static LOSSES: Losses = Losses::new();

impl Losses {
    /// None yet.
    const fn new() -> Losses {
        Losses([const { AtomicU64::new(0) }; COUNT])
    }

    /// Forgets all: a new launch, or a new monitor.
    pub fn reset(&self) {
        self.0
            .iter()
            .for_each(|slot| slot.store(0, Ordering::Relaxed));
    }

    /// Counts one more.
    pub fn count(&self, loss: LossReason) {
        let place = match loss {
            LossReason::BackOff => 0,
            LossReason::Quota => 1,
            LossReason::Unwritten => 2,
            LossReason::Unanswered => 3,
            LossReason::Unsent => 4,
            LossReason::NoStall(reason) => OWN.len().wrapping_add(reason as usize),
        };
        if let Some(slot) = self.0.get(place) {
            slot.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The words of the `loss` section and their counts.
    pub fn counts(&self) -> [(&'static str, u64); COUNT] {
        let mut counts = [("", 0); COUNT];
        let words = Reason::ALL.iter().map(|reason| reason.as_str());
        for (slot, word) in counts.iter_mut().zip(OWN.into_iter().chain(words)) {
            slot.0 = word;
        }
        for (slot, count) in counts.iter_mut().zip(&self.0) {
            slot.1 = count.load(Ordering::Relaxed);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_under_its_own_word() {
        let losses = Losses::new();
        losses.count(LossReason::Quota);
        for &reason in Reason::ALL {
            (0..=reason as usize).for_each(|_| losses.count(LossReason::NoStall(reason)));
        }
        let counts = losses.counts();
        assert_eq!(counts[..2], [("back_off", 0), ("quota", 1)]);
        for &reason in Reason::ALL {
            assert!(counts.contains(&(reason.as_str(), reason as u64 + 1)));
        }
        losses.reset();
        assert!(losses.counts().iter().all(|count| count.1 == 0));
    }
}
