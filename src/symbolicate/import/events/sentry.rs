//! A JSON event as services take it in: `exception.values[]` and `threads.values[]` with
//! `stacktrace.frames` (outermost first) and `registers`, images in `debug_meta`, the rest in
//! `contexts`.

use std::mem::take;

use crate::report::{EventKind, Reading, Report, Sample, Thread, Value};
use crate::symbolicate::import::{
    HeadPaths, JsonFields, Layout, ReportBuilder, ThreadPaths, json, other_product, release,
};

const HEAD: HeadPaths = HeadPaths {
    id: "event_id",
    time: "timestamp",
    name: "contexts.app.app_name|contexts.app.app_identifier",
    version: "contexts.app.app_version",
    build: "contexts.app.app_build",
    os_name: "contexts.os.name",
    os_version: "contexts.os.version",
    os_build: "contexts.os.build",
    device: "contexts.device.model",
    arch: "contexts.device.arch",
    memory: "contexts.device.memory_size",
    free_memory: "contexts.device.free_memory",
    ..HeadPaths::NONE
};

const THREAD: ThreadPaths = ThreadPaths {
    name: "name",
    crashed: "crashed",
    registers: &["stacktrace.registers"],
    frames: "stacktrace.frames",
    ..ThreadPaths::NONE
};

pub fn read(mut event: JsonFields) -> Reading {
    let mut builder = ReportBuilder::default();
    builder.head(&mut event, &HEAD);
    builder.images(event.list("debug_meta.images"), Vec::new());
    name(&mut builder, &mut event);
    // Of a chain of exceptions the last is the one that was not caught.
    let mut thrown = event.list("exception.values|exception");
    let mut exception = JsonFields::of(thrown.pop().unwrap_or_default());
    read_exception(&mut builder, &mut exception, &mut event);
    let is_stall = builder.event().kind == EventKind::Stall;
    let is_own = event.peek("sdk.name") == Some("wedjat");
    let (mut stack, mut sample) = (exception.take("stacktrace"), None);
    let mut has_stack = false;
    let thread_id = exception.take("thread_id");
    let threads = event.list("threads.values|threads").into_iter();
    let threads: Vec<JsonFields> = threads.map(JsonFields::of).collect();
    let signs = |fields: &JsonFields| {
        let is = |key| fields.get(key) == Some(&Value::Bool(true));
        let is_named = thread_id.is_some() && fields.get("id") == thread_id.as_ref();
        // A stack of its own is where an error was reported, rather than where it was thrown.
        let is_other = !is_stall && stack.is_some() && fields.has("stacktrace");
        let is_current = is("current") && !is_other;
        [is("crashed"), is_named && !is_other, is_current]
    };
    // The thread that crashed, else the one that the exception names, else the one that reported it.
    let all: Vec<[bool; 3]> = threads.iter().map(signs).collect();
    let most = all.iter().max().filter(|signs| signs.contains(&true));
    for (index, mut fields) in threads.into_iter().enumerate() {
        let is_about = most == Some(&all[index]);
        if !fields.has("stacktrace")
            && let Some(stack) = stack.take_if(|_| is_about)
        {
            fields.push("stacktrace", stack);
        }
        has_stack |= is_about && fields.has("stacktrace");
        if is_about && is_own && is_stall {
            sample = stack.take();
        }
        let main = fields.bool("main").unwrap_or(index == 0);
        fields.take("current");
        let mut thread = thread_of(&mut builder, fields, index as u64);
        thread.main = main;
        thread.crashed |= is_about && !is_stall && !is_own;
        add(&mut builder, thread);
    }
    if let Some(stack) = stack.filter(|_| !has_stack && !is_own) {
        let mut thread = thread_of(&mut builder, JsonFields::one("stacktrace", stack), 0);
        thread.main = builder.report.threads.is_empty();
        thread.crashed = true;
        add(&mut builder, thread);
    }
    if is_own {
        own_sections(&mut builder.report, &mut event);
        // The stack of a stall is the most frequent of its samples.
        let stack = sample.map(|stack| JsonFields::one("stacktrace", stack));
        if let Some(stack) = stack.map(|stack| thread_of(&mut builder, stack, 0)) {
            builder.report.samples.push(Sample {
                count: 1,
                frames: stack.frames,
                ..Sample::default()
            });
        }
    }
    event.keep("exception", exception);
    builder.finish(Layout::Event, event)
}

/// A thread with its stack, whose frames are outermost first.
fn thread_of(builder: &mut ReportBuilder, mut fields: JsonFields, index: u64) -> Thread {
    let id = fields.unsigned("id");
    fields.take("id|uuid");
    let mut frames = fields.list(THREAD.frames);
    frames.reverse();
    let address = |frame: &Value| JsonFields::of(frame.clone()).unsigned("instruction_addr");
    let addresses: Vec<Option<u64>> = frames.iter().map(address).collect();
    // A function that was inlined has the address of the one that it was inlined into.
    for (frame, pair) in frames.iter_mut().zip(addresses.windows(2)) {
        if let Value::Map(entries) = frame {
            let is_inlined = pair[0] == pair[1] && pair[0].is_some_and(|pc| pc != 0);
            entries.push((Value::Text("inlined".into()), Value::Bool(is_inlined)));
        }
    }
    let mut thread = builder.thread_of(fields, &THREAD);
    builder.put_frames(&mut thread, frames);
    thread.id = id.unwrap_or(index);
    thread
}

/// Adds a thread. If its registers say that it stood elsewhere, its first frame is a caller's, too: the one that the link
/// register names.
fn add(builder: &mut ReportBuilder, thread: Thread) {
    let is_pc = |name: &str| matches!(name, "pc" | "rip" | "eip");
    let pc = thread.registers.iter().find(|(name, _)| is_pc(name));
    let first = thread.frames.first().map(|frame| frame.pc);
    match pc {
        Some((_, pc)) if Some(*pc) != first => builder.called(thread),
        _ => builder.thread(thread),
    }
}

/// Takes the sections that an envelope of our own has as they are in the report.
fn own_sections(report: &mut Report, event: &mut JsonFields) {
    let mut contexts = event.object("contexts");
    let mut own = JsonFields::default();
    for key in ["event", "stall_end", "vitals", "loss"] {
        own.push(key, contexts.take(key).unwrap_or_default());
    }
    own.push("context", contexts.take("app_state").unwrap_or_default());
    own.extend_object(contexts.object("report"));
    let own = serde_json::to_value(own.into_raw());
    if let Ok(own) = own.and_then(serde_json::from_value::<Report>) {
        let (threads, images) = (take(&mut report.threads), take(&mut report.images));
        *report = own;
        (report.threads, report.images) = (threads, images);
    }
    event.keep("contexts", contexts);
}

/// Names the app if no context does: by the program's file, else by the front of `release`, which is
/// `com.example.app@2.1+77`.
fn name(builder: &mut ReportBuilder, event: &mut JsonFields) {
    let tagged = event.text("release");
    let parts = tagged.as_deref().unwrap_or("").rsplit_once('@');
    let program = builder.program();
    let app = &mut builder.report.head.app;
    if app.name.is_empty() {
        let front = parts.map(|(name, _)| name.to_owned());
        app.name = program.or(front).unwrap_or_default();
    }
    if app.version.is_empty()
        && let Some((_, version)) = parts
    {
        let (version, build) = version.split_once('+').unwrap_or((version, version));
        app.version = release(Some(version.to_owned()), Some(build.to_owned()));
    }
    if let Some(text) = tagged {
        app.extra.push(("release".into(), Value::Text(text)));
    }
}

fn read_exception(builder: &mut ReportBuilder, exception: &mut JsonFields, event: &mut JsonFields) {
    let kind = exception.text("type");
    // Newer ones put these under `meta`, with other names.
    let posix = |key| format!("mechanism.posix_signal.{key}|mechanism.meta.signal.{key}");
    let number = exception.unsigned(&posix("signal"));
    let number = number.or_else(|| exception.unsigned(&posix("number")));
    let name = exception.text(&posix("name"));
    if let Some(signal) = builder.signal(number, name, kind.as_deref()) {
        signal.code = exception.signed(&posix("code")).unwrap_or(0);
        signal.code_name = exception.text(&posix("code_name"));
        signal.address = exception.unsigned("mechanism.relevant_address");
    }
    let facts = builder.event();
    let is_caught = exception.bool("mechanism.handled") != Some(false);
    let is_fatal = event.text("level").as_deref() == Some("fatal") || !is_caught;
    let ended = |kind: &str| kind.starts_with("Fatal App Hang");
    facts.fatal = is_fatal || kind.as_deref().is_some_and(ended);
    facts.kind = match kind.as_deref() {
        Some(kind) if kind.starts_with("EXC_") || kind.starts_with("SIG") => EventKind::Crash,
        Some("ApplicationNotResponding" | "MXHangDiagnostic") => EventKind::Stall,
        Some(kind) if kind.contains("App Hang") => EventKind::Stall,
        Some(_) => EventKind::Exception,
        None if exception.is_empty() && !is_fatal => EventKind::Other,
        None => EventKind::Crash,
    };
    facts.message = exception.text("value");
    if facts.kind == EventKind::Other {
        facts.message = event.text("message|message.formatted|logentry.formatted|logentry.message");
        let word = Value::Text("message".into());
        facts.extra.push(("type".into(), word));
    }
    facts.name = kind;
}

/// Longest header of an envelope, or of an item.
const MAX_HEADER: usize = 1 << 16;

/// A payload, by the type of its item, its file's name, and the product that it is of.
pub struct EnvelopeItem<'a> {
    pub name: String,
    pub payload: &'a [u8],
}

/// The items of Sentry's envelope, which is a line of JSON, then items, each a line of JSON with its length, and its payload;
/// `None` for other bytes.
pub fn envelope_items(bytes: &[u8]) -> Option<Vec<EnvelopeItem<'_>>> {
    let (header, mut at) = object_line(bytes, 0)?;
    let mut keys = ["event_id", "dsn", "sent_at", "sdk"].iter();
    let is_header = keys.any(|key| header.has(key));
    if !is_header || header.has("exception") || header.has("threads") {
        return None;
    }
    let mut items = Vec::new();
    while let Some((mut item, start)) = object_line(bytes, at) {
        let kind = item.text("type")?;
        let rest = bytes.get(start..).unwrap_or_default();
        let length = item.unsigned("length");
        let length = length.and_then(|length| usize::try_from(length).ok());
        let length = length.or_else(|| memchr::memchr(b'\n', rest));
        let length = length.unwrap_or(rest.len());
        let payload = &rest[..length.min(rest.len())];
        // Some lengths are wrong: the next item begins on the next line.
        at = start + payload.len();
        let after = bytes.get(at..).unwrap_or_default();
        at += memchr::memchr(b'\n', after).map_or(0, |end| end + 1);
        let file = item.text("filename");
        let file = file.map_or(String::new(), |file| format!(" `{file}`"));
        let product = other_product(payload).map_or(String::new(), |of| format!(" ({})", of.name));
        let name = format!("{kind}{file}{product}");
        items.push(EnvelopeItem { name, payload });
    }
    (!items.is_empty()).then_some(items)
}

/// The object on the line at `at`, and where the next line begins.
fn object_line(bytes: &[u8], at: usize) -> Option<(JsonFields, usize)> {
    let rest = bytes.get(at..)?;
    let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    if end > MAX_HEADER {
        return None;
    }
    let found = json::read(&rest[..end], 0).filter(|found| found.damage.is_none())?;
    let is_object =
        matches!(found.value, Value::Map(_)) && rest[found.end..end].trim_ascii().is_empty();
    is_object.then(|| (JsonFields::of(found.value), at + end + 1))
}

#[cfg(test)]
mod tests {
    use crate::report::Found;
    use crate::symbolicate::import;

    #[test]
    fn a_first_frame_that_is_not_at_the_program_counter_is_a_caller() {
        for (register, pc, found) in [
            ("pc", "0x1000", Found::Context),
            ("rip", "0x1000", Found::Context),
            ("pc", "0x0", Found::Unknown),
            ("rip", "0x2000", Found::Unknown),
            ("x0", "0x2000", Found::Context),
        ] {
            let text = format!(
                r#"{{"exception": {{"values": [{{"type": "EXC_BAD_ACCESS", "stacktrace": {{
                "frames": [{{"instruction_addr": "0x3000"}}, {{"instruction_addr": "0x1000"}}],
                "registers": {{"{register}": "{pc}"}}}}}}]}}}}"#
            );
            let readings = import::read(text.as_bytes()).unwrap();
            let frames = &readings[0].report.threads[0].frames;
            assert_eq!(
                (frames[0].pc, frames[0].found),
                (0x1000, found),
                "{register} {pc}"
            );
        }
    }
}
