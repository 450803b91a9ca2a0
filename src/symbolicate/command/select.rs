//! `--type`, `--since`, `--until`, `--version-is`: which reports are wanted.

use crate::report::time::since_epoch;
use crate::report::{EventKind, Reading};
use clap::builder::PossibleValue;

/// The selection of reports. An option that is not set selects all.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Which reports")]
pub struct Select {
    /// Only reports of this type; give it more than once, or a list with commas
    ///
    /// hang and anr are other words for stall.
    #[arg(short = 't', long = "type", value_name = "TYPE", value_delimiter = ',',
          value_parser = clap::builder::PossibleValuesParser::new(kind_values()))]
    kinds: Vec<String>,

    /// Only reports since this date, time or age, such as yesterday, 2026-11-21, 2026-11-21T10:00:00Z, 7d, 12h
    ///
    /// A date or time without a zone is in UTC, and so are today and yesterday.
    #[arg(long, value_name = "TIME", value_parser = |text: &str| instant(text, 0))]
    since: Option<u64>,

    /// Only reports until then; a date includes its whole day
    #[arg(long, value_name = "TIME", value_parser = |text: &str| instant(text, 1))]
    until: Option<u64>,

    /// Only reports of this version of the app; 2.1 includes every build, such as 2.1 (77)
    #[arg(long, value_name = "VERSION")]
    version_is: Vec<String>,
}

impl Select {
    /// Returns true if the report is wanted. One without a time is not, where times are limited. What damage has taken from a
    /// report may be what is asked for, and so counts as it.
    pub(super) fn wants(&self, reading: &Reading) -> bool {
        let report = &reading.report;
        let is_lost = |is_there: bool| !is_there && !reading.damage.is_empty();
        let kind = report.event.as_ref().map(|event| event.kind);
        let word = kind.map_or("other", EventKind::as_str);
        let at = since_epoch(report.head.time);
        let version = report.head.app.version.as_str();
        let number = version.split(" (").next().unwrap_or(version);
        let is_version = |wanted: &String| wanted == version || wanted == number;
        let is_within = at > 0
            && self.since.is_none_or(|since| at >= since)
            && self.until.is_none_or(|until| at < until);
        (self.kinds.is_empty()
            || is_lost(kind.is_some())
            || self.kinds.iter().any(|kind| is_kind(kind, word)))
            && (self.since.or(self.until).is_none() || is_lost(at > 0) || is_within)
            && (self.version_is.is_empty()
                || is_lost(!version.is_empty())
                || self.version_is.iter().any(is_version))
    }
}

/// Other recorders' words for a stall.
const STALLS: [&str; 2] = ["hang", "anr"];

fn kind_values() -> impl Iterator<Item = PossibleValue> {
    EventKind::ALL.iter().map(|kind| {
        let is_stall = *kind == EventKind::Stall;
        PossibleValue::new(kind.as_str()).aliases(STALLS.iter().filter(|_| is_stall))
    })
}

/// Returns true if the type that was asked for is that of a report.
fn is_kind(asked: &str, word: &str) -> bool {
    asked == word || STALLS.contains(&asked) && word == EventKind::Stall.as_str()
}

/// Nanoseconds since the epoch; of a day the beginning, so many `days` later.
fn instant(text: &str, days: i64) -> Result<u64, String> {
    use jiff::{Span, Timestamp, ToSpan as _, civil, tz::TimeZone};
    let utc = |at: civil::DateTime| at.to_zoned(TimeZone::UTC).map(|at| at.timestamp());
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let day = match text {
        "today" => Ok(today),
        "yesterday" => today.yesterday(),
        text => text.parse::<civil::Date>(),
    };
    let at = if let Ok(at) = text.parse::<Timestamp>() {
        Ok(at)
    } else if text.len() <= 10
        && let Ok(day) = day
    {
        utc(day.saturating_add(days.days()).at(0, 0, 0, 0))
    } else if let Ok(at) = text.parse::<civil::DateTime>() {
        utc(at)
    } else if let Ok(ago) = text.parse::<Span>() {
        let now = Timestamp::now().to_zoned(TimeZone::UTC);
        now.checked_sub(ago.abs()).map(|at| at.timestamp())
    } else {
        return Err("not a date, a time, an age (7d, 12h), today or yesterday".into());
    };
    let at = at.map_err(|error| error.to_string())?;
    u64::try_from(at.as_nanosecond()).map_err(|_| "before 1970".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_times_or_ago() {
        let (since, until) = (|text| instant(text, 0), |text| instant(text, 1));
        // `date -u -d '2026-11-21' +%s`
        let day = 1_795_219_200_000_000_000;
        assert_eq!(since("2026-11-21"), Ok(day));
        assert_eq!(until("2026-11-21"), Ok(day + 86_400_000_000_000));
        assert_eq!(until("2026-11-21T00:00:00"), Ok(day));
        assert_eq!(since("2026-11-21T01:00:00+01:00"), Ok(day));
        let now = since_epoch(std::time::SystemTime::now());
        let week = now - since("7d").unwrap();
        assert!(
            week.abs_diff(7 * 86_400_000_000_000) < 60_000_000_000,
            "{week}"
        );
        let (long, today) = (86_400_000_000_000, since("today").unwrap());
        assert_eq!(today % long, 0);
        assert!(
            (0..long + 60_000_000_000).contains(&(now - today)),
            "{today}"
        );
        assert_eq!(
            (since("yesterday"), until("yesterday")),
            (Ok(today - long), Ok(today))
        );
        assert!(since("soon").is_err());
    }
}
