//! Apple's `.ips` of crashes: "Interpreting the JSON format of a crash report" in Apple's
//! documentation, and what its files show beyond it.

use super::draft::Draft;
use super::fields::{Fields, unsigned};
use super::parts::{HeadPaths, ThreadPaths};
use super::{Layout, values};
use crate::report::{EventKind, Reading, Value};

const HEAD: HeadPaths = HeadPaths {
    id: "incident|header.incident_id",
    time: "captureTime|header.timestamp",
    name: "procName|header.app_name|header.name",
    version: "bundleInfo.CFBundleShortVersionString|header.app_version",
    build: "bundleInfo.CFBundleVersion|header.build_version",
    os: "osVersion.train|header.os_version",
    os_build: "osVersion.build",
    device: "modelCode",
    arch: "cpuType",
    pid: "pid",
    ..HeadPaths::NONE
};
const THREAD: ThreadPaths = ThreadPaths {
    id: "id",
    name: "name|queue",
    crashed: "triggered",
    registers: &["threadState"],
    frames: "frames",
};

/// Reads a body, in which the line before it stands as `header`.
pub(super) fn read(mut body: Fields) -> Reading {
    let mut draft = Draft::default();
    draft.head(&mut body, &HEAD);
    let head = &mut draft.report.head;
    let full = body.text("header.os_version");
    let build = full.and_then(|full| values::os(&full).build);
    head.os.build = head.os.build.take().or(build);
    head.app.extra = body.object("bundleInfo").into_extra();
    head.os.extra = body.object("osVersion").into_extra();
    draft.images(body.list("usedImages"));
    event(&mut draft, &mut body);
    let faulting = body.unsigned("faultingThread");
    for (index, thread) in body.list("threads").into_iter().enumerate() {
        let mut thread = draft.thread_of(Fields::of(thread), &THREAD);
        thread.main = index == 0;
        thread.crashed |= faulting == Some(index as u64);
        draft.thread(thread);
    }
    // All of them return addresses of calls that led to where it was thrown. They, not the abort that followed,
    // say what happened.
    draft.thrown(body.list("lastExceptionBacktrace"));
    draft.finish(Layout::Ips, body)
}

fn event(draft: &mut Draft, body: &mut Fields) {
    let raw = body.take("exception.rawCodes");
    let codes: Vec<u64> = match &raw {
        Some(Value::Array(codes)) => codes.iter().filter_map(unsigned).collect(),
        _ => Vec::new(),
    };
    let subtype = body.text("exception.subtype");
    let kind = body.text("exception.type");
    let event = draft.event();
    event.kind = EventKind::Crash;
    event.fatal = true;
    event.reason = body.text("termination.indicator");
    event.name.clone_from(&kind);
    let mut thrown = body.object("exceptionReason");
    if !thrown.is_empty() {
        event.kind = EventKind::Exception;
        event.name = thrown.text("name").or(event.name.take());
    }
    let message = thrown.text("composed_message");
    event.message = message.or_else(|| application_message(body));
    body.keep("exceptionReason", thrown);
    if let Some(signal) = draft.signal(None, body.text("exception.signal"), kind.as_deref()) {
        signal.code = codes.first().map_or(0, |code| *code as i64);
        signal.code_name = subtype.as_deref().and_then(code_name);
        signal.address = fault_address(kind.as_deref(), subtype.as_deref(), &codes);
    }
    let subtype = subtype.map(|text| ("subtype".to_owned(), Value::Text(text)));
    let raw = raw.map(|raw| ("raw_codes".to_owned(), raw));
    let extra = &mut draft.event().extra;
    extra.extend(subtype.into_iter().chain(raw));
}

/// `KERN_INVALID_ADDRESS` of `KERN_INVALID_ADDRESS at 0x0000000000000010`.
pub(super) fn code_name(subtype: &str) -> Option<String> {
    let word = subtype.split_whitespace().next()?;
    let is_name = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
    (word.len() > 3 && word.bytes().all(is_name)).then(|| word.to_owned())
}

pub(super) fn fault_address(
    kind: Option<&str>,
    subtype: Option<&str>,
    codes: &[u64],
) -> Option<u64> {
    let named = subtype.and_then(|text| text.split(" at ").nth(1));
    let named = named.and_then(|text| values::number(text.split_whitespace().next()?));
    named.or_else(|| match kind {
        Some("EXC_BAD_ACCESS") => codes.get(1).copied(),
        _ => None,
    })
}

/// `asi`: by image, the lines that libraries left for the report.
fn application_message(body: &mut Fields) -> Option<String> {
    let asi = body.take("asi")?;
    let mut lines = Vec::new();
    for (_, texts) in Fields::of(asi).into_extra() {
        if let Value::Array(texts) = texts {
            lines.extend(texts.into_iter().filter_map(|text| match text {
                Value::Text(text) => Some(text),
                _ => None,
            }));
        }
    }
    Some(lines.join("\n")).filter(|message| !message.is_empty())
}
