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

use crate::report::{EventKind, Image, Reading, Thread, Value};
use crate::symbolicate::frame::image_file_name;
use crate::symbolicate::import::builder::{ReportBuilder, frame, numbered};
use crate::symbolicate::import::json_fields::JsonFields;
use crate::symbolicate::import::paths::HeadPaths;
use crate::symbolicate::import::plain_text::{Line, Sign, below};
use crate::symbolicate::import::{Layout, values};
use crate::symbolicate::names::symbol_text as names;

const HEAD: HeadPaths = HeadPaths {
    time: "Timestamp",
    ..HeadPaths::NONE
};

const STACK: &str = "Stack trace of thread ";

/// What a line says of such a text: its process, or the title of a stack.
pub fn sign(lines: &[Line], at: usize) -> Option<Sign> {
    let line = lines[at].trim();
    if line.starts_with("PID: ") {
        let mut below = lines.iter().skip(at + 1).take(8);
        let is_one = below.any(|line| line.trim().starts_with("Signal: "));
        return is_one.then_some(Sign::Label("PID"));
    }
    if line.starts_with(STACK) {
        return stack_frame(below(lines, at))
            .is_some()
            .then_some(Sign::Body);
    }
    let is_first = dumped(line).is_some() && !line.starts_with("Message: ");
    is_first.then_some(Sign::Label("dumped core"))
}

/// `Process 77 (kiosk) of user 1000 dumped core.`: number and name.
fn dumped(line: &str) -> Option<(u64, &str)> {
    let (_, rest) = line.strip_suffix('.')?.split_once("Process ")?;
    let process = rest
        .split_once(" of user ")
        .filter(|_| rest.ends_with(" dumped core"))?
        .0;
    number_and_name(process)
}

/// `77 (kiosk)`.
fn number_and_name(text: &str) -> Option<(u64, &str)> {
    let (number, name) = text.split_once(" (")?;
    Some((number.trim().parse().ok()?, name.strip_suffix(')')?))
}

/// `#0  0x000055d6c0a0111d till_open (kiosk + 0x111d)`: address, function, module, and offset in that.
fn stack_frame(line: &str) -> Option<(u64, &str, &str, Option<u64>)> {
    let (number, rest) = line.strip_prefix('#')?.split_once(' ')?;
    number.parse::<u32>().ok()?;
    let (word, rest) = rest.trim_start().split_once(' ')?;
    let (name, place) = rest.trim().strip_suffix(')')?.rsplit_once(" (")?;
    let (module, offset) = place.rsplit_once(" + ").unwrap_or((place, ""));
    Some((values::address(word)?, name, module, values::number(offset)))
}

pub fn read(text: &str) -> Reading {
    let (mut builder, mut labels) = (ReportBuilder::default(), JsonFields::default());
    let (mut ids, mut bases) = (BTreeMap::new(), BTreeMap::new());
    let mut threads: Vec<Thread> = Vec::new();
    let mut process = None;
    for line in text.lines().map(str::trim) {
        process = process.or(dumped(line).map(|(pid, name)| (pid, name.to_owned())));
        if let Some(rest) = line.strip_prefix(STACK) {
            let id = rest.trim_end_matches(':').parse().unwrap_or(0);
            threads.push(Thread {
                id,
                crashed: threads.is_empty(),
                extra: vec![numbered(id)],
                ..Thread::default()
            });
        } else if let Some((pc, name, module, offset)) = stack_frame(line) {
            if let Some(base) = offset.and_then(|offset| pc.checked_sub(offset)) {
                bases.insert(base, module.to_owned());
            }
            let name = Some(name.to_owned()).filter(|name| name != "n/a");
            let thread = threads.last_mut().into_iter();
            thread.for_each(|thread| thread.frames.push(frame(pc, None, name.clone())));
        } else if let Some((module, id)) = build_id(line) {
            ids.insert(
                image_file_name(module).to_owned(),
                (module.to_owned(), values::id(id)),
            );
        } else if let Some((key, value)) = line.split_once(": ") {
            labels.push(key, Value::Text(value.to_owned()));
        }
    }
    for (base, module) in bases {
        let known = ids.get(image_file_name(&module)).cloned();
        let (name, id) = known.unwrap_or((module, Vec::new()));
        builder.image(Image {
            name,
            id,
            base,
            ..Image::default()
        });
    }
    builder.index_images();
    // `Sat 2026-11-21 10:00:00 UTC (5min ago)`
    let time = labels.text("Timestamp");
    if let Some((_, time)) = time.as_deref().and_then(|time| time.split_once(' ')) {
        labels.push("Timestamp", Value::Text(time.to_owned()));
    }
    builder.head(&mut labels, &HEAD);
    let pid = labels.text("PID");
    let own = pid
        .as_deref()
        .and_then(number_and_name)
        .map(|(pid, name)| (pid, name.to_owned()));
    let (pid, name) = own.or(process).unwrap_or_default();
    let head = &mut builder.report.head;
    (head.pid, head.app.name, head.os.name) = (pid, name, "Linux".into());
    let event = builder.event();
    (event.kind, event.fatal) = (EventKind::Crash, true);
    let signal = labels.text("Signal");
    if let Some((number, name)) = signal.as_deref().and_then(number_and_name) {
        builder.signal(Some(number), Some(format!("SIG{name}")), None);
    }
    for mut thread in threads {
        thread.main = thread.id == pid;
        builder.thread(thread);
    }
    builder.finish(Layout::CoreDump, labels)
}

/// `Module /usr/bin/kiosk with build-id 1952887b…`, in older ones `Found module … with build-id: …`.
fn build_id(line: &str) -> Option<(&str, &str)> {
    let rest = line
        .strip_prefix("Module ")
        .or(line.strip_prefix("Found module "))?;
    let (module, id) = rest.split_once(" with build-id")?;
    names::function(module, None)?;
    Some((module, id.trim_start_matches(':').trim()))
}
