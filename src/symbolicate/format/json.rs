//! JSON: everything a report says, with names. Addresses and ids are strings, since 64 bits don't fit
//! into a JavaScript number; times and sizes are numbers. Each frame is spelled once, in a table; stacks hold indices into
//! it.

use std::io;

use serde_json::{Map, Value as JsonValue, json};

use super::findings::Findings;
use super::stacks::Indices;
use super::{Parts, PlainJson, Style};
use crate::report::Value;
use crate::symbolicate::blame::owner;
use crate::symbolicate::frame::{PhysicalFrame, SourceFrame, Stack, Symbolicated, id_text};

/// One JSON document: the report where one came, else an array.
#[derive(Debug, Clone, Default)]
pub struct Json {
    array: bool,
    written: usize,
    /// The first report, kept until it is known whether it stays the only one.
    first: Option<Vec<u8>>,
}

impl Json {
    /// An array, even of one report.
    pub fn array() -> Json {
        Json {
            array: true,
            ..Json::default()
        }
    }

    fn element(&mut self, part: &[u8], out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(if self.written == 0 { b"[\n" } else { b",\n" })?;
        self.written += 1;
        out.write_all(part)
    }
}

impl Parts for Json {
    type Part = Vec<u8>;

    fn part(style: &Style, origin: &str, report: &Symbolicated) -> Vec<u8> {
        let mut out = PlainJson(Vec::new());
        // Never an error: all keys are texts, and memory takes all.
        let _ = serde_json::to_writer_pretty(&mut out, &report_json(origin, report, style));
        out.0
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

    fn end(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        if let Some(first) = self.first.take() {
            out.write_all(&first)?;
            out.write_all(b"\n")?;
        } else {
            out.write_all(if self.written == 0 { b"[]\n" } else { b"\n]\n" })?;
        }
        out.flush()
    }
}

/// One JSON object a line, a report each.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Ndjson;

impl Parts for Ndjson {
    type Part = Vec<u8>;

    fn part(style: &Style, origin: &str, report: &Symbolicated) -> Vec<u8> {
        PlainJson::bytes(&report_json(origin, report, style), b"\n")
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
    /// What named the frame: debug information, a symbol table, the recorder.
    source: &'static str,
    /// Of a report's frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<&'static str>,
}

impl<'a> FrameJson<'a> {
    /// This frame, named in this style.
    pub fn new(frame: &'a SourceFrame, style: &Style) -> FrameJson<'a> {
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

/// Everything that the report says, with names.
#[derive(serde::Serialize)]
pub(super) struct ReportJson<'a> {
    #[serde(flatten)]
    top: Map<String, JsonValue>,
    frames: FrameTable<'a>,
    missing: JsonValue,
    damage: &'a [String],
}

pub(super) fn report_json<'a>(
    origin: &str,
    symbolicated: &'a Symbolicated,
    style: &'a Style,
) -> ReportJson<'a> {
    let report = &symbolicated.report;
    let mut top = Map::from_iter([("report".to_owned(), json!(origin))]);
    // Frames are in the table: one holds the place of all.
    let mut without_stacks = report.clone();
    for thread in &mut without_stacks.threads {
        thread.frames.truncate(1);
        thread.tasks.truncate(1);
    }
    for sample in &mut without_stacks.samples {
        sample.frames.truncate(1);
        sample.tasks.truncate(1);
    }
    // Never an error: all keys are texts.
    if let Ok(JsonValue::Object(all)) = serde_json::to_value(without_stacks) {
        top.extend(all);
    }
    // Words that this version does not know stand in their place.
    if let (Some(event), Some(JsonValue::Object(object))) = (&report.event, top.get_mut("event")) {
        object.insert("type".to_owned(), json!(event.word()));
    }
    Findings::new(origin, symbolicated).put_into(&mut top);
    let mut table = FrameTable {
        of: symbolicated,
        style,
        indices: Indices::default(),
        frames: Vec::new(),
    };
    let threads = report.threads.iter().zip(&symbolicated.threads);
    for (object, (thread, stack)) in objects(&mut top, "threads").zip(threads) {
        object.insert("end".to_owned(), json!(thread.end_word()));
        object.insert("state".to_owned(), json!(thread.state_word()));
        table.add_frame_indices(object, stack);
    }
    let samples = report.samples.iter().zip(&symbolicated.samples);
    for (object, (sample, stack)) in objects(&mut top, "samples").zip(samples) {
        object.insert("end".to_owned(), json!(sample.end_word()));
        object.insert("state".to_owned(), json!(sample.state_word()));
        // The stack is all of it here.
        object.shift_remove("keep");
        table.add_frame_indices(object, stack);
    }
    let missing = symbolicated.missing.iter().map(|missing| {
        json!({
            "name": missing.name, "id": id_text(&missing.id), "arch": missing.arch,
            "symbols": missing.symbols, "system": missing.system, "split": missing.unread.split,
            "damaged": missing.unread.damaged, "refused": missing.unread.refused,
            "others": missing.others.iter().map(|id| id_text(id)).collect::<Vec<_>>(),
        })
    });
    ReportJson {
        top,
        missing: missing.collect(),
        damage: &symbolicated.damage,
        frames: table,
    }
}

/// The objects in a list of the report.
fn objects<'j>(
    top: &'j mut Map<String, JsonValue>,
    list: &str,
) -> impl Iterator<Item = &'j mut Map<String, JsonValue>> {
    let list = top.get_mut(list).and_then(JsonValue::as_array_mut);
    let list = list.into_iter().flatten();
    list.filter_map(JsonValue::as_object_mut)
}

/// The frames of all stacks, each once.
struct FrameTable<'a> {
    of: &'a Symbolicated,
    style: &'a Style,
    indices: Indices<&'a PhysicalFrame>,
    frames: Vec<&'a PhysicalFrame>,
}

/// Frame by frame: as values they would take some kilobytes each.
impl serde::Serialize for FrameTable<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.frames.iter().map(|frame| self.row(frame)))
    }
}

impl<'a> FrameTable<'a> {
    /// Puts a stack, as indices of frames with names, in the place of its addresses.
    fn add_frame_indices(&mut self, object: &mut Map<String, JsonValue>, stack: &'a Stack) {
        let indices = stack.frames.iter().map(|frame| json!(self.index(frame)));
        object.insert("frames".to_owned(), indices.collect());
        let tasks = stack.tasks.iter().map(|tasks| {
            let callers = tasks.callers.iter().map(|frame| self.index(frame));
            let callers: Vec<usize> = callers.collect();
            json!({ "frame": tasks.frame, "callers": callers, "end": tasks.end.as_str() })
        });
        object.insert("async".to_owned(), tasks.collect());
        // As the index of the frame behind the gap, and how many are in it.
        object.insert("omitted".to_owned(), json!(stack.omitted));
    }

    fn index(&mut self, physical: &'a PhysicalFrame) -> usize {
        let (index, is_new) = self.indices.index_of(physical);
        self.frames.extend(is_new.then_some(physical));
        index
    }

    fn row(&self, physical: &PhysicalFrame) -> JsonValue {
        let row = |frame| {
            json!(FrameJson {
                owner: Some(owner(self.of, physical, Some(frame)).as_str()),
                ..FrameJson::new(frame, self.style)
            })
        };
        let frames = physical.frames.iter().map(row);
        let mut object = json!({
            "pc": hex(physical.pc), "found": physical.found.code(), "image": physical.image,
            "address": physical.svma.map(hex), "offset": physical.offset,
            // Of the function that the others are inlined into.
            "owner": owner(self.of, physical, physical.frames.last()).as_str(),
            "frames": frames.collect::<JsonValue>(),
        });
        if let Some(callers) = &physical.tail_callers {
            object["tail_callers"] = callers.iter().map(row).collect();
        }
        object
    }
}

pub(super) fn hex(address: u64) -> String {
    format!("{address:#x}")
}
