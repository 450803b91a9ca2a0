//! A report on a page: what happened, where, and all threads.

use crate::report::time::{nanos, since_epoch};
use std::fmt::Write as _;

use super::flame::flame;
use super::markup::escape;
use super::stack::stack;
use super::timeline::timeline;
use crate::report::model::{EventKind, Report, Thread};
use crate::symbolicate::format::Style;
use crate::symbolicate::format::facts::{app_state, recorder, vitals};
use crate::symbolicate::format::remarks::{kind_text, missing_lines};
use crate::symbolicate::format::stacks::heaviest;
use crate::symbolicate::format::units::{date_time, duration};
use crate::symbolicate::frame::{Symbolicated, id_text, image_file_name};
use crate::symbolicate::group::{Member, key_text, thread_in_question};

/// Summary of the event, in one line.
pub(super) fn title(of: &Symbolicated, member: &Member) -> String {
    let app = &of.report.head.app;
    let event = of.report.event.as_ref();
    let kind = event.map_or("report", |event| event.word());
    let place = member
        .stack
        .first()
        .map_or(String::new(), |name| format!(" in {name}"));
    let time = if !member.duration.is_zero() {
        format!(" of {}", duration(nanos(member.duration)))
    } else {
        String::new()
    };
    let name = if app.name.is_empty() {
        "???"
    } else {
        &app.name
    };
    format!("{name} {}: {kind}{time}{place}", app.version)
}

pub(super) fn body(style: &Style, origin: &str, of: &Symbolicated, member: &Member) -> String {
    let report = &of.report;
    let mut page = String::new();
    let _ = writeln!(page, "<h1>{}</h1>", escape(&title(of, member)));
    facts(&mut page, origin, report, member);
    remarks(&mut page, of);
    timeline(&mut page, of);
    flame(&mut page, style, of);
    let about = thread_in_question(report);
    if let Some((index, weight, total)) = heaviest(of) {
        let _ = writeln!(
            page,
            "<h2>Heaviest stack <small>{weight} of {total} samples</small></h2>"
        );
        stack(&mut page, style, of, &of.samples[index], true);
        cut(&mut page, report.samples[index].end_word());
    }
    let _ = writeln!(
        page,
        "<h2>Threads <small>{}</small></h2>",
        report.threads.len()
    );
    for (index, (thread, frames)) in report.threads.iter().zip(&of.threads).enumerate() {
        let open = if about == Some(index) { " open" } else { "" };
        let _ = writeln!(
            page,
            "<details{open}><summary>{}</summary>",
            thread_title(index, thread)
        );
        stack(&mut page, style, of, frames, about == Some(index));
        cut(&mut page, thread.end_word());
        registers(&mut page, thread);
        page.push_str("</details>\n");
    }
    context(&mut page, report);
    images(&mut page, report);
    page
}

/// A walk that stopped before the thread's first function says so.
fn cut(page: &mut String, end: Option<&str>) {
    if let Some(end) = end.filter(|end| *end != "root") {
        let _ = writeln!(
            page,
            "<p class=\"note\">The stack goes on; the walk stopped here: {}.</p>",
            escape(end)
        );
    }
}

fn facts(page: &mut String, origin: &str, report: &Report, member: &Member) {
    let mut facts: Vec<(&str, String)> = Vec::new();
    let head = &report.head;
    if let Some(event) = &report.event {
        facts.push(("What", kind_text(event)));
        if let Some(signal) = &event.signal {
            let code = signal
                .code_name
                .clone()
                .unwrap_or_else(|| signal.code.to_string());
            let at = signal
                .address
                .map_or(String::new(), |at| format!(" at {at:#x}"));
            facts.push(("Signal", format!("{} ({code}{at})", signal.name)));
        }
        let named = match event.kind {
            EventKind::Panic => "Panicking thread",
            _ => "Exception",
        };
        for (label, text) in [
            (named, &event.name),
            ("Message", &event.message),
            ("Location", &event.location),
            ("Reason", &event.reason),
        ] {
            facts.extend(text.clone().map(|text| (label, text)));
        }
        match &report.stall_end {
            Some(end) => facts.push((
                "Duration",
                format!("{} ({})", duration(nanos(end.duration)), end.how),
            )),
            None if event.kind == EventKind::Stall => {
                facts.push((
                    "Duration",
                    "unknown: the report ends before the stall does".into(),
                ));
            }
            None => {}
        }
    }
    facts.push(("App", format!("{} {}", head.app.name, head.app.version)));
    let build = head
        .os
        .build
        .as_ref()
        .map_or(String::new(), |build| format!(" ({build})"));
    facts.push((
        "System",
        format!("{} {}{build}", head.os.name, head.os.version),
    ));
    facts.extend(
        head.device
            .clone()
            .map(|device| ("Device", format!("{device}, {}", head.arch))),
    );
    facts.push(("Time", date_time(since_epoch(head.time))));
    facts.extend(vitals(report));
    facts.extend(recorder(report));
    facts.push(("Group", key_text(member.key)));
    facts.push(("Report", format!("{} in {origin}", id_text(&head.id))));
    page.push_str("<dl class=\"facts\">\n");
    for (label, value) in facts {
        let _ = writeln!(
            page,
            "<div><dt>{label}</dt><dd>{}</dd></div>",
            escape(value.trim())
        );
    }
    page.push_str("</dl>\n");
}

fn remarks(page: &mut String, of: &Symbolicated) {
    if !of.damage.is_empty() {
        page.push_str("<div class=\"damage\"><strong>This report is damaged:</strong><ul>\n");
        for damage in &of.damage {
            let _ = writeln!(page, "<li>{}</li>", escape(damage));
        }
        page.push_str("</ul></div>\n");
    }
    let missing = missing_lines(&of.missing);
    if !missing.is_empty() {
        page.push_str("<details><summary>Debug files missing</summary><ul>\n");
        for missing in missing {
            let _ = writeln!(page, "<li>{}</li>", escape(&missing));
        }
        page.push_str("</ul></details>\n");
    }
}

fn thread_title(index: usize, thread: &Thread) -> String {
    let mut title = format!("Thread {index}");
    if let Some(name) = thread.name.as_deref().filter(|name| !name.is_empty()) {
        let _ = write!(title, " <b>{}</b>", escape(name));
    }
    let mut tags = Vec::new();
    tags.extend(thread.crashed.then(|| "crashed".to_owned()));
    tags.extend(thread.main.then(|| "main".to_owned()));
    tags.extend(thread.state.clone());
    tags.extend(thread.syscall.as_ref().map(|call| format!("in {call}")));
    for tag in tags {
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

fn context(page: &mut String, report: &Report) {
    let app = app_state(report);
    if app.is_empty() {
        return;
    }
    page.push_str("<h2>From the app</h2>\n<dl class=\"facts\">\n");
    for (key, value) in app.keys.iter().chain(&app.gauges) {
        let (key, value) = (escape(key), escape(value));
        let _ = writeln!(page, "<div><dt>{key}</dt><dd>{value}</dd></div>");
    }
    page.push_str("</dl>\n");
    for (title, moments) in [("Marks", &app.marks), ("Breadcrumbs", &app.breadcrumbs)] {
        if moments.is_empty() {
            continue;
        }
        let _ = writeln!(page, "<h3>{title}</h3>\n<ol class=\"breadcrumbs\">");
        for moment in moments {
            let how_long = match title {
                "Marks" => format!(" <small>{}</small>", moment.how_long()),
                _ => String::new(),
            };
            let what = escape(&moment.what);
            let _ = writeln!(
                page,
                "<li><small>{}</small> {what}{how_long}</li>",
                moment.when
            );
        }
        page.push_str("</ol>\n");
    }
}

fn images(page: &mut String, report: &Report) {
    let count = report.images.len();
    let _ = writeln!(
        page,
        "<details><summary>Images <small>{count}</small></summary><div class=\"wide\"><table class=\"images\">\n\
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
