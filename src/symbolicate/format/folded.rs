//! Folded stacks, as flame graph tools read them: `main;run;work 12`, rootmost first.

use std::collections::BTreeMap;
use std::io;

use super::stacks::{rootward, weighed};
use super::{Format, Style};
use crate::symbolicate::frame::Symbolicated;

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

    /// `main;run;work 12`, in order of their text.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.counts.iter();
        lines
            .map(|(line, count)| format!("{line} {count}"))
            .collect()
    }
}

impl Format for Folded {
    fn report(
        &mut self,
        _origin: &str,
        report: &Symbolicated,
        _out: &mut dyn io::Write,
    ) -> io::Result<()> {
        for weighed in weighed(report) {
            let mut line = String::new();
            for (name, ..) in rootward(report, weighed.stack, &self.style) {
                push(&mut line, &name);
            }
            if !line.is_empty() {
                *self.counts.entry(line).or_default() += weighed.count;
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
