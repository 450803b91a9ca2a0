//! The days of reports, without those of wrong clocks.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Longest run of days without a report within a span.
const GAP: u64 = 366;

/// Returns the span of days that has the most reports, and the later one of two equal spans. A span has no year
/// without a report. Outside are reports of devices whose clocks were reset or are years ahead.
pub(crate) fn usual_days(days: &BTreeMap<u64, u64>) -> Option<RangeInclusive<u64>> {
    let mut spans: Vec<(RangeInclusive<u64>, u64)> = Vec::new();
    for (&day, &count) in days {
        match spans.last_mut() {
            Some((span, reports)) if day - span.end() <= GAP => {
                *span = *span.start()..=day;
                *reports = reports.saturating_add(count);
            }
            _ => spans.push((day..=day, count)),
        }
    }
    let most = spans.into_iter().max_by_key(|(_, reports)| *reports);
    most.map(|(span, _)| span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_wrong_clocks_are_outside() {
        let usual = |days: &[(u64, u64)]| usual_days(&days.iter().copied().collect());
        assert_eq!(usual(&[]), None);
        assert_eq!(usual(&[(20_000, 1)]), Some(20_000..=20_000));
        // Reset to the epoch; ahead by thirty years.
        let days = [(0, 2), (20_000, 1), (20_010, 2), (31_000, 1)];
        assert_eq!(usual(&days), Some(20_000..=20_010));
        // Four years of an app whose groups are rare.
        let years = [
            (18_700, 1),
            (19_000, 1),
            (19_360, 1),
            (19_720, 1),
            (20_080, 9),
        ];
        assert_eq!(usual(&years), Some(18_700..=20_080));
        assert_eq!(usual(&[(0, 1), (20_000, 1)]), Some(20_000..=20_000));
    }
}
