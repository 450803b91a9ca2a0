//! What Foundation prints of an exception that nothing catches, as Xcode's console shows it: the message, and
//! `*** First throw call stack:` with frames, or with addresses alone.

use crate::report::{EventKind, Reading, Value};
use crate::symbolicate::import::apple::crash_text::stack_in_words;
use crate::symbolicate::import::apple::exception::thrown_name;
use crate::symbolicate::import::plain_text::{Line, Sign, below};
use crate::symbolicate::import::{JsonFields, Layout, ReportBuilder};

const TITLE: &str = "*** First throw call stack:";
const MESSAGE: &str = "*** Terminating app due to uncaught exception ";

/// What a line says of such a text: its message comes once before its title.
pub fn sign(lines: &[Line], at: usize) -> Option<Sign> {
    let line = &lines[at];
    if line.contains(MESSAGE) {
        return Some(Sign::Label(MESSAGE));
    }
    let has_stack = line.trim() == TITLE && below(lines, at).starts_with('(');
    has_stack.then_some(Sign::Stack)
}

pub fn read(text: &str) -> Reading {
    let mut builder = ReportBuilder::default();
    let (before, stack) = text.split_once(TITLE).unwrap_or(("", text));
    let end = stack.find("\n)").unwrap_or(stack.len());
    stack_in_words(&mut builder, stack[..end].trim_start_matches("\n(\n"), 0);
    if let Some(at) = before.find(MESSAGE) {
        // `2026-11-21 10:00:00.500 kiosk[77:1234] `
        let line = before[..at].lines().last().unwrap_or("");
        let process = line.trim().rsplit_once('[');
        if let Some((front, pid)) = process.filter(|_| before[..at].ends_with("] ")) {
            let head = &mut builder.report.head;
            head.app.name = front.rsplit(' ').next().unwrap_or("").to_owned();
            let pid = pid.split([':', ']']).next().unwrap_or("");
            head.pid = pid.parse().unwrap_or(0);
        }
        let message = before[at..].trim();
        builder.event().name = thrown_name(message).map(str::to_owned);
        builder.event().message = Some(message.to_owned());
    }
    let event = builder.event();
    (event.kind, event.fatal) = (EventKind::Exception, true);
    let after = stack[end..].trim_start_matches("\n)").trim();
    let left = JsonFields::one("text", Value::Text(after.to_owned()));
    builder.finish(Layout::FirstThrow, left)
}
