//! What is said of a report besides its stacks.

use super::Page;
use crate::report::model::{EventKind, Image};
use crate::symbolicate::format::remarks::{kind_text, missing_text};
use crate::symbolicate::format::units::{bytes, date_time, duration};
use crate::symbolicate::format::{json, plain};
use crate::symbolicate::frame::{id_text, image_file_name};

impl Page<'_> {
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

    pub(super) fn vitals(&mut self) {
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

    pub(super) fn context(&mut self) {
        let Some(context) = self.report().context.clone() else {
            return;
        };
        if context.keys.is_empty() && context.breadcrumbs.is_empty() {
            return;
        }
        self.line("Application Specific Information:");
        for (key, value) in &context.keys {
            let line = format!("{key} = {}", json::value_json(value));
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

    pub(super) fn remarks(&mut self) {
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
