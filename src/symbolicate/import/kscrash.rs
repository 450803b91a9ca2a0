//! KSCrash's JSON, versions 2 and 3 of its layout (`KSCrashReportFields.h` names the keys).

use super::draft::{Draft, frame, keep_frames};
use super::fields::Fields;
use super::ips::joined;
use super::{Layout, values};
use crate::report::time::wall;
use crate::report::{EventKind, Image, Omitted, Reading, Signal, Thread, Value};

pub(super) fn read(mut report: Fields) -> Reading {
    let mut draft = Draft::default();
    // A crash while a crash was being reported keeps what there was of the first in here.
    let mut crash = report.object("crash");
    head(&mut draft, &mut report);
    for image in report.list("binary_images") {
        let image = image_of(Fields::of(image));
        draft.image(image);
    }
    draft.index_images();
    let mut error = crash.object("error");
    event(&mut draft, &mut error);
    draft.event().message = crash.text("diagnosis").or(draft.event().message.take());
    crash.keep("error", error);
    let mut threads = crash.list("threads");
    threads.extend(crash.take("crashed_thread"));
    for thread in threads {
        let thread = thread_of(Fields::of(thread));
        draft.thread(thread);
    }
    report.keep("crash", crash);
    draft.finish(Layout::KsCrash, report)
}

fn head(draft: &mut Draft, report: &mut Fields) {
    let mut info = report.object("report");
    let mut system = report.object("system");
    let head = &mut draft.report.head;
    head.id = values::report_id(&info.text("id").unwrap_or_default());
    // Seconds, microseconds (a number above 10^12), or words.
    head.time = wall(match info.take("timestamp") {
        Some(Value::Unsigned(n)) if n > 1_000_000_000_000 => n.saturating_mul(1_000),
        Some(Value::Unsigned(n)) => n.saturating_mul(1_000_000_000),
        Some(Value::Text(text)) => values::time(&text).unwrap_or(0),
        _ => 0,
    });
    let process = system
        .text("process_name")
        .or_else(|| info.text("process_name"));
    let bundle = system
        .text("CFBundleExecutable")
        .or_else(|| system.text("CFBundleName"));
    head.app.name = process.or(bundle).unwrap_or_default();
    let version = system.text("CFBundleShortVersionString");
    head.app.version = joined(version, system.text("CFBundleVersion"));
    head.os.name = system.text("system_name").unwrap_or_default();
    head.os.version = system.text("system_version").unwrap_or_default();
    head.os.build = system.text("os_version");
    head.device = system.text("machine").or_else(|| system.text("model"));
    head.arch = values::arch(&system.text("cpu_arch").unwrap_or_default());
    head.pid = system.unsigned("process_id").unwrap_or(0);
    let mut memory = system.object("memory");
    draft.device_memory(memory.unsigned("size"), memory.unsigned("free"));
    system.keep("memory", memory);
    report.keep("report", info);
    report.keep("system", system);
}

fn event(draft: &mut Draft, error: &mut Fields) {
    let kind = error.text("type").unwrap_or_default();
    let mut mach = error.object("mach");
    let mut signal = error.object("signal");
    let reason = error.text("reason");
    let address = error.unsigned("address");
    let number = mach.unsigned("exception").and_then(values::exception_name);
    let exception = mach.text("exception_name").or(number.map(str::to_owned));
    let code_name = mach.text("code_name");
    let code = mach.signed("code");
    let event = draft.event();
    event.kind = match kind.as_str() {
        "nsexception" | "cpp_exception" => EventKind::Exception,
        "deadlock" | "hang" | "main_thread_deadlock" => EventKind::Stall,
        "memory_termination" => EventKind::Memory,
        "user" | "user_reported" => EventKind::Exception,
        _ => EventKind::Crash,
    };
    event.fatal = !kind.starts_with("user");
    event.reason = reason.clone();
    event.name = exception.clone();
    let signal_name = signal.text("name").or_else(|| {
        let number = signal.unsigned("signal")?;
        values::signal_name(number).map(str::to_owned)
    });
    if matches!(kind.as_str(), "mach" | "signal" | "")
        && let Some(name) = signal_name
            .or_else(|| values::signal_of_exception(exception.as_deref()?).map(str::to_owned))
    {
        event.signal = Some(Signal {
            number: signal
                .unsigned("signal")
                .unwrap_or_else(|| values::signal_number(&name)),
            name,
            code: signal.signed("code").or(code).unwrap_or(0),
            code_name: signal.text("code_name").or(code_name),
            address: address.filter(|_| kind != "signal" || address != Some(0)),
            extra: Vec::new(),
        });
    }
    for key in ["nsexception", "cpp_exception", "user_reported"] {
        let mut thrown = error.object(key);
        if let Some(name) = thrown.text("name") {
            event.name = Some(name);
            event.message = thrown.text("reason").or_else(|| reason.clone());
        }
        error.keep(key, thrown);
    }
    let mut hang = error.object("hang");
    if let (Some(start), Some(end)) = (
        hang.unsigned("hang_start_nanos"),
        hang.unsigned("hang_end_nanos"),
    ) {
        event.kind = EventKind::Stall;
        draft.lasted(end.saturating_sub(start));
    }
    error.keep("hang", hang);
    error.keep("mach", mach);
    error.keep("signal", signal);
}

fn image_of(mut fields: Fields) -> Image {
    let cpu = fields.unsigned("cpu_type").unwrap_or(0);
    let subtype = fields.unsigned("cpu_subtype").unwrap_or(0);
    Image {
        name: fields.text("name").unwrap_or_default(),
        id: values::id(&fields.text("uuid").unwrap_or_default()),
        base: fields.unsigned("image_addr").unwrap_or(0),
        stated: fields.unsigned("image_vmaddr").unwrap_or(0),
        size: fields.unsigned("image_size").unwrap_or(0),
        arch: values::mach_arch(cpu, subtype).map(str::to_owned),
        extra: fields.into_extra(),
        ..Image::default()
    }
}

fn thread_of(mut fields: Fields) -> Thread {
    let mut backtrace = fields.object("backtrace");
    let mut registers = fields.object("registers");
    let queue = fields.text("dispatch_queue");
    let index = fields.unsigned("index").unwrap_or(0);
    let mut thread: Thread = Thread {
        id: index,
        main: index == 0,
        name: fields.text("name").or(queue),
        crashed: fields.bool("crashed").unwrap_or(false),
        state: fields.text("state"),
        registers: numbers(&mut registers, "basic"),
        ..Thread::default()
    };
    thread
        .registers
        .extend(numbers(&mut registers, "exception"));
    let skipped = backtrace.unsigned("skipped").unwrap_or(0);
    let mut left = Vec::new();
    for (at, value) in backtrace.list("contents").into_iter().enumerate() {
        let mut fields = Fields::of(value);
        let pc = fields.unsigned("instruction_addr").unwrap_or(0);
        let name = fields.text("symbol_name");
        thread.frames.push(frame(pc, None, name));
        left.push((at, fields));
    }
    if skipped > 0 {
        thread.omitted = Some(Omitted {
            at: thread.frames.len() as u64,
            count: skipped,
        });
    }
    fields.keep("backtrace", backtrace);
    fields.keep("registers", registers);
    thread.extra = fields.into_extra();
    keep_frames(&mut thread, left);
    thread
}

fn numbers(registers: &mut Fields, key: &str) -> Vec<(String, u64)> {
    let known = registers.object(key).into_extra().into_iter();
    known
        .filter_map(|(name, value)| Some((name, super::fields::unsigned(&value)?)))
        .collect()
}
