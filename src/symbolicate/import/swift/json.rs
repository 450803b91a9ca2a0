//! A backtrace in JSON, as `SWIFT_BACKTRACE=format=json` writes it.

use super::frames::{BacktraceRow, FrameKind, source};
use super::message_of;
use super::report::{CrashFacts, SwiftThread, add_thread, event, name};
use crate::report::time::wall;
use crate::report::{Image, Reading, Thread, Value};
use crate::symbolicate::import::builder::ReportBuilder;
use crate::symbolicate::import::json_fields::JsonFields;
use crate::symbolicate::import::paths::registers;
use crate::symbolicate::import::{Layout, values};
use crate::symbolicate::keys::SYMBOL_OFFSET;

/// Reads the object of a backtrace. The message is in the lines `before` it.
pub(super) fn read(mut fields: JsonFields, before: &[String]) -> Reading {
    let mut builder = ReportBuilder::default();
    let time = fields
        .take("timestamp")
        .map_or(0, |at| values::instant(&at));
    for value in fields.list("images") {
        let mut image = JsonFields::of(value);
        let base = image.unsigned("baseAddress").unwrap_or(0);
        let end = image.unsigned("endOfText").unwrap_or(base);
        builder.image(Image {
            name: image.text("path|name").unwrap_or_default(),
            id: values::id(&image.text("buildId").unwrap_or_default()),
            base,
            size: end.saturating_sub(base),
            ..Image::default()
        });
    }
    builder.index_images();
    let facts = CrashFacts {
        description: fields.text("description").unwrap_or_default(),
        address: fields.unsigned("faultAddress"),
        platform: fields.text("platform").unwrap_or_default(),
        arch: fields.text("architecture").unwrap_or_default(),
        message: message_of(before),
    };
    event(&mut builder, facts, None);
    builder.report.head.time = wall(time);
    for (index, value) in fields.list("threads").into_iter().enumerate() {
        let mut thread = JsonFields::of(value);
        let rows = thread.list("frames").into_iter().filter_map(row);
        let swift_thread = SwiftThread {
            rows: rows.collect(),
            thread: Thread {
                id: index as u64,
                name: thread.text("name"),
                crashed: thread.bool("crashed").unwrap_or(false),
                registers: registers(thread.object("registers")),
                extra: thread.into_extra(),
                ..Thread::default()
            },
        };
        add_thread(&mut builder, swift_thread);
    }
    name(&mut builder);
    builder.finish(Layout::Swift, fields)
}

fn row(value: Value) -> Option<BacktraceRow> {
    let mut frame = JsonFields::of(value);
    let kind = match frame.text("kind").as_deref() {
        Some("omittedFrames") => return Some(BacktraceRow::Omitted(frame.unsigned("count"))),
        Some("truncated") => return Some(BacktraceRow::Omitted(None)),
        Some("programCounter") => FrameKind::ProgramCounter,
        Some("asyncResumePoint") => FrameKind::AsyncResume,
        _ => FrameKind::ReturnAddress,
    };
    let inlined = frame.bool("inlined") == Some(true);
    let mut fields = JsonFields::default();
    let address = frame.unsigned("address").unwrap_or(0);
    fields.push("instruction_addr", Value::Unsigned(address));
    for key in ["symbol", "image"] {
        if let Some(text) = frame.text(key) {
            fields.push(key, Value::Text(text));
        }
    }
    if let Some(offset) = frame.unsigned("offset") {
        fields.push(SYMBOL_OFFSET, Value::Unsigned(offset));
    }
    let mut place = frame.object("sourceLocation");
    let (file, line) = (place.text("file"), place.unsigned("line"));
    if let (Some(file), Some(line)) = (file, line) {
        source(&mut fields, &file, line, place.unsigned("column"));
    }
    Some(BacktraceRow::Frame {
        kind,
        inlined,
        fields,
    })
}
