//! Apple's `.ips` of crashes: "Interpreting the JSON format of a crash report" in Apple's
//! documentation, and what its files show beyond it.

use super::exception::ExceptionKind;
use super::{crash_text, exception};
use crate::report::{EventKind, Reading, Value};
use crate::symbolicate::import::builder::ReportBuilder;
use crate::symbolicate::import::json_fields::{JsonFields, unsigned};
use crate::symbolicate::import::paths::{HeadPaths, ThreadPaths};
use crate::symbolicate::import::{Layout, values};

const HEAD: HeadPaths = HeadPaths {
    id: "incident|header.incident_id",
    time: "captureTime|header.timestamp",
    name: "procName|header.app_name|header.name",
    version: "bundleInfo.CFBundleShortVersionString|header.app_version",
    build: "bundleInfo.CFBundleVersion|header.build_version",
    os: "osVersion.train|header.os_version",
    os_build: "osVersion.build",
    device: "modelCode",
    arch: "cpuType",
    pid: "pid",
    ..HeadPaths::NONE
};
const THREAD: ThreadPaths = ThreadPaths {
    id: "id",
    name: "name|queue",
    crashed: "triggered",
    registers: &["threadState"],
    frames: "frames",
    is_numbered: false,
};

/// Reads a body, with the line before it as `header`.
pub fn read(mut body: JsonFields) -> Reading {
    let mut builder = ReportBuilder::default();
    builder.head(&mut body, &HEAD);
    let head = &mut builder.report.head;
    let full = body.text("header.os_version");
    let build = full.and_then(|full| values::os(&full).build);
    head.os.build = head.os.build.take().or(build);
    head.app.extra = body.object("bundleInfo").into_extra();
    head.os.extra = body.object("osVersion").into_extra();
    let images = body.list("usedImages");
    builder.images_with(images, body.list("legacyInfo.imageExtraInfo"));
    event(&mut builder, &mut body);
    let highlighted =
        body.unsigned("legacyInfo.threadHighlighted|legacyInfo.threadTriggered.index");
    let faulting = body.unsigned("faultingThread").or(highlighted);
    for (index, thread) in body.list("threads").into_iter().enumerate() {
        let mut thread = builder.thread_of(JsonFields::of(thread), &THREAD);
        thread.main = index == 0;
        thread.crashed |= faulting == Some(index as u64);
        builder.thread(thread);
    }
    // All of them return addresses of calls that led to where it was thrown. They, not the abort that followed,
    // say what happened.
    builder.thrown(body.list("lastExceptionBacktrace"));
    for (number, text) in body.list("asiBacktraces").into_iter().enumerate() {
        if let Value::Text(text) = text {
            crash_text::stack_in_words(&mut builder, &text, number);
        }
    }
    builder.finish(Layout::Ips, body)
}

fn event(builder: &mut ReportBuilder, body: &mut JsonFields) {
    let mut exception = body.object("exception");
    let raw = exception.take("rawCodes");
    let codes: Vec<u64> = match &raw {
        Some(Value::Array(codes)) => codes.iter().filter_map(unsigned).collect(),
        _ => Vec::new(),
    };
    let subtype = exception.text("subtype");
    let kind = exception.text("type");
    let own_message = exception.text("message");
    let signal = exception.text("signal");
    let is_set = |body: &mut JsonFields, key| body.bool(key) == Some(true);
    let is_old_note = body.peek("header.bug_type") == Some("185");
    let what = ExceptionKind {
        name: kind.as_deref().unwrap_or_default(),
        subtype: subtype.as_deref(),
        is_note: is_set(body, "isNonFatal"),
        is_simulated: is_set(body, "isSimulated") || is_old_note,
    };
    let is_note = what.is_note || what.is_simulated;
    exception::set_kind(builder, &what);
    let (signal, note) = signal.map_or((None, None), |text| exception::signal_and_note(&text));
    let mut termination = body.object("termination");
    let event = builder.event();
    let mut reason = exception::reason(&mut termination);
    exception::add_note(&mut reason, note);
    exception::set_reason(event, reason);
    body.keep("termination", termination);
    event.name.clone_from(&kind);
    let mut thrown = body.object("exceptionReason");
    let application = application_message(body);
    if let Some(name) = application.as_deref().and_then(exception::thrown_name) {
        event.name = Some(name.to_owned());
    }
    if !thrown.is_empty() {
        event.kind = EventKind::Exception;
        event.name = thrown.text("name").or(event.name.take());
    }
    let messages = [thrown.text("composed_message"), own_message, application];
    let mut messages = messages.into_iter().flatten();
    event.message = messages.next();
    let others = messages.map(|text| ("application_message".to_owned(), Value::Text(text)));
    event.extra.extend(others);
    body.keep("exceptionReason", thrown);
    let derived = kind.as_deref().filter(|_| !is_note);
    if let Some(signal) = builder.signal(None, signal, derived) {
        signal.code = codes.first().map_or(0, |code| *code as i64);
        signal.code_name = subtype.as_deref().and_then(exception::code_name);
        signal.address = exception::fault_address(kind.as_deref(), subtype.as_deref(), &codes);
    }
    let subtype = subtype.map(|text| ("subtype".to_owned(), Value::Text(text)));
    let raw = raw.map(|raw| ("raw_codes".to_owned(), raw));
    let extra = &mut builder.event().extra;
    extra.extend(subtype.into_iter().chain(raw));
    extra.extend(exception.into_extra());
}

/// `asi`: by image, the lines that libraries left for the report.
fn application_message(body: &mut JsonFields) -> Option<String> {
    let asi = body.take("asi")?;
    let mut lines = Vec::new();
    for (_, texts) in JsonFields::of(asi).into_extra() {
        if let Value::Array(texts) = texts {
            lines.extend(texts.into_iter().filter_map(|text| match text {
                Value::Text(text) => Some(text),
                _ => None,
            }));
        }
    }
    Some(lines.join("\n")).filter(|message| !message.is_empty())
}
