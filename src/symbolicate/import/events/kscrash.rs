//! KSCrash's JSON, versions 2 and 3 of its layout (`KSCrashReportFields.h` names the keys).

use crate::report::{EventKind, Omitted, Reading, Value};
use crate::symbolicate::import::{
    HeadPaths, JsonFields, Layout, ReportBuilder, ThreadPaths, json, values,
};

const HEAD: HeadPaths = HeadPaths {
    id: "report.id",
    time: "report.timestamp",
    name: "system.process_name|report.process_name|system.CFBundleExecutable|system.CFBundleName",
    version: "system.CFBundleShortVersionString",
    build: "system.CFBundleVersion",
    os_name: "system.system_name",
    os_version: "system.system_version",
    os_build: "system.os_version",
    device: "system.machine|system.model",
    arch: "system.cpu_arch",
    pid: "system.process_id",
    memory: "system.memory.size",
    free_memory: "system.memory.free",
    ..HeadPaths::NONE
};
const THREAD: ThreadPaths = ThreadPaths {
    id: "index",
    name: "name|dispatch_queue",
    crashed: "crashed",
    registers: &["registers.basic", "registers.exception"],
    frames: "backtrace.contents",
    is_numbered: true,
};

pub fn read(mut report: JsonFields) -> Reading {
    let first = match report.take("recrash_report") {
        // As it lay in its file.
        Some(Value::Text(text)) => json::read(text.as_bytes(), 0).map(|read| read.value),
        other => other,
    };
    match first.map(JsonFields::of) {
        Some(first) if first.has("crash") => recrash(first, report),
        _ => read_one(report, JsonFields::default()),
    }
}

/// Reads the report of a crash, during which the recorder crashed, too; that report has the other inside.
fn recrash(mut first: JsonFields, mut second: JsonFields) -> Reading {
    let own = Some(first.list("binary_images")).filter(|images| !images.is_empty());
    let images = own.unwrap_or_else(|| second.list("binary_images"));
    first.push("binary_images", Value::Array(images));
    read_one(first, second)
}

/// Reads a report, and the stacks of a `second` crash that came while it was written.
fn read_one(mut report: JsonFields, mut second: JsonFields) -> Reading {
    let mut builder = ReportBuilder::default();
    builder.head(&mut report, &HEAD);
    builder.images(report.list("binary_images"), Vec::new());
    // A crash while a crash was being reported keeps what there was of the first in here.
    let mut crash = report.object("crash");
    let mut error = crash.object("error");
    event(&mut builder, &mut error);
    builder.event().message = crash.text("diagnosis").or(builder.event().message.take());
    let thrown = crash.list("last_exception_backtrace.contents");
    crash.keep("error", error);
    for thread in threads_of(&mut crash) {
        let mut fields = JsonFields::of(thread);
        let skipped = fields.unsigned("backtrace.skipped").unwrap_or(0);
        let mut thread = builder.thread_of(fields, &THREAD);
        thread.main = thread.id == 0;
        thread.omitted = (skipped > 0).then_some(Omitted {
            at: thread.frames.len() as u64,
            count: skipped,
        });
        // Of an exception it has the stack that threw it, which has no registers.
        let thrown = builder.event().kind == EventKind::Exception;
        if thrown && thread.crashed && thread.registers.is_empty() {
            builder.called(thread)
        } else {
            builder.thread(thread)
        }
    }
    report.keep("crash", crash);
    let had_crashed = builder.report.threads.iter().any(|thread| thread.crashed);
    for thread in threads_of(&mut second.object("crash")) {
        let mut thread = builder.thread_of(JsonFields::of(thread), &THREAD);
        if thread.crashed {
            thread.crashed = !had_crashed;
            thread.name = Some(RECRASH.to_owned());
            builder.thread(thread);
        }
    }
    report.keep("recrash", second);
    builder.thrown(thrown);
    builder.finish(Layout::KsCrash, report)
}

/// Name of the thread that crashed while the report of a crash was written.
const RECRASH: &str = "crash of the recorder, during the report";

fn threads_of(crash: &mut JsonFields) -> Vec<Value> {
    let mut threads = crash.list("threads");
    threads.extend(crash.take("crashed_thread"));
    threads
}

fn event(builder: &mut ReportBuilder, error: &mut JsonFields) {
    let kind = error.text("type").unwrap_or_default();
    let reason = error.text("reason");
    let ended = error.text("termination_reason");
    let address = error.unsigned("address");
    let number = error.unsigned("mach.exception");
    let number = number.and_then(values::exception_name).map(str::to_owned);
    let exception = error.text("mach.exception_name").or(number);
    let number = error.unsigned("signal.signal");
    let name = error.text("signal.name");
    let code = error.signed("signal.code").or(error.signed("mach.code"));
    let code_name = error.text("signal.code_name|mach.code_name");
    let is_signal = matches!(kind.as_str(), "mach" | "signal" | "");
    // Beside an exception is the signal by which it ended the app.
    let is_ended = matches!(kind.as_str(), "nsexception" | "cpp_exception")
        && number.is_some_and(|number| number != 0);
    let exception_of = exception.clone().filter(|_| is_signal);
    if (is_signal || is_ended)
        && let Some(signal) = builder.signal(number, name, exception_of.as_deref())
    {
        signal.code = code.unwrap_or(0);
        signal.code_name = code_name;
        signal.address = address.filter(|_| kind != "signal" || address != Some(0));
    }
    let is_of_memory = matches!(ended.as_deref(), Some("memory_limit" | "memory_pressure"));
    let event = builder.event();
    event.kind = match kind.as_str() {
        "nsexception" | "cpp_exception" | "user" | "user_reported" => EventKind::Exception,
        "deadlock" | "hang" | "main_thread_deadlock" => EventKind::Stall,
        "memory_termination" => EventKind::Memory,
        _ if is_of_memory => EventKind::Memory,
        _ => EventKind::Crash,
    };
    let is_fatal = !kind.starts_with("user") && kind != "hang";
    event.fatal = error.bool("is_fatal").unwrap_or(is_fatal);
    event.reason = reason.clone().or(ended);
    event.name = exception;
    for key in ["nsexception", "cpp_exception", "user_reported"] {
        if let Some(name) = error.text(&format!("{key}.name")) {
            event.name = Some(name);
            let own = error.text(&format!("{key}.reason"));
            event.message = own.or_else(|| reason.clone());
        }
    }
    if let Some(start) = error.unsigned("hang.hang_start_nanos") {
        event.kind = EventKind::Stall;
        // While it lasts, its end is 0.
        let end = error.unsigned("hang.hang_end_nanos");
        if let Some(lasted) = end.and_then(|end| end.checked_sub(start)) {
            builder.lasted(lasted);
        }
    }
}
