//! Backtraces that Swift's own runtime prints: by `swift-backtrace`, as text (plain or coloured, of every preset) and
//! as JSON, and by the runtime itself (`Current stack trace:`).
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
mod lines;
mod report;

use std::collections::VecDeque;

use memchr::memmem;

use self::lines::LogLines;
use self::report::SwiftReport;
use super::REPORTS;
use super::fields::Fields;
use crate::report::{Damage, DamageKind, Reading};

/// Lines before a backtrace in which its message is looked for.
const LINES_BEFORE: usize = 64;

/// Returns true if the text contains a backtrace of Swift's runtime.
pub(super) fn is_one(text: &[u8]) -> bool {
    const MARKS: [&[u8]; 4] = [
        b"*** Signal ",
        b"*** Program crashed: ",
        b"Program crashed: ",
        b"Current stack trace:",
    ];
    let has = |mark: &[u8]| memmem::find(text, mark).is_some();
    has(MARKS[0]) && has(b": Backtracing from 0x")
        || MARKS[1..].iter().any(|mark| has(mark))
        || has(b"*** Swift runtime failure: ")
        || is_json_line(text)
}

/// Returns true for the JSON of a backtrace on a line after other output of the program.
fn is_json_line(text: &[u8]) -> bool {
    memmem::find(text, b"\n{ \"timestamp\"").is_some() && is_json(text)
}

/// Returns true for the JSON of a backtrace.
pub(super) fn is_json(text: &[u8]) -> bool {
    let has = |key: &[u8]| memmem::find(text, key).is_some();
    has(b"\"crashReport\"") && has(b"\"threads\"") && has(b"\"platform\"")
}

/// Reads the object of a backtrace in JSON.
pub(super) fn read_json(fields: Fields) -> Reading {
    json::read(fields, &[])
}

/// Reads every backtrace in a text.
pub(super) fn read(text: &str) -> Vec<Reading> {
    let mut readings = Vec::new();
    let mut before: VecDeque<String> = VecDeque::new();
    let mut open: Option<SwiftReport> = None;
    let mut lines = LogLines::default();
    for raw in text.split(['\n', '\r']) {
        let line = lines.plain(raw);
        let line = line.trim_end();
        let is_continued = open.as_mut().is_some_and(|report| report.line(line));
        if is_continued {
            continue;
        }
        readings.extend(open.take().map(SwiftReport::finish));
        if readings.len() == REPORTS {
            if let Some(last) = readings.last_mut() {
                last.damage.push(too_many());
            }
            return readings;
        }
        if line.starts_with("{ \"timestamp\"")
            && let Some(found) = super::json::read(line.as_bytes(), 0)
        {
            readings.push(json::read(
                Fields::of(found.value),
                before.make_contiguous(),
            ));
            before.clear();
            continue;
        }
        // The lines before were read when the prefix was not known yet.
        open = SwiftReport::begin(line, || {
            let lines = before.iter().map(|line| lines.without_prefix(line));
            lines.map(|line| line.trim_end().to_owned()).collect()
        });
        match open {
            Some(_) => before.clear(),
            None => {
                if before.len() == LINES_BEFORE {
                    before.pop_front();
                }
                before.push_back(line.to_owned());
            }
        }
    }
    readings.extend(open.map(SwiftReport::finish));
    readings
}

fn too_many() -> Damage {
    Damage {
        offset: 0,
        kind: DamageKind::Limit,
        message: format!("a file has no more than {REPORTS} reports: the rest is left out"),
    }
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
        let is_one = at == 0 || place.is_some();
        is_one.then(|| (place.map(str::to_owned), line[at..].to_owned()))
    };
    let lines: Vec<&String> = before.iter().collect();
    let (at, (place, mut message)) = lines
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, line)| Some((at, found(line)?)))?;
    let further = before[at + 1..]
        .iter()
        .take_while(|line| !line.trim().is_empty());
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
