//! One word: what the watched thread last reported.

/// What the watched thread last reported: a count of `begin`s and `end`s, how deep they nest, and
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

    /// How many `begin`s and `end`s there were.
    pub const fn count(self) -> u64 {
        self.0 / Self::ONE
    }

    /// How many there were since an earlier beat.
    pub const fn since(self, earlier: Beat) -> u64 {
        self.count().wrapping_sub(earlier.count()) & (u64::MAX / Self::ONE)
    }

    /// How many `begin`s have not ended yet.
    pub const fn depth(self) -> u64 {
        self.0 & Self::DEPTH
    }

    /// Whether the thread waits for its next event, by its own word.
    pub const fn idle(self) -> bool {
        self.depth() == 0 && self.0 != 0
    }

    /// Whether a nested turn has ended inside one that has not: a nested run loop waits, or it is
    /// over and the outer turn goes on. The beat alone cannot tell which.
    pub const fn nested(self) -> bool {
        self.depth() != 0 && self.0 & Self::ENDED != 0
    }
}
