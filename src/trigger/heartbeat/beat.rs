//! One word: what the watched thread last reported.

/// The last report of the watched thread: a count of `begin`s and `end`s, how deep they nest, and
/// which of the two was last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beat(pub(super) u64);

impl Beat {
    pub(super) const DEPTH: u64 = 0xffff;
    pub(super) const ENDED: u64 = 0x1_0000;
    const ONE: u64 = 0x2_0000;

    /// Nothing was ever reported.
    pub const NONE: Beat = Beat(0);

    /// After one more `begin`.
    #[inline]
    #[must_use]
    pub const fn begun(self) -> Beat {
        let deeper = if self.0 & Self::DEPTH == Self::DEPTH {
            0
        } else {
            1
        };
        Beat((self.0.wrapping_add(Self::ONE) & !Self::ENDED) + deeper)
    }

    /// After one more `end`; one without a `begin` only counts.
    #[inline]
    #[must_use]
    pub const fn ended(self) -> Beat {
        let shallower = if self.0 & Self::DEPTH == 0 { 0 } else { 1 };
        Beat((self.0.wrapping_add(Self::ONE) | Self::ENDED) - shallower)
    }

    /// Count of all `begin`s and `end`s.
    pub const fn count(self) -> u64 {
        self.0 / Self::ONE
    }

    /// Count of the `begin`s and `end`s since an earlier beat.
    pub const fn since(self, earlier: Beat) -> u64 {
        self.count().wrapping_sub(earlier.count()) & (u64::MAX / Self::ONE)
    }

    /// Count of the `begin`s that have not ended yet.
    pub const fn depth(self) -> u64 {
        self.0 & Self::DEPTH
    }

    /// Returns true if the thread has reported that it waits for its next event.
    pub const fn idle(self) -> bool {
        self.depth() == 0 && self.0 != 0
    }

    /// Returns true if a nested turn has ended inside one that has not: a nested run loop waits, or it is
    /// over and the outer turn goes on. The beat alone cannot tell which.
    pub const fn nested(self) -> bool {
        self.depth() != 0 && self.0 & Self::ENDED != 0
    }
}
