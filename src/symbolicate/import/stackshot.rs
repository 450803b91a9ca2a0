//! Apple's stackshots in JSON, the body of some `.ips`: of a hang, and of a kernel panic.
//!
//! `processByPid` has the processes, each with `threadById`, whose `userFrames` and `kernelFrames` are pairs of an index
//! into `binaryImages` and an offset. Those of a kernel panic (`panic-full`, bug types 151 and 210) have the kernel's own
//! words, too, whose backtrace is that of the thread that panicked.

use super::draft::{Draft, frame};
use super::fields::{Fields, unsigned};
use super::parts::{ABSOLUTE, HeadPaths, ThreadPaths};
use super::{Layout, values};
use crate::report::{EventKind, Image, Reading, Thread, Value, limits};

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
    frames: "frames",
};

/// Returns true if the body of an `.ips` is of a hang.
pub(super) fn is_hang(body: &Fields) -> bool {
    body.has("processByPid")
}

/// Returns true if the body of an `.ips` is of a kernel panic.
pub(super) fn is_panic(body: &Fields) -> bool {
    body.has("panicString") || body.has("string")
}

/// Reads the body of a hang, with the line before it as `header`.
pub(super) fn read_hang(mut body: Fields) -> Reading {
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
    images(&mut draft, &mut body, &name);
    head(&mut draft, &mut body, name);
    draft.report.head.pid = key.parse().unwrap_or(0);
    let threads = process.object("threadById").into_extra();
    for (index, (id, thread)) in threads.into_iter().enumerate() {
        let mut thread = thread_of(&mut draft, &id, Fields::of(thread), false);
        thread.main |= index == 0;
        draft.thread(thread);
    }
    body.keep("process", process);
    let others = processes.into_iter();
    let others = others.map(|(key, value)| (Value::Text(key), value));
    body.keep("others", Fields::of(Value::Map(others.collect())));
    draft.finish(Layout::Ips, body)
}

/// Reads the body of a kernel panic, with the line before it as `header`.
pub(super) fn read_panic(mut body: Fields) -> Reading {
    let mut draft = Draft::default();
    let words = body.text("panicString|string").unwrap_or_default();
    let task = panicked_task(&words);
    let (pid, name) = task.unwrap_or((0, "kernel_task".to_owned()));
    // The list does not say to which program an image belongs.
    images(&mut draft, &mut body, "");
    head(&mut draft, &mut body, name);
    draft.report.head.pid = pid;
    let event = draft.event();
    event.kind = EventKind::Other;
    event.fatal = true;
    let kind = Value::Text("kernel panic".into());
    event.extra.push(("type".into(), kind));
    let first = words.lines().next().map(str::to_owned);
    event.message = first.filter(|line| !line.is_empty());
    panicked_thread(&mut draft, &words);
    let tid = behind(&words, "tid: ");
    let tid = tid.and_then(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse::<u64>().ok()
    });
    // The panicked process first.
    let mut processes = body.object("processByPid").into_extra();
    processes.sort_by_key(|(key, _)| key.parse() != Ok(pid));
    let mut frames = 0;
    for (key, process) in processes {
        let mut process = Fields::of(process);
        let owner = process.text("procname").unwrap_or_default();
        for (id, thread) in process.object("threadById").into_extra() {
            if frames > limits::FRAMES {
                draft.left_out += 1;
                continue;
            }
            let mut thread = thread_of(&mut draft, &id, Fields::of(thread), true);
            thread.main = false;
            let own = thread
                .name
                .map_or(String::new(), |name| format!(": {name}"));
            thread.name = Some(format!("{owner} [{key}]{own}"));
            thread.crashed = draft.report.threads.is_empty() && tid == Some(thread.id);
            frames += thread.frames.len();
            draft.thread(thread);
        }
    }
    body.keep("panic", Fields::one("words", Value::Text(words)));
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

fn images(draft: &mut Draft, body: &mut Fields, program: &str) {
    for (index, image) in body.list("binaryImages").into_iter().enumerate() {
        draft.image(image_of(image, index, program));
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

/// `with_kernel` says whether the frames in the kernel, which stand above those of the program, are wanted.
fn thread_of(draft: &mut Draft, id: &str, mut fields: Fields, with_kernel: bool) -> Thread {
    let mut frames = Vec::new();
    if with_kernel {
        frames = fields.list("kernelFrames");
        if frames.is_empty() {
            // A thread that waits in the kernel without a stack continues there.
            frames.extend(fields.take("continuation"));
        }
    }
    frames.extend(fields.list("userFrames"));
    fields.push("frames", Value::Array(frames));
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

/// `Panicked task 0xfffffe2012391d80: 26839 pages, 26 threads: pid 6982: com.example.app`.
fn panicked_task(words: &str) -> Option<(u64, String)> {
    let mut lines = words.lines();
    let line = lines.find(|line| line.starts_with("Panicked task"))?;
    let (pid, name) = behind(line, "pid ")?.split_once(": ")?;
    Some((pid.parse().ok()?, name.trim().to_owned()))
}

fn behind<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    Some(text.split_once(label)?.1)
}

/// `lr: 0xfffffff0278d45ec  fp: 0xffffffe06072b310`, a frame a line: return addresses in the kernel.
fn panicked_thread(draft: &mut Draft, words: &str) {
    let lines = words.lines().map(str::trim);
    let lines = lines.filter_map(|line| line.strip_prefix("lr: "));
    let addresses = lines.filter_map(|line| values::number(line.split_whitespace().next()?));
    let addresses = addresses.filter(|pc| *pc != 0).take(limits::FRAMES);
    let addresses: Vec<u64> = addresses.collect();
    let Some(&highest) = addresses.iter().max() else {
        return;
    };
    // The kernel's address: `Kernel text base`, or `Kernel slide` and its own UUID.
    let word = |label: &str| behind(words, label)?.split_whitespace().next();
    let base = word("Kernel text base:").and_then(values::number);
    let id = word("Kernel UUID:").map_or(Vec::new(), values::id);
    let kernel = base.filter(|base| *base <= highest).map(|base| {
        draft.image(Image {
            name: "[kernel]".into(),
            id,
            base,
            size: (highest - base).saturating_add(1),
            ..Image::default()
        })
    });
    let inside = |pc: u64| kernel.filter(|_| base.is_some_and(|base| pc >= base));
    draft.thread(Thread {
        name: Some("panicked thread (kernel)".into()),
        crashed: true,
        frames: addresses
            .into_iter()
            .map(|pc| frame(pc, inside(pc), None))
            .collect(),
        ..Thread::default()
    });
}
