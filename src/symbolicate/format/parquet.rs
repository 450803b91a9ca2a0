//! A Parquet file for data warehouses: a row a report, written in groups of rows as they come.

use crate::report::time::nanos;
use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, ListBuilder, MapBuilder, StringBuilder, StructBuilder,
    UInt32Builder, UInt64Builder,
};
use arrow_array::{
    ArrayRef, BooleanArray, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Fields};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::facts::value_text;
use super::findings::{Findings, owner_word};
use super::{Format, Style};
use crate::symbolicate::blame::{Blamed, each, each_of};
use crate::symbolicate::frame::{Stack, Symbolicated, id_text};
use crate::symbolicate::group::{RECIPE, key_text};

/// Rows that go out together.
const ROWS: usize = 4096;
/// Their bytes, about; and those of the frames of one row, which no honest stack has. A column holds 2 GiB of text.
const BYTES: usize = 64 << 20;

/// The file being written; `docs/data.md` has its columns.
#[derive(Debug, Default)]
pub struct Parquet {
    rows: Vec<Row>,
    bytes: usize,
    /// With the bytes that the output has not taken yet.
    writer: Option<ArrowWriter<Vec<u8>>>,
}

/// One report.
#[derive(Debug)]
pub struct Row {
    texts: [Option<String>; TEXTS.len()],
    time: Option<i64>,
    numbers: [Option<u64>; NUMBERS.len()],
    flags: [Option<bool>; FLAGS.len()],
    lists: [Vec<String>; LISTS.len()],
    context: Vec<(String, String)>,
    gauges: Vec<(String, f64)>,
    frames: Vec<ParquetFrame>,
    /// Async callers, each with the index in `frames` of the function that it awaits.
    awaits: Vec<(u64, ParquetFrame)>,
}

#[derive(Debug)]
struct ParquetFrame {
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    inlined: bool,
    image: Option<String>,
    pc: u64,
    owner: &'static str,
}

impl ParquetFrame {
    fn of(style: &Style, of: &Symbolicated, blamed: Blamed<'_>) -> ParquetFrame {
        let Blamed { physical, frame } = blamed;
        ParquetFrame {
            function: frame.and_then(|frame| style.name(frame)).map(str::to_owned),
            file: frame.and_then(|frame| Some(frame.file.as_deref()?.to_owned())),
            line: frame.and_then(|frame| frame.line),
            inlined: frame.is_some_and(|frame| frame.inlined),
            image: of.image(physical).map(|image| image.name.clone()),
            pc: physical.pc,
            owner: owner_word(of, physical, frame),
        }
    }

    fn bytes(&self) -> usize {
        let texts = [&self.function, &self.file, &self.image];
        let texts = texts.into_iter().flatten().map(String::len);
        size_of::<ParquetFrame>() + texts.sum::<usize>()
    }
}

/// Columns of text, in order.
#[rustfmt::skip]
const TEXTS: [&str; 22] = [
    "report", "id", "launch", "app", "version", "os", "os_version", "device", "arch", "type",
    "class", "signal", "exception", "message", "reason", "how", "group", "os_build", "title",
    "blame", "ending", "watched_thread",
];

#[rustfmt::skip]
const NUMBERS: [&str; 8] = [
    "pid", "duration", "samples", "watched_number", "pool_threads", "pool_at_rest", "pool_stalled",
    "group_recipe",
];
const FLAGS: [&str; 3] = ["fatal", "ended", "at_least"];
const LISTS: [&str; 3] = ["stack", "damage", "breadcrumbs"];

impl Format for Parquet {
    type Part = Row;

    fn part(style: &Style, origin: &str, of: &Symbolicated) -> Row {
        let report = &of.report;
        let (head, event) = (&report.head, report.event.as_ref());
        let found = Findings::new(origin, of);
        let member = found.member;
        let about = found.thread.and_then(|at| of.threads.get(at));
        let watched = event.and_then(|event| event.watched.as_ref());
        let context = report.context.as_ref();
        let frames = about.into_iter().flat_map(each);
        let frames = frames.map(|blamed| ParquetFrame::of(style, of, blamed));
        let awaits = about.into_iter().flat_map(awaiting);
        let awaits = awaits.map(|(at, blamed)| (at, ParquetFrame::of(style, of, blamed)));
        let mut room = BYTES;
        let frames = frames.take_while(|frame| {
            room = room.saturating_sub(frame.bytes());
            room > 0
        });
        let frames: Vec<ParquetFrame> = frames.collect();
        let awaits = awaits.take_while(|(_, frame)| {
            room = room.saturating_sub(frame.bytes());
            room > 0
        });
        let samples = report.samples.iter().map(|sample| sample.count.max(1));
        Row {
            texts: [
                Some(origin.to_owned()),
                Some(id_text(&head.id)),
                Some(id_text(&head.launch)),
                Some(head.app.name.clone()),
                Some(head.app.version.clone()),
                Some(head.os.name.clone()),
                Some(head.os.version.clone()),
                head.device.clone(),
                Some(head.arch.clone()),
                event.map(|event| event.word().to_owned()),
                report.class().map(str::to_owned),
                event.and_then(|event| Some(event.signal.as_ref()?.name.clone())),
                event.and_then(|event| event.name.clone()),
                event.and_then(|event| event.message.clone()),
                report.reason().map(str::to_owned),
                report.stall_end.as_ref().map(|end| end.how.clone()),
                Some(key_text(member.key)),
                head.os.build.clone(),
                Some(found.title),
                found.blame,
                Some(member.ending),
                watched.map(|watched| watched.name.clone()),
            ],
            // Spark reads no finer ones.
            time: member.time.and_then(|time| i64::try_from(time / 1000).ok()),
            numbers: [
                Some(head.pid),
                Some(nanos(member.duration)).filter(|duration| *duration > 0),
                Some(samples.fold(0, u64::saturating_add)),
                watched.and_then(|watched| watched.number),
                watched.and_then(|watched| watched.pool),
                watched.and_then(|watched| watched.at_rest),
                watched.and_then(|watched| watched.stalled),
                Some(u64::from(RECIPE)),
            ],
            flags: [
                event.map(|event| event.fatal),
                Some(member.ended),
                Some(member.at_least),
            ],
            lists: [
                member.stack,
                of.damage.clone(),
                context.map_or(Vec::new(), |context| {
                    let texts = context.breadcrumbs.iter();
                    texts.map(|(_, text)| text.clone()).collect()
                }),
            ],
            context: context.map_or(Vec::new(), |context| {
                let keys = context.keys.iter();
                keys.map(|(key, value)| (key.clone(), value_text(value)))
                    .collect()
            }),
            gauges: context.map_or(Vec::new(), |context| context.gauges.clone()),
            awaits: awaits.collect(),
            frames,
        }
    }

    fn add(&mut self, part: Row, out: &mut dyn Write) -> io::Result<()> {
        self.bytes += bytes(&part);
        self.rows.push(part);
        if self.rows.len() < ROWS && self.bytes < BYTES {
            return Ok(());
        }
        self.write(out)
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.write(out)?;
        if let Some(writer) = self.writer.take() {
            out.write_all(&writer.into_inner().map_err(failed)?)?;
        }
        out.flush()
    }
}

impl Parquet {
    /// Writes the rows so far as a group.
    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.bytes = 0;
        let batch = batch(&std::mem::take(&mut self.rows))?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_created_by(concat!("wedjat ", env!("CARGO_PKG_VERSION")).to_owned())
                    .build();
                let writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties));
                none.insert(writer.map_err(failed)?)
            }
        };
        writer.write(&batch).map_err(failed)?;
        writer.flush().map_err(failed)?;
        out.write_all(&std::mem::take(writer.inner_mut()))
    }
}

fn bytes(row: &Row) -> usize {
    let pairs = row.context.iter().flat_map(|(key, value)| [key, value]);
    let names = row.gauges.iter().map(|(name, _)| name);
    let texts = row.lists.iter().flatten().chain(pairs).chain(names);
    let texts = texts.chain(row.texts.iter().flatten());
    let texts = texts.map(|text| size_of::<String>() + text.len());
    let awaits = row.awaits.iter().map(|(_, frame)| frame);
    let frames = row.frames.iter().chain(awaits);
    texts.chain(frames.map(ParquetFrame::bytes)).sum()
}

/// Every source frame of the async callers of a stack, each with the index of the source frame that it awaits.
fn awaiting(stack: &Stack) -> impl Iterator<Item = (u64, Blamed<'_>)> {
    stack.tasks.iter().flat_map(|tasks| {
        let upto = stack.frames.get(..=tasks.frame).unwrap_or(&stack.frames);
        let rows = upto.iter().flat_map(each_of).count() as u64;
        let callers = tasks.callers.iter().flat_map(each_of);
        callers.map(move |caller| (rows.saturating_sub(1), caller))
    })
}

fn batch(rows: &[Row]) -> io::Result<RecordBatch> {
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    for (at, name) in TEXTS.into_iter().enumerate() {
        let column: StringArray = rows.iter().map(|row| row.texts[at].as_deref()).collect();
        columns.push((name, Arc::new(column)));
    }
    let time: TimestampMicrosecondArray = rows.iter().map(|row| row.time).collect();
    columns.push(("time", Arc::new(time.with_timezone("UTC"))));
    for (at, name) in NUMBERS.into_iter().enumerate() {
        let column: UInt64Array = rows.iter().map(|row| row.numbers[at]).collect();
        columns.push((name, Arc::new(column)));
    }
    for (at, name) in FLAGS.into_iter().enumerate() {
        let column: BooleanArray = rows.iter().map(|row| row.flags[at]).collect();
        columns.push((name, Arc::new(column)));
    }
    for (at, name) in LISTS.into_iter().enumerate() {
        let mut column = ListBuilder::new(StringBuilder::new());
        rows.iter()
            .for_each(|row| column.append_value(row.lists[at].iter().map(Some)));
        columns.push((name, Arc::new(column.finish())));
    }
    let mut context = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    let mut gauges = MapBuilder::new(None, StringBuilder::new(), Float64Builder::new());
    let mut frames = ListBuilder::new(StructBuilder::from_fields(frame_fields(None), 0));
    let awaited = Some(("frame", DataType::UInt64));
    let mut awaits = ListBuilder::new(StructBuilder::from_fields(frame_fields(awaited), 0));
    for row in rows {
        for (key, value) in &row.context {
            context.keys().append_value(key);
            context.values().append_value(value);
        }
        context.append(true).map_err(io::Error::other)?;
        for (name, value) in &row.gauges {
            gauges.keys().append_value(name);
            gauges.values().append_value(*value);
        }
        gauges.append(true).map_err(io::Error::other)?;
        for frame in &row.frames {
            put(frames.values(), frame)?;
            frames.values().append(true);
        }
        frames.append(true);
        for (at, frame) in &row.awaits {
            let values = awaits.values();
            put(values, frame)?;
            let awaited: &mut UInt64Builder = values.field_builder(7).ok_or_else(wrong)?;
            awaited.append_value(*at);
            values.append(true);
        }
        awaits.append(true);
    }
    columns.push(("context", Arc::new(context.finish())));
    columns.push(("gauges", Arc::new(gauges.finish())));
    columns.push(("frames", Arc::new(frames.finish())));
    columns.push(("async", Arc::new(awaits.finish())));
    let columns = columns.into_iter();
    let columns = columns.map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).map_err(io::Error::other)
}

/// The fields of a frame, and one more after them.
fn frame_fields(more: Option<(&'static str, DataType)>) -> Fields {
    let fields = [
        ("function", DataType::Utf8),
        ("file", DataType::Utf8),
        ("line", DataType::UInt32),
        ("inlined", DataType::Boolean),
        ("image", DataType::Utf8),
        ("pc", DataType::UInt64),
        ("owner", DataType::Utf8),
    ];
    let field = |(name, kind)| Field::new(name, kind, true);
    fields.into_iter().chain(more).map(field).collect()
}

fn wrong() -> io::Error {
    io::Error::other("a column of another kind")
}

fn put(row: &mut StructBuilder, frame: &ParquetFrame) -> io::Result<()> {
    for (at, text) in [
        (0, frame.function.as_deref()),
        (1, frame.file.as_deref()),
        (4, frame.image.as_deref()),
        (6, Some(frame.owner)),
    ] {
        let column: &mut StringBuilder = row.field_builder(at).ok_or_else(wrong)?;
        column.append_option(text);
    }
    let lines: &mut UInt32Builder = row.field_builder(2).ok_or_else(wrong)?;
    lines.append_option(frame.line);
    let inlined: &mut BooleanBuilder = row.field_builder(3).ok_or_else(wrong)?;
    inlined.append_value(frame.inlined);
    let pcs: &mut UInt64Builder = row.field_builder(5).ok_or_else(wrong)?;
    pcs.append_value(frame.pc);
    Ok(())
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
