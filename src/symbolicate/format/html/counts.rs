//! Small pictures of a group's counts: over days, and by version, device, system and ending.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::symbolicate::format::facts::count;
use crate::symbolicate::format::plain::escape;
use crate::symbolicate::format::top::{days_text, other_days, seen};
use crate::symbolicate::group::{Group, OTHERS, usual_days};

/// Bars of a picture over days; of a longer time several days share one.
const BARS: u64 = 60;
/// Rows of a picture by version, device, system or ending.
const ROWS: usize = 6;

/// The days of all groups on a page: their pictures have one axis, so that they can be compared. Days of wrong clocks are
/// not on it.
#[derive(Debug)]
pub(super) struct OverDays {
    /// `None` if no report has a time.
    days: Option<RangeInclusive<u64>>,
    /// Number of the reports on other days.
    pub others: u64,
}

impl OverDays {
    /// Those on which the groups have reports.
    pub fn of(groups: &[&Group]) -> OverDays {
        let mut all: BTreeMap<u64, u64> = BTreeMap::new();
        for (day, count) in groups.iter().flat_map(|group| &group.days) {
            *all.entry(*day).or_default() += count;
        }
        let days = usual_days(&all);
        let others = days.as_ref().and_then(|days| other_days(&all, days));
        OverDays {
            days,
            others: others.map_or(0, |(reports, _)| reports),
        }
    }

    /// The head of the pictures' column.
    pub fn title(&self) -> String {
        let days = self.days.as_ref();
        days.map_or("Over days".to_owned(), |days| {
            let (first, last) = (days.start(), days.end());
            format!("{} to {}", day_text(*first), day_text(*last))
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
            return note(&seen(group));
        };
        let mut bars: BTreeMap<u64, u64> = BTreeMap::new();
        for (day, count) in of_group() {
            *bars.entry((day - first) / width).or_default() += count;
        }
        let most = bars.values().copied().max().unwrap_or(1) as f64;
        let (from, to) = (day_text(*from), day_text(*to));
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
            let (first, last) = (day_text(*days.start()), day_text(*days.end()));
            format!("<p class=\"axis\"><span>{first}</span><span>{last}</span></p>")
        };
        let days = self.days.as_ref();
        let shown = days.filter(|days| group.days.range((*days).clone()).next().is_some());
        shown.map_or(String::new(), axis)
    }
}

/// Days of one bar.
fn width(days: &RangeInclusive<u64>) -> u64 {
    (days.end() - days.start() + 1).div_ceil(BARS)
}

/// The days of the bar that begins at `day`.
fn bar_text(day: u64, width: u64) -> String {
    match width {
        1 => day_text(day),
        days => format!("{days} days from {}", day_text(day)),
    }
}

fn day_text(day: u64) -> String {
    days_text(day, day)
}

/// A bar for each version, the newest first.
pub(super) fn versions(counts: &BTreeMap<String, u64>, all: u64) -> String {
    let mut rows: Vec<(&str, u64)> = named(counts);
    rows.sort_by(|(a, _), (b, _)| by_numbers(b, a));
    let oldest = rows.last().map_or("", |(name, _)| name);
    let from = format!("older, from {oldest}");
    picture(&rows, &from, others(counts), all)
}

/// A bar for each name, the most frequent first.
pub(super) fn bars(counts: &BTreeMap<String, u64>, all: u64) -> String {
    let mut rows: Vec<(&str, u64)> = named(counts);
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    picture(&rows, "more", others(counts), all)
}

fn named(counts: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let rows = counts.iter().filter(|(name, _)| *name != OTHERS);
    rows.map(|(name, count)| (name.as_str(), *count)).collect()
}

fn others(counts: &BTreeMap<String, u64>) -> u64 {
    counts.get(OTHERS).copied().unwrap_or(0)
}

/// The first rows, and one for the rest.
fn picture(rows: &[(&str, u64)], rest: &str, others: u64, all: u64) -> String {
    let (shown, more) = if rows.len() <= ROWS && others == 0 {
        (rows, &[][..])
    } else {
        rows.split_at(rows.len().min(ROWS - 1))
    };
    let mut picture = "<ul class=\"bars\">\n".to_owned();
    let mut row = |name: &str, count: u64| {
        let (name, width) = (escape(name), 100.0 * count as f64 / all.max(1) as f64);
        let _ = writeln!(
            picture,
            "<li><span>{name}</span><b>{count}</b><svg class=\"bar\" aria-hidden=\"true\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\">\
             <rect class=\"c0\" width=\"{width:.1}\" height=\"1\"/></svg></li>"
        );
    };
    shown.iter().for_each(|(name, count)| row(name, *count));
    if !more.is_empty() || others > 0 {
        let count = others + more.iter().map(|(_, count)| count).sum::<u64>();
        let kinds = more.len();
        let name = if kinds > 0 {
            format!("{kinds} {rest}")
        } else {
            OTHERS.to_owned()
        };
        row(&name, count);
    }
    picture.push_str("</ul>\n");
    picture
}

/// Compares two versions part by part, numbers as numbers: 2.9 is before 2.10.
fn by_numbers(a: &str, b: &str) -> Ordering {
    let parts = |text| version_parts(text).collect::<Vec<_>>();
    parts(a).cmp(&parts(b)).then(a.cmp(b))
}

fn version_parts(text: &str) -> impl Iterator<Item = (Option<u128>, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = rest.find(|c| is_digit(c) != is_digit(first));
        let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        Some((part.parse().ok(), part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_their_numbers() {
        let mut versions = ["2.10", "2.9 (77)", "10.0", "2.9 (8)", "2.9", "unknown"];
        versions.sort_by(|a, b| by_numbers(a, b));
        let order = ["unknown", "2.9", "2.9 (8)", "2.9 (77)", "2.10", "10.0"];
        assert_eq!(versions, order);
    }

    #[test]
    fn the_newest_versions_have_a_bar_each_and_the_older_ones_share_one() {
        let counts = (1..=12).map(|minor| (format!("1.{minor}"), minor));
        let counts: BTreeMap<String, u64> = counts.collect();
        let picture = versions(&counts, 78);
        assert_eq!(picture.matches("<li>").count(), ROWS);
        let at = |text: &str| picture.find(text).expect("a row");
        assert!(at("<span>1.12</span><b>12</b>") < at("<span>1.8</span>"));
        assert!(
            picture.contains("<span>7 older, from 1.1</span><b>28</b>"),
            "{picture}"
        );
    }
}
