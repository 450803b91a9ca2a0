//! Crashlytics' text, as its console copies it: `# Key: value` lines, then a stack a thread, whose addresses are
//! offsets in the images that each frame names.
//!
//! ```text
//! # Crashlytics - Stack trace
//! # Application: org.example.kiosk
//! # Version: 2.1 (77)
//!
//! Fatal Exception: NSRangeException
//! 0  CoreFoundation                 0x58418 __exceptionPreprocess
//! 1  kiosk                          0x386a Till.open(_:) + 7 (Till.swift:7)
//!
//! Crashed: com.apple.main-thread
//! 0  libsystem_kernel.dylib         0x7f3c __pthread_kill + 8
//! ```

use crate::report::{EventKind, Reading, Thread, Value, limits};
use crate::symbolicate::import::plain_text::{Line as TextLine, Role};
use crate::symbolicate::import::stack_lines::stack_line;
use crate::symbolicate::import::{HeadPaths, JsonFields, Layout, ReportBuilder, values};

const HEAD: HeadPaths = HeadPaths {
    id: "Issue ID|Issue",
    name: "Application",
    version: "Version",
    os: "OS Version",
    device: "Device",
    time: "Date",
    ..HeadPaths::NONE
};

/// What a line says of Crashlytics' text: its first line.
pub fn role(lines: &[TextLine], at: usize) -> Option<Role> {
    const FIRST: &str = "# Crashlytics - ";
    lines[at].starts_with(FIRST).then_some(Role::Header(FIRST))
}

/// A thread, its frames, and true if they are an exception's.
type CrashlyticsThread = (Thread, Vec<Value>, bool);

pub fn read(text: &str) -> Reading {
    let mut builder = ReportBuilder::default();
    let (mut labels, mut rest) = (JsonFields::default(), Vec::new());
    let mut threads: Vec<CrashlyticsThread> = Vec::new();
    let mut title = None;
    let event = builder.event();
    (event.kind, event.fatal) = (EventKind::Crash, true);
    for line in text.lines().map(str::trim) {
        if let Some(label) = line.strip_prefix("# ") {
            let label = label.split_once(": ").into_iter();
            label.for_each(|(key, value)| labels.push(key, Value::Text(value.trim().to_owned())));
        } else if let Some(mut found) = stack_line(line) {
            if let Some(title) = title.take() {
                threads.push(begin(&mut builder, title));
            }
            if let Some((_, frames, _)) = threads.last_mut() {
                // Of old ones they are addresses, of images that nothing tells the base of.
                found.base = found.base.filter(|_| found.pc >= limits::IMAGE_BYTES);
                let is_symbol = |symbol: &&str| !symbol.starts_with("(Missing");
                found.symbol = found.symbol.filter(is_symbol);
                frames.push(found.fields().into_raw());
            }
        } else if line.starts_with("EXC_") || line.starts_with("SIG") {
            exception(&mut builder, line);
        } else if !line.is_empty() && line != "--" {
            match title.replace(line) {
                // Lines after a title are its message.
                Some(above) if above.contains("Exception: ") => {
                    let message = &mut builder.event().message;
                    message.get_or_insert_with(|| line.to_owned());
                    title = Some(above);
                }
                Some(above) => rest.push(Value::Text(above.to_owned())),
                None => {}
            }
        }
    }
    builder.head(&mut labels, &HEAD);
    let app = &mut builder.report.head.app;
    app.name = app.name.rsplit('.').next().unwrap_or("").to_owned();
    for (mut thread, frames, is_exception) in threads {
        builder.put_frames(&mut thread, frames);
        if is_exception {
            builder.last_exception(thread)
        } else {
            builder.thread(thread)
        }
    }
    labels.push("lines", Value::Array(rest));
    builder.finish(Layout::Crashlytics, labels)
}

/// `#0. Crashed: com.apple.main-thread`, `Fatal Exception: NSRangeException`, or a thread's name.
fn begin(builder: &mut ReportBuilder, title: &str) -> CrashlyticsThread {
    let numbered = title.split_once(". ").filter(|_| title.starts_with('#'));
    let name = numbered.map_or(title, |(_, name)| name);
    let thrown = name.strip_prefix("Fatal Exception: ");
    let thrown = thrown.or(name.strip_prefix("Non-fatal Exception: "));
    if let Some(thrown) = thrown {
        let event = builder.event();
        event.kind = EventKind::Exception;
        event.name = Some(thrown.to_owned());
    }
    let crashed = name.strip_prefix("Crashed: ");
    let thread = Thread {
        main: name.ends_with("com.apple.main-thread"),
        crashed: crashed.is_some(),
        name: Some(crashed.unwrap_or(name).to_owned()),
        ..Thread::default()
    };
    (thread, Vec::new(), thrown.is_some())
}

/// `EXC_BAD_ACCESS KERN_INVALID_ADDRESS 0x0000000000000010`
fn exception(builder: &mut ReportBuilder, line: &str) {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let code = words.next().map(str::to_owned);
    let address = words.next().and_then(values::number);
    let signal = Some(name.to_owned()).filter(|name| name.starts_with("SIG"));
    if let Some(signal) = builder.signal(None, signal, Some(name)) {
        signal.code_name = code;
        signal.address = address;
    }
    builder.event().name.get_or_insert_with(|| name.to_owned());
}
