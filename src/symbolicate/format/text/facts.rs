//! The facts of a report besides its stacks.

use super::TextPage;
use crate::report::model::{EventKind, Image};
use crate::report::time::{nanos, since_epoch};
use crate::symbolicate::format::facts::{app_state, recorder, vitals};
use crate::symbolicate::format::findings::to_blame;
use crate::symbolicate::format::plain;
use crate::symbolicate::format::remarks::{kind_text, missing_lines};
use crate::symbolicate::format::units::{date_time, duration};
use crate::symbolicate::frame::{hex, id_text, image_file_name};

impl TextPage<'_> {
    pub(super) fn head(&mut self) {
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
        self.field("Date/Time:", &date_time(since_epoch(head.time)));
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

    pub(super) fn event(&mut self) {
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
                &format!("{} ({})", duration(nanos(end.duration)), end.how),
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
                    duration(nanos(limits.timeout))
                ),
            );
        }
        let named = match event.kind {
            EventKind::Panic => "Panicking Thread:",
            _ => "Name:",
        };
        for (label, value) in [
            (named, &event.name),
            ("Message:", &event.message),
            ("Location:", &event.location),
            ("Reason:", &event.reason),
        ] {
            if let Some(value) = value {
                self.field(label, value);
            }
        }
        self.blame();
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

    /// The frame to blame, and where it lies.
    pub(super) fn blame(&mut self) {
        let Some(found) = to_blame(self.of) else {
            return;
        };
        let mut what = found
            .frame
            .and_then(|frame| self.style.name(frame))
            .map_or_else(|| found.name(self.of).to_owned(), str::to_owned);
        if let Some(frame) = found.frame {
            self.place(frame, &mut what);
        }
        self.field("Frame to Blame:", &what);
    }

    pub(super) fn vitals(&mut self) {
        let facts = vitals(self.report());
        for (label, text) in &facts {
            self.field(&format!("{label}:"), text);
        }
        if !facts.is_empty() {
            self.line("");
        }
    }

    /// The state that the app has set: keys in its order, gauges, marks, breadcrumbs.
    pub(super) fn context(&mut self) {
        let app = app_state(self.report());
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
        let titled = [("Marks:", &app.marks), ("Breadcrumbs:", &app.breadcrumbs)];
        for (title, moments) in titled
            .into_iter()
            .filter(|(_, moments)| !moments.is_empty())
        {
            self.line(title);
            for moment in moments {
                let how_long = match title {
                    "Marks:" => format!(", {}", moment.how_long()),
                    _ => String::new(),
                };
                self.line(&plain(&format!(
                    "{:>16}  {}{how_long}",
                    moment.when, moment.what
                )));
            }
        }
        self.line("");
    }

    pub(super) fn recorder(&mut self) {
        let facts = recorder(self.report());
        for (label, text) in &facts {
            self.field(&format!("{label}:"), text);
        }
        if !facts.is_empty() {
            self.line("");
        }
    }

    pub(super) fn registers(&mut self) {
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

    pub(super) fn near_memory(&mut self) {
        let memory = self.report().memory.clone();
        for near in &memory {
            let of = plain(&near.of);
            if let Some(text) = &near.text {
                self.line(&format!("{of} points at {:#x}: {}", near.at, plain(text)));
            }
            if near.bytes.is_empty() {
                continue;
            }
            self.line(&format!("Memory near {of}:"));
            for (row, at) in near
                .bytes
                .chunks(16)
                .zip((0_u64..).map(|row| near.at.wrapping_add(16 * row)))
            {
                let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
                let shown = |byte: &u8| {
                    if matches!(byte, 0x20..0x7f) {
                        char::from(*byte)
                    } else {
                        '.'
                    }
                };
                let text: String = row.iter().map(shown).collect();
                self.line(&format!("{at:#018x}  {:<47}  {text}", hex.join(" ")));
            }
        }
        if !memory.is_empty() {
            self.line("");
        }
    }

    pub(super) fn images(&mut self) {
        self.line("Binary Images:");
        let images: Vec<Image> = self.report().images.clone();
        for image in &images {
            let end = image.base.wrapping_add(image.size.saturating_sub(1));
            let arch = image.arch.as_deref().unwrap_or(&self.report().head.arch);
            let id = hex(&image.id);
            let name = image_file_name(&image.name);
            let (first, last) = (format!("{:#x}", image.base), format!("{end:#x}"));
            let line = format!(
                "{first:>18} - {last:>18} {name} {arch}  <{id}> {}",
                image.name
            );
            self.line(&plain(&line));
        }
    }

    pub(super) fn remarks(&mut self) {
        let missing = missing_lines(&self.of.missing);
        if !missing.is_empty() {
            self.line("\nMissing debug files:");
            for line in missing {
                self.line(&format!("  {line}"));
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
