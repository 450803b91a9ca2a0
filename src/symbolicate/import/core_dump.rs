//! What systemd-coredump says of a process that dumped core: in the journal, and by `coredumpctl info`.
//!
//! ```text
//!            PID: 77 (kiosk)
//!         Signal: 11 (SEGV)
//!     Executable: /usr/bin/kiosk
//!        Message: Process 77 (kiosk) of user 1000 dumped core.
//!
//!                 Module /usr/bin/kiosk with build-id 1952887bec2898e4213af6a35b66339f1dfd8c1e
//!                 Stack trace of thread 77:
//!                 #0  0x000055d6c0a0111d till_open (kiosk + 0x111d)
//! ```

use std::collections::BTreeMap;

use crate::report::{EventKind, Reading, Thread, Value};
use crate::symbolicate::frame::image_file_name;
use crate::symbolicate::import::plain_text::{Line, Role, text_below};
use crate::symbolicate::import::stack_lines::Line as StackLine;
use crate::symbolicate::import::{
    HeadPaths, JsonFields, Layout, ReportBuilder, numbered_thread, values,
};
use crate::symbolicate::names::symbol_text;

const HEAD: HeadPaths = HeadPaths {
    time: "Timestamp",
    ..HeadPaths::NONE
};

const STACK: &str = "Stack trace of thread ";

/// What a line says of such a text: its process, or the title of a stack.
pub fn role(lines: &[Line], at: usize) -> Option<Role> {
    let line = lines[at].trim();
    if line.starts_with("PID: ") {
        let mut below = lines.iter().skip(at + 1).take(8);
        let has_signal = below.any(|line| line.trim().starts_with("Signal: "));
        return has_signal.then_some(Role::Label("PID"));
    }
    if line.starts_with(STACK) {
        return stack_frame(text_below(lines, at)).map(|_| Role::Body);
    }
    let is_first = process_line(line).is_some() && !line.starts_with("Message: ");
    is_first.then_some(Role::Label("dumped core"))
}

/// `Process 77 (kiosk) of user 1000 dumped core.`: number and name.
fn process_line(line: &str) -> Option<(u64, &str)> {
    let (_, rest) = line.strip_suffix('.')?.split_once("Process ")?;
    let (process, rest) = rest.split_once(" of user ")?;
    rest.ends_with(" dumped core")
        .then(|| number_and_name(process))?
}

/// `77 (kiosk)`.
fn number_and_name(text: &str) -> Option<(u64, &str)> {
    let (number, name) = text.split_once(" (")?;
    Some((number.trim().parse().ok()?, name.strip_suffix(')')?))
}

/// `#0  0x000055d6c0a0111d till_open (kiosk + 0x111d)`: the offset is in the module. Old ones have `(kiosk)`; of no module,
/// `(n/a + 0x0)`.
fn stack_frame(line: &str) -> Option<StackLine<'_>> {
    let (number, rest) = line.strip_prefix('#')?.split_once(' ')?;
    number.parse::<u32>().ok()?;
    let (word, rest) = rest.trim_start().split_once(' ')?;
    let (name, place) = rest.trim().strip_suffix(')')?.rsplit_once(" (")?;
    let place = place.strip_prefix("n/a").map_or(place, |_| "");
    let (image, offset) = place.rsplit_once(" + ").unwrap_or((place, ""));
    let pc = values::address(word)?;
    Some(StackLine {
        image,
        pc,
        base: values::number(offset).and_then(|offset| pc.checked_sub(offset)),
        symbol: Some(name).filter(|name| *name != "n/a"),
        ..StackLine::default()
    })
}

pub fn read(text: &str) -> Reading {
    let (mut builder, mut labels) = (ReportBuilder::default(), JsonFields::default());
    let mut ids = BTreeMap::new();
    let mut threads: Vec<(u64, Vec<Value>)> = Vec::new();
    let mut process = None;
    for line in text.lines().map(str::trim) {
        process = process.or(process_line(line));
        if let Some(rest) = line.strip_prefix(STACK) {
            threads.push((rest.trim_end_matches(':').parse().unwrap_or(0), Vec::new()));
        } else if let (Some(found), Some((_, frames))) = (stack_frame(line), threads.last_mut()) {
            frames.push(found.fields().into_raw());
        } else if let Some((module, id)) = build_id(line) {
            ids.insert(image_file_name(module), (module, id));
        } else if let Some((key, value)) = line.split_once(": ") {
            // `Sat 2026-11-21 10:00:00 UTC (5min ago)`
            let time = value.split_once(' ').filter(|_| key == "Timestamp");
            let value = time.map_or(value, |(_, time)| time);
            labels.push(key, Value::Text(value.to_owned()));
        }
    }
    builder.head(&mut labels, &HEAD);
    let pid = labels.text("PID");
    let own = pid.as_deref().and_then(number_and_name).or(process);
    let (pid, name) = own.unwrap_or_default();
    let head = &mut builder.report.head;
    (head.pid, head.app.name, head.os.name) = (pid, name.to_owned(), "Linux".into());
    let event = builder.event();
    (event.kind, event.fatal) = (EventKind::Crash, true);
    let signal = labels.text("Signal");
    if let Some((number, name)) = signal.as_deref().and_then(number_and_name) {
        builder.signal(Some(number), Some(format!("SIG{name}")), None);
    }
    for (index, (id, frames)) in threads.into_iter().enumerate() {
        let mut thread = Thread {
            main: id == pid,
            crashed: index == 0,
            ..numbered_thread(id)
        };
        builder.put_frames(&mut thread, frames);
        builder.thread(thread);
    }
    for image in &mut builder.report.images {
        if let Some((module, id)) = ids.get(image_file_name(&image.name)) {
            (image.name, image.id) = ((*module).to_owned(), values::id(id));
        }
    }
    builder.finish(Layout::CoreDump, labels)
}

/// `Module /usr/bin/kiosk with build-id 1952887b…`, in older ones `Found module … with build-id: …`.
fn build_id(line: &str) -> Option<(&str, &str)> {
    let found = line.strip_prefix("Found module ");
    let rest = found.or(line.strip_prefix("Module "))?;
    let (module, id) = rest.split_once(" with build-id")?;
    symbol_text::function(module, None)?;
    Some((module, id.trim_start_matches(':').trim()))
}
