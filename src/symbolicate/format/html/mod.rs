//! One page for a report, or for all of them together, with the groups that hurt users most: it needs no network, no
//! script, and follows the reader's choice of light or dark.

mod flame;
mod pictures;
mod report;
mod stack;

use std::fmt::Write as _;
use std::io;

use super::findings::titles;
use super::plain::escape;
use super::{Format, Style, facts, top};
use crate::symbolicate::frame::Symbolicated;
use crate::symbolicate::group::{Group, Groups, Member, key_text};

/// Reports that a page shows one by one; of further ones it shows the groups.
const REPORTS: usize = 100;
/// Groups that a page of several reports shows.
const GROUPS: usize = 10;

/// The page being put together.
#[derive(Debug, Default)]
pub struct Html {
    /// Only so many groups are wanted, and no reports.
    top: Option<usize>,
    groups: Groups,
    reports: Vec<ReportPage>,
}

/// One report's place in the page.
#[derive(Debug)]
pub struct ReportPage {
    member: Member,
    title: String,
    body: String,
}

impl Html {
    /// A page of the `n` groups that cost most.
    pub fn top(n: usize) -> Html {
        Html {
            top: Some(n),
            ..Html::default()
        }
    }
}

impl Format for Html {
    type Part = ReportPage;

    fn part(style: &Style, origin: &str, report: &Symbolicated) -> ReportPage {
        let member = Member::new(origin, report);
        ReportPage {
            title: report::title(report, &member),
            body: report::body(style, origin, report, &member),
            member,
        }
    }

    fn add(&mut self, part: ReportPage, _out: &mut dyn io::Write) -> io::Result<()> {
        let before = self.groups.reports();
        self.groups.count(part.member.clone());
        let is_new = self.groups.reports() > before;
        if is_new && self.top.is_none() && self.reports.len() < REPORTS {
            self.reports.push(part);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        match (&self.reports[..], self.top, self.groups.reports()) {
            ([only], None, 1) => {
                begin(out, &only.title)?;
                out.write_all(only.body.as_bytes())?;
            }
            (reports, top, count) => {
                begin(out, &facts::count(count, "report"))?;
                out.write_all(groups_body(&self.groups, top.unwrap_or(GROUPS)).as_bytes())?;
                for page in reports {
                    let title = escape(&page.title);
                    let origin = escape(&page.member.origin);
                    writeln!(
                        out,
                        "<details class=\"report\"><summary>{title} <small>{origin}</small></summary>"
                    )?;
                    out.write_all(page.body.as_bytes())?;
                    out.write_all(b"</details>\n")?;
                }
                let left = count.saturating_sub(reports.len() as u64);
                if top.is_none() && left > 0 {
                    writeln!(
                        out,
                        "<p class=\"note\">{left} more reports are counted above.</p>"
                    )?;
                }
            }
        }
        let version = env!("CARGO_PKG_VERSION");
        writeln!(
            out,
            "<footer>wedjat {version}</footer>\n</main>\n</body>\n</html>"
        )?;
        out.flush()
    }
}

/// Nothing may be loaded and nothing run, whatever names strangers gave their functions.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

fn begin(out: &mut dyn io::Write, title: &str) -> io::Result<()> {
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n",
        escape(title),
        include_str!("page.css"),
    )
}

/// Frames of a group's stack that are shown.
const FRAMES: usize = 24;

fn groups_body(groups: &Groups, n: usize) -> String {
    let mut page = String::new();
    let reports = groups.reports();
    let found = facts::count(groups.len() as u64, "group");
    let _ = writeln!(
        page,
        "<h1>{} in {found}</h1>",
        facts::count(reports, "report")
    );
    if let again @ 1.. = groups.again() {
        let text = facts::again_text(again);
        let _ = writeln!(page, "<p class=\"note\">{text}.</p>");
    }
    let all = groups.top(n);
    let titles = titles(&all);
    groups_table(&mut page, &all, &titles);
    let most = all.iter().map(|group| group.count).max().unwrap_or(1);
    for (rank, (group, title)) in (1..).zip(all.iter().zip(&titles)) {
        group_section(&mut page, (rank, title), group, reports, most);
    }
    if let dropped @ 1.. = groups.dropped() {
        let text = "reports were in groups too rare to be kept.";
        let _ = writeln!(page, "<p class=\"note\">{dropped} {text}</p>");
    }
    page
}

/// Writes the table of the groups to fix first.
fn groups_table(page: &mut String, all: &[&Group], titles: &[String]) {
    page.push_str(
        "<div class=\"wide\"><table class=\"groups\"><tr><th></th><th>What</th><th class=\"n\">Launches</th>\
         <th class=\"n\">Ended by it</th><th class=\"n\">Reports</th><th class=\"n\">Time</th>\
         <th class=\"n\">Versions</th><th>Seen</th></tr>\n",
    );
    for (rank, (group, title)) in (1..).zip(all.iter().zip(titles)) {
        let cell =
            |label: &str, text: &str| format!("<td class=\"n\" data-label=\"{label}\">{text}</td>");
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{rank}</td><td class=\"what\"><a href=\"#group{rank}\">{}</a></td>{}{}{}{}{}\
             <td data-label=\"Seen\">{}</td></tr>",
            escape(title),
            cell("Launches", &group.launches().to_string()),
            cell("Ended by it", &group.ended.to_string()),
            cell("Reports", &group.count.to_string()),
            cell("Time", &top::time(group, group.total)),
            cell("Versions", &group.versions.len().to_string()),
            top::seen(group),
        );
    }
    page.push_str("</table></div>\n");
}

/// The bar is as long as the group has reports; those that ended their launch are red.
fn group_section(
    page: &mut String,
    (rank, title): (usize, &str),
    group: &Group,
    reports: u64,
    most: u64,
) {
    let share = 100.0 * group.count as f64 / reports.max(1) as f64;
    let (total, worst) = (top::time(group, group.total), top::time(group, group.worst));
    let lasted = match group.total.is_zero() {
        true => String::new(),
        false => format!(", {total} in all, at worst {worst}"),
    };
    // What is red in the bar.
    let fatal = match group.ended {
        0 => String::new(),
        ended => format!(", {ended} ended the launch"),
    };
    let part = |count: u64| 100.0 * count as f64 / most.max(1) as f64;
    let (width, ended) = (part(group.count), part(group.ended));
    let _ = writeln!(
        page,
        "<section class=\"group\" id=\"group{rank}\">\n<h2>{rank}. {}</h2>\n\
         <svg class=\"bar\" aria-hidden=\"true\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\"><rect class=\"c0\" width=\"{width:.1}\" height=\"1\"/>\
         <rect class=\"c3\" width=\"{ended:.1}\" height=\"1\"/></svg>\n\
         <p>{} ({share:.1} %){fatal}{lasted}</p>\n<ol class=\"names\">",
        escape(title),
        facts::count(group.count, "report"),
    );
    for name in group.stack.iter().take(FRAMES) {
        let _ = writeln!(page, "<li>{}</li>", escape(name));
    }
    page.push_str("</ol>\n");
    let key = ("Group", key_text(group.key));
    let facts: Vec<_> = top::facts(group).into_iter().chain([key]).collect();
    let facts = facts.iter().map(|(label, value)| (*label, value.as_str()));
    report::table(page, facts);
    page.push_str("</section>\n");
}
