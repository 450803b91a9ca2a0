//! A backtrace in JSON, as `SWIFT_BACKTRACE=format=json` writes it.

use super::frames::BacktraceRow;
use super::message_of;
use super::report::SwiftReport;
use crate::report::time::wall;
use crate::report::{Found, Image, Reading, Thread, Value};
use crate::symbolicate::import::stack_lines::MADE_UP;
use crate::symbolicate::import::{JsonFields, registers, values};

/// Reads the object of a backtrace. The message is in the lines `before` it.
pub fn read(mut fields: JsonFields, before: &[String]) -> Reading {
    let time = fields.take("timestamp");
    let threads = fields.list("threads");
    let mut text = |key| fields.text(key).unwrap_or_default();
    let threads = threads.into_iter().zip(0..).map(thread);
    let report = SwiftReport {
        description: text("description"),
        platform: text("platform"),
        arch: text("architecture"),
        address: fields.unsigned("faultAddress"),
        message: message_of(before),
        images: fields.list("images").into_iter().map(image).collect(),
        threads: threads.collect(),
        left: fields,
        ..SwiftReport::default()
    };
    let mut reading = report.finish();
    reading.report.head.time = wall(time.map_or(0, |at| values::instant(&at)));
    reading
}

fn image(value: Value) -> Image {
    let mut image = JsonFields::of(value);
    let base = image.unsigned("baseAddress").unwrap_or(0);
    let end = image.unsigned("endOfText").unwrap_or(base);
    Image {
        name: image.text("path|name").unwrap_or_default(),
        id: values::id(&image.text("buildId").unwrap_or_default()),
        base,
        size: end.saturating_sub(base),
        ..Image::default()
    }
}

fn thread((value, id): (Value, u64)) -> (Thread, Vec<BacktraceRow>) {
    let mut fields = JsonFields::of(value);
    let rows = fields.list("frames").into_iter().map(row).collect();
    let thread = Thread {
        id,
        name: fields.text("name"),
        crashed: fields.bool("crashed").unwrap_or(false),
        registers: registers(fields.object("registers")),
        extra: fields.into_extra(),
        ..Thread::default()
    };
    (thread, rows)
}

fn row(value: Value) -> BacktraceRow {
    let mut frame = JsonFields::of(value);
    if matches!(frame.get("sourceLocation.file"), Some(Value::Text(file)) if file == MADE_UP) {
        frame.take("sourceLocation");
    }
    let found = match frame.text("kind").as_deref() {
        Some("omittedFrames") => return BacktraceRow::Omitted(frame.unsigned("count")),
        Some("truncated") => return BacktraceRow::Omitted(None),
        Some("programCounter") => Found::Context,
        Some("asyncResumePoint") => Found::AsyncCaller,
        _ => Found::Unknown,
    };
    BacktraceRow::Frame(found, frame)
}
