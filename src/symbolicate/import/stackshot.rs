//! Apple's stackshots of a hang in JSON, the body of some `.ips`: `processByPid`, each with
//! `threadById`, whose `userFrames` are pairs of an index into `binaryImages` and an offset.

use super::draft::{Draft, frame, keep_frames};
use super::fields::{Fields, unsigned};
use super::ips::joined;
use super::{Layout, values};
use crate::report::time::wall;
use crate::report::{EventKind, Image, Reading, Thread, Value};

/// Returns true if the body of an `.ips` is one.
pub(super) fn is_one(body: &Fields) -> bool {
    body.has("processByPid")
}

pub(super) fn read(mut header: Fields, mut body: Fields) -> Reading {
    let mut draft = Draft::default();
    let images = body.list("binaryImages");
    let pid = body.unsigned("pid");
    let mut processes = body.object("processByPid").into_extra();
    let wanted = body
        .text("procname")
        .or_else(|| header.text("app_name"))
        .or_else(|| header.text("name"));
    let at = processes.iter().position(|(key, process)| {
        let mut process = Fields::of(process.clone());
        pid.is_some_and(|pid| key.parse() == Ok(pid))
            || (wanted.is_some() && process.text("procname") == wanted)
    });
    let at = at.unwrap_or(0);
    let (key, mut process) = if at < processes.len() {
        let (key, process) = processes.remove(at);
        (key, Fields::of(process))
    } else {
        (String::new(), Fields::default())
    };
    let name = wanted
        .or_else(|| process.text("procname"))
        .unwrap_or_default();
    for (index, image) in images.into_iter().enumerate() {
        draft.image(image_of(image, index, &name));
    }
    head(&mut draft, &mut header, &mut body, name);
    draft.report.head.pid = key.parse().unwrap_or(0);
    for (index, (id, thread)) in process
        .object("threadById")
        .into_extra()
        .into_iter()
        .enumerate()
    {
        let thread = thread_of(&draft, index, &id, Fields::of(thread), false);
        draft.thread(thread);
    }
    let mut left = body;
    left.keep("process", process);
    left.keep("header", header);
    left.keep(
        "others",
        Fields::of(Value::Map(
            processes
                .into_iter()
                .map(|(key, value)| (Value::Text(key), value))
                .collect(),
        )),
    );
    draft.finish(Layout::Ips, left)
}

pub(super) fn head(draft: &mut Draft, header: &mut Fields, body: &mut Fields, name: String) {
    let head = &mut draft.report.head;
    let incident = body.text("incident").or_else(|| header.text("incident_id"));
    head.id = values::report_id(&incident.unwrap_or_default());
    let time = body.text("date").or_else(|| header.text("timestamp"));
    head.time = wall(time.and_then(|time| values::time(&time)).unwrap_or(0));
    head.app.name = name;
    head.app.version = joined(header.text("app_version"), header.text("build_version"));
    let os = body.text("build").or_else(|| header.text("os_version"));
    head.os = values::os(&os.unwrap_or_default());
    head.device = body.text("product").or_else(|| body.text("modelCode"));
    head.arch = values::arch(&body.text("cpuType").unwrap_or_else(|| "ARM-64".into()));
    let duration = body
        .text("duration")
        .and_then(|text| values::duration(&text));
    let reason = body.text("reason");
    let event = draft.event();
    event.kind = EventKind::Stall;
    event.reason = reason;
    if let Some(duration) = duration {
        draft.lasted(duration);
    }
}

/// `[uuid, base, kind]`: no names. The first of the process's own is the program; those of the shared
/// cache and the kernel are the system's.
pub(super) fn image_of(image: Value, index: usize, program: &str) -> Image {
    let Value::Array(parts) = image else {
        return Image::default();
    };
    let id = match parts.first() {
        Some(Value::Text(id)) => values::id(id),
        _ => Vec::new(),
    };
    let name = match parts.get(2) {
        Some(Value::Text(kind)) if matches!(kind.as_str(), "S" | "C") => "[shared cache]",
        Some(Value::Text(kind)) if kind == "K" => "[kernel]",
        Some(Value::Text(kind)) if kind == "A" => ABSOLUTE,
        _ if index == 0 => program,
        _ => "",
    };
    Image {
        name: name.to_owned(),
        id,
        base: parts.get(1).and_then(unsigned).unwrap_or(0),
        ..Image::default()
    }
}

/// Not an image: the offsets of its frames are addresses.
const ABSOLUTE: &str = "[absolute addresses]";

/// `with_kernel` says whether the frames in the kernel, which stand above those of the program, are wanted.
pub(super) fn thread_of(
    draft: &Draft,
    index: usize,
    id: &str,
    mut fields: Fields,
    with_kernel: bool,
) -> Thread {
    let queue = fields.text("dispatch_queue_label");
    let main = queue.as_deref() == Some("com.apple.main-thread") || index == 0;
    let mut thread: Thread = Thread {
        id: id
            .parse()
            .ok()
            .or_else(|| fields.unsigned("id"))
            .unwrap_or(0),
        name: fields.text("name").or(queue),
        main,
        ..Thread::default()
    };
    let mut left = Vec::new();
    let mut pairs = Vec::new();
    if with_kernel {
        pairs = fields.list("kernelFrames");
        if pairs.is_empty() {
            // A thread that waits in the kernel without a stack goes on there.
            pairs.extend(fields.take("continuation"));
        }
    }
    pairs.extend(fields.list("userFrames"));
    for (at, pair) in pairs.into_iter().enumerate() {
        // A pair, or an object of the same.
        let (image, offset) = match pair {
            Value::Array(pair) => (
                pair.first().and_then(unsigned),
                pair.get(1).and_then(unsigned).unwrap_or(0),
            ),
            other => {
                let mut fields = Fields::of(other);
                let image = fields.unsigned("imageIndex");
                let offset = fields.unsigned("imageOffset").unwrap_or(0);
                left.push((at, fields));
                (image, offset)
            }
        };
        let index = image.and_then(|image| u32::try_from(image).ok());
        let found = index.and_then(|index| draft.report.images.get(index as usize));
        let base = found.map_or(0, |image| image.base);
        let index = index.filter(|_| found.is_some_and(|image| image.name != ABSOLUTE));
        thread
            .frames
            .push(frame(base.wrapping_add(offset), index, None));
    }
    thread.extra = fields.into_extra();
    keep_frames(&mut thread, left);
    thread
}
