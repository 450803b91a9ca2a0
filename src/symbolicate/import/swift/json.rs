//! A backtrace in JSON, as `SWIFT_BACKTRACE=format=json` writes it.

use super::frames::BacktraceRow;
use super::message_of;
use super::report::SwiftReport;
use crate::report::time::wall;
use crate::report::{Found, Reading, Thread, Value};
use crate::symbolicate::import::stack_lines::MADE_UP;
use crate::symbolicate::import::{JsonFields, image_of, registers, values};

/// Reads the object of a backtrace. The message is in the lines `before` it.
pub fn read(mut fields: JsonFields, before: &[String]) -> Reading {
    let time = fields.take("timestamp");
    let threads = fields.list("threads");
    let images = fields.list("images");
    let mut text = |key| fields.text(key).unwrap_or_default();
    let threads = threads.into_iter().zip(0..).map(thread);
    let images = images.into_iter().map(JsonFields::of);
    let report = SwiftReport {
        description: text("description"),
        platform: text("platform"),
        arch: text("architecture"),
        address: fields.unsigned("faultAddress"),
        message: message_of(before),
        images: images.map(image_of).collect(),
        threads: threads.collect(),
        left: fields,
        ..SwiftReport::default()
    };
    let mut reading = report.finish();
    reading.report.head.time = wall(time.map_or(0, |at| values::instant(&at)));
    reading
}

fn thread((value, id): (Value, u64)) -> (Thread, Vec<BacktraceRow>) {
    let mut fields = JsonFields::of(value);
    let rows = fields.list("frames").into_iter().map(read_row).collect();
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

fn read_row(value: Value) -> BacktraceRow {
    let mut frame = JsonFields::of(value);
    if frame.peek("sourceLocation.file") == Some(MADE_UP) {
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
