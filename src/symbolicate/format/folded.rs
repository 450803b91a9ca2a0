//! Folded stacks, as flame graph tools read them: `main;run;work 12`, rootmost first.

use std::collections::BTreeMap;
use std::io;

use super::{Format, Style};
use crate::symbolicate::frame::{Stack, Symbolicated, image_file_name};

/// All reports' stacks together, equal ones as one line with their count.
///
/// A stall with samples counts each sample as often as it was seen; any other report counts the
/// thread it is about once (for a live report, every thread).
#[derive(Debug, Clone, Default)]
pub struct Folded {
    style: Style,
    counts: BTreeMap<String, u64>,
}

impl Folded {
    /// Stacks named in this style.
    pub fn new(style: Style) -> Folded {
        Folded {
            style,
            counts: BTreeMap::new(),
        }
    }

    fn add(&mut self, of: &Symbolicated, stack: &Stack, count: u64) {
        let mut line = String::new();
        for physical in stack.frames.iter().rev() {
            let unnamed = || match of.image(physical) {
                Some(image) => {
                    format!(
                        "{}+{:#x}",
                        image_file_name(&image.name),
                        physical.pc.wrapping_sub(image.base)
                    )
                }
                None => format!("{:#x}", physical.pc),
            };
            if physical.frames.is_empty() {
                push(&mut line, &unnamed());
            }
            for frame in physical.frames.iter().rev() {
                match self.style.name(frame) {
                    Some(name) => push(&mut line, name),
                    None => push(&mut line, &unnamed()),
                }
            }
        }
        if !line.is_empty() {
            *self.counts.entry(line).or_default() += count;
        }
    }
}

impl Format for Folded {
    fn report(
        &mut self,
        _origin: &str,
        report: &Symbolicated,
        _out: &mut dyn io::Write,
    ) -> io::Result<()> {
        if !report.samples.is_empty() {
            for (sample, stack) in report.report.samples.iter().zip(&report.samples) {
                self.add(report, stack, sample.count.max(1));
            }
            return Ok(());
        }
        let threads = &report.report.threads;
        let about = threads
            .iter()
            .position(|t| t.crashed)
            .or_else(|| threads.iter().position(|t| t.main));
        let live = report
            .report
            .event
            .as_ref()
            .is_some_and(|e| e.kind == crate::report::model::EventKind::Live);
        for (index, stack) in report.threads.iter().enumerate() {
            if live || about.unwrap_or(0) == index {
                self.add(report, stack, 1);
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        for (line, count) in &self.counts {
            writeln!(out, "{line} {count}")?;
        }
        out.flush()
    }
}

/// Adds a frame; what separates frames and lines must not stand within one.
fn push(line: &mut String, name: &str) {
    if !line.is_empty() {
        line.push(';');
    }
    line.extend(name.chars().map(|c| match c {
        ';' => ':',
        c if c.is_control() => ' ',
        c => c,
    }));
}
