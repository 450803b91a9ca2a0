//! Texts for people: labels in front (`Process:   kiosk [77]`) and what they say, lines that are kept, lines that should
//! have been frames.

use super::exception::{self, ExceptionFacts};
use crate::report::{DamageKind, EventKind, Reading, Value, limits};
use crate::symbolicate::import::plain_text::LineNumbers;
use crate::symbolicate::import::{HeadPaths, JsonFields, Layout, ReportBuilder, release, values};

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
            head.app.version = release(version, labels.text("header.build_version"));
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
        let event = self.labels.peek("Event").unwrap_or("");
        let is_hang = event.contains("hang") || event.contains("spin");
        let (first, messages) = (self.reason(), self.messages());
        let labels = &mut self.labels;
        let is_old_note = labels.peek("header.bug_type") == Some("185");
        let reason = first.as_deref().unwrap_or("");
        let is_simulated = is_old_note || reason.starts_with("SIMULATED");
        let kind = labels.text("Exception Type").unwrap_or_default();
        let subtype = labels.text("Exception Subtype");
        let codes = labels.text("Exception Codes|Exception Codes (raw)");
        let note = labels.text("Exception Note");
        let has_note = |words: &str| note.as_deref().is_some_and(|note| note.contains(words));
        let (name, signal, signal_note) = exception_type(&kind);
        // `0x0000000000000001, 0x000000018a98520c`, `KERN_INVALID_ADDRESS at 0x10`, `SEGV_MAPERR at 0x88`
        let numbers = codes.iter().flat_map(|codes| codes.split(','));
        let numbers = numbers.filter(|code| code.contains("0x"));
        let facts = ExceptionFacts {
            name,
            words: subtype.clone().or(codes.clone()),
            subtype,
            is_nonfatal: has_note("NON-FATAL") || has_note("NOT a crash"),
            is_simulated: has_note("SIMULATED") || is_simulated,
            signal,
            signal_note,
            codes: numbers.filter_map(values::number).collect(),
            reason: first,
            messages,
        };
        exception::set_event(builder, facts);
        let event = builder.event();
        let extra = [("exception_codes", codes), ("exception_note", note)];
        for (key, text) in extra {
            let text = text.map(|text| (key.to_owned(), Value::Text(text)));
            event.extra.extend(text);
        }
        if is_hang {
            event.kind = EventKind::Stall;
            event.fatal = false;
        } else if was_thrown {
            event.kind = EventKind::Exception;
        }
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
    fn reason(&mut self) -> Option<String> {
        let first = self.labels.text("Termination Reason|Termination Signal");
        let description = self.labels.text("Termination Description");
        let lines = first.into_iter().chain(description);
        let lines = lines.chain(self.reason.drain(..));
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| exception::with_known_code(&lines.join("\n")))
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
