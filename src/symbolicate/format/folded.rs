//! Folded stacks, as flame graph tools read them: `main;run;work 12`, outermost first; and the flame graph that inferno
//! draws of them: one SVG that holds all it needs.

use std::collections::BTreeMap;
use std::io;

use inferno::flamegraph::{self, Options, TextTruncateDirection};

use super::plain::is_command;
use super::stacks::{outermost, weighed};
use super::{Format, Style};
use crate::symbolicate::frame::Symbolicated;

/// Bits of the sum of all counts in a picture: a float, in which pictures are laid out, holds them.
const MOST_BITS: u32 = 48;

/// All reports' stacks together, equal ones as one line with their count.
///
/// A stall with samples counts each sample as often as it was seen. Any other report counts the thread it is about
/// once; a live report, every thread.
#[derive(Debug, Clone, Default)]
pub struct Folded {
    counts: BTreeMap<String, u64>,
}

impl Folded {
    /// `main;run;work 12`, in order of their text. Counts that only a damaged report can hold are brought
    /// down, all by the same factor, so that they can be added up and drawn.
    pub(super) fn lines(&self) -> Vec<String> {
        let sum: u128 = self.counts.values().map(|&count| u128::from(count)).sum();
        let shift = (u128::BITS - sum.leading_zeros()).saturating_sub(MOST_BITS);
        let lines = self.counts.iter();
        lines
            .map(|(line, count)| format!("{line} {}", (count >> shift).max(1)))
            .collect()
    }
}

impl Format for Folded {
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

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        for (line, count) in &self.counts {
            writeln!(out, "{line} {count}")?;
        }
        out.flush()
    }
}

/// All reports' stacks in one flame graph.
#[derive(Debug, Clone, Default)]
pub struct FlameGraph {
    stacks: Folded,
    reports: u64,
}

impl Format for FlameGraph {
    type Part = Vec<(String, u64)>;

    fn part(style: &Style, origin: &str, report: &Symbolicated) -> Vec<(String, u64)> {
        Folded::part(style, origin, report)
    }

    fn add(&mut self, part: Vec<(String, u64)>, out: &mut dyn io::Write) -> io::Result<()> {
        self.reports += 1;
        self.stacks.add(part, out)
    }

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut options = Options::default();
        let reports = super::facts::count(self.reports, "report");
        options.title = format!("Where the time went: {reports}");
        options.count_name = "samples".to_owned();
        options.text_truncate_direction = TextTruncateDirection::Right;
        // Colours by name, so that the same function looks the same in every picture.
        options.hash = true;
        let lines = self.stacks.lines();
        if lines.is_empty() {
            return Err(io::Error::other(
                "a flame graph needs at least one stack, and the reports have no stacks",
            ));
        }
        let lines = lines.iter().map(String::as_str);
        flamegraph::from_lines(&mut options, lines, &mut *out)?;
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
