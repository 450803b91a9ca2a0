//! Apple's stackshots of hangs in JSON, the body of some `.ips`.
//!
//! `processByPid` has the processes, each with `threadById`, whose `userFrames` and `kernelFrames` are pairs of an index
//! into `binaryImages` and an offset. Frames in the kernel are kept,
//! unread.

use super::draft::Draft;
use super::fields::{Fields, unsigned};
use super::parts::{ABSOLUTE, HeadPaths, ThreadPaths};
use super::{Layout, values};
use crate::report::{EventKind, Image, Reading, Thread, Value};

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
};

/// Returns true if the body of an `.ips` is of a hang.
pub(super) fn is_hang(body: &Fields) -> bool {
    body.has("processByPid")
}

/// Reads the body of a hang, with the line before it as `header`.
pub(super) fn read(mut body: Fields) -> Reading {
    let mut draft = Draft::default();
    let pid = body.unsigned("pid");
    let mut processes = body.object("processByPid").into_extra();
    let wanted = body.text("procname|header.app_name|header.name");
    let is_wanted = |(key, process): &(String, Value)| {
        let mut process = Fields::of(process.clone());
        pid.is_some_and(|pid| key.parse() == Ok(pid))
            || (wanted.is_some() && process.text("procname") == wanted)
    };
    let at = processes.iter().position(is_wanted).unwrap_or(0);
    let (key, process) = if at < processes.len() {
        processes.remove(at)
    } else {
        Default::default()
    };
    let mut process = Fields::of(process);
    let name = wanted
        .or_else(|| process.text("procname"))
        .unwrap_or_default();
    for (index, image) in body.list("binaryImages").into_iter().enumerate() {
        draft.image(image_of(image, index, &name));
    }
    head(&mut draft, &mut body, name);
    draft.report.head.pid = key.parse().unwrap_or(0);
    let threads = process.object("threadById").into_extra();
    for (index, (id, thread)) in threads.into_iter().enumerate() {
        let mut thread = thread_of(&mut draft, &id, Fields::of(thread));
        thread.main |= index == 0;
        draft.thread(thread);
    }
    body.keep("process", process);
    let others = processes.into_iter();
    let others = others.map(|(key, value)| (Value::Text(key), value));
    body.keep("others", Fields::of(Value::Map(others.collect())));
    draft.finish(Layout::Ips, body)
}

/// Takes what head and event have alike; `name` is the program's.
fn head(draft: &mut Draft, body: &mut Fields, name: String) {
    draft.head(body, &HEAD);
    let head = &mut draft.report.head;
    head.app.name = name;
    if head.arch.is_empty() {
        head.arch = "arm64".into();
    }
    let reason = body.text("reason");
    let event = draft.event();
    event.kind = EventKind::Stall;
    event.reason = reason;
    let duration = body.text("duration");
    if let Some(duration) = duration.and_then(|text| values::duration(&text)) {
        draft.lasted(duration);
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

fn thread_of(draft: &mut Draft, id: &str, mut fields: Fields) -> Thread {
    let queue = fields.text("dispatch_queue_label");
    let id = id.parse().ok().or_else(|| fields.unsigned("id"));
    let thread = draft.thread_of(fields, &THREAD);
    Thread {
        id: id.unwrap_or(0),
        main: queue.as_deref() == Some("com.apple.main-thread"),
        name: thread.name.or(queue),
        ..thread
    }
}
