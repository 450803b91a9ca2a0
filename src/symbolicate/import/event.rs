//! A JSON event as services take it in: `exception.values[]` and `threads.values[]` with
//! `stacktrace.frames` (outermost first) and `registers`, images in `debug_meta`, the rest in
//! `contexts`.

use super::draft::{Draft, frame, keep_frames};
use super::fields::{Fields, unsigned};
use super::{Layout, UNSAID, values};
use crate::report::time::wall;
use crate::report::{EventKind, Image, Reading, Signal, Thread, Value};
use crate::symbolicate::frame::image_file_name;
use crate::symbolicate::symbolicator::is_system;

pub(super) fn read(mut event: Fields) -> Reading {
    let mut draft = Draft::default();
    head(&mut draft, &mut event);
    let mut meta = event.object("debug_meta");
    for image in meta.list("images") {
        let image = image_of(Fields::of(image));
        draft.image(image);
    }
    event.keep("debug_meta", meta);
    draft.index_images();
    name(&mut draft, &mut event);
    let mut thrown = values_of(&mut event, "exception")
        .into_iter()
        .map(Fields::of);
    // Of a chain of exceptions the last is the one that was not caught.
    let mut exception = thrown.next_back().unwrap_or_default();
    what(&mut draft, &mut exception, &mut event);
    let stack = exception.take("stacktrace");
    let thread_id = exception.take("thread_id");
    let mut has_stack = false;
    for (index, thread) in values_of(&mut event, "threads").into_iter().enumerate() {
        let mut fields = Fields::of(thread);
        let id = fields.take("id").or_else(|| fields.take("uuid"));
        let mut thread = Thread {
            id: id.as_ref().and_then(unsigned).unwrap_or(index as u64),
            name: fields.text("name"),
            crashed: fields.bool("crashed").unwrap_or(false),
            main: fields.bool("main").unwrap_or(index == 0),
            ..Thread::default()
        };
        let own = fields.take("stacktrace");
        let about = thread.crashed || (thread_id.is_some() && id == thread_id);
        let own = own.or_else(|| stack.clone().filter(|_| about));
        has_stack |= about && own.is_some();
        thread.extra = fields.into_extra();
        put_stack(&mut thread, own);
        add(&mut draft, thread);
    }
    if !has_stack && stack.is_some() {
        let mut thread = Thread {
            crashed: true,
            main: draft.report.threads.is_empty(),
            ..Thread::default()
        };
        put_stack(&mut thread, stack);
        add(&mut draft, thread);
    }
    event.keep("exception", exception);
    draft.finish(Layout::Event, event)
}

/// Adds a thread. If its registers say that it stood elsewhere, its first frame is a caller's, too: the one
/// that the link register names.
fn add(draft: &mut Draft, thread: Thread) {
    let is_pc = |name: &str| matches!(name, "pc" | "rip" | "eip");
    let pc = thread.registers.iter().find(|(name, _)| is_pc(name));
    let pc = pc.map(|(_, pc)| *pc);
    draft.thread(thread);
    let added = draft.report.threads.last_mut();
    if let Some(first) = added.and_then(|thread| thread.frames.first_mut())
        && pc.is_some_and(|pc| pc != first.pc)
    {
        first.found = UNSAID;
    }
}

/// Names the app if no context does: by the program's file, else by the front of `release`, which is
/// `com.example.app@2.1+77`.
fn name(draft: &mut Draft, event: &mut Fields) {
    let release = event.text("release");
    let parts = release
        .as_deref()
        .and_then(|release| release.rsplit_once('@'));
    let is_program = |image: &&Image| {
        let name = image.name.as_str();
        let is_library =
            name.ends_with(".dylib") || name.contains(".framework/") || name.contains(".so");
        name.contains('/') && !is_library && !is_system(name)
    };
    let program = draft.report.images.iter().find(is_program);
    let program = program.map(|image| image_file_name(&image.name).to_owned());
    let app = &mut draft.report.head.app;
    if app.name.is_empty() {
        let front = parts.map(|(name, _)| name.to_owned());
        app.name = program.or(front).unwrap_or_default();
    }
    if app.version.is_empty()
        && let Some((_, version)) = parts
    {
        let (version, build) = version.split_once('+').unwrap_or((version, version));
        app.version = super::ips::joined(Some(version.to_owned()), Some(build.to_owned()));
    }
    if let Some(release) = release {
        app.extra.push(("release".into(), Value::Text(release)));
    }
}

/// `{"values": […]}`, or the array alone.
fn values_of(event: &mut Fields, key: &str) -> Vec<Value> {
    match event.take(key) {
        Some(Value::Array(values)) => values,
        Some(value) => Fields::of(value).list("values"),
        None => Vec::new(),
    }
}

fn head(draft: &mut Draft, event: &mut Fields) {
    let mut contexts = event.object("contexts");
    let (mut os, mut device) = (contexts.object("os"), contexts.object("device"));
    let mut app = contexts.object("app");
    let head = &mut draft.report.head;
    head.id = values::report_id(&event.text("event_id").unwrap_or_default());
    head.time = wall(match event.take("timestamp") {
        Some(Value::Text(text)) => values::time(&text).unwrap_or(0),
        Some(Value::Unsigned(n)) => n.saturating_mul(1_000_000_000),
        Some(Value::Float(f)) if f >= 0.0 => (f * 1e9) as u64,
        _ => 0,
    });
    let name = app.text("app_name").or_else(|| app.text("app_identifier"));
    head.app.name = name.unwrap_or_default();
    head.app.version = super::ips::joined(app.text("app_version"), app.text("app_build"));
    head.os.name = os.text("name").unwrap_or_default();
    head.os.version = os.text("version").unwrap_or_default();
    head.os.build = os.text("build");
    head.device = device.text("model");
    head.arch = values::arch(&device.text("arch").unwrap_or_default());
    draft.device_memory(
        device.unsigned("memory_size"),
        device.unsigned("free_memory"),
    );
    contexts.keep("os", os);
    contexts.keep("device", device);
    contexts.keep("app", app);
    event.keep("contexts", contexts);
}

fn what(draft: &mut Draft, exception: &mut Fields, event: &mut Fields) {
    let mut mechanism = exception.object("mechanism");
    // Newer ones put these under `meta`, with other names.
    let mut meta = mechanism.object("meta");
    let mut posix = mechanism.object("posix_signal");
    if posix.is_empty() {
        posix = meta.object("signal");
    }
    let kind = exception.text("type");
    let level = event.text("level");
    let fault = mechanism.unsigned("relevant_address");
    let handled = mechanism.bool("handled");
    let facts = draft.event();
    facts.kind = match kind.as_deref() {
        Some(kind) if kind.starts_with("EXC_") || kind.starts_with("SIG") => EventKind::Crash,
        Some("App Hanging" | "App Hang" | "ApplicationNotResponding") => EventKind::Stall,
        Some(_) => EventKind::Exception,
        None => EventKind::Crash,
    };
    facts.fatal = level.as_deref() == Some("fatal") || handled == Some(false);
    facts.message = exception.text("value");
    let number = posix
        .unsigned("signal")
        .or_else(|| posix.unsigned("number"));
    let name = posix
        .text("name")
        .or_else(|| number.and_then(values::signal_name).map(str::to_owned));
    let name = name.or_else(|| values::signal_of_exception(kind.as_deref()?).map(str::to_owned));
    if let Some(name) = name {
        facts.signal = Some(Signal {
            number: number.unwrap_or_else(|| values::signal_number(&name)),
            name,
            code: posix.signed("code").unwrap_or(0),
            code_name: posix.text("code_name"),
            address: fault,
            extra: Vec::new(),
        });
    }
    facts.name = kind;
    mechanism.keep("posix_signal", posix);
    mechanism.keep("meta", meta);
    exception.keep("mechanism", mechanism);
}

fn image_of(mut fields: Fields) -> Image {
    let cpu = fields.unsigned("cpu_type").unwrap_or(0);
    let subtype = fields.unsigned("cpu_subtype").unwrap_or(0);
    let id = fields.text("uuid").or_else(|| fields.text("debug_id"));
    Image {
        name: fields
            .text("name")
            .or_else(|| fields.text("code_file"))
            .unwrap_or_default(),
        id: values::id(&id.unwrap_or_default()),
        base: fields.unsigned("image_addr").unwrap_or(0),
        stated: fields.unsigned("image_vmaddr").unwrap_or(0),
        size: fields.unsigned("image_size").unwrap_or(0),
        arch: fields
            .text("arch")
            .or(values::mach_arch(cpu, subtype).map(str::to_owned)),
        extra: fields.into_extra(),
        ..Image::default()
    }
}

fn put_stack(thread: &mut Thread, stack: Option<Value>) {
    let Some(stack) = stack else {
        return;
    };
    let mut stack = Fields::of(stack);
    let mut left = Vec::new();
    // Outermost first in these.
    for (at, value) in stack.list("frames").into_iter().rev().enumerate() {
        let mut fields = Fields::of(value);
        let pc = fields.unsigned("instruction_addr").unwrap_or(0);
        let name = fields.text("function");
        thread.frames.push(frame(pc, None, name));
        left.push((at, fields));
    }
    let registers = stack.object("registers").into_extra().into_iter();
    thread.registers = registers
        .filter_map(|(name, value)| Some((name, unsigned(&value)?)))
        .collect();
    thread.extra.extend(stack.into_extra());
    keep_frames(thread, left);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Found;
    use crate::symbolicate::import;

    #[test]
    fn a_first_frame_that_is_not_at_the_program_counter_is_a_caller() {
        for (register, pc, found) in [
            ("pc", "0x1000", Found::Context),
            ("rip", "0x1000", Found::Context),
            ("pc", "0x0", UNSAID),
            ("rip", "0x2000", UNSAID),
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
