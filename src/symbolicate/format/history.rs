//! `--group`: one group in whole: its history by version and day, its reports, and a stack.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::{Value as Json, json};

use super::facts::date_time;
use super::findings::titles;
use super::json::report_json;
use super::text::heaviest_stack;
use super::top::{Versions, counted, days_text, group_json, shares, time_text, versions};
use super::{Parts, PlainJson, Style, Top, TopLayout, plain};
use crate::report::time::nanos;
use crate::symbolicate::frame::Symbolicated;
use crate::symbolicate::group::{Group, Groups, Member, NANOS_OF_A_DAY, UNKNOWN, key_text};

/// Most reports that are listed.
const MAX_LISTED: usize = 1000;

/// The reports of a group, which a list of all groups has no room for.
#[derive(Debug, Default)]
pub(super) struct ChosenGroups {
    /// The digits with which its key begins.
    digits: String,
    /// The key; `None` before the first report.
    key: Option<u128>,
    reports: Vec<Member>,
    /// Reports by day, `unknown` where they have no time, and by version.
    days: BTreeMap<String, BTreeMap<String, u64>>,
}

impl ChosenGroups {
    pub fn new(digits: String) -> ChosenGroups {
        ChosenGroups {
            digits: digits.to_ascii_lowercase(),
            ..ChosenGroups::default()
        }
    }

    /// Counts a report that its group has counted. Returns false if the group is another one.
    pub fn add(&mut self, member: &Member) -> bool {
        let is_it = match self.key {
            Some(key) => key == member.key,
            None => key_text(member.key).starts_with(&self.digits),
        };
        if !is_it {
            return false;
        }
        self.key = Some(member.key);
        let day = member.time.map(|time| time / NANOS_OF_A_DAY);
        let day = day.map_or(UNKNOWN.to_owned(), |day| days_text(day, day));
        let version = member.label("versions").to_owned();
        *self
            .days
            .entry(day)
            .or_default()
            .entry(version)
            .or_default() += 1;
        if self.reports.len() < MAX_LISTED {
            self.reports.push(member.clone());
        }
        true
    }

    pub fn group<'a>(&self, groups: &'a Groups) -> Option<&'a Group> {
        groups.get(self.key?)
    }

    /// Tables of versions, days and reports.
    pub fn text(&self, group: &Group, versions: &Versions<'_>) -> String {
        let mut text = "     version          launches  of those with any report\n".to_owned();
        for (version, own, all) in shares(group, versions) {
            let (share, version) = (100.0 * own as f64 / all as f64, plain(version));
            let _ = writeln!(text, "     {version:<16} {own:>8}  {share:.1} % of {all}");
        }
        let _ = writeln!(text, "\n     {:<16} reports  by version", "day");
        for (day, versions) in self.days.iter().rev() {
            let all: u64 = versions.values().sum();
            let _ = writeln!(
                text,
                "     {day:<16} {all:>7}  {}",
                plain(&counted(versions))
            );
        }
        text.push_str(
            "\n     time                           lasted     ended by           report\n",
        );
        for of in &self.reports {
            let time = of.time.map_or(UNKNOWN.to_owned(), date_time);
            let (lasted, ending) = (time_text(of.duration, of.at_least), &of.ending);
            let line = format!("     {time:<30} {lasted:<10} {ending:<18} {}", of.origin);
            let _ = writeln!(text, "{}", plain(&line));
        }
        if let Some(more @ 1..) = group.count.checked_sub(self.reports.len() as u64) {
            let _ = writeln!(text, "     … {more} more");
        }
        text
    }

    fn json(&self, group: &Group, versions: &Versions<'_>, title: &str) -> Json {
        let reports = self.reports.iter().map(|of| {
            json!({
                "report": of.origin, "time": of.time, "version": of.label("versions"),
                "device": of.label("devices"), "duration": nanos(of.duration),
                "at_least": of.at_least, "ended": of.ended, "ending": of.ending,
            })
        });
        let mut object = group_json(group, versions, title);
        object["history"] = json!(self.days);
        object["reports"] = reports.collect();
        object
    }
}

/// The group of a key, among all reports.
#[derive(Debug)]
pub struct History {
    top: Top,
    chosen: ChosenGroups,
    /// The report that lasted longest, or the first one.
    example: Option<(Member, Box<Symbolicated>)>,
}

impl History {
    /// The group whose key begins with these hexadecimal digits.
    pub fn new(digits: String, layout: TopLayout, style: Style) -> History {
        History {
            top: Top::new(1, layout, style),
            chosen: ChosenGroups::new(digits),
            example: None,
        }
    }
}

impl Parts for History {
    type Part = (Member, Box<Symbolicated>);

    fn part(_style: &Style, origin: &str, report: &Symbolicated) -> Self::Part {
        (Member::new(origin, report), Box::new(report.clone()))
    }

    fn add(&mut self, (member, report): Self::Part, _out: &mut dyn Write) -> io::Result<()> {
        let groups = &mut self.top.groups;
        let before = groups.reports();
        groups.add_member(member.clone());
        if groups.reports() > before && self.chosen.add(&member) {
            let longest = self.example.as_ref().map(|(longest, _)| longest.duration);
            if longest.is_none_or(|longest| member.duration > longest) {
                self.example = Some((member, report));
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let (groups, style) = (&self.top.groups, &self.top.style);
        let versions = versions(groups);
        let group = self.chosen.group(groups);
        let titled = group.map(|group| (group, titles(&[group]).concat()));
        match (titled, &self.example, self.top.layout) {
            (Some((group, title)), Some((_, report)), TopLayout::Text) => {
                self.top.section(&title, group, &versions, out)?;
                writeln!(out, "\n{}", self.chosen.text(group, &versions))?;
                write!(out, "{}", heaviest_stack(style, report))?;
            }
            (Some((group, title)), Some((of, report)), _) => {
                let mut object = self.chosen.json(group, &versions, &title);
                object["example_report"] = json!(report_json(&of.origin, report, style));
                writeln!(PlainJson(&mut *out), "{object}")?;
            }
            (.., TopLayout::Text) => {
                let digits = &self.chosen.digits;
                let reports = groups.reports();
                writeln!(out, "None of {reports} reports is in group {digits}.")?;
            }
            _ => writeln!(out, "null")?,
        }
        out.flush()
    }
}
