//! A JSON event as services take it in: `exception.values[]` and `threads.values[]` with
//! `stacktrace.frames` (outermost first) and `registers`, images in `debug_meta`, the rest in
//! `contexts`.

use crate::report::{EventKind, Reading, Thread, Value};
use crate::symbolicate::import::Layout;
use crate::symbolicate::import::builder::ReportBuilder;
use crate::symbolicate::import::json_fields::{JsonFields, unsigned};
use crate::symbolicate::import::paths::{HeadPaths, ThreadPaths, joined, registers};

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

pub fn read(mut event: JsonFields) -> Reading {
    let mut builder = ReportBuilder::default();
    builder.head(&mut event, &HEAD);
    builder.images(event.list("debug_meta.images"));
    name(&mut builder, &mut event);
    // Of a chain of exceptions the last is the one that was not caught.
    let mut thrown = event.list("exception.values|exception");
    let mut exception = JsonFields::of(thrown.pop().unwrap_or_default());
    what(&mut builder, &mut exception, &mut event);
    let is_stall = builder.event().kind == EventKind::Stall;
    let mut stack = exception.take("stacktrace");
    let thread_id = exception.take("thread_id");
    let mut has_stack = false;
    let mut threads = Vec::new();
    let list = event.list("threads.values|threads");
    for (index, thread) in list.into_iter().enumerate() {
        let mut fields = JsonFields::of(thread);
        let id = fields.take("id|uuid");
        let main = fields.bool("main").unwrap_or(index == 0);
        let is_current = fields.bool("current") == Some(true);
        let own = fields.take("stacktrace");
        // A stack of its own is where an error was reported, rather than where it was thrown.
        let is_other = !is_stall && own.is_some() && stack.is_some();
        let paths = ThreadPaths {
            name: "name",
            crashed: "crashed",
            ..ThreadPaths::default()
        };
        let mut thread = builder.thread_of(fields, &paths);
        thread.id = id.as_ref().and_then(unsigned).unwrap_or(index as u64);
        thread.main = main;
        let is_named = thread_id.is_some() && id == thread_id;
        let signs = [
            thread.crashed,
            is_named && !is_other,
            is_current && !is_other,
        ];
        threads.push((signs, thread, own));
    }
    // The thread that crashed, else the one that the exception names, else the one that reported it.
    let most = threads.iter().map(|(signs, ..)| *signs).max();
    for (signs, mut thread, own) in threads {
        let about = signs.contains(&true) && Some(signs) == most;
        thread.crashed |= about && !is_stall;
        let own = own.or_else(|| stack.take_if(|_| about));
        has_stack |= about && own.is_some();
        add(&mut builder, thread, own);
    }
    if !has_stack && stack.is_some() {
        let thread = Thread {
            crashed: true,
            main: builder.report.threads.is_empty(),
            ..Thread::default()
        };
        add(&mut builder, thread, stack);
    }
    event.keep("exception", exception);
    builder.finish(Layout::Event, event)
}

/// Adds a thread with its stack. If its registers say that it stood elsewhere, its first frame is a caller's, too: the
/// one that the link register names.
fn add(builder: &mut ReportBuilder, mut thread: Thread, stack: Option<Value>) {
    let mut stack = JsonFields::of(stack.unwrap_or_default());
    let frames = stack.list("frames");
    thread.registers = registers(stack.object("registers"));
    thread.extra.extend(stack.into_extra());
    // Outermost first in these.
    builder.put_frames(&mut thread, frames.into_iter().rev().map(placed));
    let is_pc = |name: &str| matches!(name, "pc" | "rip" | "eip");
    let pc = thread.registers.iter().find(|(name, _)| is_pc(name));
    let first = thread.frames.first().map(|frame| frame.pc);
    match pc {
        Some((_, pc)) if Some(*pc) != first => builder.called(thread),
        _ => builder.thread(thread),
    }
}

/// A frame under the keys by which `recorded.rs` finds its file and line.
fn placed(frame: Value) -> Value {
    let mut fields = JsonFields::of(frame);
    for (from, to) in [
        ("abs_path|filename", "sourceFile"),
        ("lineno", "sourceLine"),
    ] {
        if let Some(value) = fields.take(from) {
            fields.push(to, value);
        }
    }
    fields.into_raw()
}

/// Names the app if no context does: by the program's file, else by the front of `release`, which is
/// `com.example.app@2.1+77`.
fn name(builder: &mut ReportBuilder, event: &mut JsonFields) {
    let release = event.text("release");
    let parts = release
        .as_deref()
        .and_then(|release| release.rsplit_once('@'));
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
        app.version = joined(Some(version.to_owned()), Some(build.to_owned()));
    }
    if let Some(release) = release {
        app.extra.push(("release".into(), Value::Text(release)));
    }
}

fn what(builder: &mut ReportBuilder, exception: &mut JsonFields, event: &mut JsonFields) {
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
