//! `--top`: the groups that hurt users most.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::time::Duration;

use anstyle::Style as Paint;
use serde_json::{Map, json};

use super::facts::{copies_lines, count, date_time, duration};
use super::findings::{stack_json, titles};
use super::{Parts, PlainJson, Style, plain};
use crate::report::time::nanos;
use crate::symbolicate::frame::Symbolicated;
use crate::symbolicate::group::{
    APP_KEY, DAYS, Group, Groups, Launches, Member, NANOS_OF_A_DAY, OTHERS, RECIPE, UNKNOWN,
    key_text,
};

/// Versions and devices that are shown.
const MAX_VALUES_SHOWN: usize = 6;

/// The layout in which groups are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopLayout {
    /// For people.
    Text,
    /// One document.
    Json,
    /// A group a line.
    Ndjson,
}

/// The `n` groups that cost most, of all reports.
#[derive(Debug)]
pub struct Top {
    n: usize,
    pub(super) layout: TopLayout,
    pub(super) style: Style,
    pub(super) groups: Groups,
}

impl Top {
    /// `n` groups at most.
    pub fn new(n: usize, layout: TopLayout, style: Style) -> Top {
        Top {
            n,
            layout,
            style,
            groups: Groups::default(),
        }
    }
}

impl Parts for Top {
    type Part = Member;

    fn part(_style: &Style, origin: &str, report: &Symbolicated) -> Member {
        Member::new(origin, report)
    }

    fn add(&mut self, part: Member, _out: &mut dyn Write) -> io::Result<()> {
        self.groups.add_member(part);
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let top = self.groups.top(self.n);
        let titles = titles(&top);
        let versions = versions(&self.groups);
        let titled = top.iter().zip(&titles);
        let objects = || (titled.clone()).map(|(group, title)| group_json(group, &versions, title));
        match self.layout {
            TopLayout::Text => self.text(&top, &titles, &versions, out)?,
            TopLayout::Json => {
                let document = json!({
                    "reports": self.groups.reports(), "again": self.groups.duplicates(), "others": self.groups.reused_ids(),
                    "groups": self.groups.count(), "dropped": self.groups.dropped(),
                    "top": objects().collect::<Vec<_>>(),
                });
                writeln!(PlainJson(&mut *out), "{document:#}")?;
            }
            TopLayout::Ndjson => {
                for group in objects() {
                    writeln!(PlainJson(&mut *out), "{group}")?;
                }
            }
        }
        out.flush()
    }
}

impl Top {
    /// Writes the title and the facts of a group.
    pub(super) fn section(
        &self,
        title: &str,
        group: &Group,
        versions: &Versions<'_>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let title = self.style.paint(Paint::new().bold(), &plain(title));
        let (reports, key) = (self.groups.reports(), key_text(group.key));
        writeln!(
            out,
            "\n{title}\n     {}; group {key}",
            share_text(group, reports)
        )?;
        for (label, value) in facts(group, versions) {
            let label = format!("{}:", label.to_lowercase());
            writeln!(out, "     {label:<9} {}", plain(&value))?;
        }
        Ok(())
    }

    fn text(
        &self,
        top: &[&Group],
        titles: &[String],
        versions: &Versions<'_>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let reports = self.groups.reports();
        let all = count(reports, "report");
        let groups = count(self.groups.count() as u64, "group");
        writeln!(out, "{all} in {groups}; those that hurt users most:")?;
        for line in copies_lines(self.groups.duplicates(), self.groups.reused_ids()) {
            writeln!(out, "{line}.")?;
        }
        let title = "     launches  ended by it  reports        time  what";
        writeln!(out, "\n{title}")?;
        let listed = || (1..).zip(top.iter().zip(titles));
        for (rank, (group, title)) in listed() {
            writeln!(
                out,
                "{:>3}. {:>8}  {:>11}  {:>7}  {:>10}  {}",
                rank,
                group.launches(),
                group.ended,
                group.count,
                time_text(group.total, group.at_least),
                plain(title),
            )?;
        }
        for (rank, (group, title)) in listed() {
            self.section(&format!("{rank:>3}. {title}"), group, versions, out)?;
            for name in group.example.stack.iter().take(12) {
                writeln!(out, "       {}", plain(name))?;
            }
            if group.example.stack.len() > 12 {
                writeln!(out, "       … {} more", group.example.stack.len() - 12)?;
            }
        }
        if let dropped @ 1.. = self.groups.dropped() {
            let text = "reports were in groups too rare to be kept.";
            writeln!(out, "\n{dropped} {text}")?;
        }
        Ok(())
    }
}

/// `12 reports (3.0 %), 4.00 s in all, at worst 1.00 s`, of so many reports.
pub(super) fn share_text(group: &Group, reports: u64) -> String {
    let share = 100.0 * group.count as f64 / reports.max(1) as f64;
    let (total, worst) = (
        time_text(group.total, group.at_least),
        time_text(group.worst, group.at_least),
    );
    let counted = format!("{} ({share:.1} %)", count(group.count, "report"));
    if group.total.is_zero() {
        return counted;
    }
    format!("{counted}, {total} in all, at worst {worst}")
}

/// Facts of a group, each with its label, without those that are unknown.
pub(super) fn facts(group: &Group, versions: &Versions<'_>) -> Vec<(String, String)> {
    let trend = Trend::of(group, versions);
    let counts = |label: &str| group.labels.get(label).map_or(String::new(), counted);
    let facts = [
        ("Class", counts("classes")),
        ("Reason", counts("reasons")),
        ("Ended", counts("endings")),
        ("Seen", days_seen(group)),
        ("Trend", trend.map_or(String::new(), |trend| trend.text())),
        ("Versions", counts("versions")),
        ("Devices", counts("devices")),
        ("Systems", counts("systems")),
    ];
    let facts = facts.into_iter();
    let facts = facts.map(|(label, text)| (label.to_owned(), text));
    let keys = group.labels.iter().filter_map(|(label, values)| {
        Some((label.strip_prefix(APP_KEY)?.to_owned(), counted(values)))
    });
    let example = ("Example".to_owned(), group.example.origin.clone());
    let all = facts.chain(keys).chain([example]);
    all.filter(|(_, text)| !text.is_empty()).collect()
}

/// The versions of an app, the newest first, each with its launches that have any report.
pub(super) type Versions<'a> = [(&'a str, &'a Launches)];

/// The versions of all reports. Unknown versions do not count.
pub(super) fn versions(groups: &Groups) -> Vec<(&str, &Launches)> {
    let versions = groups.versions.iter();
    let versions = versions.map(|(version, launches)| (version.as_str(), launches));
    let known = versions.filter(|(version, _)| ![OTHERS, UNKNOWN].contains(version));
    let mut known: Vec<_> = known.collect();
    known.sort_by(|(a, _), (b, _)| by_numbers(b, a));
    known
}

/// A version, its launches that have reports of a group, and those that have any; of many launches a sample.
pub(super) type Share<'a> = (&'a str, u64, u64);

pub(super) fn shares<'a>(group: &Group, versions: &Versions<'a>) -> Vec<Share<'a>> {
    let versions = versions.iter();
    let shares = versions.map(|(version, all)| {
        let (own, all) = all.sample(group.versions.get(*version));
        (*version, own, all)
    });
    shares.collect()
}

/// Fewest launches of each side of a comparison.
const MIN_LAUNCHES: u64 = 20;

fn share((own, all): (u64, u64)) -> f64 {
    own as f64 / all as f64
}

/// A group's launches since `version`, and before; each with all that have any report.
#[derive(serde::Serialize)]
struct Trend<'a> {
    first: &'a str,
    last: &'a str,
    version: &'a str,
    launches: (u64, u64),
    before: (u64, u64),
    /// `new`, `gone`, `more`, `less`; `None` if chance explains the difference.
    word: Option<&'static str>,
}

impl<'a> Trend<'a> {
    /// Compares the newest version with the one before it; for a group that is new or gone, all versions without it with those
    /// that have it. `None` if there is one version alone. The test is that of two proportions, with two standard errors
    /// (NIST/SEMATECH e-Handbook of Statistical Methods, 7.3.3) and Yates's correction for continuity.
    fn of(group: &Group, versions: &Versions<'a>) -> Option<Trend<'a>> {
        let shares = shares(group, versions);
        let has_it = |of: &Share<'_>| of.1 > 0;
        let last = shares.iter().position(has_it)?;
        let first = shares.iter().rposition(has_it)?;
        let (split, end, word) = match (last, first) {
            (0, 0) => (1, shares.len(), "new"),
            (0, _) => (1, 2, "more"),
            _ => (last, shares.len(), "gone"),
        };
        let sum = |side: &[Share<'_>]| {
            let add = |(own, all), of: &Share<'_>| (own + of.1, all + of.2);
            side.iter().fold((0, 0), add)
        };
        let (launches, before) = (sum(&shares[..split]), sum(&shares[split..end]));
        let change = share(launches) - share(before);
        let pooled = share((launches.0 + before.0, launches.1 + before.1));
        let sizes = 1.0 / launches.1 as f64 + 1.0 / before.1 as f64;
        let chance = 2.0 * (pooled * (1.0 - pooled) * sizes).sqrt() + sizes / 2.0;
        let differs = launches.1.min(before.1) >= MIN_LAUNCHES && change.abs() > chance;
        let is_less = word == "more" && change < 0.0;
        (split < end).then_some(Trend {
            first: shares[first].0,
            last: shares[last].0,
            version: shares[split - 1].0,
            launches,
            before,
            word: differs.then_some(if is_less { "less" } else { word }),
        })
    }

    /// `1.2 to 1.3; more in 1.3 (+40 %): 14.0 % of 200, before 10.0 % of 90 (launches with any report)`.
    fn text(&self) -> String {
        let (first, last, version) = (self.first, self.last, self.version);
        let to = Some(format!(" to {last}")).filter(|_| first != last);
        let span = format!("{first}{}", to.unwrap_or_default());
        let change = 100.0 * (share(self.launches) / share(self.before) - 1.0);
        let what = match self.word {
            Some("gone") => format!("gone since {version}"),
            Some(word) if self.before.0 > 0 => format!("{word} in {version} ({change:+.0} %)"),
            Some(word) => format!("{word} in {version}"),
            None => format!("in {version}"),
        };
        let part = |of: (u64, u64)| format!("{:.1} % of {}", 100.0 * share(of), of.1);
        let (now, before) = (part(self.launches), part(self.before));
        format!("{span}; {what}: {now}, before {before} (launches with any report)")
    }
}

/// Compares two versions part by part, numbers as numbers: 2.9 is before 2.10.
pub(super) fn by_numbers(a: &str, b: &str) -> Ordering {
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

/// `≥ 12.0 s` where a stall was never seen to end; `-` where there are no stalls.
pub(super) fn time_text(time: Duration, at_least: bool) -> String {
    match (at_least, time.is_zero()) {
        (_, true) => "-".to_owned(),
        (true, false) => format!("≥ {}", duration(nanos(time))),
        (false, false) => duration(nanos(time)),
    }
}

/// Days of the first and the last report; those of wrong clocks apart.
pub(super) fn days_seen(group: &Group) -> String {
    let Some(usual) = usual_days(&group.days) else {
        return "at unknown times".to_owned();
    };
    // Of more days the first ones are no longer counted.
    let is_cut = group.days.len() >= DAYS;
    let first = group.first.filter(|_| is_cut);
    let first = first.map_or(*usual.start(), |first| first / NANOS_OF_A_DAY);
    let seen = days_text(first, *usual.end());
    match other_days(&group.days, &usual) {
        Some((1, days)) => format!("{seen}; 1 report at another time ({days})"),
        Some((reports, days)) => format!("{seen}; {reports} reports at other times ({days})"),
        None => seen,
    }
}

/// Longest run of days without a report within a span.
const MAX_GAP_DAYS: u64 = 366;

/// Returns the span of days that has the most reports, and the later one of two equal spans. A span has no year
/// without a report. Outside are reports of devices whose clocks were reset or are years ahead.
pub(super) fn usual_days(days: &BTreeMap<u64, u64>) -> Option<RangeInclusive<u64>> {
    let mut spans: Vec<(RangeInclusive<u64>, u64)> = Vec::new();
    for (&day, &count) in days {
        match spans.last_mut() {
            Some((span, reports)) if day - span.end() <= MAX_GAP_DAYS => {
                *span = *span.start()..=day;
                *reports = reports.saturating_add(count);
            }
            _ => spans.push((day..=day, count)),
        }
    }
    let most = spans.into_iter().max_by_key(|(_, reports)| *reports);
    most.map(|(span, _)| span)
}

/// Number of the reports outside of these days, and the first and the last of their days.
pub(super) fn other_days(
    days: &BTreeMap<u64, u64>,
    usual: &RangeInclusive<u64>,
) -> Option<(u64, String)> {
    let others = || days.iter().filter(|(day, _)| !usual.contains(day));
    let (first, _) = others().next()?;
    let (last, _) = others().next_back()?;
    Some((
        others().map(|(_, count)| count).sum(),
        days_text(*first, *last),
    ))
}

/// `2026-11-24`, or `2026-11-20 to 2026-11-24`; days since the epoch.
pub(super) fn days_text(first: u64, last: u64) -> String {
    let text = |day: u64| date_time(day.saturating_mul(NANOS_OF_A_DAY))[..10].to_owned();
    if first == last {
        text(first)
    } else {
        format!("{} to {}", text(first), text(last))
    }
}

/// `2.1 × 17, 2.0 × 4`, the most frequent first; empty if all are unknown.
pub(super) fn counted(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    if counts.iter().all(|(value, _)| *value == UNKNOWN) {
        return String::new();
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let more = counts.len().saturating_sub(MAX_VALUES_SHOWN);
    let parts = counts.iter().take(MAX_VALUES_SHOWN);
    let parts = parts.map(|(what, count)| format!("{what} × {count}"));
    let more = (more > 0).then(|| format!("{more} more"));
    parts.chain(more).collect::<Vec<_>>().join(", ")
}

pub(super) fn group_json(group: &Group, versions: &Versions<'_>, title: &str) -> serde_json::Value {
    let days = group.days.iter();
    let days = days.map(|(day, count)| (days_text(*day, *day), json!(count)));
    let mut object = json!({
        "group": key_text(group.key), "group_recipe": RECIPE, "type": group.example.kind.as_str(),
        "title": title, "place": group.example.place, "message": group.example.message,
        "stack": stack_json(&group.example), "count": group.count, "launches": group.launches(), "ended": group.ended,
        "total": nanos(group.total), "worst": nanos(group.worst), "at_least": group.at_least,
        "first": group.first, "last": group.last, "days": days.collect::<Map<_, _>>(),
        "trend": Trend::of(group, versions), "shares": shares(group, versions),
        "keys": {},
        "example": group.example.origin,
    });
    for (label, counts) in &group.labels {
        match label.strip_prefix(APP_KEY) {
            Some(key) => object["keys"][key] = json!(counts),
            None => object[&**label] = json!(counts),
        }
    }
    object
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
