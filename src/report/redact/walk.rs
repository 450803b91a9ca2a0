//! Goes over every text and every value of free form.

use crate::report::model::{Extra, Report, Value};

/// Calls `each` on every text that comes from the app, the system or the user.
pub(super) fn each_text(report: &mut Report, each: &mut dyn FnMut(&mut String)) {
    let head = &mut report.head;
    for text in [
        &mut head.app.name,
        &mut head.app.version,
        &mut head.os.name,
        &mut head.os.version,
    ] {
        each(text);
    }
    let texts = head.os.build.iter_mut().chain(&mut head.device);
    texts.for_each(&mut *each);
    if let Some(event) = &mut report.event {
        let texts = [
            &mut event.reason,
            &mut event.name,
            &mut event.message,
            &mut event.location,
        ];
        texts.into_iter().flatten().for_each(&mut *each);
        let watched = event.watched.iter_mut();
        watched.for_each(|watched| each(&mut watched.name));
    }
    if let Some(end) = &mut report.stall_end {
        end.reason.iter_mut().for_each(&mut *each);
    }
    for thread in &mut report.threads {
        let texts = [&mut thread.name, &mut thread.syscall];
        texts.into_iter().flatten().for_each(&mut *each);
    }
    let threads = report.threads.iter_mut().map(|thread| &mut thread.frames);
    let samples = report.samples.iter_mut().map(|sample| &mut sample.frames);
    for frame in threads.chain(samples).flatten() {
        frame.name.iter_mut().for_each(&mut *each);
    }
    for image in &mut report.images {
        each(&mut image.name);
    }
    each_extra(report, &mut |extra| {
        extra.iter_mut().for_each(|(key, _)| each(key));
    });
    if let Some(context) = &mut report.context {
        let breadcrumbs = context.breadcrumbs.iter_mut();
        breadcrumbs.for_each(|(_, text)| each(text));
        context.gauges.iter_mut().for_each(|(name, _)| each(name));
        context.marks.iter_mut().for_each(|(name, ..)| each(name));
    }
    each_value(report, &mut |value| {
        if let Value::Text(text) = value {
            each(text);
        }
    });
}

/// Calls `each` on every list of keys and values of free form.
pub(super) fn each_extra(report: &mut Report, each: &mut dyn FnMut(&mut Extra)) {
    let mut extras: Vec<&mut Extra> = vec![
        &mut report.head.extra,
        &mut report.head.app.extra,
        &mut report.head.os.extra,
    ];
    if let Some(event) = &mut report.event {
        extras.push(&mut event.extra);
        extras.extend(event.signal.iter_mut().map(|found| &mut found.extra));
        extras.extend(event.watched.iter_mut().map(|found| &mut found.extra));
        extras.extend(event.thresholds.iter_mut().map(|found| &mut found.extra));
    }
    extras.extend(report.threads.iter_mut().map(|found| &mut found.extra));
    extras.extend(report.images.iter_mut().map(|found| &mut found.extra));
    extras.extend(report.samples.iter_mut().map(|found| &mut found.extra));
    if let Some(vitals) = &mut report.vitals {
        extras.push(&mut vitals.extra);
        extras.extend(vitals.cpu.iter_mut().map(|found| &mut found.extra));
        extras.extend(vitals.memory.iter_mut().map(|found| &mut found.extra));
    }
    if let Some(context) = &mut report.context {
        extras.push(&mut context.keys);
        extras.push(&mut context.extra);
    }
    extras.extend(report.memory.iter_mut().map(|found| &mut found.extra));
    extras.extend(report.stall_end.iter_mut().map(|found| &mut found.extra));
    if let Some(capture) = &mut report.capture {
        extras.push(&mut capture.extra);
    }
    extras.extend(report.loss.iter_mut().map(|found| &mut found.extra));
    extras.extend(report.end.iter_mut().map(|found| &mut found.extra));
    extras.into_iter().for_each(each);
}

/// Calls `each` on every value of free form, and on those within it.
pub(super) fn each_value(report: &mut Report, each: &mut dyn FnMut(&mut Value)) {
    each_extra(report, &mut |extra| {
        extra.iter_mut().for_each(|(_, value)| walk(value, each));
    });
    let unknown = report.unknown.iter_mut();
    unknown.for_each(|(_, value)| walk(value, each));
}

fn walk(value: &mut Value, each: &mut dyn FnMut(&mut Value)) {
    each(value);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, each)),
        Value::Map(pairs) => pairs.iter_mut().for_each(|(key, item)| {
            walk(key, each);
            walk(item, each);
        }),
        _ => {}
    }
}
