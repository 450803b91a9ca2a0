//! The layout that people know from Apple's crash reports.

mod stacks;

use std::fmt::Write as _;
use std::io;

use super::facts::{
    app_state, event_facts, has_crashed, known_id, known_time, lasted, number, os_text, recorder,
    signal_code, vitals, watched,
};
use super::file_names::FileNames;
use super::findings::{blame_text, kind_text, missing_lines, to_blame};
use super::stacks::{Standing, in_order, wait_call};
use super::{Parts, Style, plain};
use crate::report::Report;
use crate::report::time::nanos;
use crate::symbolicate::frame::{Symbolicated, hex, image_file_name};
use crate::symbolicate::group::thread_in_question;

/// Reports as text for people.
#[derive(Debug, Clone, Default)]
pub struct Text {
    written: bool,
}

impl Parts for Text {
    type Part = String;

    fn part(style: &Style, _origin: &str, of: &Symbolicated) -> String {
        let mut page = TextPage::new(style, of);
        page.head();
        page.event();
        page.facts(vitals(&of.report));
        page.context();
        for (index, standing) in in_order(of) {
            let (thread, stack) = (&of.report.threads[index], &of.threads[index]);
            match wait_call(stack).filter(|_| standing == Standing::Idle && !style.verbose) {
                Some(function) => page.write_idle(index, thread, function),
                None => page.thread(index, thread, stack),
            }
        }
        page.samples();
        page.registers();
        page.near_memory();
        page.facts(recorder(&of.report));
        page.images();
        page.remarks();
        page.text
    }

    fn add(&mut self, part: String, out: &mut dyn io::Write) -> io::Result<()> {
        if std::mem::replace(&mut self.written, true) {
            writeln!(out, "\n{}\n", "-".repeat(72))?;
        }
        out.write_all(part.as_bytes())
    }
}

/// A report being laid out.
struct TextPage<'a> {
    style: &'a Style,
    text: String,
    of: &'a Symbolicated,
    report: &'a Report,
    /// Index of the thread that the report is about.
    about: Option<usize>,
    files: FileNames,
}

/// `Hardware Model:      ` and the like are so wide.
const LABEL: usize = 21;

/// The most frequent stack of a report; without samples, that of the thread in question.
pub(super) fn heaviest_stack(style: &Style, of: &Symbolicated) -> String {
    let mut page = TextPage::new(style, of);
    page.samples();
    if let Some(index) = page.about.filter(|_| page.text.is_empty()) {
        page.thread(index, &of.report.threads[index], &of.threads[index]);
    }
    page.text
}

impl<'a> TextPage<'a> {
    fn new(style: &'a Style, of: &'a Symbolicated) -> TextPage<'a> {
        TextPage {
            style,
            text: String::new(),
            of,
            report: &of.report,
            about: thread_in_question(&of.report),
            files: FileNames::of(of),
        }
    }
}

impl TextPage<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Writes a label with what is known; without a line where nothing is.
    fn field(&mut self, label: &str, value: &str) {
        if value.trim().is_empty() {
            return;
        }
        let mut label = format!("{label}:");
        let mut lines = value.split('\n').filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or("");
        for line in std::iter::once(first).chain(lines) {
            let line = plain(line.trim_end());
            let _ = writeln!(self.text, "{label:<LABEL$}{line}");
            label.clear();
        }
    }

    fn head(&mut self) {
        let head = &self.report.head;
        let id = known_id(self.report).unwrap_or_default();
        self.field("Incident Identifier", &id);
        if let Some(device) = &head.device {
            self.field("Hardware Model", device);
        }
        let name = Some(head.app.name.as_str()).filter(|name| !name.is_empty());
        let process = match (name, head.pid) {
            (name, 0) => name.unwrap_or("").to_owned(),
            (name, pid) => format!("{} [{pid}]", name.unwrap_or("???")),
        };
        self.field("Process", &process);
        let mut images = self.report.images.iter();
        if let Some(main) = images.find(|image| image_file_name(&image.name) == head.app.name) {
            self.field("Path", &main.name);
        }
        self.field("Version", &head.app.version);
        let code_type = match head.arch.as_str() {
            "arm64" | "arm64e" | "aarch64" => "ARM-64",
            "x86_64" => "X86-64",
            other => other,
        };
        self.field("Code Type", code_type);
        self.line("");
        self.field("Date/Time", &known_time(head.time).unwrap_or_default());
        self.field("OS Version", &os_text(&head.os));
        self.field("Report Version", &format!("wedjat {}", head.version));
        self.line("");
    }

    fn event(&mut self) {
        let Some(event) = &self.report.event else {
            return;
        };
        match &event.signal {
            Some(signal) => {
                self.field("Exception Type", &signal.name);
                self.field("Exception Codes", &signal_code(event, signal));
                let known = Some(signal.number).filter(|number| *number > 0);
                let known = known.map_or(String::new(), |number| format!(" {number}"));
                let signal = format!("{}{known}", signal.name);
                self.field("Termination Signal", &signal);
                // A signal alone looks like a death.
                if !event.fatal {
                    self.field("Event", &kind_text(self.report, event));
                }
            }
            None => self.field("Event", &kind_text(self.report, event)),
        }
        if let Some(lasted) = lasted(self.report) {
            self.field("Duration", &lasted);
        }
        if let Some(limits) = &event.thresholds {
            let (beat, strikes) = (nanos(limits.timeout), limits.strikes);
            let beat = super::facts::duration(beat);
            let text = format!("{beat} without a beat, {strikes} times in a row");
            self.field("Thresholds", &text);
        }
        for (label, text) in event_facts(self.report, event, "Panicking Thread", "Name") {
            self.field(label, text);
        }
        if let Some(watched) = watched(self.report) {
            self.field("Watched Thread", &watched);
        }
        self.blame();
        let mut threads = self.report.threads.iter();
        if let Some(index) = threads.position(|thread| thread.crashed) {
            let number = number(&self.report.threads[index], index);
            self.field("Triggered by Thread", &format!(" {number}"));
        }
        self.line("");
    }

    /// The frame to blame, and where it lies.
    fn blame(&mut self) {
        let Some(found) = to_blame(self.of) else {
            return;
        };
        let name = found.frame.and_then(|frame| self.style.name(frame));
        let mut what = name.map_or_else(|| blame_text(self.of, &found), str::to_owned);
        if let Some(frame) = found.frame {
            self.append_place(frame, &mut what);
        }
        self.field("Frame to Blame", &what);
    }

    fn facts(&mut self, facts: Vec<(&'static str, String)>) {
        for (label, text) in &facts {
            self.field(label, text);
        }
        if !facts.is_empty() {
            self.line("");
        }
    }

    /// The state that the app has set: keys in its order, gauges, marks, breadcrumbs.
    fn context(&mut self) {
        let app = app_state(self.report);
        if app.is_empty() {
            return;
        }
        self.line("Application Specific Information:");
        for (key, value) in &app.keys {
            self.line(&plain(&format!("{key} = {value}")));
        }
        for (name, value) in &app.gauges {
            self.line(&plain(&format!("{name}: {value}")));
        }
        for (title, moments) in [("Marks:", &app.marks), ("Breadcrumbs:", &app.breadcrumbs)] {
            if !moments.is_empty() {
                self.line(title);
            }
            for moment in moments {
                let line = format!("{:>16}  {}", moment.when, moment.text());
                self.line(&plain(&line));
            }
        }
        self.line("");
    }

    fn registers(&mut self) {
        let mut threads = self.report.threads.iter().enumerate();
        let crashed =
            threads.find(|(_, of)| has_crashed(self.report, of) && !of.registers.is_empty());
        let Some((index, thread)) = crashed else {
            return;
        };
        let index = number(thread, index);
        self.line(&format!("Thread {index} crashed with thread state:"));
        for row in thread.registers.chunks(4) {
            let text = |(name, value): &(String, u64)| format!("{:>6}: {value:#018x}", plain(name));
            let row: Vec<String> = row.iter().map(text).collect();
            self.line(&row.join(" "));
        }
        self.line("");
    }

    fn near_memory(&mut self) {
        for near in &self.report.memory {
            let of = plain(&near.of);
            if let Some(text) = &near.text {
                self.line(&format!("{of} points at {:#x}: {}", near.at, plain(text)));
            }
            if !near.bytes.is_empty() {
                self.line(&format!("Memory near {of}:"));
            }
            let places = (0..).map(|row: u64| near.at.wrapping_add(16 * row));
            for (row, at) in near.bytes.chunks(16).zip(places) {
                let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
                let shown = |byte: &u8| match byte {
                    0x20..0x7f => char::from(*byte),
                    _ => '.',
                };
                let text: String = row.iter().map(shown).collect();
                self.line(&format!("{at:#018x}  {:<47}  {text}", hex.join(" ")));
            }
        }
        if !self.report.memory.is_empty() {
            self.line("");
        }
    }

    fn images(&mut self) {
        self.line("Binary Images:");
        for image in &self.report.images {
            let end = image.base.wrapping_add(image.size.saturating_sub(1));
            let arch = image.arch.as_deref().unwrap_or(&self.report.head.arch);
            let (id, name) = (hex(&image.id), image_file_name(&image.name));
            let (first, last) = (format!("{:#x}", image.base), format!("{end:#x}"));
            let path = &image.name;
            let line = format!("{first:>18} - {last:>18} {name} {arch}  <{id}> {path}");
            self.line(&plain(&line));
        }
    }

    fn remarks(&mut self) {
        let missing = missing_lines(&self.of.missing);
        let damage = self.of.damage.iter();
        let damage = damage.map(|damage| plain(damage).into_owned());
        let all = [
            ("\nMissing debug files:", missing),
            ("\nDamage:", damage.collect()),
        ];
        for (title, lines) in all.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            self.line(title);
            let lines = lines.iter();
            lines.for_each(|line| self.line(&format!("  {line}")));
        }
    }
}
