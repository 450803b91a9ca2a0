//! Apple's stackshots of hangs in JSON, the body of some `.ips`.
//!
//! `processByPid` has the processes, each with `threadById`, whose `userFrames` and `kernelFrames` are pairs of an index
//! into `binaryImages` and an offset. Frames in the kernel are kept,
//! unread.

use crate::report::{EventKind, Image, Reading, Thread, Value};
use crate::symbolicate::import::builder::ReportBuilder;
use crate::symbolicate::import::json_fields::{JsonFields, unsigned};
use crate::symbolicate::import::paths::{ABSOLUTE, HeadPaths, ThreadPaths};
use crate::symbolicate::import::{Layout, values};

const HEAD: HeadPaths = HeadPaths {
    id: "incident|header.incident_id",
    time: "date|header.timestamp",
    version: "header.app_version",
    build: "header.build_version",
    os: "build|header.os_version",
    device: "product|modelCode",
    arch: "cpuType",
    ..HeadPaths::NONE
};
const THREAD: ThreadPaths = ThreadPaths {
    id: "",
    name: "name",
    crashed: "",
    registers: &[],
    frames: "userFrames",
    is_numbered: false,
};

/// Returns true if the body of an `.ips` is of a hang.
pub fn is_hang(body: &JsonFields) -> bool {
    body.has("processByPid")
}

/// Reads the body of a hang, with the line before it as `header`.
pub fn read(mut body: JsonFields) -> Reading {
    let mut builder = ReportBuilder::default();
    let pid = body.unsigned("pid");
    let mut processes = body.object("processByPid").into_extra();
    let wanted = body.text("procname|header.app_name|header.name");
    let is_wanted = |(key, process): &(String, Value)| {
        let mut process = JsonFields::of(process.clone());
        pid.is_some_and(|pid| key.parse() == Ok(pid))
            || (wanted.is_some() && process.text("procname") == wanted)
    };
    let at = processes.iter().position(is_wanted).unwrap_or(0);
    let (key, process) = if at < processes.len() {
        processes.remove(at)
    } else {
        Default::default()
    };
    let mut process = JsonFields::of(process);
    let name = wanted
        .or_else(|| process.text("procname"))
        .unwrap_or_default();
    for (index, image) in body.list("binaryImages").into_iter().enumerate() {
        builder.image(image_of(image, index, &name));
    }
    head(&mut builder, &mut body, name);
    builder.report.head.pid = key.parse().unwrap_or(0);
    let threads = process.object("threadById").into_extra();
    for (index, (id, thread)) in threads.into_iter().enumerate() {
        let mut thread = thread_of(&mut builder, &id, JsonFields::of(thread));
        thread.main |= index == 0;
        builder.thread(thread);
    }
    body.keep("process", process);
    let others = processes.into_iter();
    let others = others.map(|(key, value)| (Value::Text(key), value));
    body.keep("others", JsonFields::of(Value::Map(others.collect())));
    builder.finish(Layout::Ips, body)
}

/// Takes what head and event have alike; `name` is the program's.
fn head(builder: &mut ReportBuilder, body: &mut JsonFields, name: String) {
    builder.head(body, &HEAD);
    let head = &mut builder.report.head;
    head.app.name = name;
    if head.arch.is_empty() {
        head.arch = "arm64".into();
    }
    let reason = body.text("reason");
    let event = builder.event();
    event.kind = EventKind::Stall;
    event.reason = reason;
    let duration = body.text("duration");
    if let Some(duration) = duration.and_then(|text| values::duration(&text)) {
        builder.lasted(duration);
    }
}

/// `[uuid, base, kind]`: no names. The first of the process's own is the program; those of the shared
/// cache and the kernel are the system's.
fn image_of(image: Value, index: usize, program: &str) -> Image {
    let Value::Array(parts) = image else {
        return Image::default();
    };
    let text = |at: usize| match parts.get(at) {
        Some(Value::Text(text)) => text.as_str(),
        _ => "",
    };
    let name = match text(2) {
        "S" | "C" => "[shared cache]",
        "K" => "[kernel]",
        "A" => ABSOLUTE,
        _ if index == 0 => program,
        _ => "",
    };
    Image {
        name: name.to_owned(),
        id: values::id(text(0)),
        base: parts.get(1).and_then(unsigned).unwrap_or(0),
        ..Image::default()
    }
}

fn thread_of(builder: &mut ReportBuilder, id: &str, mut fields: JsonFields) -> Thread {
    let queue = fields.text("dispatch_queue_label");
    let id = id.parse().ok().or_else(|| fields.unsigned("id"));
    let thread = builder.thread_of(fields, &THREAD);
    Thread {
        id: id.unwrap_or(0),
        main: queue.as_deref() == Some("com.apple.main-thread"),
        name: thread.name.or(queue),
        ..thread
    }
}
