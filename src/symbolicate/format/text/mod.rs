//! The layout that people know from Apple's crash reports.

mod facts;
mod stacks;

use std::fmt::Write as _;
use std::io;

use anstyle::Style as Paint;

use super::{Format, Style, plain};
use crate::report::model::Report;
use crate::symbolicate::frame::Symbolicated;

/// Reports as text for people.
#[derive(Debug, Clone, Default)]
pub struct Text {
    written: bool,
}

impl Text {
    /// None yet.
    pub fn new() -> Text {
        Text::default()
    }
}

impl Format for Text {
    type Part = String;

    fn part(style: &Style, _origin: &str, report: &Symbolicated) -> String {
        let mut page = TextPage {
            style,
            text: String::new(),
            of: report,
        };
        page.head();
        page.event();
        page.vitals();
        page.context();
        let threads = report.report.threads.iter().zip(&report.threads);
        for (index, (thread, stack)) in threads.enumerate() {
            page.thread(index, thread, stack);
        }
        page.samples();
        page.registers();
        page.near_memory();
        page.recorder();
        page.images();
        page.remarks();
        page.text
    }

    fn add(&mut self, part: String, out: &mut dyn io::Write) -> io::Result<()> {
        if std::mem::replace(&mut self.written, true) {
            writeln!(out, "\n{}\n", "-".repeat(72))?;
        }
        out.write_all(part.as_bytes())
    }
}

/// A report being laid out.
struct TextPage<'a> {
    style: &'a Style,
    text: String,
    of: &'a Symbolicated,
}

/// `Hardware Model:      ` and the like are so wide.
const LABEL: usize = 21;

impl TextPage<'_> {
    pub(super) fn report(&self) -> &Report {
        &self.of.report
    }

    pub(super) fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    pub(super) fn field(&mut self, label: &str, value: &str) {
        let value = plain(value);
        let _ = writeln!(self.text, "{label:<LABEL$}{value}");
    }

    pub(super) fn paint(&self, paint: Paint, text: &str) -> String {
        if self.style.color {
            format!("{paint}{text}{paint:#}")
        } else {
            text.to_owned()
        }
    }
}
