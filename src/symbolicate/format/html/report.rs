//! A report on a page: what happened, where, and all threads.

use crate::report::time::nanos;
use std::fmt::Write as _;

use super::flame::flame;
use super::stack::stack;
use super::timeline::timeline;
use crate::report::model::{Report, Thread};
use crate::symbolicate::format::Style;
use crate::symbolicate::format::facts::{
    app_state, describe_thread, duration, event_facts, has_crashed, known_id, known_time, lasted,
    number, os_text, recorder, signal_code, vitals, watched,
};
use crate::symbolicate::format::findings::{kind_text, missing_lines};
use crate::symbolicate::format::plain::escape;
use crate::symbolicate::format::stacks::{heaviest, in_order};
use crate::symbolicate::frame::{Symbolicated, id_text, image_file_name};
use crate::symbolicate::group::{Member, key_text, thread_in_question};
use crate::symbolicate::names::title::TitleParts;

/// Summary of the event, in one line.
pub(super) fn title(of: &Symbolicated, member: &Member) -> String {
    let app = &of.report.head.app;
    let event = of.report.event.as_ref();
    let lasted = (!member.duration.is_zero()).then(|| duration(nanos(member.duration)));
    let parts = TitleParts {
        what: event.map_or("report", |event| event.word()),
        lasted: lasted.as_deref(),
        function: member.stack.first().map(|name| &**name),
        ..member.title()
    };
    let name = Some(app.name.as_str()).filter(|name| !name.is_empty());
    let name = name.unwrap_or("???");
    let version = app.version.as_str();
    let gap = if version.is_empty() { "" } else { " " };
    format!("{name}{gap}{version}: {}", parts.text())
}

pub(super) fn body(style: &Style, origin: &str, of: &Symbolicated, member: &Member) -> String {
    let report = &of.report;
    let mut page = String::new();
    let _ = writeln!(page, "<h1>{}</h1>", escape(&title(of, member)));
    facts(&mut page, origin, report, member);
    remarks(&mut page, of);
    timeline(&mut page, of);
    flame(&mut page, style, origin, of);
    let about = thread_in_question(report);
    most_frequent(&mut page, style, of, "h2");
    let count = report.threads.len();
    let _ = writeln!(page, "<h2>Threads <small>{count}</small></h2>");
    for (index, _) in in_order(of) {
        let (thread, frames) = (&report.threads[index], &of.threads[index]);
        let open = if about == Some(index) { " open" } else { "" };
        let title = thread_title(report, index, thread);
        let _ = writeln!(page, "<details{open}><summary>{title}</summary>");
        stack(&mut page, style, of, frames, about == Some(index));
        cut_note(&mut page, thread.end_word());
        registers(&mut page, thread);
        page.push_str("</details>\n");
    }
    from_the_app(&mut page, report);
    images(&mut page, report);
    page
}

/// The stack that most samples have; without samples, that of the thread in question.
pub(super) fn heaviest_stack(style: &Style, of: &Symbolicated) -> String {
    let mut page = String::new();
    if most_frequent(&mut page, style, of, "h3").is_some() {
        return page;
    }
    if let Some(index) = thread_in_question(&of.report) {
        page.push_str("<h3>Stack</h3>\n");
        stack(&mut page, style, of, &of.threads[index], true);
        cut_note(&mut page, of.report.threads[index].end_word());
    }
    page
}

/// Writes the stack that most samples have; `None` without samples.
fn most_frequent(page: &mut String, style: &Style, of: &Symbolicated, heading: &str) -> Option<()> {
    let (index, weight, total) = heaviest(of)?;
    let _ = writeln!(
        page,
        "<{heading}>Most frequent stack <small>{weight} of {total} samples</small></{heading}>"
    );
    stack(page, style, of, &of.samples[index], true);
    cut_note(page, of.report.samples[index].end_word());
    Some(())
}

/// A walk that stopped before the thread's first function says so.
fn cut_note(page: &mut String, end: Option<&str>) {
    if let Some(end) = end.filter(|end| *end != "root") {
        let _ = writeln!(
            page,
            "<p class=\"note\">Callers are missing: {}.</p>",
            escape(end)
        );
    }
}

fn facts(page: &mut String, origin: &str, report: &Report, member: &Member) {
    let mut facts: Vec<(&str, String)> = Vec::new();
    let head = &report.head;
    if let Some(event) = &report.event {
        facts.push(("What", kind_text(report, event)));
        if let Some(signal) = &event.signal {
            let (name, code) = (&signal.name, signal_code(event, signal));
            facts.push(("Signal", format!("{name} {code}")));
        }
        let words = event_facts(report, event, "Panicking thread", "Exception");
        facts.extend(words.map(|(label, text)| (label, text.to_owned())));
        facts.extend(watched(report).map(|watched| ("Watched thread", watched)));
        facts.extend(lasted(report).map(|lasted| ("Duration", lasted)));
    }
    facts.push(("App", format!("{} {}", head.app.name, head.app.version)));
    facts.push(("System", os_text(&head.os)));
    let device = head.device.as_ref();
    facts.extend(device.map(|device| ("Device", format!("{device}, {}", head.arch))));
    facts.extend(known_time(head.time).map(|time| ("Time", time)));
    facts.extend(vitals(report));
    facts.extend(recorder(report));
    facts.push(("Group", key_text(member.key)));
    let id = known_id(report).map(|id| format!("{id} in {origin}"));
    facts.push(("Report", id.unwrap_or_else(|| origin.to_owned())));
    let facts = facts.iter().filter(|(_, value)| !value.trim().is_empty());
    table(page, facts.map(|(label, value)| (*label, value.trim())));
}

fn remarks(page: &mut String, of: &Symbolicated) {
    if !of.damage.is_empty() {
        page.push_str("<div class=\"damage\"><strong>This report is damaged:</strong>");
        list(page, &of.damage);
        page.push_str("</div>\n");
    }
    let missing = missing_lines(&of.missing);
    if !missing.is_empty() {
        page.push_str("<details><summary>Debug files missing</summary>");
        list(page, &missing);
        page.push_str("</details>\n");
    }
}

fn list(page: &mut String, lines: &[String]) {
    page.push_str("<ul>\n");
    for line in lines {
        let _ = writeln!(page, "<li>{}</li>", escape(line));
    }
    page.push_str("</ul>");
}

/// Facts, each with its label.
pub(super) fn table<'a>(page: &mut String, facts: impl Iterator<Item = (&'a str, &'a str)>) {
    page.push_str("<dl class=\"facts\">\n");
    for (label, value) in facts {
        let (label, value) = (escape(label), escape(value));
        let _ = writeln!(page, "<div><dt>{label}</dt><dd>{value}</dd></div>");
    }
    page.push_str("</dl>\n");
}

fn thread_title(report: &Report, index: usize, thread: &Thread) -> String {
    let mut title = format!("Thread {}", escape(&number(thread, index)));
    if let Some(name) = thread.name.as_deref().filter(|name| !name.is_empty()) {
        let _ = write!(title, " <b>{}</b>", escape(name));
    }
    let crashed = has_crashed(report, thread).then(|| "crashed".to_owned());
    for tag in crashed.into_iter().chain(describe_thread(thread)) {
        let _ = write!(title, " <span class=\"tag\">{}</span>", escape(&tag));
    }
    title
}

fn registers(page: &mut String, thread: &Thread) {
    if thread.registers.is_empty() {
        return;
    }
    page.push_str("<details><summary>Registers</summary><p class=\"registers\">\n");
    for (name, value) in &thread.registers {
        let _ = writeln!(page, "<code>{} {value:#018x}</code>", escape(name));
    }
    page.push_str("</p></details>\n");
}

fn from_the_app(page: &mut String, report: &Report) {
    let app = app_state(report);
    if app.is_empty() {
        return;
    }
    page.push_str("<h2>From the app</h2>\n");
    let state = app.keys.iter().chain(&app.gauges);
    table(page, state.map(|(key, value)| (&**key, &**value)));
    for (title, moments) in [("Marks", &app.marks), ("Breadcrumbs", &app.breadcrumbs)] {
        if moments.is_empty() {
            continue;
        }
        let _ = writeln!(page, "<h3>{title}</h3>\n<ol class=\"breadcrumbs\">");
        for moment in moments {
            let (when, text) = (&moment.when, escape(&moment.text()));
            let _ = writeln!(page, "<li><small>{when}</small> {text}</li>");
        }
        page.push_str("</ol>\n");
    }
}

fn images(page: &mut String, report: &Report) {
    let count = report.images.len();
    let _ = writeln!(
        page,
        "<details><summary>Images <small>{count}</small></summary><div class=\"wide\" tabindex=\"0\"><table class=\"images\">\n\
         <tr><th>from</th><th>to</th><th>name</th><th>id</th><th>path</th></tr>"
    );
    for image in &report.images {
        let _ = writeln!(
            page,
            "<tr><td>{:#x}</td><td>{:#x}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            image.base,
            image.base.wrapping_add(image.size),
            escape(image_file_name(&image.name)),
            id_text(&image.id),
            escape(&image.name),
        );
    }
    page.push_str("</table></div></details>\n");
}
