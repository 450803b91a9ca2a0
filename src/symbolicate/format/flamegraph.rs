//! A flame graph: one SVG that holds all it needs, drawn by inferno.

use std::io;

use inferno::flamegraph::{self, Options, TextTruncateDirection};

use super::{Folded, Format, Style};
use crate::symbolicate::frame::Symbolicated;

/// All reports' stacks in one flame graph.
#[derive(Debug, Clone, Default)]
pub struct FlameGraph {
    stacks: Folded,
    reports: u64,
}

impl FlameGraph {
    /// None yet.
    pub fn new() -> FlameGraph {
        FlameGraph::default()
    }
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
        let reports = super::units::count(self.reports, "report");
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
