//! The layout that people know from Apple's crash reports.

use std::fmt::Write as _;
use std::io;

use anstyle::{AnsiColor, Style as Paint};

use super::{Format, Style, plain};
use crate::report::model::{Event, EventKind, Image, Report, Thread, WalkEnd};
use crate::symbolicate::frame::{
    Frame, PhysicalFrame, Stack, Symbolicated, id_text, image_file_name,
};
use crate::symbolicate::symbolicator::is_system;

/// Reports as text for people.
#[derive(Debug, Clone, Default)]
pub struct Text {
    written: bool,
}

impl Text {
    /// None yet.
    pub fn new() -> Text {
        Text::default()
    }
}

impl Format for Text {
    type Part = String;

    fn part(style: &Style, _origin: &str, report: &Symbolicated) -> String {
        let mut page = Page {
            style,
            text: String::new(),
            of: report,
        };
        page.head();
        page.event();
        page.vitals();
        page.context();
        let threads = report.report.threads.iter().zip(&report.threads);
        for (index, (thread, stack)) in threads.enumerate() {
            page.thread(index, thread, stack);
        }
        page.samples();
        page.registers();
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
struct Page<'a> {
    style: &'a Style,
    text: String,
    of: &'a Symbolicated,
}

/// `Hardware Model:      ` and the like are so wide.
const LABEL: usize = 21;

impl Page<'_> {
    fn report(&self) -> &Report {
        &self.of.report
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn field(&mut self, label: &str, value: &str) {
        let value = plain(value);
        let _ = writeln!(self.text, "{label:<LABEL$}{value}");
    }

    fn paint(&self, paint: Paint, text: &str) -> String {
        if self.style.color {
            format!("{paint}{text}{paint:#}")
        } else {
            text.to_owned()
        }
    }

    fn head(&mut self) {
        let head = self.report().head.clone();
        self.field("Incident Identifier:", &id_text(&head.id));
        if let Some(device) = &head.device {
            self.field("Hardware Model:", device);
        }
        let name = if head.app.name.is_empty() {
            "???"
        } else {
            &head.app.name
        };
        self.field("Process:", &format!("{name} [{}]", head.pid));
        if let Some(main) = self
            .report()
            .images
            .iter()
            .find(|image| image_file_name(&image.name) == head.app.name)
        {
            let path = main.name.clone();
            self.field("Path:", &path);
        }
        self.field("Version:", &head.app.version);
        let code_type = match head.arch.as_str() {
            "arm64" | "arm64e" | "aarch64" => "ARM-64",
            "x86_64" => "X86-64",
            other => other,
        };
        self.field("Code Type:", code_type);
        self.line("");
        self.field("Date/Time:", &date_time(head.time));
        let build = head
            .os
            .build
            .map_or(String::new(), |build| format!(" ({build})"));
        self.field(
            "OS Version:",
            &format!("{} {}{build}", head.os.name, head.os.version),
        );
        self.field("Report Version:", &format!("wedjat {}", head.version));
        self.line("");
    }

    fn event(&mut self) {
        let Some(event) = self.report().event.clone() else {
            return;
        };
        match &event.signal {
            Some(signal) => {
                self.field("Exception Type:", &signal.name);
                let code = signal
                    .code_name
                    .clone()
                    .unwrap_or_else(|| signal.code.to_string());
                let at = signal
                    .address
                    .map_or(String::new(), |address| format!(" at {address:#018x}"));
                self.field("Exception Codes:", &format!("{code}{at}"));
                self.field(
                    "Termination Signal:",
                    &format!("{} {}", signal.name, signal.number),
                );
            }
            None => self.field("Event:", &kind_text(&event)),
        }
        if let Some(end) = self.report().stall_end.clone() {
            self.field(
                "Duration:",
                &format!("{} ({})", duration(end.duration), end.how),
            );
        } else if event.kind == EventKind::Stall {
            self.field(
                "Duration:",
                "unknown: the report ends before the stall does",
            );
        }
        if let Some(limits) = event.thresholds {
            let strikes = limits.strikes;
            self.field(
                "Thresholds:",
                &format!(
                    "{} without a beat, {strikes} times in a row",
                    duration(limits.timeout)
                ),
            );
        }
        for (label, value) in [
            ("Name:", &event.name),
            ("Message:", &event.message),
            ("Location:", &event.location),
            ("Reason:", &event.reason),
        ] {
            if let Some(value) = value {
                self.field(label, value);
            }
        }
        if let Some(index) = self
            .report()
            .threads
            .iter()
            .position(|thread| thread.crashed)
        {
            self.field("Triggered by Thread:", &format!(" {index}"));
        }
        self.line("");
    }

    fn vitals(&mut self) {
        let Some(vitals) = self.report().vitals.clone() else {
            return;
        };
        if let Some(uptime) = vitals.uptime {
            self.field("Uptime:", &duration(uptime));
        }
        if let Some(cpu) = &vitals.cpu {
            let mut parts = Vec::new();
            for (what, share) in [
                ("process", cpu.process),
                ("watchdog", cpu.watchdog),
                ("device", cpu.device),
            ] {
                if let Some(share) = share {
                    parts.push(format!("{what} {:.1} %", share * 100.0));
                }
            }
            if let Some(cores) = cpu.cores {
                parts.push(format!("{cores} cores"));
            }
            self.field("CPU:", &parts.join(", "));
        }
        if let Some(memory) = &vitals.memory {
            let mut parts = Vec::new();
            for (what, size) in [
                ("resident", memory.resident),
                ("footprint", memory.footprint),
                ("peak", memory.peak),
                ("device", memory.device_total),
                ("free", memory.device_free),
            ] {
                if let Some(size) = size {
                    parts.push(format!("{what} {}", bytes(size)));
                }
            }
            self.field("Memory:", &parts.join(", "));
        }
        self.line("");
    }

    fn context(&mut self) {
        let Some(context) = self.report().context.clone() else {
            return;
        };
        if context.keys.is_empty() && context.breadcrumbs.is_empty() {
            return;
        }
        self.line("Application Specific Information:");
        for (key, value) in &context.keys {
            let line = format!("{key} = {}", super::json::value_json(value));
            self.line(&plain(&line));
        }
        for (at, text) in &context.breadcrumbs {
            let ago = self
                .report()
                .head
                .clock
                .checked_sub(*at)
                .map(|ago| format!("{} before", duration(ago)));
            let line = format!("{:>16}  {text}", ago.unwrap_or_default());
            self.line(&plain(&line));
        }
        self.line("");
    }

    fn thread(&mut self, index: usize, thread: &Thread, stack: &Stack) {
        let mut about: Vec<String> = Vec::new();
        if thread.main {
            about.push("main thread".into());
        }
        about.extend(thread.state.clone());
        about.extend(thread.syscall.as_ref().map(|call| format!("in {call}")));
        let about = if about.is_empty() {
            String::new()
        } else {
            format!(" ({})", about.join(", "))
        };
        let name = thread.name.as_deref().unwrap_or("");
        if !name.is_empty() || !about.is_empty() {
            let line = format!("Thread {index} name:  {name}{about}");
            self.line(&plain(line.trim_end()));
        }
        let title = if thread.crashed {
            format!("Thread {index} Crashed:")
        } else {
            format!("Thread {index}:")
        };
        let title = self.paint(Paint::new().bold(), &title);
        self.line(&title);
        self.frames(&stack.frames);
        if let Some(end) = thread.end.filter(|&end| end != WalkEnd::Root) {
            let line = format!(
                "    (the stack goes on; the walk stopped here: {})",
                end.as_str()
            );
            self.line(&line);
        }
        self.line("");
    }

    fn frames(&mut self, frames: &[PhysicalFrame]) {
        let mut number = 0;
        for physical in frames {
            if physical.frames.is_empty() {
                self.frame(number, physical, None);
                number += 1;
            }
            for frame in physical.frames.iter() {
                self.frame(number, physical, Some(frame));
                number += 1;
            }
        }
    }

    fn frame(&mut self, number: usize, physical: &PhysicalFrame, frame: Option<&Frame>) {
        let image = self.of.image(physical);
        let name = image.map_or("???".into(), |image| plain(image_file_name(&image.name)));
        let what = match (
            frame.and_then(|frame| Some((frame, self.style.name(frame)?))),
            image,
        ) {
            (Some((frame, function)), _) => {
                let mut what = plain(function).into_owned();
                if let (Some(offset), false) = (physical.offset, frame.inlined) {
                    let _ = write!(what, " + {offset}");
                }
                self.place(frame, &mut what);
                what
            }
            (None, Some(image)) => {
                let mut what = format!(
                    "{:#x} + {}",
                    image.base,
                    physical.pc.wrapping_sub(image.base)
                );
                if let Some(frame) = frame {
                    self.place(frame, &mut what);
                }
                what
            }
            (None, None) => "???".into(),
        };
        let system = image.is_none_or(|image| is_system(&image.name));
        let paint = if system {
            Paint::new().dimmed()
        } else {
            Paint::new().fg_color(Some(AnsiColor::Cyan.into()))
        };
        let what = self.paint(paint, &what);
        let _ = writeln!(
            self.text,
            "{number:<4}{name:<30}\t{:#018x} {what}",
            physical.pc
        );
    }

    /// ` (file.c:42)`, and whether it was inlined.
    fn place(&self, frame: &Frame, what: &mut String) {
        if let Some(file) = &frame.file {
            let file = image_file_name(file);
            let _ = match frame.line {
                Some(line) => write!(what, " ({}:{line})", plain(file)),
                None => write!(what, " ({})", plain(file)),
            };
        }
        if frame.inlined {
            what.push_str(" [inlined]");
        }
    }

    fn samples(&mut self) {
        let samples = &self.report().samples;
        let total: u64 = samples.iter().map(|sample| sample.count.max(1)).sum();
        // Equal stacks may stand apart in time.
        let mut heaviest: Option<(usize, u64)> = None;
        for (index, stack) in self.of.samples.iter().enumerate() {
            let same = samples
                .iter()
                .zip(&self.of.samples)
                .filter(|(_, other)| *other == stack);
            let weight: u64 = same.map(|(sample, _)| sample.count.max(1)).sum();
            if heaviest.is_none_or(|(_, most)| weight > most) {
                heaviest = Some((index, weight));
            }
        }
        let Some((index, weight)) = heaviest else {
            return;
        };
        let first = &samples[index];
        let state = first
            .state
            .as_ref()
            .map_or(String::new(), |state| format!(", {state}"));
        let line = format!(
            "Heaviest stack ({weight} of {total} samples, first {} in{state}):",
            duration(first.at)
        );
        self.line(&plain(&line));
        let frames = self.of.samples[index].frames.clone();
        self.frames(&frames);
        self.line("");
    }

    fn registers(&mut self) {
        let threads = &self.report().threads;
        let Some(index) = threads
            .iter()
            .position(|thread| thread.crashed && !thread.registers.is_empty())
        else {
            return;
        };
        let registers = threads[index].registers.clone();
        let title = format!("Thread {index} crashed with thread state:");
        self.line(&title);
        for row in registers.chunks(4) {
            let row: Vec<String> = row
                .iter()
                .map(|(name, value)| format!("{:>6}: {value:#018x}", plain(name)))
                .collect();
            self.line(&row.join(" "));
        }
        self.line("");
    }

    fn images(&mut self) {
        self.line("Binary Images:");
        let images: Vec<Image> = self.report().images.clone();
        for image in &images {
            let end = image.base.wrapping_add(image.size.saturating_sub(1));
            let arch = image.arch.as_deref().unwrap_or(&self.report().head.arch);
            let id: String = image.id.iter().map(|byte| format!("{byte:02x}")).collect();
            let name = image_file_name(&image.name);
            let (first, last) = (format!("{:#x}", image.base), format!("{end:#x}"));
            let line = format!(
                "{first:>18} - {last:>18} {name} {arch}  <{id}> {}",
                image.name
            );
            self.line(&plain(&line));
        }
    }

    fn remarks(&mut self) {
        if !self.of.missing.is_empty() {
            self.line("\nMissing debug files:");
            for missing in &self.of.missing {
                let line = format!("  {}", missing_text(missing));
                self.line(&line);
            }
        }
        if !self.of.damage.is_empty() {
            self.line("\nDamage:");
            for damage in &self.of.damage {
                let line = format!("  {}", plain(damage));
                self.line(&line);
            }
        }
    }
}

/// One line about a missing debug file.
pub(crate) fn missing_text(missing: &crate::symbolicate::Missing) -> String {
    let id = if missing.id.is_empty() {
        "no id".into()
    } else {
        id_text(&missing.id)
    };
    let mut text = format!("{}  {id}", image_file_name(&missing.name));
    if let Some(arch) = &missing.arch {
        let _ = write!(text, "  {arch}");
    }
    if missing.symbols {
        text.push_str("  (named by its symbol table alone)");
    }
    if !missing.others.is_empty() {
        let others: Vec<String> = missing.others.iter().map(|id| id_text(id)).collect();
        let _ = write!(text, "  (found only {})", others.join(", "));
    }
    plain(&text).into_owned()
}

fn kind_text(event: &Event) -> String {
    let class = event
        .class
        .as_ref()
        .map_or(String::new(), |class| format!(", {class}"));
    let fatal = if event.fatal { ", fatal" } else { "" };
    format!("{}{class}{fatal}", event.kind.as_str())
}

/// Nanoseconds for people.
fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match nanoseconds {
        0..1_000_000 => format!("{:.0} µs", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.0} ms", seconds * 1e3),
        1_000_000_000..120_000_000_000 => format!("{seconds:.2} s"),
        _ => format!("{:.1} min", seconds / 60.0),
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{:.1} KiB", count as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", count as f64 / 1_073_741_824.0),
    }
}

/// `2026-11-21 10:28:30.123 +0000`, from nanoseconds since the epoch.
fn date_time(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let millis = nanoseconds % 1_000_000_000 / 1_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's civil_from_days, for days since 1970 that are never negative.
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date_time(0), "1970-01-01 00:00:00.000 +0000");
        assert_eq!(
            date_time(951_782_400_000_000_000),
            "2000-02-29 00:00:00.000 +0000"
        );
        assert_eq!(
            date_time(1_795_257_510_123_000_000),
            "2026-11-21 10:38:30.123 +0000"
        );
    }
}
