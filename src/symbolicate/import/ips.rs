//! Apple's `.ips` of crashes: "Interpreting the JSON format of a crash report" in Apple's
//! documentation, and what its files show beyond it.

use super::draft::{Draft, frame, keep_frames};
use super::fields::{Fields, unsigned};
use super::{Layout, values};
use crate::report::time::wall;
use crate::report::{EventKind, Image, Reading, Signal, Thread, Value};

pub(super) fn read(mut header: Fields, mut body: Fields) -> Reading {
    let mut draft = Draft::default();
    head(&mut draft, &mut header, &mut body);
    for image in body.list("usedImages") {
        let image = image_of(Fields::of(image));
        draft.image(image);
    }
    draft.index_images();
    event(&mut draft, &mut body);
    let faulting = body.unsigned("faultingThread");
    for (index, thread) in body.list("threads").into_iter().enumerate() {
        let mut thread = thread_of(&draft, Fields::of(thread));
        thread.main = index == 0;
        thread.crashed |= faulting == Some(index as u64);
        draft.thread(thread);
    }
    let exception = body.list("lastExceptionBacktrace");
    if !exception.is_empty() {
        last_exception(&mut draft, exception);
    }
    body.keep("header", header);
    draft.finish(Layout::Ips, body)
}

fn head(draft: &mut Draft, header: &mut Fields, body: &mut Fields) {
    let head = &mut draft.report.head;
    let incident = body.text("incident").or_else(|| header.text("incident_id"));
    head.id = values::report_id(&incident.unwrap_or_default());
    let time = body
        .text("captureTime")
        .or_else(|| header.text("timestamp"));
    head.time = wall(time.and_then(|time| values::time(&time)).unwrap_or(0));
    let name = body.text("procName").or_else(|| header.text("app_name"));
    head.app.name = name.or_else(|| header.text("name")).unwrap_or_default();
    let mut bundle = body.object("bundleInfo");
    let version = bundle.text("CFBundleShortVersionString");
    let build = bundle.text("CFBundleVersion");
    let version = version.or_else(|| header.text("app_version"));
    let build = build.or_else(|| header.text("build_version"));
    head.app.version = joined(version, build);
    head.app.extra = bundle.into_extra();
    let mut os = body.object("osVersion");
    let full = header.text("os_version").unwrap_or_default();
    head.os = values::os(&os.text("train").unwrap_or_else(|| full.clone()));
    head.os.build = os.text("build").or_else(|| values::os(&full).build);
    head.os.extra = os.into_extra();
    head.device = body.text("modelCode");
    head.arch = values::arch(&body.text("cpuType").unwrap_or_default());
    head.pid = body.unsigned("pid").unwrap_or(0);
}

/// `1.0 (17)`.
pub(super) fn joined(version: Option<String>, build: Option<String>) -> String {
    match (version, build) {
        (Some(version), Some(build)) if version != build => format!("{version} ({build})"),
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) => String::new(),
    }
}

fn event(draft: &mut Draft, body: &mut Fields) {
    let mut exception = body.object("exception");
    let mut termination = body.object("termination");
    let raw = exception.take("rawCodes");
    let codes: Vec<u64> = match &raw {
        Some(Value::Array(codes)) => codes.iter().filter_map(unsigned).collect(),
        _ => Vec::new(),
    };
    let subtype = exception.text("subtype");
    let kind = exception.text("type");
    let signal = exception
        .text("signal")
        .or_else(|| values::signal_of_exception(kind.as_deref()?).map(str::to_owned));
    let event = draft.event();
    event.kind = EventKind::Crash;
    event.fatal = true;
    event.reason = termination.text("indicator");
    if let Some(name) = signal {
        event.signal = Some(Signal {
            number: values::signal_number(&name),
            name,
            code: codes.first().map_or(0, |code| *code as i64),
            code_name: subtype.as_deref().and_then(code_name),
            address: fault_address(kind.as_deref(), subtype.as_deref(), &codes),
            extra: subtype
                .map(|text| ("subtype".to_owned(), Value::Text(text)))
                .into_iter()
                .collect(),
        });
    }
    event.name = kind;
    event.message = application_message(body);
    if let Some(raw) = raw {
        let signal_extra = event.signal.as_mut().map(|signal| &mut signal.extra);
        signal_extra
            .unwrap_or(&mut event.extra)
            .push(("raw_codes".into(), raw));
    }
    body.keep("exception", exception);
    body.keep("termination", termination);
}

/// `KERN_INVALID_ADDRESS` of `KERN_INVALID_ADDRESS at 0x0000000000000010`.
pub(super) fn code_name(subtype: &str) -> Option<String> {
    let word = subtype.split_whitespace().next()?;
    let is_name = word.len() > 3
        && word
            .bytes()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_');
    is_name.then(|| word.to_owned())
}

pub(super) fn fault_address(
    kind: Option<&str>,
    subtype: Option<&str>,
    codes: &[u64],
) -> Option<u64> {
    let named = subtype
        .and_then(|text| text.split(" at ").nth(1))
        .and_then(|text| values::number(text.split_whitespace().next()?));
    named.or_else(|| match kind {
        Some("EXC_BAD_ACCESS") => codes.get(1).copied(),
        _ => None,
    })
}

/// `asi`: by image, the lines that libraries left for the report.
fn application_message(body: &mut Fields) -> Option<String> {
    let asi = body.take("asi")?;
    let Value::Map(by_image) = &asi else {
        return None;
    };
    let mut lines = Vec::new();
    for (_, texts) in by_image {
        if let Value::Array(texts) = texts {
            lines.extend(texts.iter().filter_map(|text| match text {
                Value::Text(text) => Some(text.as_str()),
                _ => None,
            }));
        }
    }
    let message = lines.join("\n");
    (!message.is_empty()).then_some(message)
}

fn image_of(mut fields: Fields) -> Image {
    let path = fields.text("path");
    let name = fields.text("name");
    Image {
        id: values::id(&fields.text("uuid").unwrap_or_default()),
        base: fields.unsigned("base").unwrap_or(0),
        size: fields.unsigned("size").unwrap_or(0),
        arch: fields.text("arch"),
        name: path.or(name).unwrap_or_default(),
        extra: fields.into_extra(),
        ..Image::default()
    }
}

fn thread_of(draft: &Draft, mut fields: Fields) -> Thread {
    let queue = fields.text("queue");
    let mut thread = Thread {
        id: fields.unsigned("id").unwrap_or(0),
        name: fields.text("name").or(queue),
        crashed: fields.bool("triggered").unwrap_or(false),
        registers: registers(fields.object("threadState")),
        ..Thread::default()
    };
    let frames = fields.list("frames");
    thread.extra = fields.into_extra();
    put_frames(draft, &mut thread, frames);
    thread
}

fn put_frames(draft: &Draft, thread: &mut Thread, frames: Vec<Value>) {
    let mut left = Vec::new();
    for value in frames {
        let mut fields = Fields::of(value);
        let index = fields.unsigned("imageIndex");
        let offset = fields.unsigned("imageOffset").unwrap_or(0);
        let name = fields.text("symbol");
        let image = index
            .and_then(|index| draft.report.images.get(usize::try_from(index).ok()?))
            .map(|image| (index.unwrap_or(0) as u32, image));
        let pc = image.map_or(offset, |(_, image)| image.base.wrapping_add(offset));
        // Made-up images stand for addresses in none.
        let index = image
            .filter(|(_, image)| image.base != 0 || !image.id.is_empty())
            .map(|(index, _)| index);
        // Apple repeats the address for the functions inlined there, which stand before the function itself.
        let inline = fields.bool("inline") == Some(true);
        if inline {
            let name = name.map_or(Value::Nil, Value::Text);
            fields.keep("inlined", Fields::one("symbol", name));
        } else {
            thread.frames.push(frame(pc, index, name));
        }
        let at = thread.frames.len().saturating_sub(usize::from(!inline));
        left.push((at, fields));
    }
    keep_frames(thread, left);
}

/// The frames of an uncaught Objective-C exception: all of them return addresses of calls that led to
/// where it was thrown. They, not the abort that followed, say what happened.
fn last_exception(draft: &mut Draft, frames: Vec<Value>) {
    let mut thread = Thread::default();
    put_frames(draft, &mut thread, frames);
    draft.event().kind = EventKind::Exception;
    let extra = std::mem::take(&mut thread.extra);
    draft.last_exception(thread.frames);
    if let Some(last) = draft.report.threads.last_mut() {
        last.extra = extra;
    }
}

/// `x` is an array, all others are fields; each value stands in an object.
fn registers(mut state: Fields) -> Vec<(String, u64)> {
    let mut registers = Vec::new();
    let value = |value: Value| match value {
        Value::Map(_) => Fields::of(value).unsigned("value"),
        other => unsigned(&other),
    };
    for (number, register) in state.list("x").into_iter().enumerate() {
        registers.extend(value(register).map(|value| (format!("x{number}"), value)));
    }
    for (name, register) in state.into_extra() {
        registers.extend(value(register).map(|value| (name, value)));
    }
    registers
}
