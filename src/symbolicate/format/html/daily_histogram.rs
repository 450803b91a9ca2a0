//! Small pictures of a group's reports over days.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::symbolicate::format::facts::count;
use crate::symbolicate::format::top::{days_seen, days_text, other_days, usual_days};
use crate::symbolicate::group::Group;

/// Bars of a picture over days; of a longer time several days share one.
const MAX_BARS: u64 = 60;

/// The days of all groups on a page: their pictures have one axis, so that they can be compared. Days of wrong clocks are
/// not on it.
#[derive(Debug)]
pub(super) struct DayAxis {
    /// `None` if no report has a time.
    days: Option<RangeInclusive<u64>>,
    /// Number of the reports on other days.
    pub others: u64,
}

impl DayAxis {
    /// Those on which the groups have reports.
    pub fn of(groups: &[&Group]) -> DayAxis {
        let mut all: BTreeMap<u64, u64> = BTreeMap::new();
        for (day, count) in groups.iter().flat_map(|group| &group.days) {
            *all.entry(*day).or_default() += count;
        }
        let days = usual_days(&all);
        let others = days.as_ref().and_then(|days| other_days(&all, days));
        DayAxis {
            days,
            others: others.map_or(0, |(reports, _)| reports),
        }
    }

    /// The head of the pictures' column.
    pub fn title(&self) -> String {
        let days = self.days.as_ref();
        days.map_or("Over days".to_owned(), |days| {
            days_text(*days.start(), *days.end())
        })
    }

    /// A group's reports in each bar.
    pub fn picture(&self, group: &Group) -> String {
        let note = |text: &str| format!("<p class=\"note\">{text}</p>\n");
        let Some(days) = &self.days else {
            return note("at unknown times");
        };
        let (first, width) = (*days.start(), width(days));
        let of_group = || group.days.range(days.clone());
        let (Some((from, _)), Some((to, _))) = (of_group().next(), of_group().next_back()) else {
            return note(&days_seen(group));
        };
        let mut bars: BTreeMap<u64, u64> = BTreeMap::new();
        for (day, count) in of_group() {
            *bars.entry((day - first) / width).or_default() += count;
        }
        let most = bars.values().copied().max().unwrap_or(1) as f64;
        let (from, to) = (days_text(*from, *from), days_text(*to, *to));
        // Bars of a short time are not as wide as the picture.
        let all = ((days.end() - first) / width + 1).max(14);
        let mut svg = format!(
            "<svg class=\"days\" viewBox=\"0 0 {all} 10\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"Reports over days, {from} to {to}\">\n"
        );
        for (at, bar) in bars {
            let height = (10.0 * bar as f64 / most).max(0.6);
            let top = 10.0 - height;
            let day = bar_text(first + at * width, width);
            let _ = writeln!(
                svg,
                "<rect class=\"c0\" x=\"{at}.1\" y=\"{top:.2}\" width=\".8\" height=\"{height:.2}\"><title>{day}: {}</title></rect>",
                count(bar, "report"),
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The ends of the axis below a group's picture.
    pub fn axis(&self, group: &Group) -> String {
        let axis = |days: &RangeInclusive<u64>| {
            let (first, last) = (
                days_text(*days.start(), *days.start()),
                days_text(*days.end(), *days.end()),
            );
            format!("<p class=\"axis\"><span>{first}</span><span>{last}</span></p>")
        };
        let days = self.days.as_ref();
        let shown = days.filter(|days| group.days.range((*days).clone()).next().is_some());
        shown.map_or(String::new(), axis)
    }
}

/// Days of one bar.
fn width(days: &RangeInclusive<u64>) -> u64 {
    (days.end() - days.start() + 1).div_ceil(MAX_BARS)
}

/// The days of the bar that begins at `day`.
fn bar_text(day: u64, width: u64) -> String {
    match width {
        1 => days_text(day, day),
        days => format!("{days} days from {}", days_text(day, day)),
    }
}
