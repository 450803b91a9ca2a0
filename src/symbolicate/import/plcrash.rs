//! PLCrashReporter's `.plcrash`: seven letters, a version byte, and the message `CrashReport` of its
//! `crash_report.proto`, whose field numbers stand here.

use super::draft::{Draft, frame};
use super::fields::Fields;
use super::protobuf::{Message, Wire};
use super::{Layout, values};
use crate::report::time::wall;
use crate::report::{
    Cpu, DamageKind, EventKind, Extra, Frame, Image, Reading, Signal, Thread, Value, Vitals,
};

/// `plcrash` and the version.
const HEADER: usize = 8;

pub(super) fn read(bytes: &[u8]) -> Result<Reading, (usize, &'static str)> {
    match bytes.get(HEADER - 1) {
        Some(1) => {}
        Some(_) => return Err((HEADER - 1, "is a version of the layout other than 1")),
        None => return Err((bytes.len(), "the file ends")),
    }
    let mut draft = Draft::default();
    let mut left: Extra = Vec::new();
    let mut threads = Vec::new();
    let mut signal = None;
    let mut thrown = None;
    let mut user_requested = false;
    let mut fields = Message::new(&bytes[HEADER..]);
    let mut any = false;
    // `system_info`, `application_info` and `signal` are required.
    let mut required = [1, 2, 6].to_vec();
    for (number, value) in fields.by_ref() {
        any = true;
        required.retain(|wanted| *wanted != number);
        let Some(part) = value.bytes() else {
            keep(&mut left, number, value);
            continue;
        };
        match number {
            1 => system(&mut draft, part, &mut left),
            2 => application(&mut draft, part),
            3 => threads.push(part),
            4 => {
                let image = image(part);
                draft.image(image);
            }
            5 => thrown = Some(part),
            6 => signal = Some(part),
            7 => process(&mut draft, part, &mut left),
            8 => machine(&mut draft, part),
            9 => user_requested = info(&mut draft, part),
            _ => keep(&mut left, number, value),
        }
    }
    if !any {
        return Err((HEADER, "the message is empty"));
    }
    if let Some(at) = fields.cut {
        let message = "the protocol buffer can't be read on: it was cut, or its bytes were changed";
        draft.damage(DamageKind::Cut, HEADER + at, message);
    }
    if fields.cut.is_none() && !required.is_empty() {
        let message = "parts that every report has are missing: it was cut between two parts";
        draft.damage(DamageKind::Cut, bytes.len(), message);
    }
    draft.index_images();
    threads.into_iter().for_each(|part| {
        let found = thread(part);
        draft.thread(found);
    });
    let event = draft.event();
    event.kind = if user_requested {
        EventKind::Live
    } else {
        EventKind::Crash
    };
    event.fatal = !user_requested;
    if let Some(part) = signal {
        self::signal(&mut draft, part);
    }
    if let Some(part) = thrown {
        exception(&mut draft, part);
    }
    let left = left
        .into_iter()
        .map(|(key, value)| (Value::Text(key), value));
    Ok(draft.finish(Layout::PlCrash, Fields::of(Value::Map(left.collect()))))
}

/// Keeps a field that has no name here by its number.
fn keep(left: &mut Extra, number: u64, value: Wire<'_>) {
    let value = match value {
        Wire::Number(n) => Value::Unsigned(n),
        Wire::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Bytes(bytes.to_vec()),
        },
    };
    let key = if number == 10 {
        "custom_data".to_owned()
    } else {
        format!("field {number}")
    };
    left.push((key, value));
}

fn system(draft: &mut Draft, part: &[u8], left: &mut Extra) {
    let head = &mut draft.report.head;
    for (number, value) in Message::new(part) {
        match (number, value) {
            (1, Wire::Number(n)) => {
                let names = ["macOS", "iOS", "iOS Simulator", "", "tvOS"];
                let name = usize::try_from(n).ok().and_then(|n| names.get(n));
                head.os.name = name.copied().unwrap_or("").to_owned();
            }
            (2, value) => head.os.version = value.text().unwrap_or_default(),
            (3, Wire::Number(n)) if head.arch.is_empty() => {
                let names = ["x86", "x86_64", "armv6", "ppc", "ppc64", "armv7", ""];
                let name = usize::try_from(n).ok().and_then(|n| names.get(n));
                head.arch = name.copied().unwrap_or("").to_owned();
            }
            (4, Wire::Number(seconds)) => head.time = wall(seconds.saturating_mul(1_000_000_000)),
            (5, value) => head.os.build = value.text(),
            (number, value) => keep(left, number, value),
        }
    }
}

fn application(draft: &mut Draft, part: &[u8]) {
    let (mut identifier, mut build, mut marketing) = (None, None, None);
    for (number, value) in Message::new(part) {
        match number {
            1 => identifier = value.text(),
            2 => build = value.text(),
            3 => marketing = value.text(),
            number => keep(&mut draft.report.head.app.extra, number, value),
        }
    }
    let app = &mut draft.report.head.app;
    app.version = super::ips::joined(marketing, build);
    if let Some(identifier) = identifier {
        if app.name.is_empty() {
            app.name = identifier.rsplit('.').next().unwrap_or("").to_owned();
        }
        app.extra
            .push(("identifier".into(), Value::Text(identifier)));
    }
}

fn process(draft: &mut Draft, part: &[u8], left: &mut Extra) {
    let head = &mut draft.report.head;
    for (number, value) in Message::new(part) {
        match (number, value) {
            (1, value) => head.app.name = value.text().unwrap_or_default(),
            (2, Wire::Number(pid)) => head.pid = pid,
            (3, value) => left.extend(
                value
                    .text()
                    .map(|text| ("process_path".into(), Value::Text(text))),
            ),
            (4, value) => left.extend(
                value
                    .text()
                    .map(|text| ("parent_process".into(), Value::Text(text))),
            ),
            (5, Wire::Number(pid)) => left.push(("parent_pid".into(), Value::Unsigned(pid))),
            (6, Wire::Number(native)) => left.push(("native".into(), Value::Bool(native != 0))),
            (7, Wire::Number(at)) => left.push(("process_start".into(), Value::Unsigned(at))),
            (number, value) => keep(left, number, value),
        }
    }
}

fn machine(draft: &mut Draft, part: &[u8]) {
    for (number, value) in Message::new(part) {
        match (number, value) {
            (1, value) => draft.report.head.device = value.text(),
            (2, Wire::Bytes(processor)) => {
                if let Some(arch) = self::processor(processor) {
                    draft.report.head.arch = arch.to_owned();
                }
            }
            (3, Wire::Number(cores)) => {
                let vitals = draft.report.vitals.get_or_insert_with(Vitals::default);
                vitals.cpu = Some(Cpu {
                    cores: Some(cores),
                    ..Cpu::default()
                });
            }
            (number, value) => keep(&mut draft.report.head.extra, number, value),
        }
    }
}

/// `CPU_TYPE` and `CPU_SUBTYPE` in Mach's encoding.
fn processor(part: &[u8]) -> Option<&'static str> {
    let (mut cpu, mut subtype) = (0, 0);
    for (number, value) in Message::new(part) {
        match (number, value) {
            (2, Wire::Number(n)) => cpu = n,
            (3, Wire::Number(n)) => subtype = n,
            _ => {}
        }
    }
    values::mach_arch(cpu, subtype)
}

/// Reads the report's own facts; returns true if the app requested it.
fn info(draft: &mut Draft, part: &[u8]) -> bool {
    let mut requested = false;
    for (number, value) in Message::new(part) {
        match (number, value) {
            (1, Wire::Number(n)) => requested = n != 0,
            (2, Wire::Bytes(id)) => draft.report.head.id = id.try_into().unwrap_or_default(),
            (number, value) => keep(&mut draft.report.head.extra, number, value),
        }
    }
    requested
}

fn image(part: &[u8]) -> Image {
    let mut image = Image::default();
    for (number, value) in Message::new(part) {
        match (number, value) {
            (1, Wire::Number(base)) => image.base = base,
            (2, Wire::Number(size)) => image.size = size,
            (3, value) => image.name = value.text().unwrap_or_default(),
            (4, Wire::Bytes(id)) => image.id = id.to_vec(),
            (5, Wire::Bytes(part)) => image.arch = processor(part).map(str::to_owned),
            (number, value) => keep(&mut image.extra, number, value),
        }
    }
    image
}

fn thread(part: &[u8]) -> Thread {
    let mut thread: Thread = Thread::default();
    for (number, value) in Message::new(part) {
        match (number, value) {
            (1, Wire::Number(n)) => {
                thread.id = n;
                thread.main = n == 0;
            }
            (2, Wire::Bytes(part)) => thread.frames.push(stack_frame(part)),
            (3, Wire::Number(crashed)) => thread.crashed = crashed != 0,
            (4, Wire::Bytes(part)) => {
                let (mut name, mut found) = (None, None);
                for (number, value) in Message::new(part) {
                    match number {
                        1 => name = value.text(),
                        2 => found = value.number(),
                        _ => {}
                    }
                }
                thread.registers.extend(name.zip(found));
            }
            (number, value) => keep(&mut thread.extra, number, value),
        }
    }
    // Proto3 writers leave out a zero.
    thread.main |= thread.id == 0;
    thread
}

fn stack_frame(part: &[u8]) -> Frame {
    let (mut pc, mut name) = (0, None);
    for (number, value) in Message::new(part) {
        match (number, value) {
            (3, Wire::Number(n)) => pc = n,
            (6, Wire::Bytes(symbol)) => {
                let first = Message::new(symbol).find(|(number, _)| *number == 1);
                name = first.and_then(|(_, value)| value.text());
            }
            _ => {}
        }
    }
    // Mach-O symbols begin with an underscore that no language writes.
    let name = name.map(|name| name.strip_prefix('_').map(str::to_owned).unwrap_or(name));
    frame(pc, None, name)
}

fn signal(draft: &mut Draft, part: &[u8]) {
    let mut signal: Signal = Signal::default();
    let mut codes = Vec::new();
    let mut kind = None;
    for (number, value) in Message::new(part) {
        match (number, value) {
            (1, value) => signal.name = value.text().unwrap_or_default(),
            (2, value) => {
                signal.code_name = value
                    .text()
                    .map(|code| code.trim_start_matches('#').to_owned())
            }
            (3, Wire::Number(address)) => signal.address = Some(address),
            (4, Wire::Bytes(part)) => {
                for (number, value) in Message::new(part) {
                    match (number, value) {
                        (1, Wire::Number(n)) => kind = values::exception_name(n),
                        (2, Wire::Number(code)) => codes.push(Value::Unsigned(code)),
                        _ => {}
                    }
                }
            }
            (number, value) => keep(&mut signal.extra, number, value),
        }
    }
    signal.number = values::signal_number(&signal.name);
    if !codes.is_empty() {
        signal
            .extra
            .push(("mach_codes".into(), Value::Array(codes)));
    }
    let event = draft.event();
    event.name = kind.map(str::to_owned);
    if event.kind == EventKind::Crash {
        event.signal = Some(signal);
    }
}

fn exception(draft: &mut Draft, part: &[u8]) {
    let mut frames = Vec::new();
    for (number, value) in Message::new(part) {
        match (number, value) {
            (1, value) => draft.event().name = value.text(),
            (2, value) => draft.event().message = value.text(),
            (3, Wire::Bytes(part)) => frames.push(stack_frame(part)),
            _ => {}
        }
    }
    if draft.event().fatal {
        draft.event().kind = EventKind::Exception;
    }
    if !frames.is_empty() {
        draft.last_exception(frames);
    }
}
