//! The groups that hurt users most, on a page.

use std::fmt::Write as _;

use crate::symbolicate::format::facts::count;
use crate::symbolicate::format::findings::what;
use crate::symbolicate::format::plain::escape;
use crate::symbolicate::format::top::{facts, seen, time};
use crate::symbolicate::group::{Group, Groups, key_text};

/// Frames of a group's stack that are shown.
const FRAMES: usize = 24;

pub(super) fn body(groups: &Groups, n: usize) -> String {
    let mut page = String::new();
    let reports = groups.reports();
    let found = count(groups.len() as u64, "group");
    let _ = writeln!(page, "<h1>{} in {found}</h1>", count(reports, "report"));
    let top = groups.top(n);
    table(&mut page, &top);
    let most = top.iter().map(|group| group.count).max().unwrap_or(1);
    for (rank, group) in top.iter().enumerate() {
        one(&mut page, rank + 1, group, reports, most);
    }
    if let dropped @ 1.. = groups.dropped() {
        let text = "reports were in groups too rare to be kept.";
        let _ = writeln!(page, "<p class=\"note\">{dropped} {text}</p>");
    }
    page
}

/// Writes the table of the groups to fix first.
fn table(page: &mut String, top: &[&Group]) {
    page.push_str(
        "<div class=\"wide\"><table><tr><th></th><th>Launches</th><th>Ended by it</th><th>Reports</th><th>Time</th>\
         <th>Versions</th><th>Seen</th><th>What</th></tr>\n",
    );
    for (rank, group) in top.iter().enumerate() {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td><a href=\"#group{0}\">{}</a></td></tr>",
            rank + 1,
            group.launches(),
            group.ended,
            group.count,
            time(group, group.total),
            group.versions.len(),
            seen(group),
            escape(&what(group)),
        );
    }
    page.push_str("</table></div>\n");
}

/// The bar is as long as the group has reports; those that ended their launch are red.
fn one(page: &mut String, rank: usize, group: &Group, reports: u64, most: u64) {
    let share = 100.0 * group.count as f64 / reports.max(1) as f64;
    let (total, worst) = (time(group, group.total), time(group, group.worst));
    let lasted = match group.total.is_zero() {
        true => String::new(),
        false => format!(", {total} in all, at worst {worst}"),
    };
    let part = |count: u64| 100.0 * count as f64 / most.max(1) as f64;
    let (width, ended) = (part(group.count), part(group.ended));
    let _ = writeln!(
        page,
        "<section class=\"group\" id=\"group{rank}\">\n<h2>{rank}. {}</h2>\n\
         <svg class=\"bar\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\"><rect class=\"c0\" width=\"{width:.1}\" height=\"1\"/>\
         <rect class=\"c3\" width=\"{ended:.1}\" height=\"1\"/></svg>\n\
         <p>{} ({share:.1} %){lasted}</p>\n<ol class=\"names\">",
        escape(&what(group)),
        count(group.count, "report"),
    );
    for name in group.stack.iter().take(FRAMES) {
        let _ = writeln!(page, "<li>{}</li>", escape(name));
    }
    page.push_str("</ol>\n");
    let key = ("Group", key_text(group.key));
    let facts: Vec<_> = facts(group).into_iter().chain([key]).collect();
    let facts = facts.iter().map(|(label, value)| (*label, value.as_str()));
    super::report::table(page, facts);
    page.push_str("</section>\n");
}
