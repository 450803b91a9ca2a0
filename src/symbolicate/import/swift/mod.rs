//! Backtraces that Swift's own runtime prints: by `swift-backtrace` as text (of every preset) and as JSON, and by the
//! runtime itself (`Current stack trace:`).
//!
//! A backtrace is found among other output of a program, and in logs that put a prefix before each line. The message
//! of the error is before the backtrace. One file may hold several backtraces.
//!
//! ```text
//! kinds/Kinds.swift:26: Fatal error: no such drawer
//!
//! *** Signal 4: Backtracing from 0x7f79b576df7f... done ***
//!
//! *** Program crashed: Illegal instruction at 0x00007f79b576df7f ***
//!
//! Platform: x86_64 Linux (Debian GNU/Linux 12 (bookworm))
//!
//! Thread 0 "kiosk" crashed:
//!
//! 0      0x00007f79b576df7f _assertionFailure(_:_:file:line:flags:) + 225 in libswiftCore.so
//! 1 [ra] 0x000055d676c7f14d Till.pay(_:) + 61 in kiosk at /home/ann/till/Till.swift:26:59
//! ...
//! ```

mod frames;
mod json;
mod report;

use std::collections::VecDeque;

pub(super) use self::json::read as read_json;
use self::report::SwiftReport;
use super::plain_text::{Line, Role};
use crate::report::Reading;
use crate::symbolicate::import::{JsonFields, Layout};

/// Lines before a backtrace in which its message is looked for.
const MAX_LINES_BEFORE: usize = 64;

/// What a line says of a backtrace: its first line, with a stack below, or its JSON.
pub(super) fn role(lines: &[Line], at: usize) -> Option<Role> {
    let line = lines[at].trim();
    if line.starts_with('{') && line.contains("\"crashReport\"") {
        return Some(Role::Header("{"));
    }
    if !report::is_first_line(line) {
        return None;
    }
    let mut below = lines.iter().skip(at + 1).take(MAX_LINES_BEFORE);
    let has_stack = below.any(|line| report::is_stack(line));
    has_stack.then_some(Role::Header("***"))
}

/// Reads every backtrace in a text.
pub(super) fn read(text: &str) -> Vec<Reading> {
    let mut readings = Vec::new();
    let mut before: VecDeque<String> = VecDeque::new();
    let (mut open, mut conflict): (Option<SwiftReport>, Option<SwiftReport>) = (None, None);
    for raw in text.split(['\n', '\r']) {
        let line = raw.trim_end();
        let is_continued = open.as_mut().is_some_and(|report| report.line(line));
        if is_continued {
            continue;
        }
        if let Some(mut report) = open.take() {
            if let Some(mut before) = conflict.take() {
                report.take_conflict(&mut before);
            }
            if report.is_conflict {
                conflict = Some(report);
            } else {
                readings.push(report.finish());
            }
        }
        if line.starts_with('{')
            && let Some(found) = super::json::read(line.as_bytes(), 0)
            && super::value_layout(&found.value) == Some(Layout::Swift)
        {
            let fields = JsonFields::of(found.value);
            readings.push(json::read(fields, before.make_contiguous()));
            before.clear();
            continue;
        }
        open = SwiftReport::begin(line, before.make_contiguous());
        match open {
            Some(_) => before.clear(),
            None => {
                if before.len() == MAX_LINES_BEFORE {
                    before.pop_front();
                }
                before.push_back(line.to_owned());
            }
        }
    }
    if let (Some(report), Some(before)) = (&mut open, &mut conflict) {
        report.take_conflict(before);
    } else {
        readings.extend(conflict.map(SwiftReport::finish));
    }
    readings.extend(open.map(SwiftReport::finish));
    readings
}

/// Returns the place and the message of an error: `kinds/Kinds.swift:26: Fatal error: no such drawer`, and the lines
/// after it.
pub(super) fn message_of(before: &[String]) -> Option<(Option<String>, String)> {
    const WORDS: [&str; 5] = [
        "Fatal error",
        "Precondition failed",
        "Assertion failed",
        "Fatal access conflict",
        "Not implemented",
    ];
    let found = |line: &String| {
        let at = WORDS.iter().filter_map(|word| line.find(word)).min()?;
        let place = line[..at].trim_end().strip_suffix(':');
        let is_message = at == 0 || place.is_some();
        is_message.then(|| (place.map(str::to_owned), line[at..].to_owned()))
    };
    // What the runtime prints of an exclusivity violation, in front of its trace.
    let is_conflict = |line: &String| line.starts_with("Simultaneous accesses to ");
    if let Some(at) = before.iter().rposition(is_conflict) {
        return Some((None, before[at..].join("\n").trim().to_owned()));
    }
    let mut lines = before.iter().enumerate().rev();
    let (at, (place, mut message)) = lines.find_map(|(at, line)| Some((at, found(line)?)))?;
    let further = before[at + 1..].iter();
    let further = further.take_while(|line| !line.trim().is_empty());
    for line in further.filter(|line| !line.starts_with("swift-runtime: ")) {
        message.push('\n');
        message.push_str(line);
    }
    Some((place, message.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\*\\*\\* (Signal [0-9]{0,3}: Backtracing from 0x[0-9a-f]{0,4}|Program crashed: [a-z]{0,3} at 0x[0-9a-f]{0,3}) \\*\\*\\*|Thread [0-9]{0,3}( \"[a-zé]{0,3}\"?)?( crashed)?:|[0-9]{1,2} (\\[(ra|async|inlined|system)\\] ){0,2}(0x[0-9a-f]{0,4} )?[a-zé.() ]{0,9}( \\+ [0-9]{1,2})?( in [a-z]{0,3})?( at /[a-z]{0,3}:[0-9]{0,2}:[0-9]{0,2})?|Registers:|[a-z]{2,3} 0x[0-9a-f]{0,3}|Images( \\([0-9] omitted\\))?:|0x[0-9a-f]{0,3}–0x[0-9a-f]{0,3} [0-9a-f]{0,4} [a-z ]{0,3} ?/?[a-z]{0,3}|\\.\\.\\.|Current stack trace:|\x1b\\[[0-9]{0,2}m?|\n){0,24}") {
            let _ = read(&text);
        }
    }
}
