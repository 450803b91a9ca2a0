//! A Parquet file for data warehouses: a row a report, written in groups of rows as they come.

use crate::report::time::{nanos, since_epoch};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use arrow_array::builder::{
    BooleanBuilder, ListBuilder, StringBuilder, StructBuilder, TimestampNanosecondBuilder,
    UInt32Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::{Format, Style};
use crate::symbolicate::frame::{Symbolicated, id_text};
use crate::symbolicate::group::{Member, key_text, thread_in_question};
use crate::symbolicate::lock;

/// Rows that go out together.
const ROWS: usize = 4096;

/// The file being written.
///
/// | column | what |
/// | --- | --- |
/// | `report`, `id`, `launch`, `time`, `app`, `version`, `os`, `os_version`, `device`, `arch`, `pid` | where it comes from, as in `head` |
/// | `type`, `fatal`, `class`, `signal`, `exception`, `message`, `reason` | what happened; null where unknown |
/// | `duration`, `how` | how a stall ended, nanoseconds |
/// | `group`, `stack` | the group's key and its normalised stack, innermost first |
/// | `frames` | every source frame of the thread in question, innermost first: `function`, `file`, `line`, `inlined`, `image`, `pc` |
/// | `samples` | how many samples were taken |
/// | `damage` | what the reader found damaged |
#[derive(Default)]
pub struct Parquet {
    rows: Vec<Row>,
    writer: Option<ArrowWriter<SharedOutput>>,
    written: SharedOutput,
}

/// One report.
#[derive(Debug)]
pub struct Row {
    texts: [Option<String>; TEXTS.len()],
    time: Option<i64>,
    pid: u64,
    fatal: Option<bool>,
    duration: Option<u64>,
    samples: u64,
    stack: Vec<String>,
    damage: Vec<String>,
    frames: Vec<ParquetFrame>,
}

#[derive(Debug)]
struct ParquetFrame {
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    inlined: bool,
    image: Option<String>,
    pc: u64,
}

/// Columns of text, in order.
const TEXTS: [&str; 18] = [
    "report",
    "id",
    "launch",
    "app",
    "version",
    "os",
    "os_version",
    "device",
    "arch",
    "type",
    "class",
    "signal",
    "exception",
    "message",
    "reason",
    "how",
    "group",
    "os_build",
];

impl Parquet {
    /// An empty file.
    pub fn new() -> Parquet {
        Parquet::default()
    }
}

impl std::fmt::Debug for Parquet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parquet")
            .field("rows", &self.rows.len())
            .finish_non_exhaustive()
    }
}

impl Format for Parquet {
    type Part = Row;

    fn part(style: &Style, origin: &str, of: &Symbolicated) -> Row {
        let report = &of.report;
        let (head, event) = (&report.head, report.event.as_ref());
        let member = Member::new(origin, of);
        let about = thread_in_question(report).and_then(|at| of.threads.get(at));
        let mut frames = Vec::new();
        for physical in about.iter().flat_map(|stack| &stack.frames) {
            let image = of.image(physical).map(|image| image.name.clone());
            let bare = ParquetFrame {
                function: None,
                file: None,
                line: None,
                inlined: false,
                image: image.clone(),
                pc: physical.pc,
            };
            frames.extend(physical.frames.is_empty().then_some(bare));
            frames.extend(physical.frames.iter().map(|frame| ParquetFrame {
                function: style.name(frame).map(str::to_owned),
                file: frame.file.as_deref().map(str::to_owned),
                line: frame.line,
                inlined: frame.inlined,
                image: image.clone(),
                pc: physical.pc,
            }));
        }
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
                event.and_then(|event| event.class.clone()),
                event.and_then(|event| Some(event.signal.as_ref()?.name.clone())),
                event.and_then(|event| event.name.clone()),
                event.and_then(|event| event.message.clone()),
                event.and_then(|event| event.reason.clone()),
                report.stall_end.as_ref().map(|end| end.how.clone()),
                Some(key_text(member.key)),
                head.os.build.clone(),
            ],
            time: i64::try_from(since_epoch(head.time)).ok(),
            pid: head.pid,
            fatal: event.map(|event| event.fatal),
            duration: report.stall_end.as_ref().map(|end| nanos(end.duration)),
            samples: report
                .samples
                .iter()
                .map(|sample| sample.count.max(1))
                .sum(),
            stack: member.stack,
            damage: of.damage.clone(),
            frames,
        }
    }

    fn add(&mut self, part: Row, out: &mut dyn Write) -> io::Result<()> {
        self.rows.push(part);
        if self.rows.len() < ROWS {
            return Ok(());
        }
        self.write(out)
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.write(out)?;
        if let Some(writer) = self.writer.take() {
            writer.close().map_err(failed)?;
        }
        self.written.drain(out)?;
        out.flush()
    }
}

impl Parquet {
    /// Writes the rows so far as a group.
    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let batch = batch(&std::mem::take(&mut self.rows))?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_created_by(concat!("wedjat ", env!("CARGO_PKG_VERSION")).to_owned())
                    .build();
                let sink = self.written.clone();
                let writer = ArrowWriter::try_new(sink, batch.schema(), Some(properties));
                none.insert(writer.map_err(failed)?)
            }
        };
        writer.write(&batch).map_err(failed)?;
        writer.flush().map_err(failed)?;
        self.written.drain(out)
    }
}

fn batch(rows: &[Row]) -> io::Result<RecordBatch> {
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    for (at, name) in TEXTS.into_iter().enumerate() {
        let mut column = StringBuilder::new();
        rows.iter()
            .for_each(|row| column.append_option(row.texts[at].as_deref()));
        columns.push((name, Arc::new(column.finish())));
    }
    let mut time = TimestampNanosecondBuilder::new().with_timezone("UTC");
    let (mut pid, mut duration, mut samples) = (
        UInt64Builder::new(),
        UInt64Builder::new(),
        UInt64Builder::new(),
    );
    let mut fatal = BooleanBuilder::new();
    let mut stack = ListBuilder::new(StringBuilder::new());
    let mut damage = ListBuilder::new(StringBuilder::new());
    let mut frames = ListBuilder::new(StructBuilder::from_fields(frame_fields(), 0));
    for row in rows {
        time.append_option(row.time);
        pid.append_value(row.pid);
        fatal.append_option(row.fatal);
        duration.append_option(row.duration);
        samples.append_value(row.samples);
        stack.append_value(row.stack.iter().map(Some));
        damage.append_value(row.damage.iter().map(Some));
        for frame in &row.frames {
            put(frames.values(), frame)?;
        }
        frames.append(true);
    }
    columns.push(("time", Arc::new(time.finish())));
    columns.push(("pid", Arc::new(pid.finish())));
    columns.push(("fatal", Arc::new(fatal.finish())));
    columns.push(("duration", Arc::new(duration.finish())));
    columns.push(("samples", Arc::new(samples.finish())));
    columns.push(("stack", Arc::new(stack.finish())));
    columns.push(("damage", Arc::new(damage.finish())));
    columns.push(("frames", Arc::new(frames.finish())));
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
        .collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(io::Error::other)
}

fn frame_fields() -> Fields {
    let fields = [
        ("function", DataType::Utf8),
        ("file", DataType::Utf8),
        ("line", DataType::UInt32),
        ("inlined", DataType::Boolean),
        ("image", DataType::Utf8),
        ("pc", DataType::UInt64),
    ];
    fields
        .into_iter()
        .map(|(name, kind)| Field::new(name, kind, true))
        .collect()
}

fn put(row: &mut StructBuilder, frame: &ParquetFrame) -> io::Result<()> {
    let wrong = || io::Error::other("a column of another kind");
    let texts = [(0, &frame.function), (1, &frame.file), (4, &frame.image)];
    for (at, text) in texts {
        row.field_builder::<StringBuilder>(at)
            .ok_or_else(wrong)?
            .append_option(text.as_deref());
    }
    row.field_builder::<UInt32Builder>(2)
        .ok_or_else(wrong)?
        .append_option(frame.line);
    row.field_builder::<BooleanBuilder>(3)
        .ok_or_else(wrong)?
        .append_value(frame.inlined);
    row.field_builder::<UInt64Builder>(5)
        .ok_or_else(wrong)?
        .append_value(frame.pc);
    row.append(true);
    Ok(())
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

/// Bytes of the writer that the output has not taken yet.
#[derive(Clone, Default)]
struct SharedOutput(Arc<Mutex<Vec<u8>>>);

impl SharedOutput {
    fn drain(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut bytes = lock(&self.0);
        out.write_all(&bytes)?;
        bytes.clear();
        Ok(())
    }
}

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
