//! Sentry's envelopes: one event a report, which GlitchTip takes, too.
//! <https://develop.sentry.dev/sdk/data-model/envelopes/>

use std::io;

use serde_json::{Map, Value, json};

use super::facts::{app_state, lasted};
use super::findings::Findings;
use super::json::hex as address;
use super::stacks::{heaviest, outermost};
use super::{Parts, PlainJson, Style};
use crate::report::time::{nanos, since_epoch};
use crate::report::{EventKind, Image, Report};
use crate::symbolicate::blame::is_own;
use crate::symbolicate::frame::{
    PhysicalFrame, SourceFrame, Stack, Symbolicated, hex, id_text, image_file_name,
};
use crate::symbolicate::group::key_text;

/// Longest key and value of a tag, in characters.
const TAG: (usize, usize) = (32, 200);

/// An envelope for each report. A frame without a name has its address alone, which the server names by its own debug files.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Sentry;

impl Parts for Sentry {
    type Part = Vec<u8>;

    fn part(style: &Style, origin: &str, of: &Symbolicated) -> Vec<u8> {
        let event = event(style, origin, of);
        let body = PlainJson::bytes(&event, b"\n");
        let header = json!({ "event_id": event["event_id"] });
        let item = json!({ "type": "event", "length": body.len() - 1 });
        [format!("{header}\n{item}\n").into_bytes(), body].concat()
    }

    fn add(&mut self, part: Vec<u8>, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(&part)
    }
}

fn event(style: &Style, origin: &str, of: &Symbolicated) -> Value {
    let (report, head) = (&of.report, &of.report.head);
    let found = Findings::new(origin, of);
    let (version, build) = version_and_build(&head.app.version);
    let build_text = build.map_or(String::new(), |build| format!("+{build}"));
    let exception = exception(style, of, &found);
    let has_stack = exception.is_some() && of.samples.is_empty();
    let threads = report.threads.iter().zip(&of.threads).enumerate();
    let threads = threads.map(|(index, (thread, frames))| {
        let is_about = found.thread == Some(index);
        let mut value = json!({
            "id": thread.id, "name": thread.name, "main": thread.main, "crashed": thread.crashed,
            "current": is_about, "state": thread.state_word(),
        });
        // The exception has the stack already.
        if !is_about || !has_stack {
            value["stacktrace"] = stack(style, of, frames);
        }
        value
    });
    let level = match report.event.as_ref().map(|event| event.kind) {
        _ if found.member.ended => "fatal",
        Some(EventKind::Live) => "info",
        Some(EventKind::Cpu | EventKind::Memory) => "warning",
        _ => "error",
    };
    let images = report.images.iter().map(|image| debug_image(report, image));
    json!({
        "event_id": Some(hex(&head.id)).filter(|_| head.id != [0; 16]),
        "timestamp": timestamp(since_epoch(head.time)),
        "platform": "native", "level": level, "logentry": { "formatted": found.title },
        "release": format!("{}@{version}{build_text}", head.app.name), "dist": build,
        "fingerprint": [key_text(found.member.key)], "sdk": { "name": "wedjat", "version": env!("CARGO_PKG_VERSION") },
        "exception": exception.map(|exception| json!({ "values": [exception] })),
        "threads": { "values": threads.collect::<Value>() },
        "debug_meta": { "images": images.collect::<Value>() },
        "contexts": contexts(report), "tags": tags(report), "breadcrumbs": { "values": breadcrumbs(report) },
    })
}

/// The exception with its stack, which of a stall is the most frequent one; `None` for what is no error.
fn exception(style: &Style, of: &Symbolicated, found: &Findings) -> Option<Value> {
    let (report, event) = (&of.report, of.report.event.as_ref()?);
    let (signal, ended) = (event.signal.as_ref(), found.member.ended);
    let (name, mechanism) = match event.kind {
        EventKind::Stall if ended => ("Fatal App Hang", "AppHang"),
        EventKind::Stall => ("App Hang", "AppHang"),
        EventKind::Crash => (signal.map_or("crash", |of| &of.name), "signalhandler"),
        EventKind::Panic => ("panic", "panic"),
        EventKind::Exception => (event.name.as_deref().unwrap_or("exception"), "generic"),
        _ => return None,
    };
    let words = [
        event.message.as_deref(),
        report.class_word(),
        report.reason(),
    ];
    let words = words.into_iter().flatten().map(str::to_owned);
    let words: Vec<String> = words.chain(lasted(report)).collect();
    let sample = heaviest(of).map(|(index, ..)| &of.samples[index]);
    let frames = sample.or(found.thread.map(|index| &of.threads[index]));
    let facts = signal.map(|signal| json!({
        "number": signal.number, "name": signal.name, "code": signal.code, "code_name": signal.code_name,
    }));
    let fault = signal.and_then(|signal| signal.address).map(address);
    Some(json!({
        "type": name, "value": words.join(", "),
        "mechanism": {
            "type": mechanism, "handled": !ended, "meta": { "signal": facts },
            "data": { "relevant_address": fault },
        },
        "thread_id": found.thread.map(|index| report.threads[index].id),
        "stacktrace": frames.map(|frames| stack(style, of, frames)),
    }))
}

/// A stack, outermost frame first.
fn stack(style: &Style, of: &Symbolicated, stack: &Stack) -> Value {
    let frames = outermost(of, stack, style);
    let frames = frames.map(|(_, source, physical)| frame(style, of, source, physical));
    json!({ "frames": frames.collect::<Value>() })
}

fn frame(
    style: &Style,
    of: &Symbolicated,
    source: Option<&SourceFrame>,
    physical: &PhysicalFrame,
) -> Value {
    let image = of.image(physical);
    let file = source.and_then(|source| source.file.as_deref());
    json!({
        "function": source.and_then(|source| style.name(source)),
        "filename": file.map(image_file_name), "abs_path": file,
        "lineno": source.and_then(|source| source.line),
        "package": image.map(|image| &image.name), "instruction_addr": address(physical.pc),
        "in_app": is_own(of, physical, source),
    })
}

fn debug_image(report: &Report, image: &Image) -> Value {
    let is_elf = report.head.os.name == "Linux";
    // A GUID, whose first three numbers are little-endian; of a build id its front.
    let mut guid = image.id.first_chunk::<16>().copied().unwrap_or_default();
    for number in [0..4, 4..6, 6..8].into_iter().filter(|_| is_elf) {
        guid[number].reverse();
    }
    json!({
        "type": if is_elf { "elf" } else { "macho" }, "code_file": image.name,
        "code_id": hex(&image.id), "debug_id": id_text(&guid),
        "image_addr": address(image.base), "image_vmaddr": address(image.base_svma),
        "image_size": image.size, "arch": image.arch.as_deref().unwrap_or(&report.head.arch),
    })
}

/// What Sentry has a place for, and sections of the report as they are.
fn contexts(report: &Report) -> Value {
    let (head, vitals) = (&report.head, report.vitals.as_ref());
    let (version, build) = version_and_build(&head.app.version);
    let memory = vitals.and_then(|vitals| vitals.memory.as_ref());
    let (total, free) = memory.map_or((None, None), |of| (of.device_total, of.device_free));
    json!({
        "os": { "name": head.os.name, "version": head.os.version, "build": head.os.build },
        "device": { "model": head.device, "arch": head.arch, "memory_size": total, "free_memory": free },
        "app": { "app_name": head.app.name, "app_version": version, "app_build": build },
        "event": report.event, "stall_end": report.stall_end, "vitals": vitals,
        "app_state": report.context, "loss": report.loss, "report": head,
    })
}

fn breadcrumbs(report: &Report) -> Value {
    let begun = since_epoch(report.head.time).saturating_sub(nanos(report.head.clock));
    let all = app_state(report).breadcrumbs.into_iter().map(|crumb| {
        let at = timestamp(begun.saturating_add(crumb.start));
        json!({ "timestamp": at, "message": crumb.what })
    });
    all.collect()
}

/// The class of a stall, and those of the app's keys that Sentry takes as tags.
fn tags(report: &Report) -> Map<String, Value> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    let fits = |(key, value): &(String, String)| {
        let is_short = key.len() <= TAG.0 && (1..=TAG.1).contains(&value.chars().count());
        is_short && key.chars().all(is_key) && !value.contains('\n')
    };
    let class = report
        .class_word()
        .map(|class| ("class".into(), class.into()));
    let keys = app_state(report).keys.into_iter().chain(class);
    let tags = keys.filter(fits);
    tags.map(|(key, value)| (key, value.into())).collect()
}

/// `2.1 (77)` as `2.1` and `77`.
fn version_and_build(version: &str) -> (&str, Option<&str>) {
    let parts = version.strip_suffix(')');
    let parts = parts.and_then(|version| version.split_once(" ("));
    parts.map_or((version, None), |(version, build)| (version, Some(build)))
}

fn timestamp(nanoseconds: u64) -> String {
    let at = jiff::Timestamp::from_nanosecond(nanoseconds.into());
    at.unwrap_or_default().to_string()
}
