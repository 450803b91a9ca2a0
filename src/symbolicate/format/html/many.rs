//! The page of many reports: which groups hurt users most, since when, in which versions, on which devices and systems,
//! where; and one report of each in whole.

use std::fmt::Write as _;
use std::io;

use super::daily_histogram::DayAxis;
use super::{Html, MAX_GROUPS, ReportPage, report};
use crate::symbolicate::format::findings::titles;
use crate::symbolicate::format::plain::escape;
use crate::symbolicate::format::{facts, top};
use crate::symbolicate::group::{Group, Groups, key_text};

/// Writes the overview, then reports in whole: those of groups that were asked for are their examples; otherwise all that are
/// there.
pub(super) fn write(out: &mut dyn io::Write, html: &Html) -> io::Result<()> {
    let (groups, examples) = (&html.groups, &html.examples);
    let mut ranked = groups.top(html.top.unwrap_or(usize::MAX));
    if let Some(chosen) = &html.chosen {
        ranked = chosen.group(groups).into_iter().collect();
    }
    let shown = &ranked[..ranked.len().min(html.top.unwrap_or(MAX_GROUPS))];
    let of_groups = ranked.iter();
    let of_groups = of_groups.filter_map(|group| examples.of_group(group.key));
    let of_groups: Vec<&ReportPage> = of_groups.collect();
    let is_top = html.top.is_some();
    let others = if is_top { &[] } else { examples.others() };
    let whole = of_groups.len() + others.len();
    out.write_all(head(groups, shown.len(), whole).as_bytes())?;
    out.write_all(overview(html, shown).as_bytes())?;
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
    let (reports, all) = (groups.reports(), groups.count());
    let count = |number: usize, what| facts::count(number as u64, what);
    let (title, found) = (facts::count(reports, "report"), count(all, "group"));
    let mut page = format!("<h1>{title} in {found}</h1>\n");
    let mut note = |text: String| {
        let _ = writeln!(page, "<p class=\"note\">{text}</p>");
    };
    for line in facts::copies_lines(groups.duplicates(), groups.reused_ids()) {
        note(format!("{line}."));
    }
    if shown < all || (whole as u64) < reports {
        let (shown, whole) = (count(shown, "group"), count(whole, "report"));
        note(format!(
            "This page has {shown} of {all}, those that hurt users most, and {whole} of {reports} in whole, one of each group first."
        ));
    }
    if let dropped @ 1.. = groups.dropped() {
        let text = "reports were in groups too rare to be kept.";
        note(format!("{dropped} {text}"));
    }
    page
}

fn overview(html: &Html, shown: &[&Group]) -> String {
    let mut page = String::new();
    let titles = titles(shown);
    let days = DayAxis::of(shown);
    let versions = top::versions(&html.groups);
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
        let (title, share) = (escape(title), top::share_text(group, html.groups.reports()));
        let (picture, axis) = (days.picture(group), days.axis(group));
        let ended = match group.ended {
            0 => String::new(),
            ended => format!(", launches ended: {ended}"),
        };
        let _ = writeln!(
            page,
            "<section class=\"group\" id=\"group{rank}\">\n<h2>{rank}. {title}</h2>\n<p>{share}{ended}</p>\n\
             <div class=\"counts\">\n{picture}{axis}</div>",
        );
        let facts = top::facts(group, &versions);
        let facts = facts.iter().map(|(label, value)| (&**label, &**value));
        report::table(&mut page, facts);
        if let Some(chosen) = &html.chosen {
            page.push_str("<div class=\"wide\" tabindex=\"0\"><pre>");
            let text = chosen.text(group, &versions);
            (text.lines()).for_each(|line| page.extend([&*escape(line), "\n"]));
            page.push_str("</pre></div>\n");
        }
        let (key, example) = (key_text(group.key), html.examples.of_group(group.key));
        if let Some(example) = example {
            let (stack, origin) = (&example.stack, escape(&example.member.origin));
            let _ = writeln!(
                page,
                "{stack}<p>In whole: <a href=\"#report-{key}\">{origin}</a></p>"
            );
        }
        let _ = writeln!(page, "<p><small>group {key}</small></p>\n</section>");
    }
    page
}

/// Writes the table of the groups to fix first.
fn table<'a>(
    page: &mut String,
    ranked: impl Iterator<Item = (usize, (&'a Group, &'a String))>,
    days: &DayAxis,
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
            top::time_text(group.total, group.at_least),
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
