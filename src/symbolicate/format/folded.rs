//! Folded stacks, as flame graph tools read them: `main;run;work 12`, outermost first.

use std::collections::BTreeMap;
use std::io;

use super::plain::is_command;
use super::stacks::{outermost, weighed};
use super::{Parts, Style};
use crate::symbolicate::frame::Symbolicated;

/// All reports' stacks together, equal ones as one line with their count.
///
/// A stall with samples counts each sample as often as it was seen. Any other report counts the thread it is about
/// once; a live report, every thread.
#[derive(Debug, Clone, Default)]
pub struct Folded {
    counts: BTreeMap<String, u64>,
}

impl Parts for Folded {
    type Part = Vec<(String, u64)>;

    fn part(style: &Style, _origin: &str, report: &Symbolicated) -> Vec<(String, u64)> {
        let stacks = weighed(report).into_iter().map(|weighed| {
            let mut line = String::new();
            for (name, ..) in outermost(report, weighed.stack, style) {
                push(&mut line, &name);
            }
            (line, weighed.count)
        });
        stacks.filter(|(line, _)| !line.is_empty()).collect()
    }

    fn add(&mut self, part: Vec<(String, u64)>, _out: &mut dyn io::Write) -> io::Result<()> {
        for (line, count) in part {
            let sum = self.counts.entry(line).or_default();
            *sum = sum.saturating_add(count);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
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
        c if is_command(c) => ' ',
        c => c,
    }));
}
