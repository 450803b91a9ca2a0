//! Bugsnag's JSON, of payload version 4 and of its data access API: `exceptions[]` and `threads[]` with `stacktrace`,
//! innermost frame first, whose frames name their images (`machoFile`, `machoUUID`, `machoLoadAddress`).

use std::collections::BTreeMap;

use super::draft::Draft;
use super::fields::{Fields, unsigned};
use super::parts::HeadPaths;
use super::script::placed;
use super::{Layout, values};
use crate::report::{EventKind, Image, Reading, Thread, Value};

const HEAD: HeadPaths = HeadPaths {
    id: "id",
    time: "device.time|received_at|receivedAt",
    name: "app.name|app.id",
    version: "app.version",
    build: "app.bundleVersion|app.bundle_version",
    os_name: "device.osName|device.os_name",
    os_version: "device.osVersion|device.os_version",
    os_build: "device.runtimeVersions.osBuild|device.runtime_versions.os_build",
    device: "device.model|device.modelNumber|device.model_number",
    memory: "device.totalMemory|device.total_memory",
    free_memory: "device.freeMemory|device.free_memory",
    ..HeadPaths::NONE
};

/// Keys of frames by which the layout is known.
pub(super) const FRAME_KEYS: [&[u8]; 4] = [
    b"\"machoLoadAddress\"",
    b"\"macho_load_address\"",
    b"\"errorClass\"",
    b"\"error_class\"",
];

/// Reads a payload of several events, or one event.
pub(super) fn read(mut payload: Fields) -> Vec<Reading> {
    if !payload.has("events") {
        return vec![event(payload)];
    }
    let events = payload.list("events").into_iter();
    events.map(|value| event(Fields::of(value))).collect()
}

fn event(mut event: Fields) -> Reading {
    let mut draft = Draft::default();
    draft.head(&mut event, &HEAD);
    let app = &mut draft.report.head.app;
    let short = app.name.rsplit('.').next().unwrap_or("").to_owned();
    let identifier = std::mem::replace(&mut app.name, short);
    app.extra
        .push(("identifier".into(), Value::Text(identifier)));
    let mut thrown = event.list("exceptions").into_iter().map(Fields::of);
    let mut exception = thrown.next().unwrap_or_default();
    let mut threads: Vec<Fields> = event.list("threads").into_iter().map(Fields::of).collect();
    let mut stack = exception.list("stacktrace");
    images(
        &mut draft,
        threads
            .iter()
            .filter_map(|thread| thread.get("stacktrace"))
            .chain([&Value::Array(stack.clone())]),
    );
    what(&mut draft, &mut exception, &mut event);
    for (index, fields) in threads.iter_mut().enumerate() {
        let frames = fields.list("stacktrace");
        let is_about = fields.bool("errorReportingThread|error_reporting_thread") == Some(true);
        let mut thread = Thread {
            id: fields.unsigned("id").unwrap_or(index as u64),
            name: fields.text("name"),
            main: index == 0,
            crashed: is_about,
            extra: std::mem::take(fields).into_extra(),
            ..Thread::default()
        };
        draft.put_frames(&mut thread, frames.into_iter().map(frame));
        draft.thread(thread);
    }
    let is_signal = draft.event().kind == EventKind::Crash;
    let has_thread = draft
        .report
        .threads
        .iter()
        .any(|thread| thread.crashed && !thread.frames.is_empty());
    let is_read_already = is_signal && has_thread;
    if !is_read_already && !stack.is_empty() {
        let mut thread = Thread {
            crashed: is_signal,
            ..Thread::default()
        };
        draft.put_frames(&mut thread, stack.drain(..).map(frame));
        if is_signal {
            draft.thread(thread)
        } else {
            draft.last_exception(thread)
        }
    }
    event.keep("exception", exception);
    draft.finish(Layout::Bugsnag, event)
}

fn what(draft: &mut Draft, exception: &mut Fields, event: &mut Fields) {
    let class = exception.text("errorClass|error_class").unwrap_or_default();
    let is_crash = class.starts_with("EXC_") || class.starts_with("SIG");
    let facts = draft.event();
    facts.fatal = event.bool("unhandled") != Some(false);
    facts.kind = match class.as_str() {
        "App Hang" => EventKind::Stall,
        "Out Of Memory" => EventKind::Memory,
        _ if is_crash => EventKind::Crash,
        _ => EventKind::Exception,
    };
    facts.message = exception.text("message");
    facts.name = Some(class.clone()).filter(|name| !name.is_empty());
    if is_crash {
        let signal = Some(class.clone()).filter(|class| class.starts_with("SIG"));
        draft.signal(None, signal, Some(&class));
    }
}

/// A frame under the keys by which [`Draft::put_frames`] knows it.
fn frame(frame: Value) -> Value {
    let mut fields = Fields::of(frame);
    for (from, to) in [
        ("frame_address", "frameAddress"),
        ("symbol_address", "symbolAddress"),
        ("macho_load_address", "machoLoadAddress"),
        ("macho_file", "machoFile"),
        ("line_number", "lineNumber"),
    ] {
        if let Some(value) = fields.take(from) {
            fields.push(to, value);
        }
    }
    placed(fields.into_value())
}

/// The images that frames name, by their load addresses.
fn images<'a>(draft: &mut Draft, stacks: impl Iterator<Item = &'a Value>) {
    let mut images: BTreeMap<u64, Image> = BTreeMap::new();
    for stack in stacks {
        let Value::Array(frames) = stack else {
            continue;
        };
        for frame in frames {
            let Value::Map(entries) = frame else { continue };
            let find = |keys: [&str; 2]| {
                let is_it =
                    |key: &Value| matches!(key, Value::Text(key) if keys.contains(&key.as_str()));
                entries
                    .iter()
                    .find(|(key, _)| is_it(key))
                    .map(|(_, value)| value)
            };
            let text = |keys| match find(keys) {
                Some(Value::Text(text)) => text.as_str(),
                _ => "",
            };
            let number = |keys| find(keys).and_then(unsigned);
            let Some(base) = number(["machoLoadAddress", "macho_load_address"]) else {
                continue;
            };
            let pc = number(["frameAddress", "frame_address"]).unwrap_or(base);
            let image = images.entry(base).or_insert_with(|| Image {
                name: text(["machoFile", "macho_file"]).to_owned(),
                id: values::id(text(["machoUUID", "macho_uuid"])),
                stated: number(["machoVMAddress", "macho_vm_address"]).unwrap_or(0),
                base,
                ..Image::default()
            });
            // As much of it as frames show.
            image.size = image.size.max(pc.saturating_sub(base).saturating_add(1));
        }
    }
    for image in images.into_values() {
        draft.image(image);
    }
    draft.index_images();
}
