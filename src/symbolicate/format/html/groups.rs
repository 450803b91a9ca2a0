//! The groups that cost most, on a page.

use std::fmt::Write as _;

use super::markup::escape;
use crate::report::time::nanos;
use crate::symbolicate::format::top::counted;
use crate::symbolicate::format::units::{count, duration};
use crate::symbolicate::group::{Group, Groups, key_text};

/// Frames of a group's stack that are shown.
const FRAMES: usize = 24;

pub(super) fn body(groups: &Groups, n: usize) -> String {
    let mut page = String::new();
    let reports = groups.reports();
    let found = count(groups.len() as u64, "group");
    let _ = writeln!(page, "<h1>{} in {found}</h1>", count(reports, "report"));
    let top = groups.top(n);
    let whole = top.iter().map(|group| nanos(group.total)).max();
    let whole = whole.unwrap_or_default().max(1);
    for (rank, group) in top.iter().enumerate() {
        one(&mut page, rank + 1, group, reports, whole);
    }
    if groups.dropped() > 0 {
        let dropped = groups.dropped();
        let _ = writeln!(
            page,
            "<p class=\"note\">{dropped} reports were in groups too rare to be kept.</p>"
        );
    }
    page
}

fn one(page: &mut String, rank: usize, group: &Group, reports: u64, whole: u64) {
    let what = group.stack.first().map_or("(no stack)", String::as_str);
    let share = 100.0 * group.count as f64 / reports.max(1) as f64;
    let time = if !group.total.is_zero() {
        let (total, worst) = (duration(nanos(group.total)), duration(nanos(group.worst)));
        format!(", {total} in all, at worst {worst}")
    } else {
        String::new()
    };
    let width = 100.0 * nanos(group.total) as f64 / whole as f64;
    let _ = writeln!(
        page,
        "<section class=\"group\">\n<h2>{rank}. {} in {}</h2>\n\
         <svg class=\"bar\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\"><rect class=\"c0\" width=\"{width:.1}\" height=\"1\"/></svg>\n\
         <p>{} ({share:.1} %){time}</p>\n<ol class=\"names\">",
        group.kind.as_str(),
        escape(what),
        count(group.count, "report"),
    );
    for name in group.stack.iter().take(FRAMES) {
        let _ = writeln!(page, "<li>{}</li>", escape(name));
    }
    page.push_str("</ol>\n<dl class=\"facts\">\n");
    for (label, value) in [
        ("Versions", counted(&group.versions)),
        ("Devices", counted(&group.devices)),
        ("Example", group.example.clone()),
        ("Group", key_text(group.key)),
    ] {
        let _ = writeln!(
            page,
            "<div><dt>{label}</dt><dd>{}</dd></div>",
            escape(&value)
        );
    }
    page.push_str("</dl>\n</section>\n");
}
