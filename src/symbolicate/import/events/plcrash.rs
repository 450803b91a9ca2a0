//! PLCrashReporter's `.plcrash`: seven letters, a version byte, and the message `CrashReport` of its
//! `crash_report.proto`, read by a table of its fields as if it were JSON.
//!
//! Generated readers of Protocol Buffers give nothing of a message that was cut, and drop what they don't know; a report
//! must return what is before the cut, and keep the rest.

use std::borrow::Cow;

use addr2line::gimli::{self, EndianSlice, LittleEndian, Reader as _};
use rustc_hash::FxHashMap;

use crate::report::{Cpu, DamageKind, EventKind, Frame, Reading, Thread, Value};
use crate::symbolicate::frame::hex;

/// `plcrash` and the version.
const HEADER_BYTES: usize = 8;

/// The kind of a field.
enum FieldKind {
    Number,
    Text,
    /// Bytes, as hexadecimal digits.
    Id,
    Message(Schema),
    /// Any number of these.
    Messages(Schema),
    Numbers,
}
use crate::symbolicate::import::{
    HeadPaths, JsonFields, Layout, ReportBuilder, ThreadPaths, values,
};
use FieldKind::{Id, Message, Messages, Numbers, Text};

/// The fields of a message, by their numbers.
type Schema = &'static [(u64, &'static str, FieldKind)];

/// The messages of the layout.
#[rustfmt::skip]
mod schema {
    use super::Schema;
    use super::FieldKind::{Id, Message, Messages, Number, Numbers, Text};

    pub const REPORT: Schema = &[
        (1, "system", Message(SYSTEM)), (2, "application", Message(APPLICATION)),
        (3, "threads", Messages(THREAD)), (4, "images", Messages(IMAGE)),
        (5, "exception", Message(EXCEPTION)), (6, "signal", Message(SIGNAL)),
        (7, "process", Message(PROCESS)), (8, "machine", Message(MACHINE)),
        (9, "info", Message(INFO)), (10, "custom_data", Text),
    ];
    pub const SYSTEM: Schema = &[
        (1, "operating_system", Number), (2, "os_version", Text), (3, "architecture", Number),
        (4, "timestamp", Number), (5, "os_build", Text),
    ];
    pub const APPLICATION: Schema = &[
        (1, "identifier", Text), (2, "version", Text), (3, "marketing_version", Text),
    ];
    pub const THREAD: Schema = &[
        (1, "number", Number), (2, "frames", Messages(FRAME)), (3, "crashed", Number),
        (4, "registers", Messages(REGISTER)),
    ];
    pub const FRAME: Schema = &[(3, "instruction_addr", Number), (6, "symbol", Message(SYMBOL))];
    pub const SYMBOL: Schema = &[(1, "name", Text), (2, "address", Number)];
    pub const REGISTER: Schema = &[(1, "name", Text), (2, "value", Number)];
    pub const IMAGE: Schema = &[
        (1, "base", Number), (2, "size", Number), (3, "name", Text), (4, "uuid", Id),
        (5, "code_type", Message(PROCESSOR)),
    ];
    pub const PROCESSOR: Schema = &[(2, "cpu_type", Number), (3, "cpu_subtype", Number)];
    pub const EXCEPTION: Schema = &[
        (1, "name", Text), (2, "reason", Text), (3, "frames", Messages(FRAME)),
    ];
    pub const SIGNAL: Schema = &[
        (1, "name", Text), (2, "code", Text), (3, "address", Number), (4, "mach", Message(MACH)),
    ];
    pub const MACH: Schema = &[(1, "type", Number), (2, "codes", Numbers)];
    pub const PROCESS: Schema = &[
        (1, "name", Text), (2, "pid", Number), (3, "process_path", Text),
        (4, "parent_process", Text), (5, "parent_pid", Number), (6, "native", Number),
        (7, "process_start", Number),
    ];
    pub const MACHINE: Schema = &[
        (1, "model", Text), (2, "processor", Message(PROCESSOR)), (3, "cores", Number),
    ];
    pub const INFO: Schema = &[(1, "user_requested", Number), (2, "id", Id)];
}

const HEAD: HeadPaths = HeadPaths {
    id: "info.id",
    time: "system.timestamp",
    name: "process.name",
    version: "application.marketing_version",
    build: "application.version",
    os_version: "system.os_version",
    os_build: "system.os_build",
    device: "machine.model",
    pid: "process.pid",
    ..HeadPaths::NONE
};

pub fn read(bytes: &[u8]) -> Result<Vec<Reading>, (usize, &'static str)> {
    match bytes.get(HEADER_BYTES - 1) {
        Some(1) => {}
        Some(_) => return Err((HEADER_BYTES - 1, "is a version of the layout other than 1")),
        None => return Err((bytes.len(), "the file ends")),
    }
    let (entries, cut) = decoded(&bytes[HEADER_BYTES..], schema::REPORT);
    let mut report = JsonFields::of(Value::Map(entries));
    if report.is_empty() {
        return Err((HEADER_BYTES, "the message is empty"));
    }
    let mut builder = ReportBuilder::default();
    let required = ["system", "application", "signal"];
    if let Some(at) = cut {
        let message = "the protocol buffer can't be read on: it was cut, or its bytes were changed";
        builder.damage(DamageKind::Cut, HEADER_BYTES + at, message);
    } else if !required.iter().all(|part| report.has(part)) {
        let message = "parts that every report has are missing: it was cut between two parts";
        builder.damage(DamageKind::Cut, bytes.len(), message);
    }
    head(&mut builder, &mut report);
    builder.images(report.list("images"), Vec::new());
    for thread in report.list("threads") {
        let thread = thread_of(&mut builder, JsonFields::of(thread));
        builder.thread(thread);
    }
    event(&mut builder, &mut report);
    let head = &mut builder.report.head;
    let app = report.object("application").into_extra();
    head.app.extra.extend(app);
    for part in ["machine", "info"] {
        head.extra.extend(report.object(part).into_extra());
    }
    for part in ["system", "process"] {
        for (key, value) in report.object(part).into_extra() {
            report.push(&key, value);
        }
    }
    Ok(vec![builder.finish(Layout::PlCrash, report)])
}

fn head(builder: &mut ReportBuilder, report: &mut JsonFields) {
    builder.head(report, &HEAD);
    let named = |number: Option<u64>, names: &[&str]| {
        let number = usize::try_from(number?).ok()?;
        names.get(number).map(|name| (*name).to_owned())
    };
    let head = &mut builder.report.head;
    let systems = ["macOS", "iOS", "iOS Simulator", "", "tvOS"];
    let system = report.unsigned("system.operating_system");
    head.os.name = named(system, &systems).unwrap_or_default();
    let processors = ["x86", "x86_64", "armv6", "ppc", "ppc64", "armv7", ""];
    let cpu = report.unsigned("machine.processor.cpu_type").unwrap_or(0);
    let subtype = report.unsigned("machine.processor.cpu_subtype");
    let arch = values::mach_arch(cpu, subtype.unwrap_or(0)).map(str::to_owned);
    let old = named(report.unsigned("system.architecture"), &processors);
    head.arch = arch.or(old).unwrap_or_default();
    if let Some(identifier) = report.text("application.identifier") {
        if head.app.name.is_empty() {
            head.app.name = identifier.rsplit('.').next().unwrap_or("").to_owned();
        }
        let identifier = ("identifier".into(), Value::Text(identifier));
        head.app.extra.push(identifier);
    }
    if let Some(cores) = report.unsigned("machine.cores") {
        builder.report.vitals.get_or_insert_default().cpu = Some(Cpu {
            cores: Some(cores),
            ..Cpu::default()
        });
    }
}

fn thread_of(builder: &mut ReportBuilder, mut fields: JsonFields) -> Thread {
    let registers = fields.list("registers").into_iter().map(JsonFields::of);
    let registers = registers
        .filter_map(|mut register| register.text("name").zip(register.unsigned("value")))
        .collect();
    let paths = ThreadPaths {
        id: "number",
        crashed: "crashed",
        frames: "frames",
        ..ThreadPaths::NONE
    };
    let mut thread = builder.thread_of(fields, &paths);
    thread.frames.iter_mut().for_each(without_underscore);
    // Proto3 writers leave out a zero.
    (thread.main, thread.registers) = (thread.id == 0, registers);
    thread
}

/// Mach-O symbols begin with an underscore that no language writes.
fn without_underscore(frame: &mut Frame) {
    if let Some(name) = &mut frame.name
        && name.starts_with('_')
    {
        name.remove(0);
    }
}

fn event(builder: &mut ReportBuilder, report: &mut JsonFields) {
    let is_requested = report.bool("info.user_requested") == Some(true);
    let event = builder.event();
    event.fatal = !is_requested;
    event.kind = [EventKind::Crash, EventKind::Live][usize::from(is_requested)];
    if report.has("signal") {
        let kind = report.unsigned("signal.mach.type");
        let codes = report.list("signal.mach.codes");
        event.name = kind.and_then(values::exception_name).map(str::to_owned);
        let name = report.text("signal.name").unwrap_or_default();
        let code = report.text("signal.code");
        let address = report.unsigned("signal.address");
        let mut extra = report.object("signal").into_extra();
        if !codes.is_empty() {
            extra.push(("mach_codes".into(), Value::Array(codes)));
        }
        if !is_requested && let Some(signal) = builder.signal(None, Some(name), None) {
            signal.code_name = code.map(|code| code.trim_start_matches('#').to_owned());
            signal.address = address;
            signal.extra = extra;
        }
    }
    if report.has("exception") {
        let event = builder.event();
        event.name = report.text("exception.name").or(event.name.take());
        event.message = report.text("exception.reason");
        if !is_requested {
            event.kind = EventKind::Exception;
        }
        let mut thread = Thread::default();
        builder.put_frames(&mut thread, report.list("exception.frames"));
        thread.frames.iter_mut().for_each(without_underscore);
        if !thread.frames.is_empty() {
            builder.last_exception(thread);
        }
    }
}

/// The fields of a message by their names, and where it was cut. Those without a name have their numbers.
fn decoded(bytes: &[u8], schema: Schema) -> (Vec<(Value, Value)>, Option<usize>) {
    let mut entries: Vec<(Value, Value)> = Vec::new();
    // Where they have the list of each repeated field.
    let mut lists: FxHashMap<u64, usize> = FxHashMap::default();
    let mut rest = EndianSlice::new(bytes, LittleEndian);
    let mut cut = None;
    while !rest.is_empty() && cut.is_none() {
        let start = bytes.len() - rest.len();
        let Ok((number, wire, is_cut)) = field(&mut rest) else {
            return (entries, Some(start));
        };
        cut = is_cut.then_some(bytes.len());
        let found = schema.iter().find(|(known, ..)| *known == number);
        let kind = found.map(|(_, _, kind)| kind);
        let value = match (kind, wire) {
            (Some(Message(of) | Messages(of)), Wire::Bytes(bytes)) => {
                Value::Map(decoded(bytes, of).0)
            }
            (Some(Id), Wire::Bytes(id)) => Value::Text(hex(id)),
            (_, Wire::Number(n)) => Value::Unsigned(n),
            (_, Wire::Bytes(bytes)) => match String::from_utf8_lossy(bytes) {
                Cow::Owned(_) if !matches!(kind, Some(Text)) => Value::Bytes(bytes.to_vec()),
                text => Value::Text(text.into_owned()),
            },
        };
        let key = found.map_or(format!("field {number}"), |(_, name, _)| (*name).into());
        let key = Value::Text(key);
        if !matches!(
            (kind, wire),
            (Some(Messages(_)), Wire::Bytes(_)) | (Some(Numbers), _)
        ) {
            entries.push((key, value));
            continue;
        }
        let at = *lists.entry(number).or_insert(entries.len());
        match entries.get_mut(at) {
            Some((_, Value::Array(all))) => all.push(value),
            _ => entries.push((key, Value::Array(vec![value]))),
        }
    }
    (entries, cut)
}

/// A field's value.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The number and the value of the next field; true if the message was cut within it, so that its front alone is there.
fn field<'a>(rest: &mut EndianSlice<'a, LittleEndian>) -> gimli::Result<(u64, Wire<'a>, bool)> {
    let tag = rest.read_uleb128()?;
    let mut is_cut = false;
    let value = match tag & 7 {
        0 => Wire::Number(rest.read_uleb128()?),
        1 => Wire::Number(rest.read_u64()?),
        5 => Wire::Number(rest.read_u32()?.into()),
        2 => {
            let len = rest.read_uleb128()?;
            is_cut = len > rest.len() as u64;
            Wire::Bytes(rest.split(rest.len().min(len as usize))?.slice())
        }
        _ => return Err(gimli::Error::UnsupportedOffset),
    };
    Ok((tag >> 3, value, is_cut))
}
