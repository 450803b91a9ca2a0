//! Symbolicated reports as people and programs want them: one file per format.

mod flamegraph;
mod folded;
mod json;
mod plain;
mod speedscope;
mod stacks;
mod text;
mod top;

use std::io;

pub use flamegraph::FlameGraph;
pub use folded::Folded;
#[cfg(test)]
pub(crate) use json::value_json;
pub use json::{FrameJson, Json, Ndjson};
pub use plain::plain;
pub use speedscope::Speedscope;
pub use text::Text;
pub(crate) use text::missing_text;
pub use top::{Top, TopLayout};

use super::frame::{Frame, Symbolicated};

/// Writes reports, one after another, to one output.
pub trait Format {
    /// Writes one report. `origin` says where it comes from: a path, or `-`.
    ///
    /// # Errors
    /// Those of `out`.
    fn report(
        &mut self,
        origin: &str,
        report: &Symbolicated,
        out: &mut dyn io::Write,
    ) -> io::Result<()>;

    /// Writes what stands after the last report.
    ///
    /// # Errors
    /// Those of `out`.
    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        out.flush()
    }
}

/// What formats have in common.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Style {
    /// Show names as the source code has them, rather than as the linker does.
    pub demangle: bool,
    /// Mark up text with terminal colours.
    pub color: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            demangle: true,
            color: false,
        }
    }
}

impl Style {
    /// The function's name in this style.
    pub fn name<'a>(&self, frame: &'a Frame) -> Option<&'a str> {
        let name = if self.demangle {
            &frame.function
        } else {
            &frame.mangled
        };
        name.as_deref()
    }
}
