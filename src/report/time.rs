//! Times and durations: nanoseconds in the format, the standard library's types in the model.
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

use std::time::{Duration, SystemTime};

/// Converts nanoseconds since the Unix epoch to a time, exactly. Signal-safe.
pub(crate) fn wall(nanoseconds: u64) -> SystemTime {
    let since = Duration::from_nanos(nanoseconds);
    let time = SystemTime::UNIX_EPOCH.checked_add(since);
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Converts a time to nanoseconds since the Unix epoch; 0 for a time before it. Signal-safe.
pub(crate) fn since_epoch(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, nanos)
}

/// Converts a duration to nanoseconds, [`u64::MAX`] (584 years) at most. Signal-safe.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_format_is_a_time_and_comes_back() {
        for value in [
            0,
            1,
            999_999_999,
            1_700_000_000_123_456_789,
            u64::MAX - 1,
            u64::MAX,
        ] {
            assert_eq!(since_epoch(wall(value)), value);
            assert_eq!(nanos(Duration::from_nanos(value)), value);
        }
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(since_epoch(before), 0);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }
}
