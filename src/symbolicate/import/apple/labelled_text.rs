//! Texts for people: labels in front (`Process:   kiosk [77]`) and what they say, lines that are kept, lines that should
//! have been frames.

use super::exception;
use super::exception::ExceptionKind;
use crate::report::{DamageKind, EventKind, Reading, Value, limits};
use crate::symbolicate::import::builder::ReportBuilder;
use crate::symbolicate::import::json_fields::JsonFields;
use crate::symbolicate::import::paths::{HeadPaths, joined};
use crate::symbolicate::import::plain_text::LineNumbers;
use crate::symbolicate::import::{Layout, values};

const HEAD: HeadPaths = HeadPaths {
    id: "Incident Identifier|header.incident_id",
    time: "Date/Time|header.timestamp",
    version: "Version",
    os: "OS Version|header.os_version",
    device: "Hardware Model",
    arch: "Code Type|Architecture",
    ..HeadPaths::NONE
};

/// What is said of a line that should have been a frame.
pub(super) const NO_FRAME: &str = "stands among frames but is not a frame: it is left out";

/// The labels and lines of a text that belong to no stack.
#[derive(Default)]
pub(super) struct LabelledText {
    pub labels: JsonFields,
    /// Other lines.
    rest: Vec<String>,
    kept: usize,
    /// Lines that libraries left for the report.
    pub message: Vec<String>,
    /// Lines that say why the system ended the app.
    pub reason: Vec<String>,
    /// Numbers of lines that are not read as they should be, and why.
    pub unread: Vec<(usize, &'static str)>,
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

    /// Tells of the lines that are not read.
    pub fn note_unread(&mut self, builder: &mut ReportBuilder, lines: LineNumbers<'_>) {
        for (number, why) in self.unread.drain(..) {
            let (number, offset) = lines.place(number);
            builder.damage(DamageKind::Section, offset, &format!("line {number} {why}"));
        }
    }

    /// Takes what the labels say of the app, the system and the time; `header` fills in, the line of JSON of an `.ips`.
    pub fn head(&mut self, builder: &mut ReportBuilder, header: JsonFields) {
        let labels = &mut self.labels;
        labels.keep("header", header);
        builder.head(labels, &HEAD);
        let head = &mut builder.report.head;
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

    /// Takes the event of a crash out of the labels and the lines that say why.
    pub fn crash(&mut self, builder: &mut ReportBuilder) {
        self.thread_in_question(builder);
        let was_thrown = builder.event().kind == EventKind::Exception;
        let is_hang = self
            .labels
            .peek("Event")
            .is_some_and(|event| event.contains("hang") || event.contains("spin"));
        let labels = &mut self.labels;
        let kind = labels.text("Exception Type");
        let subtype = labels.text("Exception Subtype");
        let codes = labels.text("Exception Codes|Exception Codes (raw)");
        let note = labels.text("Exception Note").unwrap_or_default();
        let (name, signal, signal_note) = exception_type(kind.as_deref().unwrap_or_default());
        let what = ExceptionKind {
            name: &name,
            subtype: subtype.as_deref(),
            is_note: note.contains("NON-FATAL") || note.contains("NOT a crash"),
            is_simulated: note.contains("SIMULATED"),
        };
        exception::set_kind(builder, &what);
        let is_note = what.is_note || what.is_simulated;
        let (reason, messages) = (self.reason(signal_note), self.messages());
        let event = builder.event();
        if is_hang {
            event.kind = EventKind::Stall;
            event.fatal = false;
            let threads = &mut builder.report.threads;
            let has_one = threads.iter().any(|thread| thread.crashed);
            for thread in threads.iter_mut().filter(|_| has_one) {
                thread.main = std::mem::take(&mut thread.crashed);
            }
        } else if was_thrown {
            event.kind = EventKind::Exception;
        }
        let event = builder.event();
        exception::set_reason(event, reason);
        event.name = Some(name.clone()).filter(|name| !name.is_empty());
        let thrown = messages
            .iter()
            .find_map(|message| exception::thrown_name(message));
        event.name = thrown.map(str::to_owned).or(event.name.take());
        let mut messages = messages.into_iter();
        event.message = messages.next().or(event.message.take());
        let mut extra: Vec<(&str, String)> =
            messages.map(|text| ("application_message", text)).collect();
        // `0x0000000000000001, 0x000000018a98520c`, `KERN_INVALID_ADDRESS at 0x10`, `SEGV_MAPERR at 0x88`
        let numbers = codes.iter().flat_map(|codes| codes.split(','));
        let numbers = numbers.filter(|code| code.contains("0x"));
        let numbers: Vec<u64> = numbers.filter_map(values::number).collect();
        let words = subtype.as_deref().or(codes.as_deref());
        let derived = (kind.is_some() && !is_note).then_some(name.as_str());
        if let Some(signal) = builder.signal(None, signal, derived) {
            signal.code = numbers.first().map_or(0, |code| *code as i64);
            signal.code_name = words.and_then(exception::code_name);
            signal.address = exception::fault_address(Some(&name), words, &numbers);
        }
        extra.extend(codes.map(|codes| ("exception_codes", codes)));
        extra.extend(subtype.map(|text| ("subtype", text)));
        extra.extend(Some(("exception_note", note)).filter(|(_, note)| !note.is_empty()));
        let extra = extra.into_iter();
        let extra = extra.map(|(key, text)| (key.to_owned(), Value::Text(text)));
        builder.event().extra.extend(extra);
    }

    /// Marks the thread that the labels name, unless a title has said which it is.
    fn thread_in_question(&mut self, builder: &mut ReportBuilder) {
        const LABELS: &str = "Triggered by Thread|Crashed Thread|Highlighted by Thread|Highlighted Thread|Attributed Thread";
        let number = self.labels.text(LABELS).and_then(|text| {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            text[..digits].parse::<u64>().ok()
        });
        let threads = &mut builder.report.threads;
        if let Some(number) = number.filter(|_| threads.iter().all(|thread| !thread.crashed))
            && let Some(thread) = threads.iter_mut().find(|thread| thread.id == number)
        {
            thread.crashed = true;
        }
    }

    /// Why the system ended the app: the label's line, and those after it.
    fn reason(&mut self, note: Option<String>) -> Option<String> {
        let first = self.labels.text("Termination Reason|Termination Signal");
        let description = self.labels.text("Termination Description");
        let lines: Vec<String> = first
            .into_iter()
            .chain(description)
            .chain(self.reason.drain(..))
            .collect();
        let mut reason = Some(lines.join("\n")).filter(|text| !text.is_empty());
        reason = reason.map(|reason| exception::with_known_code(&reason));
        exception::add_note(&mut reason, note);
        reason
    }

    /// The messages of the text, the one that says most first.
    fn messages(&mut self) -> Vec<String> {
        let thrown = self.labels.text("Exception Reason");
        let own = self.labels.text("Exception Message");
        let lines = Some(self.message.join("\n")).filter(|text| !text.is_empty());
        [thrown, own, lines].into_iter().flatten().collect()
    }

    /// The report, with what was not understood of the text.
    pub fn finish(mut self, builder: ReportBuilder, layout: Layout) -> Reading {
        if !self.rest.is_empty() {
            let lines = self.rest.into_iter().map(Value::Text).collect();
            let lines = JsonFields::one("lines", Value::Array(lines));
            self.labels.keep("text", lines);
        }
        builder.finish(layout, self.labels)
    }
}

/// Name, signal and note of `EXC_BAD_ACCESS (SIGSEGV)`, `EXC_CRASH (Code Signature Invalid)`, or of the signal alone.
fn exception_type(kind: &str) -> (String, Option<String>, Option<String>) {
    let kind = kind.trim();
    // Where it knows none, KSCrash writes `0 ((null))`.
    let kind = if kind.starts_with('0') { "" } else { kind };
    let (name, signal) = match kind.split_once(" (") {
        _ if kind.starts_with("SIG") => ("", kind),
        Some((name, signal)) => (name.trim(), signal),
        None => (kind, ""),
    };
    let (signal, note) = exception::signal_and_note(signal.strip_suffix(')').unwrap_or(signal));
    (name.to_owned(), signal, note)
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
