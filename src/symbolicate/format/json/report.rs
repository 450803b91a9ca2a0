//! A report as a JSON value.

use serde_json::{Map, Value as Json, json};

use super::FrameJson;
use super::value::{Object, bytes_hex, extended, hex, value_json};
use crate::report::model::{Report, Thread};
use crate::symbolicate::format::Style;
use crate::symbolicate::frame::{Frame, PhysicalFrame, Stack, Symbolicated, id_text};
use crate::symbolicate::group::{Member, RECIPE, key_text};

fn frames_json(frames: &[Frame], style: &Style) -> Json {
    let frames = frames
        .iter()
        .map(|frame| json!(FrameJson::new(frame, style)));
    frames.collect()
}

/// Everything that the report says, with names.
pub(super) fn report_json(origin: &str, symbolicated: &Symbolicated, style: &Style) -> Json {
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
    top.put("group_recipe", RECIPE);
    let threads = report.threads.iter().zip(&symbolicated.threads);
    top.put(
        "threads",
        threads
            .map(|(thread, stack)| thread_json(thread, stack, style))
            .collect::<Json>(),
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
                "omitted": omitted_json(stack),
                "end": sample.end_word(),
            });
            extended(facts, &sample.extra)
        });
    top.put("samples", samples.collect::<Json>());
    top.put("images", images_json(report));
    top.put("vitals", vitals_json(report));
    top.put("context", context_json(report));
    let memory = report.memory.iter().map(|near| {
        let facts = json!({
            "of": near.of,
            "at": hex(near.at),
            "text": near.text,
            "bytes": (!near.bytes.is_empty()).then(|| bytes_hex(&near.bytes)),
        });
        extended(facts, &near.extra)
    });
    top.put("memory", memory.collect::<Json>());
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
                .map(|(reason, count)| (reason.clone(), Json::from(*count)))
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
    top.put("unknown", unknown.collect::<Json>());
    let missing = symbolicated.missing.iter().map(|missing| {
        json!({
            "name": missing.name,
            "id": id_text(&missing.id),
            "arch": missing.arch,
            "symbols": missing.symbols,
            "split": missing.split,
            "system": missing.system,
            "others": missing.others.iter().map(|id| id_text(id)).collect::<Vec<_>>(),
        })
    });
    top.put("missing", missing.collect::<Json>());
    top.put("damage", symbolicated.damage.clone());
    Json::Object(top.0)
}

fn event_json(report: &Report) -> Option<Json> {
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
        "type": event.word(),
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

fn thread_json(thread: &Thread, stack: &Stack, style: &Style) -> Json {
    let registers = thread
        .registers
        .iter()
        .map(|(name, value)| (name.clone(), Json::from(hex(*value))));
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
        "omitted": omitted_json(stack),
        "end": thread.end_word(),
    });
    extended(facts, &thread.extra)
}

fn stack_json(stack: &Stack, style: &Style) -> Json {
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

/// Where frames are missing, as the index of the frame behind them, and how many.
fn omitted_json(stack: &Stack) -> Option<Json> {
    let gap = stack.omitted?;
    Some(json!({"at": gap.at, "count": gap.count}))
}

fn images_json(report: &Report) -> Json {
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

fn vitals_json(report: &Report) -> Option<Json> {
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
    Some(Json::Object(object.0))
}

fn context_json(report: &Report) -> Option<Json> {
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
        "breadcrumbs": breadcrumbs.collect::<Json>(),
        "gauges": gauges,
        "marks": marks.collect::<Json>(),
    });
    Some(extended(facts, &context.extra))
}
