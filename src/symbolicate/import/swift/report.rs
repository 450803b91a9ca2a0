//! A backtrace in text, line by line.

use super::frames::{BacktraceRow, image, parse_row, registers, runtime_row, thread_title};
use super::message_of;
use crate::report::{EventKind, Found, Image, Omitted, Reading, Thread, Value, WalkEnd};
use crate::symbolicate::import::{JsonFields, Layout, ReportBuilder, numbered_thread, values};

/// The part of the text that is being read.
#[derive(Clone, Copy, PartialEq, Default)]
pub(super) enum BacktracePart {
    #[default]
    Head,
    Thread,
    Registers,
    Images,
    /// The trace that the runtime itself prints.
    Runtime,
}

/// The title of the trace that the runtime itself prints.
const TRACE: &str = "Current stack trace:";

/// The title of the trace of an access that another one excludes; the runtime prints it before it dies.
const ACCESS: &str = "Current access (";

/// The front of what the compiler's own checks say.
const FAILURE: &str = "Swift runtime failure: ";

/// A backtrace being read.
#[derive(Default)]
pub(super) struct SwiftReport {
    pub part: BacktracePart,
    /// `Illegal instruction`, `Swift runtime failure: …`
    pub description: String,
    pub address: Option<u64>,
    /// `Linux (Debian GNU/Linux 12 (bookworm))`
    pub platform: String,
    pub arch: String,
    /// The message and its place, as standard error has them before the backtrace.
    pub message: Option<(Option<String>, String)>,
    /// The number of the signal, and where it came.
    pub signal: Option<(u64, u64)>,
    /// Threads, with their rows as they come.
    pub threads: Vec<(Thread, Vec<BacktraceRow>)>,
    /// True for the trace of an exclusivity violation.
    pub is_conflict: bool,
    pub images: Vec<Image>,
    /// Fields of a JSON that were not understood.
    pub left: JsonFields,
}

impl SwiftReport {
    /// Begins with the first line of a backtrace.
    pub fn begin(line: &str, before: &[String]) -> Option<SwiftReport> {
        let is_conflict = line.starts_with(ACCESS);
        let mut report = SwiftReport {
            message: message_of(before),
            is_conflict,
            ..SwiftReport::default()
        };
        if line.trim() == TRACE || is_conflict {
            report.part = BacktracePart::Runtime;
            let crashed = Thread {
                crashed: true,
                ..Thread::default()
            };
            report.threads.push((crashed, Vec::new()));
            return Some(report);
        }
        report.headline(line).then_some(report)
    }

    /// Takes the trace of the exclusivity violation that this death is of: the crashed thread's own stack ends in the
    /// runtime.
    pub fn take_conflict(&mut self, conflict: &mut SwiftReport) {
        let rows = conflict.threads.drain(..).flat_map(|(_, rows)| rows);
        let crashed = self.threads.iter_mut().find(|(thread, _)| thread.crashed);
        if let Some((_, own)) = crashed.filter(|(_, rows)| rows.len() < 2) {
            own.extend(rows);
        }
        self.message = conflict.message.take();
    }

    /// Reads a line; false if it is no longer of this backtrace.
    pub fn line(&mut self, line: &str) -> bool {
        if self.part == BacktracePart::Runtime {
            return self.runtime_line(line);
        }
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return true;
        }
        if headline(trimmed).is_some() {
            // Another death, unless this one has only begun.
            return self.threads.is_empty() && self.headline(trimmed);
        }
        if let Some(platform) = trimmed.strip_prefix("Platform: ") {
            let (arch, platform) = platform.split_once(' ').unwrap_or((platform, ""));
            self.arch = arch.to_owned();
            self.platform = platform.to_owned();
            return true;
        }
        if let Some((id, name, crashed)) = thread_title(trimmed) {
            self.part = BacktracePart::Thread;
            let thread = Thread {
                name,
                crashed,
                ..numbered_thread(id)
            };
            self.threads.push((thread, Vec::new()));
            return true;
        }
        if trimmed == "Registers:" {
            self.part = BacktracePart::Registers;
        } else if trimmed.starts_with("Images") && trimmed.ends_with(':') {
            self.part = BacktracePart::Images;
        } else if trimmed.starts_with("Backtrace took ") {
            return false;
        } else {
            self.body_line(trimmed);
        }
        true
    }

    /// Reads a row, a register or an image.
    fn body_line(&mut self, line: &str) {
        match self.part {
            BacktracePart::Images => self.images.extend(image(line)),
            BacktracePart::Thread | BacktracePart::Registers => {
                let first = self.signal.map_or(0, |(_, pc)| pc);
                let registers = registers(line);
                let mut threads = self.threads.iter_mut();
                let of = match self.part {
                    BacktracePart::Registers => threads.find(|(thread, _)| thread.crashed),
                    _ => threads.next_back(),
                };
                let Some((thread, rows)) = of else { return };
                if registers.is_empty() && self.part == BacktracePart::Thread {
                    rows.extend(parse_row(line, first));
                }
                thread.registers.extend(registers);
            }
            BacktracePart::Head | BacktracePart::Runtime => {}
        }
    }

    fn runtime_line(&mut self, line: &str) -> bool {
        let row = runtime_row(line).map(|fields| BacktraceRow::Frame(Found::Unknown, fields));
        let is_row = row.is_some();
        self.threads[0].1.extend(row);
        is_row
    }

    /// `*** Signal 4: Backtracing from 0x…`, `*** Program crashed: Illegal instruction at 0x… ***`, or the same with another
    /// mark.
    fn headline(&mut self, line: &str) -> bool {
        let Some(text) = headline(line) else {
            return false;
        };
        let text = text.strip_prefix("Program crashed: ").unwrap_or(text);
        let signal = text.strip_prefix("Signal ");
        if let Some((number, from)) = signal.and_then(|text| text.split_once(": Backtracing from "))
        {
            let word = from.split(['.', ' ']).next().unwrap_or("");
            let pc = values::number(word).unwrap_or(0);
            self.signal = number.parse().ok().map(|number| (number, pc));
            return true;
        }
        let (what, address) = match text.rsplit_once(" at 0x") {
            Some((what, digits)) => (what, u64::from_str_radix(digits.trim(), 16).ok()),
            None => (text, None),
        };
        self.description = what.to_owned();
        self.address = address;
        true
    }

    pub fn finish(mut self) -> Reading {
        let mut builder = ReportBuilder::default();
        for image in self.images.drain(..) {
            builder.image(image);
        }
        builder.index_images();
        let threads = std::mem::take(&mut self.threads);
        let left = std::mem::take(&mut self.left);
        self.event(&mut builder);
        for (thread, rows) in threads {
            add_thread(&mut builder, thread, rows);
        }
        builder.report.head.app.name = builder.program().unwrap_or_default();
        builder.finish(Layout::Swift, left)
    }

    /// Sets head and event.
    fn event(self, builder: &mut ReportBuilder) {
        let head = &mut builder.report.head;
        head.arch = values::arch(&self.arch);
        let platform = self.platform.split_once(' ');
        let (name, version) = platform.unwrap_or((&self.platform, ""));
        let within = version.strip_prefix('(');
        let within = within.map(|within| within.strip_suffix(')').unwrap_or(within));
        head.os.name = name.to_owned();
        head.os.version = within.unwrap_or(version).to_owned();
        let is_linux = name != "macOS";
        let number = self.signal.map(|(number, _)| number);
        let number = number.or_else(|| values::signal_described(&self.description, is_linux));
        let (location, message) = self.message.unzip();
        let event = builder.event();
        event.kind = EventKind::Crash;
        event.fatal = true;
        event.location = location.flatten();
        event.message = message;
        // Of an exclusivity violation the message has the place of each access.
        let mut lines = event.message.as_deref().unwrap_or("").lines();
        let previous = lines.find(|line| line.starts_with("Previous access "));
        event.reason = previous.map(str::to_owned);
        let failure = self.description.starts_with(FAILURE);
        if failure {
            event.message.get_or_insert(self.description.clone());
        } else if number.is_none() && event.reason.is_none() {
            event.reason = Some(self.description.clone()).filter(|text| !text.is_empty());
        }
        let name = number.and_then(|number| values::signal_name(number, is_linux));
        let unknown = number.map(|number| format!("signal {number}"));
        let name = name.map(str::to_owned).or(unknown);
        if let Some(signal) = builder.signal(number, name, None) {
            signal.address = self.address;
            signal.code_name = Some(self.description).filter(|text| !failure && !text.is_empty());
        }
    }
}

/// Returns true for a line by which a backtrace begins.
pub(super) fn is_first_line(line: &str) -> bool {
    let begins =
        |text: &str| !text.starts_with("Signal ") || text.contains(": Backtracing from 0x");
    line == TRACE || line.starts_with(ACCESS) || headline(line).is_some_and(begins)
}

/// Returns true for a line of a stack: a thread's title, or a frame.
pub(super) fn is_stack(line: &str) -> bool {
    let is_placed = |row| matches!(row, BacktraceRow::Frame(_, fields) if fields.has("image"));
    thread_title(line).is_some_and(|(.., crashed)| crashed)
        || runtime_row(line).is_some()
        || parse_row(line, 0).is_some_and(is_placed)
}

/// The text between the marks of a headline.
fn headline(line: &str) -> Option<&str> {
    let line = line.trim();
    let text = match line.strip_prefix("*** ") {
        Some(text) => text.trim_end_matches(" ***"),
        None => line.strip_prefix('💣')?.trim(),
    };
    let mut fronts = ["Signal ", "Program crashed: ", FAILURE, "Fatal error: "].iter();
    fronts.any(|front| text.starts_with(front)).then_some(text)
}

/// Adds a thread with its rows.
fn add_thread(builder: &mut ReportBuilder, mut thread: Thread, rows: Vec<BacktraceRow>) {
    let (mut frames, mut found) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            BacktraceRow::Frame(how, fields) => {
                if fields.get("inlined") != Some(&Value::Bool(true)) {
                    let is_first = found.is_empty() || how != Found::Context;
                    found.push(if is_first { how } else { Found::Unknown });
                }
                frames.push(fields.into_raw());
            }
            BacktraceRow::Omitted(Some(count)) if count > 0 => {
                let at = found.len() as u64;
                thread.omitted = Some(Omitted { at, count });
            }
            BacktraceRow::Omitted(_) => thread.end = Some(WalkEnd::Truncated),
        }
    }
    builder.put_frames(&mut thread, frames);
    for (frame, found) in thread.frames.iter_mut().zip(found) {
        frame.found = found;
    }
    builder.called(thread);
}
