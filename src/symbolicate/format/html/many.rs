//! The page of many reports: which groups hurt users most, since when, in which versions, on which devices and systems,
//! where; and one report of each in whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use super::counts::OverDays;
use super::examples::Examples;
use super::{GROUPS, ReportPage, report};
use crate::symbolicate::format::findings::titles;
use crate::symbolicate::format::plain::escape;
use crate::symbolicate::format::{facts, top};
use crate::symbolicate::group::{Group, Groups, key_text};

/// Frames of a group's stack that are shown where no report of it is.
const FRAMES: usize = 24;

/// Writes the overview, then reports in whole: those of `top` groups are their examples; without `top`, all that are there.
pub(super) fn write(
    out: &mut dyn io::Write,
    groups: &Groups,
    examples: &Examples,
    top: Option<usize>,
) -> io::Result<()> {
    let ranked = groups.top(top.unwrap_or(usize::MAX));
    let shown = &ranked[..ranked.len().min(top.unwrap_or(GROUPS))];
    let of_groups = ranked
        .iter()
        .filter_map(|group| examples.of_group(group.key));
    let of_groups: Vec<&ReportPage> = of_groups.collect();
    let others = if top.is_some() {
        &[]
    } else {
        examples.others()
    };
    let whole = of_groups.len() + others.len();
    out.write_all(head(groups, shown.len(), whole).as_bytes())?;
    out.write_all(overview(groups, shown, examples).as_bytes())?;
    if whole > 0 {
        out.write_all(b"<h2 class=\"whole\">Reports in whole</h2>\n")?;
    }
    for page in of_groups {
        folded(out, page, Some(page.member.key))?;
    }
    for page in others {
        folded(out, page, None)?;
    }
    Ok(())
}

/// Counts, and what of them is not on the page.
fn head(groups: &Groups, shown: usize, whole: usize) -> String {
    let (reports, all) = (groups.reports(), groups.len());
    let title = facts::count(reports, "report");
    let found = facts::count(all as u64, "group");
    let mut page = format!("<h1>{title} in {found}</h1>\n");
    let mut note = |text: String| {
        let _ = writeln!(page, "<p class=\"note\">{text}</p>");
    };
    for line in facts::copies_lines(groups.again(), groups.others()) {
        note(format!("{line}."));
    }
    if shown < all || (whole as u64) < reports {
        let shown = facts::count(shown as u64, "group");
        let whole = facts::count(whole as u64, "report");
        note(format!(
            "This page has {shown} of {all}, those that hurt users most, and {whole} of {reports} in whole, one of each group first."
        ));
    }
    if let dropped @ 1.. = groups.dropped() {
        note(format!(
            "{dropped} reports were in groups too rare to be kept."
        ));
    }
    page
}

fn overview(groups: &Groups, shown: &[&Group], examples: &Examples) -> String {
    let mut page = String::new();
    let titles = titles(shown);
    let days = OverDays::of(shown);
    let versions = top::versions(groups);
    let ranked = || (1..).zip(shown.iter().copied().zip(&titles));
    if let others @ 1.. = days.others {
        let others = facts::count(others, "report");
        let _ = writeln!(
            page,
            "<p class=\"note\">{others} at other times than most, not in the pictures over days: the clock of a device may have been wrong.</p>"
        );
    }
    table(&mut page, ranked(), &days);
    for (rank, (group, title)) in ranked() {
        let _ = writeln!(
            page,
            "<section class=\"group\" id=\"group{rank}\">\n<h2>{rank}. {}</h2>",
            escape(title)
        );
        section(&mut page, group, groups, &versions, &days);
        match examples.of_group(group.key) {
            Some(example) => shown_by(&mut page, example),
            None => names(&mut page, group),
        }
        page.push_str("</section>\n");
    }
    page
}

/// Writes the table of the groups to fix first.
fn table<'a>(
    page: &mut String,
    ranked: impl Iterator<Item = (usize, (&'a Group, &'a String))>,
    days: &OverDays,
) {
    let heads = ["Launches", "Ended by it", "Reports", "Time"];
    let numbers = heads.map(|head| format!("<th class=\"n\">{head}</th>"));
    let _ = writeln!(
        page,
        "<div class=\"wide\" tabindex=\"0\"><table class=\"groups\"><tr><th>Rank</th><th>What</th>{}<th>{}</th></tr>",
        numbers.concat(),
        days.title(),
    );
    for (rank, (group, title)) in ranked {
        let values = [
            group.launches().to_string(),
            group.ended.to_string(),
            group.count.to_string(),
            top::time(group, group.total),
        ];
        let cells = heads.iter().zip(values);
        let cells = cells
            .map(|(head, value)| format!("<td class=\"n\" data-label=\"{head}\">{value}</td>"));
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{rank}</td><td class=\"what\"><a href=\"#group{rank}\">{}</a></td>{}\
             <td class=\"over\">{}</td></tr>",
            escape(title),
            cells.collect::<String>(),
            days.picture(group),
        );
    }
    page.push_str("</table></div>\n");
}

/// How many, since when, in which versions, on which devices and systems.
fn section(
    page: &mut String,
    group: &Group,
    groups: &Groups,
    versions: &BTreeMap<&str, u64>,
    days: &OverDays,
) {
    let fatal = match group.ended {
        0 => String::new(),
        ended => format!(", launches ended: {ended}"),
    };
    let share = top::share_text(group, groups.reports());
    let _ = writeln!(page, "<p>{share}{fatal}</p>");
    let (picture, axis) = (days.picture(group), days.axis(group));
    let _ = writeln!(page, "<div class=\"counts\">\n{picture}{axis}</div>");
    let facts = top::facts(group, versions);
    let facts = facts.iter().map(|(label, value)| (&**label, &**value));
    report::table(page, facts);
}

/// The stack of a group's example, and the way to it.
fn shown_by(page: &mut String, example: &ReportPage) {
    let (key, origin) = (key_text(example.member.key), escape(&example.member.origin));
    page.push_str(&example.stack);
    let _ = writeln!(
        page,
        "<p>In whole: <a href=\"#report-{key}\">{origin}</a> <small>group {key}</small></p>"
    );
}

fn names(page: &mut String, group: &Group) {
    page.push_str("<ol class=\"names\">");
    for name in group.example.stack.iter().take(FRAMES) {
        let _ = writeln!(page, "<li>{}</li>", escape(name));
    }
    let _ = writeln!(
        page,
        "</ol>\n<p><small>group {}</small></p>",
        key_text(group.key)
    );
}

/// Writes a report that opens when it is chosen, or by a link to it.
fn folded(out: &mut dyn io::Write, page: &ReportPage, key: Option<u128>) -> io::Result<()> {
    let (title, origin) = (escape(&page.title), escape(&page.member.origin));
    let id = key.map_or(String::new(), |key| {
        format!(" id=\"report-{}\"", key_text(key))
    });
    writeln!(
        out,
        "<details class=\"report\"><summary>{title} <small>{origin}</small></summary>\n<div{id}>"
    )?;
    out.write_all(page.body.as_bytes())?;
    out.write_all(b"</div></details>\n")
}
