//! When a freeze is a stall: what the app sets.

use std::time::Duration;

/// When a freeze of the watched thread is a stall.
///
/// ```
/// use std::time::Duration;
/// use wedjat::Stall;
/// let stall = Stall::default().timeout(Duration::from_millis(100)).strikes(3);
/// assert_eq!(stall.threshold(), Duration::from_millis(300));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// One strike, 50 ms: the watchdog looks so often.
    pub timeout: Duration,
    /// So many strikes in a row are a stall, 5.
    pub strikes: u32,
    /// From `install` to the end of the first turn; `None` for the same as later turns.
    pub launch: Option<Duration>,
}

impl Default for Stall {
    fn default() -> Stall {
        Stall {
            timeout: Duration::from_millis(50),
            strikes: 5,
            launch: None,
        }
    }
}

impl Stall {
    /// Sets the length of one strike; at least 1 ms, at most a minute.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Stall {
        self.timeout = timeout.clamp(Duration::from_millis(1), Duration::from_secs(60));
        self
    }

    /// Sets how many strikes in a row are a stall; at least 1, at most 10,000.
    #[must_use]
    pub fn strikes(mut self, strikes: u32) -> Stall {
        self.strikes = strikes.clamp(1, 10_000);
        self
    }

    /// Sets how long the launch may take, from `install` to the end of the first turn.
    #[must_use]
    pub fn launch(mut self, limit: Duration) -> Stall {
        self.launch = Some(limit);
        self
    }

    /// A freeze of so long is a stall: `timeout × strikes`.
    pub fn threshold(&self) -> Duration {
        self.timeout.saturating_mul(self.strikes)
    }
}
