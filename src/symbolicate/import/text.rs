//! Texts for people: labels in front (`Process:   kiosk [77]`) and what they say, lines that are kept, lines that should
//! have been frames.

use super::draft::Draft;
use super::fields::Fields;
use super::ips::{code_name, fault_address};
use super::parts::{HeadPaths, joined};
use super::{Layout, LineNumbers, values};
use crate::report::{DamageKind, EventKind, Reading, Value, limits};

const HEAD: HeadPaths = HeadPaths {
    id: "Incident Identifier|header.incident_id",
    time: "Date/Time|header.timestamp",
    version: "Version",
    os: "OS Version|header.os_version",
    device: "Hardware Model",
    arch: "Code Type|Architecture",
    ..HeadPaths::NONE
};

/// What is not of a stack in a text.
#[derive(Default)]
pub(super) struct LabelledText {
    pub labels: Fields,
    /// Other lines.
    rest: Vec<String>,
    kept: usize,
    /// Numbers of lines that should be frames.
    pub unread: Vec<usize>,
}

impl LabelledText {
    /// Keeps the label of a line; false if it has none.
    pub fn label(&mut self, line: &str) -> bool {
        let label = label(line);
        if let Some((key, value)) = label {
            self.labels.push(key, Value::Text(value.to_owned()));
        }
        label.is_some()
    }

    pub fn keep(&mut self, line: &str) {
        if self.kept < limits::TEXT_BYTES {
            self.rest.push(line.to_owned());
        }
        self.kept += line.len();
    }

    /// Tells of the lines that stand among frames, `place`, and are none.
    pub fn note_unread(&mut self, draft: &mut Draft, lines: LineNumbers<'_>, place: &str) {
        for (number, offset) in lines.places(std::mem::take(&mut self.unread)) {
            let message =
                format!("line {number} stands {place} but is not a frame: it is left out");
            draft.damage(DamageKind::Section, offset, &message);
        }
    }

    /// Takes what the labels say of the app, the system and the time; `header` fills in, the line of JSON of an `.ips`.
    pub fn head(&mut self, draft: &mut Draft, header: Fields) {
        let labels = &mut self.labels;
        labels.keep("header", header);
        draft.head(labels, &HEAD);
        let head = &mut draft.report.head;
        if head.app.version.is_empty() {
            let version = labels.text("header.app_version");
            head.app.version = joined(version, labels.text("header.build_version"));
        }
        let process = labels.text("Process").unwrap_or_default();
        let (name, pid) = process.rsplit_once(" [").unwrap_or((process.as_str(), ""));
        let name = Some(name.trim().to_owned()).filter(|name| !name.is_empty());
        let name = labels.text("Command").or(name);
        let name = name.or_else(|| labels.text("header.app_name"));
        head.app.name = name.unwrap_or_default();
        let pid = labels.text("PID").unwrap_or_else(|| pid.to_owned());
        head.pid = pid.trim().trim_end_matches(']').parse().unwrap_or(0);
    }

    /// Takes the event of a crash out of the labels.
    pub fn crash(&mut self, draft: &mut Draft) {
        let message = self.application_message();
        let labels = &mut self.labels;
        let kind = labels.text("Exception Type");
        let subtype = labels.text("Exception Subtype");
        let codes = labels.text("Exception Codes|Exception Codes (raw)");
        let reason = labels.text("Termination Reason|Termination Signal");
        let crashed = labels.text("Triggered by Thread|Crashed Thread");
        let event = labels.peek("Event");
        let hang = event.is_some_and(|event| event.contains("hang") || event.contains("spin"));
        let threads = &mut draft.report.threads;
        let number = crashed.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        if let Some(number) = number.filter(|_| threads.iter().all(|thread| !thread.crashed))
            && let Some(thread) = threads.iter_mut().find(|thread| thread.id == number)
        {
            thread.crashed = true;
        }
        let event = draft.event();
        if event.kind != EventKind::Exception {
            event.kind = if hang {
                EventKind::Stall
            } else {
                EventKind::Crash
            };
        }
        event.fatal = !hang;
        event.reason = reason;
        event.message = message;
        let Some(kind) = kind else {
            return;
        };
        // `EXC_BAD_ACCESS (SIGSEGV)`, or the signal alone.
        let kind = kind.trim();
        let (name, signal) = match kind.split_once(" (") {
            Some((name, signal)) => (name.trim(), Some(signal.trim_end_matches(')').to_owned())),
            None if kind.starts_with("SIG") => ("", Some(kind.to_owned())),
            None => (kind, None),
        };
        event.name = Some(name.to_owned()).filter(|name| !name.is_empty());
        // `0x0000000000000001, 0x000000018a98520c`, `KERN_INVALID_ADDRESS at 0x10`, `SEGV_MAPERR at 0x88`
        let numbers = codes.iter().flat_map(|codes| codes.split(','));
        let numbers = numbers.filter(|code| code.contains("0x"));
        let numbers: Vec<u64> = numbers.filter_map(values::number).collect();
        let words = subtype.as_deref().or(codes.as_deref());
        if let Some(signal) = draft.signal(None, signal, Some(name)) {
            signal.code = numbers.first().map_or(0, |code| *code as i64);
            signal.code_name = words.and_then(code_name);
            signal.address = fault_address(Some(name), words, &numbers);
        }
        let codes = codes.map(|codes| ("exception_codes".to_owned(), Value::Text(codes)));
        let subtype = subtype.map(|text| ("exception_subtype".to_owned(), Value::Text(text)));
        draft.event().extra.extend(codes.into_iter().chain(subtype));
    }

    /// The lines behind `Application Specific Information:`, which has no value of its own.
    fn application_message(&mut self) -> Option<String> {
        let title = "Application Specific Information:";
        let at = self.rest.iter().position(|line| line.trim() == title)?;
        let behind = &self.rest[at + 1..];
        let is_title = |line: &str| line.ends_with(':') && !line.ends_with(", stack:");
        let len = behind.iter().position(|line| is_title(line.trim()));
        let end = at + 1 + len.unwrap_or(behind.len());
        let lines: Vec<String> = self.rest.drain(at..end).skip(1).collect();
        let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        Some(lines.join("\n")).filter(|text| !text.is_empty())
    }

    /// The report, with what was not understood of the text.
    pub fn finish(mut self, draft: Draft, layout: Layout) -> Reading {
        if !self.rest.is_empty() {
            let lines = self.rest.into_iter().map(Value::Text).collect();
            let lines = Fields::one("lines", Value::Array(lines));
            self.labels.keep("text", lines);
        }
        draft.finish(layout, self.labels)
    }
}

/// `Label:   value`.
fn label(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_letter = |c: u8| c.is_ascii_alphanumeric() || b" /()-_".contains(&c);
    let is_label = key.len() < 40
        && !value.trim().is_empty()
        && value.starts_with(' ')
        && key.starts_with(|c: char| c.is_ascii_uppercase())
        && key.bytes().all(is_letter);
    is_label.then(|| (key.trim(), value.trim()))
}
