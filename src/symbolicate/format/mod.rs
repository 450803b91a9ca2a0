//! Symbolicated reports as people and programs want them: one file per format.

pub(crate) mod facts;
mod file_names;
mod findings;
mod firefox;
mod flame;
mod folded;
mod history;
mod html;
mod json;
#[cfg(feature = "parquet")]
mod parquet;
mod plain;
mod sentry;
mod source;
mod stacks;
mod text;
mod top;

use std::io;
use std::sync::Arc;

pub(crate) use findings::{missing_lines, missing_text, unread_text};
pub use firefox::Firefox;
pub use folded::Folded;
pub use history::History;
pub use html::Html;
#[cfg(test)]
pub(crate) use json::value_json;
pub use json::{FrameJson, Json, Ndjson};
#[cfg(feature = "parquet")]
pub use parquet::{ParquetFrames, ParquetReports};
pub(crate) use parts::Parts;
pub(crate) use plain::PlainJson;
pub use plain::plain;
pub use sentry::Sentry;
pub use source::{Excerpt, Sources};
pub use text::Text;
pub use top::{Top, TopLayout};

use super::frame::{SourceFrame, Symbolicated};

/// Writes reports, one after another, to one output. All formats of this module do so. Other crates cannot implement this
/// trait, so methods may be added to it.
pub trait Format: Parts {
    /// Adds a report, and writes what can be written by now. `origin` says where the report comes from: a path, or `-`.
    ///
    /// # Errors
    /// Those of `out`.
    fn report(
        &mut self,
        style: &Style,
        origin: &str,
        report: &Symbolicated,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        self.add(Self::part(style, origin, report), out)
    }

    /// Writes the text after the last report.
    ///
    /// # Errors
    /// Those of `out`.
    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        self.end(out)
    }
}

impl<T: Parts> Format for T {}

mod parts {
    use super::{Style, Symbolicated, io};

    /// A format as the command uses it: parts are made on any thread, and joined in the order of the reports.
    pub trait Parts {
        /// All that the output needs of one report.
        type Part: Send;

        /// Makes a report's part.
        fn part(style: &Style, origin: &str, report: &Symbolicated) -> Self::Part;

        /// Takes the next part in, and writes what can be written by now.
        fn add(&mut self, part: Self::Part, out: &mut dyn io::Write) -> io::Result<()>;

        /// Writes the text after the last report.
        fn end(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
            out.flush()
        }
    }
}

/// Options that formats have in common.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Style {
    /// Show names as the source code has them, rather than as the linker does.
    pub demangle: bool,
    /// Mark up text with terminal colours.
    pub color: bool,
    /// Show source code from here.
    pub sources: Option<Arc<Sources>>,
    /// Show frames that are otherwise folded: those of a panic's own handling.
    pub verbose: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            demangle: true,
            color: false,
            sources: None,
            verbose: false,
        }
    }
}

impl Style {
    /// The text in a terminal's colour or weight, if this style has them.
    fn paint(&self, paint: anstyle::Style, text: &str) -> String {
        if self.color {
            format!("{paint}{text}{paint:#}")
        } else {
            text.to_owned()
        }
    }

    /// The function's name in this style.
    pub fn name<'a>(&self, frame: &'a SourceFrame) -> Option<&'a str> {
        if self.demangle {
            frame.function.as_deref()
        } else {
            frame.mangled.as_deref()
        }
    }
}
