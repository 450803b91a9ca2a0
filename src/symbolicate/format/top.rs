//! `--top`: the groups that hurt users most.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::json;

use super::facts::{again_text, count, date_time, duration};
use super::findings::titles;
use super::{Format, PlainJson, Style, plain};
use crate::report::time::nanos;
use crate::symbolicate::frame::Symbolicated;
use crate::symbolicate::group::{
    DAYS, Group, Groups, Member, NANOS_OF_A_DAY, RECIPE, key_text, usual_days,
};

/// Versions and devices that are shown.
const KINDS: usize = 6;

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
    layout: TopLayout,
    style: Style,
    groups: Groups,
}

impl Top {
    /// `n` groups at most.
    pub fn new(n: usize, layout: TopLayout, style: Style) -> Top {
        Top {
            n,
            layout,
            style,
            groups: Groups::new(),
        }
    }
}

impl Format for Top {
    type Part = Member;

    fn part(_style: &Style, origin: &str, report: &Symbolicated) -> Member {
        Member::new(origin, report)
    }

    fn add(&mut self, part: Member, _out: &mut dyn Write) -> io::Result<()> {
        self.groups.count(part);
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let top = self.groups.top(self.n);
        let titles = titles(&top);
        let objects = || {
            top.iter()
                .zip(&titles)
                .map(|(group, title)| group_json(group, title))
        };
        match self.layout {
            TopLayout::Text => self.text(&top, &titles, out)?,
            TopLayout::Json => {
                let document = json!({
                    "reports": self.groups.reports(),
                    "again": self.groups.again(),
                    "groups": self.groups.len(),
                    "dropped": self.groups.dropped(),
                    "top": objects().collect::<Vec<_>>(),
                });
                serde_json::to_writer_pretty(PlainJson(&mut *out), &document)?;
                writeln!(out)?;
            }
            TopLayout::Ndjson => {
                for group in objects() {
                    serde_json::to_writer(PlainJson(&mut *out), &group)?;
                    writeln!(out)?;
                }
            }
        }
        out.flush()
    }
}

impl Top {
    fn text(&self, top: &[&Group], titles: &[String], out: &mut dyn Write) -> io::Result<()> {
        let (bold, reset) = if self.style.color {
            ("\x1b[1m", "\x1b[0m")
        } else {
            ("", "")
        };
        let reports = self.groups.reports();
        let all = count(reports, "report");
        let groups = count(self.groups.len() as u64, "group");
        writeln!(out, "{all} in {groups}; those that hurt users most:")?;
        if let again @ 1.. = self.groups.again() {
            writeln!(out, "{}.", again_text(again))?;
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
                time(group, group.total),
                plain(title),
            )?;
        }
        for (rank, (group, title)) in listed() {
            let share = 100.0 * group.count as f64 / reports.max(1) as f64;
            writeln!(out, "\n{bold}{rank:>3}. {}{reset}", plain(title))?;
            write!(out, "     {} ({share:.1} %)", count(group.count, "report"))?;
            if !group.total.is_zero() {
                let (total, worst) = (time(group, group.total), time(group, group.worst));
                write!(out, ", {total} in all, at worst {worst}")?;
            }
            writeln!(out, "; group {}", key_text(group.key))?;
            for (label, value) in facts(group) {
                let label = format!("{}:", label.to_lowercase());
                writeln!(out, "     {label:<9} {}", plain(&value))?;
            }
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

/// Facts of a group, each with its label.
pub(super) fn facts(group: &Group) -> [(&'static str, String); 6] {
    [
        ("Ended", counted(&group.endings)),
        ("Seen", seen(group)),
        ("Versions", counted(&group.versions)),
        ("Devices", counted(&group.devices)),
        ("Systems", counted(&group.systems)),
        ("Example", group.example.origin.clone()),
    ]
}

/// `≥ 12.0 s` where a stall was never seen to end; `-` where there are no stalls.
pub(super) fn time(group: &Group, time: Duration) -> String {
    match (group.at_least, time.is_zero()) {
        (_, true) => "-".to_owned(),
        (true, false) => format!("≥ {}", duration(nanos(time))),
        (false, false) => duration(nanos(time)),
    }
}

/// Days of the first and the last report; those of wrong clocks apart.
pub(super) fn seen(group: &Group) -> String {
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

/// `2.1 × 17, 2.0 × 4`, the most frequent first.
fn counted(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let more = counts.len().saturating_sub(KINDS);
    let parts = counts.iter().take(KINDS);
    let parts = parts.map(|(what, count)| format!("{what} × {count}"));
    let mut parts: Vec<String> = parts.collect();
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    parts.join(", ")
}

fn group_json(group: &Group, title: &str) -> serde_json::Value {
    json!({
        "group": key_text(group.key),
        "group_recipe": RECIPE,
        "type": group.example.kind.as_str(),
        "title": title,
        "place": group.example.place,
        "message": group.example.message,
        "stack": group.example.stack,
        "count": group.count,
        "launches": group.launches(),
        "ended": group.ended,
        "total": nanos(group.total),
        "worst": nanos(group.worst),
        "at_least": group.at_least,
        "first": group.first,
        "last": group.last,
        "endings": group.endings,
        "example": group.example.origin,
        "versions": group.versions,
        "devices": group.devices,
        "systems": group.systems,
    })
}
