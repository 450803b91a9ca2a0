//! The flame graph of all reports as one SVG: light or dark as its reader's screen is, with colours that tell the app,
//! libraries and the system apart, and each name in full as the title of its box.

use std::fmt::Write as _;
use std::io;

use super::flame::{BoxKind, FlameNode, NamedStack, named_stack};
use super::plain::escape;
use super::stacks::weighed;
use super::{Format, Style};
use crate::symbolicate::frame::Symbolicated;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
/// Room above the boxes, for the title and the legend.
const HEAD: f64 = 52.0;
/// Width of a character of the font.
const LETTER: f64 = 7.0;
/// Boxes that are narrower are not drawn.
const NARROW: f64 = 0.4;

const COLOURS: &str = "\
svg{--page:#fbfbfa;--ink:#1c1e21;--own:#f6c28b;--lib:#bcd9f5;--sys:#e2e4e7}\
@media(prefers-color-scheme:dark){svg{--page:#16181b;--ink:#e6e7e9;--own:#7a4a14;--lib:#1d4a75;--sys:#33383e}}\
.page{fill:var(--page)}.own{fill:var(--own)}.lib{fill:var(--lib)}.sys{fill:var(--sys)}\
rect{stroke:var(--page)}rect:hover{stroke:var(--ink)}\
text{fill:var(--ink);font:12px ui-monospace,Menlo,\"DejaVu Sans Mono\",monospace;pointer-events:none}\
.head{font:600 16px system-ui,sans-serif}.legend{font:12px system-ui,sans-serif}";

/// All reports' stacks in one flame graph.
#[derive(Debug, Default)]
pub struct FlameGraph {
    root: FlameNode,
    reports: u64,
    /// Reports with samples: the others show where a thread was, not where time went.
    sampled: u64,
}

/// One report's stacks.
#[derive(Debug)]
pub struct FlamePart {
    stacks: Vec<(NamedStack, u64)>,
    is_sampled: bool,
}

impl Format for FlameGraph {
    type Part = FlamePart;

    fn part(style: &Style, _origin: &str, report: &Symbolicated) -> FlamePart {
        let stacks = weighed(report).into_iter();
        let named = stacks.map(|of| (named_stack(report, of.stack, style), of.count));
        FlamePart {
            stacks: named.filter(|(stack, _)| !stack.is_empty()).collect(),
            is_sampled: !report.samples.is_empty(),
        }
    }

    fn add(&mut self, part: FlamePart, _out: &mut dyn io::Write) -> io::Result<()> {
        self.reports += 1;
        self.sampled += u64::from(part.is_sampled);
        for (stack, count) in part.stacks {
            self.root.add(&stack, count);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.root.below.is_empty() {
            return Err(io::Error::other(
                "a flame graph needs at least one stack, and the reports have no stacks",
            ));
        }
        let height = HEAD + ROW * (self.root.depth() as f64 + 0.5);
        let reports = super::facts::count(self.reports, "report");
        let title = match self.sampled {
            0 => format!("Where it happened: stacks of {reports}"),
            _ => format!("Where the time went: {reports}"),
        };
        writeln!(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"title\">\n\
             <title id=\"title\">{title}</title>\n<style>{COLOURS}</style>\n\
             <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
             <text class=\"head\" x=\"8\" y=\"22\">{title}</text>"
        )?;
        for (kind, x) in BoxKind::ALL.into_iter().zip([8.0, 108.0, 218.0]) {
            let (class, words) = kind.words();
            let text = x + 18.0;
            writeln!(
                out,
                "<rect class=\"{class}\" x=\"{x}\" y=\"32\" width=\"12\" height=\"12\"/>\
                 <text class=\"legend\" x=\"{text}\" y=\"42\">{words}</text>"
            )?;
        }
        let mut boxes = String::new();
        self.boxes(&mut boxes, &self.root, (0.0, HEAD));
        out.write_all(boxes.as_bytes())?;
        writeln!(out, "</svg>")?;
        out.flush()
    }
}

impl FlameGraph {
    /// Draws the callees of a node side by side, from this place on.
    fn boxes(&self, svg: &mut String, node: &FlameNode, (mut x, y): (f64, f64)) {
        for below in &node.below {
            let share = below.share(self.root.weight);
            let width = share * WIDTH;
            if width >= NARROW {
                let name = escape(&below.name);
                let samples = super::facts::count(below.weight, "sample");
                let _ = write!(
                    svg,
                    "<g><title>{name} ({samples}, {:.2}%)</title>\
                     <rect class=\"{}\" x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{ROW}\"/>",
                    100.0 * share,
                    below.class(),
                );
                if let Some(text) = fitting(&below.name, width) {
                    let (x, y) = (x + 3.0, y + 13.0);
                    let _ = write!(svg, "<text x=\"{x:.2}\" y=\"{y}\">{}</text>", escape(&text));
                }
                svg.push_str("</g>\n");
                self.boxes(svg, below, (x, y + ROW));
            }
            x += width;
        }
    }
}

/// As much of a name as fits into a box.
fn fitting(name: &str, width: f64) -> Option<String> {
    let room = ((width - 6.0) / LETTER) as usize;
    if name.chars().count() <= room {
        return Some(name.to_owned());
    }
    let cut: String = name.chars().take(room.checked_sub(1)?).collect();
    (room > 3).then(|| format!("{cut}…"))
}
