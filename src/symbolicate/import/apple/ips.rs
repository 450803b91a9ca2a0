//! Apple's `.ips` in JSON, crashes and stackshots of hangs: "Interpreting the JSON format of a crash report" in Apple's
//! documentation, and what its files show beyond it.

use super::crash_text;
use super::exception::{ExceptionFacts, set_event, signal_and_note, termination_reason};
use crate::report::{EventKind, Reading, Value};
use crate::symbolicate::import::{
    HeadPaths, JsonFields, Layout, ReportBuilder, ThreadPaths, texts_of, unsigned, values,
};

/// Paths of the head of a crash, and of a hang.
const HEAD: HeadPaths = HeadPaths {
    id: "incident|header.incident_id",
    time: "captureTime|date|header.timestamp",
    name: "procName|header.app_name|header.name",
    version: "bundleInfo.CFBundleShortVersionString|header.app_version",
    build: "bundleInfo.CFBundleVersion|header.build_version",
    os: "osVersion.train|build|header.os_version",
    os_build: "osVersion.build",
    device: "product|modelCode",
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
    if is_hang(&body) {
        return read_hang(body);
    }
    let mut builder = ReportBuilder::default();
    builder.head(&mut body, &HEAD);
    let head = &mut builder.report.head;
    let full = body.text("header.os_version");
    let build = full.and_then(|full| values::os(&full).build);
    head.os.build = head.os.build.take().or(build);
    head.app.extra = body.object("bundleInfo").into_extra();
    head.os.extra = body.object("osVersion").into_extra();
    let images = body.list("usedImages");
    builder.images(images, body.list("legacyInfo.imageExtraInfo"));
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
    let codes = match &raw {
        Some(Value::Array(codes)) => codes.iter().filter_map(unsigned).collect(),
        _ => Vec::new(),
    };
    let subtype = exception.text("subtype");
    let signal = exception.text("signal");
    let (signal, signal_note) = signal.map_or((None, None), |text| signal_and_note(&text));
    let mut termination = body.object("termination");
    let mut thrown = body.object("exceptionReason");
    let is_thrown = !thrown.is_empty();
    let name = thrown.text("name");
    let messages = [
        thrown.text("composed_message"),
        exception.text("message"),
        application_message(body),
    ];
    let is_old_note = body.peek("header.bug_type") == Some("185");
    let facts = ExceptionFacts {
        name: exception.text("type").unwrap_or_default(),
        words: subtype.clone(),
        subtype,
        is_nonfatal: body.bool("isNonFatal") == Some(true),
        is_simulated: body.bool("isSimulated") == Some(true) || is_old_note,
        signal,
        signal_note,
        codes,
        reason: termination_reason(&mut termination),
        messages: messages.into_iter().flatten().collect(),
    };
    set_event(builder, facts);
    let event = builder.event();
    if is_thrown {
        event.kind = EventKind::Exception;
        event.name = name.or(event.name.take());
    }
    let raw = raw.map(|raw| ("raw_codes".to_owned(), raw));
    event.extra.extend(raw);
    event.extra.extend(exception.into_extra());
    body.keep("termination", termination);
    body.keep("exceptionReason", thrown);
}

/// `asi`: by image, the lines that libraries left for the report.
fn application_message(body: &mut JsonFields) -> Option<String> {
    let texts = JsonFields::of(body.take("asi")?).into_extra();
    let lines = texts.into_iter().flat_map(|(_, texts)| texts_of(texts));
    let lines: Vec<String> = lines.collect();
    Some(lines.join("\n")).filter(|message| !message.is_empty())
}

/// Paths of a thread of a hang.
const HANG_THREAD: ThreadPaths = ThreadPaths {
    id: "id",
    name: "name|dispatch_queue_label",
    frames: "userFrames",
    ..ThreadPaths::NONE
};

/// Returns true if the body of an `.ips` is of a hang.
pub fn is_hang(body: &JsonFields) -> bool {
    body.has("processByPid")
}

/// Reads the stackshot of a hang, with the line before it as `header`.
///
/// `processByPid` has the processes, each with `threadById`, whose `userFrames` and `kernelFrames` are pairs of an index
/// into `binaryImages` and an offset. Frames in the kernel are kept, unread.
fn read_hang(mut body: JsonFields) -> Reading {
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
    let own = processes.len().min(at)..processes.len().min(at + 1);
    let (key, process) = processes.drain(own).next().unwrap_or_default();
    let mut process = JsonFields::of(process);
    builder.images(body.list("binaryImages"), Vec::new());
    builder.head(&mut body, &HEAD);
    let head = &mut builder.report.head;
    let name = wanted.or_else(|| process.text("procname"));
    head.app.name = name.unwrap_or_default();
    head.pid = key.parse().unwrap_or(0);
    if head.arch.is_empty() {
        head.arch = "arm64".into();
    }
    // The first of the process's own images is the program.
    let program = builder.report.images.first_mut().into_iter();
    let program = program.filter(|image| image.name.is_empty());
    program.for_each(|image| image.name.clone_from(&head.app.name));
    let event = builder.event();
    event.kind = EventKind::Stall;
    event.reason = body.text("reason");
    let duration = body.text("duration");
    if let Some(duration) = duration.and_then(|text| values::duration(&text)) {
        builder.lasted(duration);
    }
    let threads = process.object("threadById").into_extra();
    for (index, (id, thread)) in threads.into_iter().enumerate() {
        let fields = JsonFields::of(thread);
        let main = fields.peek("dispatch_queue_label") == Some("com.apple.main-thread");
        let mut thread = builder.thread_of(fields, &HANG_THREAD);
        thread.id = id.parse().unwrap_or(thread.id);
        thread.main = main || index == 0;
        builder.thread(thread);
    }
    body.keep("process", process);
    let others = processes.into_iter();
    let others = others.map(|(key, value)| (Value::Text(key), value));
    body.keep("others", JsonFields::of(Value::Map(others.collect())));
    builder.finish(Layout::Ips, body)
}
