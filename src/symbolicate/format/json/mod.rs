//! JSON: everything a report says, with names. Addresses and ids are strings, since 64 bits don't fit
//! into a JavaScript number; times and sizes are numbers.

mod report;

use std::io;

use self::report::report_json;
use super::{Format, PlainJson, Style};
use crate::report::Value;
use crate::symbolicate::frame::{Frame, Symbolicated};

/// One JSON document: the report, or an array of them where several came or were to come.
#[derive(Debug, Clone)]
pub struct Json {
    array: bool,
    written: usize,
    /// The first report, kept until it is known whether it stays the only one.
    first: Option<Vec<u8>>,
}

impl Json {
    /// `array` says whether it is to be an array even of one report.
    pub fn new(array: bool) -> Json {
        Json {
            array,
            written: 0,
            first: None,
        }
    }

    fn element(&mut self, part: &[u8], out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(if self.written == 0 { b"[\n" } else { b",\n" })?;
        self.written += 1;
        out.write_all(part)
    }
}

impl Format for Json {
    type Part = Vec<u8>;

    fn part(style: &Style, origin: &str, report: &Symbolicated) -> Vec<u8> {
        let value = report_json(origin, report, style);
        let mut text = Vec::new();
        match serde_json::to_writer_pretty(PlainJson(&mut text), &value) {
            Ok(()) => text,
            Err(_) => Vec::new(), // never: its keys are all texts
        }
    }

    fn add(&mut self, part: Vec<u8>, out: &mut dyn io::Write) -> io::Result<()> {
        if !self.array && self.first.is_none() {
            self.first = Some(part);
            return Ok(());
        }
        self.array = true;
        if let Some(first) = self.first.take() {
            self.element(&first, out)?;
        }
        self.element(&part, out)
    }

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        if let Some(first) = self.first.take() {
            out.write_all(&first)?;
            out.write_all(b"\n")?;
        } else if self.array {
            out.write_all(if self.written == 0 { b"[]\n" } else { b"\n]\n" })?;
        }
        out.flush()
    }
}

/// One JSON object a line, a report each.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Ndjson;

impl Ndjson {
    /// Nothing is kept from one line to the next.
    pub fn new() -> Ndjson {
        Ndjson
    }
}

impl Format for Ndjson {
    type Part = Vec<u8>;

    fn part(style: &Style, origin: &str, report: &Symbolicated) -> Vec<u8> {
        let value = report_json(origin, report, style);
        let mut line = Vec::new();
        if serde_json::to_writer(PlainJson(&mut line), &value).is_err() {
            line.clear(); // never: its keys are all texts
        }
        line.push(b'\n');
        line
    }

    fn add(&mut self, part: Vec<u8>, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(&part)
    }
}

/// A value of a report for people: raw bytes are their digits alone.
pub(crate) fn value_json(value: &Value) -> serde_json::Value {
    // Never an error: all keys are texts.
    let mut json = serde_json::to_value(value).unwrap_or_default();
    match value {
        Value::Bytes(_) => json["bytes"].take(),
        _ => json,
    }
}

/// A source frame as it stands in every JSON of ours.
#[derive(Debug, serde::Serialize)]
pub struct FrameJson<'a> {
    function: Option<&'a str>,
    mangled: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    inlined: bool,
    source: &'static str,
    /// Of a report's frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<&'static str>,
}

impl<'a> FrameJson<'a> {
    /// This frame, named in this style.
    pub fn new(frame: &'a Frame, style: &Style) -> FrameJson<'a> {
        FrameJson {
            function: style.name(frame),
            mangled: frame.mangled.as_deref(),
            file: frame.file.as_deref(),
            line: frame.line,
            inlined: frame.inlined,
            source: frame.source.as_str(),
            owner: None,
        }
    }
}
