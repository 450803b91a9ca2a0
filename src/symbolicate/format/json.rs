//! JSON: everything a report says, with names. Addresses and ids are strings, since 64 bits don't fit
//! into a JavaScript number; times and sizes are numbers.

use std::io;

use serde_json::{Map, Value as Json_, json};

use super::{Format, Style};
use crate::report::model::{Extra, Report, Thread, Value};
use crate::symbolicate::frame::{Frame, PhysicalFrame, Stack, Symbolicated, id_text};
use crate::symbolicate::group::{Member, key_text};

/// One JSON document: the report, or where several are to come, an array of them.
#[derive(Debug, Clone)]
pub struct Json {
    array: bool,
    written: usize,
}

impl Json {
    /// `array` says whether more than one report may come.
    pub fn new(array: bool) -> Json {
        Json { array, written: 0 }
    }
}

impl Format for Json {
    type Part = Vec<u8>;

    fn part(style: &Style, origin: &str, report: &Symbolicated) -> Vec<u8> {
        let value = report_json(origin, report, style);
        serde_json::to_vec_pretty(&value).unwrap_or_default() // its keys are all texts
    }

    fn add(&mut self, part: Vec<u8>, out: &mut dyn io::Write) -> io::Result<()> {
        if self.array {
            out.write_all(if self.written == 0 { b"[\n" } else { b",\n" })?;
        }
        self.written += 1;
        out.write_all(&part)?;
        if self.array {
            Ok(())
        } else {
            out.write_all(b"\n")
        }
    }

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.array {
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
        let mut line = serde_json::to_vec(&value).unwrap_or_default(); // its keys are all texts
        line.push(b'\n');
        line
    }

    fn add(&mut self, part: Vec<u8>, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(&part)
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
        }
    }
}

fn frames_json(frames: &[Frame], style: &Style) -> Json_ {
    let frames = frames
        .iter()
        .map(|frame| json!(FrameJson::new(frame, style)));
    frames.collect()
}

fn report_json(origin: &str, symbolicated: &Symbolicated, style: &Style) -> Json_ {
    let report = &symbolicated.report;
    let head = &report.head;
    let mut top = Object::default();
    top.put("report", origin);
    top.put("version", head.version);
    top.put("id", id_text(&head.id));
    top.put("launch", id_text(&head.launch));
    top.put("time", head.time);
    top.put("clock", head.clock);
    top.put(
        "app",
        extended(
            json!({"name": head.app.name, "version": head.app.version}),
            &head.app.extra,
        ),
    );
    let os = json!({"name": head.os.name, "version": head.os.version, "build": head.os.build});
    top.put("os", extended(os, &head.os.extra));
    top.put("device", head.device.clone());
    top.put("arch", head.arch.clone());
    top.put("pid", head.pid);
    top.extra(&head.extra);
    top.put("event", event_json(report));
    let member = Member::new(origin, symbolicated);
    top.put("group", key_text(member.key));
    let threads = report.threads.iter().zip(&symbolicated.threads);
    top.put(
        "threads",
        threads
            .map(|(thread, stack)| thread_json(thread, stack, style))
            .collect::<Json_>(),
    );
    let samples = report
        .samples
        .iter()
        .zip(&symbolicated.samples)
        .map(|(sample, stack)| {
            let facts = json!({
                "at": sample.at,
                "state": sample.state,
                "count": sample.count,
                "frames": stack_json(stack, style),
            });
            extended(facts, &sample.extra)
        });
    top.put("samples", samples.collect::<Json_>());
    top.put("images", images_json(report));
    top.put("vitals", vitals_json(report));
    top.put("context", context_json(report));
    top.put(
        "stall_end",
        report.stall_end.as_ref().map(|end| {
            extended(
                json!({"duration": end.duration, "how": end.how}),
                &end.extra,
            )
        }),
    );
    top.put(
        "capture",
        report.capture.as_ref().map(|capture| {
            let facts = json!({
                "stopped": capture.stopped,
                "unwind": capture.unwind,
                "bytes": capture.bytes,
                "samples": capture.samples,
                "cut": capture.cut.as_ref().map(value_json),
                "unanswered": capture.unanswered,
            });
            extended(facts, &capture.extra)
        }),
    );
    top.put(
        "loss",
        report.loss.as_ref().map(|loss| {
            loss.counts
                .iter()
                .map(|(reason, count)| (reason.clone(), Json_::from(*count)))
                .collect::<Map<_, _>>()
        }),
    );
    top.put(
        "end",
        report.end.as_ref().map(|end| {
            let facts =
                json!({"crc32": end.crc32, "sections": end.sections, "closed_by": end.closed_by});
            extended(facts, &end.extra)
        }),
    );
    let unknown = report
        .unknown
        .iter()
        .map(|(kind, value)| json!([kind, value_json(value)]));
    top.put("unknown", unknown.collect::<Json_>());
    let missing = symbolicated.missing.iter().map(|missing| {
        json!({
            "name": missing.name,
            "id": id_text(&missing.id),
            "arch": missing.arch,
            "symbols": missing.symbols,
            "system": missing.system,
            "others": missing.others.iter().map(|id| id_text(id)).collect::<Vec<_>>(),
        })
    });
    top.put("missing", missing.collect::<Json_>());
    top.put("damage", symbolicated.damage.clone());
    Json_::Object(top.0)
}

fn event_json(report: &Report) -> Option<Json_> {
    let event = report.event.as_ref()?;
    let signal = event.signal.as_ref().map(|signal| {
        let facts = json!({
            "number": signal.number,
            "name": signal.name,
            "code": signal.code,
            "code_name": signal.code_name,
            "address": signal.address.map(hex),
        });
        extended(facts, &signal.extra)
    });
    let facts = json!({
        "type": event.kind.as_str(),
        "fatal": event.fatal,
        "reason": event.reason,
        "signal": signal,
        "name": event.name,
        "message": event.message,
        "location": event.location,
        "class": event.class,
        "thresholds": event.thresholds.as_ref().map(|t| json!({"timeout": t.timeout, "strikes": t.strikes})),
    });
    Some(extended(facts, &event.extra))
}

fn thread_json(thread: &Thread, stack: &Stack, style: &Style) -> Json_ {
    let registers = thread
        .registers
        .iter()
        .map(|(name, value)| (name.clone(), Json_::from(hex(*value))));
    let facts = json!({
        "id": thread.id,
        "name": thread.name,
        "main": thread.main,
        "crashed": thread.crashed,
        "state": thread.state,
        "syscall": thread.syscall,
        "cpu": thread.cpu,
        "registers": registers.collect::<Map<_, _>>(),
        "frames": stack_json(stack, style),
        "end": thread.end.map(|end| end.as_str()),
    });
    extended(facts, &thread.extra)
}

fn stack_json(stack: &Stack, style: &Style) -> Json_ {
    let physical = |physical: &PhysicalFrame| {
        json!({
            "pc": hex(physical.pc),
            "found": physical.found.code(),
            "image": physical.image,
            "address": physical.svma.map(hex),
            "offset": physical.offset,
            "frames": frames_json(&physical.frames, style),
        })
    };
    stack.frames.iter().map(physical).collect()
}

fn images_json(report: &Report) -> Json_ {
    let image = report.images.iter().map(|image| {
        let facts = json!({
            "name": image.name,
            "id": id_text(&image.id),
            "base": hex(image.base),
            "stated": hex(image.stated),
            "size": image.size,
            "arch": image.arch,
            "text_hash": image.text_hash.as_ref().map(|hash| bytes_hex(hash)),
        });
        extended(facts, &image.extra)
    });
    image.collect()
}

fn vitals_json(report: &Report) -> Option<Json_> {
    let vitals = report.vitals.as_ref()?;
    let mut object = Object::default();
    if let Some(cpu) = &vitals.cpu {
        let mut known = Object::default();
        known.put_known("process", cpu.process);
        known.put_known("watchdog", cpu.watchdog);
        known.put_known("device", cpu.device);
        known.put_known("cores", cpu.cores);
        known.extra(&cpu.extra);
        object.put("cpu", known.0);
    }
    if let Some(memory) = &vitals.memory {
        let mut known = Object::default();
        known.put_known("resident", memory.resident);
        known.put_known("footprint", memory.footprint);
        known.put_known("peak", memory.peak);
        known.put_known("device_total", memory.device_total);
        known.put_known("device_free", memory.device_free);
        known.extra(&memory.extra);
        object.put("memory", known.0);
    }
    object.put_known("frame_rate", vitals.frame_rate);
    object.put_known("uptime", vitals.uptime);
    object.put_known("launch_time", vitals.launch_time);
    object.put_known("launch_kind", vitals.launch_kind.clone());
    object.put_known("battery", vitals.battery);
    object.put_known("thermal", vitals.thermal.clone());
    object.put_known("low_power", vitals.low_power);
    object.extra(&vitals.extra);
    Some(Json_::Object(object.0))
}

fn context_json(report: &Report) -> Option<Json_> {
    let context = report.context.as_ref()?;
    let keys: Map<_, _> = context
        .keys
        .iter()
        .map(|(key, value)| (key.clone(), value_json(value)))
        .collect();
    let breadcrumbs = context
        .breadcrumbs
        .iter()
        .map(|(time, text)| json!({"time": time, "text": text}));
    let gauges: Map<_, _> = context
        .gauges
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    let marks = context
        .marks
        .iter()
        .map(|(name, start, duration)| json!({"name": name, "start": start, "duration": duration}));
    let facts = json!({
        "keys": keys,
        "breadcrumbs": breadcrumbs.collect::<Json_>(),
        "gauges": gauges,
        "marks": marks.collect::<Json_>(),
    });
    Some(extended(facts, &context.extra))
}

/// Any MessagePack value as JSON; what JSON has no words for becomes a string or an object.
pub(crate) fn value_json(value: &Value) -> Json_ {
    match value {
        Value::Nil => Json_::Null,
        Value::Bool(b) => json!(b),
        Value::Unsigned(n) => json!(n),
        Value::Signed(n) => json!(n),
        Value::Float(f) => json!(f), // not a number and infinities become null
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => json!(bytes_hex(bytes)),
        Value::Array(values) => values.iter().map(value_json).collect(),
        Value::Map(entries) => {
            let key = |key: &Value| match key {
                Value::Text(text) => text.clone(),
                other => value_json(other).to_string(),
            };
            Json_::Object(
                entries
                    .iter()
                    .map(|(k, v)| (key(k), value_json(v)))
                    .collect(),
            )
        }
        Value::Extension(kind, bytes) => json!({"extension": kind, "bytes": bytes_hex(bytes)}),
    }
}

fn hex(address: u64) -> String {
    format!("{address:#x}")
}

fn bytes_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds keys that this version does not know; known ones stay as they are.
fn extended(mut object: Json_, extra: &Extra) -> Json_ {
    if let Json_::Object(map) = &mut object {
        for (key, value) in extra {
            if !map.contains_key(key) {
                map.insert(key.clone(), value_json(value));
            }
        }
    }
    object
}

/// An object being filled in order.
#[derive(Default)]
struct Object(Map<String, Json_>);

impl Object {
    fn put(&mut self, key: &str, value: impl Into<Json_>) {
        self.0.insert(key.into(), value.into());
    }

    fn put_known<T: Into<Json_>>(&mut self, key: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    fn extra(&mut self, extra: &Extra) {
        for (key, value) in extra {
            if !self.0.contains_key(key) {
                self.put(key, value_json(value));
            }
        }
    }
}
