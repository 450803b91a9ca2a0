//! Durations, sizes and dates for people.

/// Nanoseconds for people.
pub(super) fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match nanoseconds {
        0..1_000_000 => format!("{:.0} µs", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.0} ms", seconds * 1e3),
        1_000_000_000..120_000_000_000 => format!("{seconds:.2} s"),
        _ => format!("{:.1} min", seconds / 60.0),
    }
}

pub(super) fn bytes(count: u64) -> String {
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{:.1} KiB", count as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", count as f64 / 1_073_741_824.0),
    }
}

/// `1 report`, `2 reports`.
pub(crate) fn count(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

/// `2026-11-21 10:28:30.123 +0000`, from nanoseconds since the epoch.
pub(super) fn date_time(nanoseconds: u64) -> String {
    // All of `u64` lies within jiff's years.
    let at = jiff::Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default();
    at.strftime("%Y-%m-%d %H:%M:%S.%3f +0000").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date_time(0), "1970-01-01 00:00:00.000 +0000");
        assert_eq!(
            date_time(951_782_400_000_000_000),
            "2000-02-29 00:00:00.000 +0000"
        );
        assert_eq!(
            date_time(1_795_257_510_123_000_000),
            "2026-11-21 10:38:30.123 +0000"
        );
    }
}
