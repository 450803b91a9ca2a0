//! `--top`: the groups that cost most.

use std::io::{self, Write};

use serde_json::json;

use super::units::count;
use super::{Format, PlainJson, Style, plain};
use crate::report::time::nanos;
use crate::symbolicate::frame::Symbolicated;
use crate::symbolicate::group::{Group, Groups, Member, RECIPE, key_text};

/// Versions and devices that are shown.
const KINDS: usize = 6;

/// How groups are printed.
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
        match self.layout {
            TopLayout::Text => self.text(&top, out)?,
            TopLayout::Json => {
                let document = json!({
                    "reports": self.groups.reports(),
                    "groups": self.groups.len(),
                    "dropped": self.groups.dropped(),
                    "top": top.iter().map(|group| group_json(group)).collect::<Vec<_>>(),
                });
                serde_json::to_writer_pretty(PlainJson(&mut *out), &document)?;
                writeln!(out)?;
            }
            TopLayout::Ndjson => {
                for group in top {
                    serde_json::to_writer(PlainJson(&mut *out), &group_json(group))?;
                    writeln!(out)?;
                }
            }
        }
        out.flush()
    }
}

impl Top {
    fn text(&self, top: &[&Group], out: &mut dyn Write) -> io::Result<()> {
        let (bold, reset) = if self.style.color {
            ("\x1b[1m", "\x1b[0m")
        } else {
            ("", "")
        };
        let reports = self.groups.reports();
        let (all, groups) = (
            count(reports, "report"),
            count(self.groups.len() as u64, "group"),
        );
        writeln!(out, "{all} in {groups}; those that cost most:")?;
        for (rank, group) in top.iter().enumerate() {
            let what = group.stack.first().map_or("(no stack)", String::as_str);
            let kind = group.kind.as_str();
            writeln!(
                out,
                "\n{bold}{:>3}. {kind} in {}{reset}",
                rank + 1,
                plain(what)
            )?;
            let share = 100.0 * group.count as f64 / reports.max(1) as f64;
            write!(out, "     {} ({share:.1} %)", count(group.count, "report"))?;
            if !group.total.is_zero() {
                let (total, worst) = (group.total.as_secs_f64(), group.worst.as_secs_f64());
                write!(out, ", {total:.1} s in all, at worst {worst:.2} s")?;
            }
            writeln!(out, "; group {}", key_text(group.key))?;
            writeln!(out, "     versions: {}", plain(&counted(&group.versions)))?;
            writeln!(out, "     devices:  {}", plain(&counted(&group.devices)))?;
            writeln!(out, "     example:  {}", plain(&group.example))?;
            for name in group.stack.iter().take(12) {
                writeln!(out, "       {}", plain(name))?;
            }
            if group.stack.len() > 12 {
                writeln!(out, "       … {} more", group.stack.len() - 12)?;
            }
        }
        if self.groups.dropped() > 0 {
            let dropped = self.groups.dropped();
            writeln!(
                out,
                "\n{dropped} reports were in groups too rare to be kept."
            )?;
        }
        Ok(())
    }
}

/// `2.1 × 17, 2.0 × 4`, the most frequent first.
pub(super) fn counted(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let more = counts.len().saturating_sub(KINDS);
    let mut parts: Vec<String> = counts
        .iter()
        .take(KINDS)
        .map(|(what, count)| format!("{what} × {count}"))
        .collect();
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    parts.join(", ")
}

fn group_json(group: &Group) -> serde_json::Value {
    json!({
        "group": key_text(group.key),
        "group_recipe": RECIPE,
        "type": group.kind.as_str(),
        "stack": group.stack,
        "count": group.count,
        "total": nanos(group.total),
        "worst": nanos(group.worst),
        "example": group.example,
        "versions": group.versions,
        "devices": group.devices,
    })
}
