//! MetricKit's diagnostics: `MXDiagnosticPayload.jsonRepresentation()`, or one diagnostic of it.
//!
//! Two things its documentation leaves open, and how they are decided here:
//!
//! - `offsetIntoBinaryTextSegment` has shipped both as what its name says (the address less the
//!   image's load address) and as the load address itself. See [`base_of`].
//! - Stacks nest through `subFrames`. Where they are given by thread, the outer object is the innermost
//!   frame; where they are sampled and branch, it is the outermost. See [`is_innermost_first`].

mod tree;

use std::collections::BTreeMap;

use self::tree::{TreeNode, flatten, is_innermost_first, paths};
use super::draft::{Draft, frame, keep_frames};
use super::fields::Fields;
use super::ips::joined;
use super::{Layout, values};
use crate::report::time::wall;
use crate::report::{EventKind, Image, Reading, Sample, Signal, Thread, Value, limits};

/// The payload's lists, and what they hold.
const LISTS: [(&str, EventKind); 5] = [
    ("crashDiagnostics", EventKind::Crash),
    ("hangDiagnostics", EventKind::Stall),
    ("cpuExceptionDiagnostics", EventKind::Cpu),
    ("diskWriteExceptionDiagnostics", EventKind::Other),
    ("appLaunchDiagnostics", EventKind::Stall),
];

pub(super) fn read(value: Value) -> Vec<Reading> {
    // An array of payloads, as apps collect them.
    if let Value::Array(payloads) = value {
        return payloads.into_iter().flat_map(read).collect();
    }
    let mut payload = Fields::of(value);
    let time = payload
        .text("timeStampEnd")
        .and_then(|time| values::time(&time));
    let mut readings = Vec::new();
    for (list, kind) in LISTS {
        for diagnostic in payload.list(list) {
            readings.push(one(Fields::of(diagnostic), kind, list, time));
        }
    }
    if readings.is_empty() && (payload.has("callStackTree") || payload.has("callStacks")) {
        let meta = payload.object("diagnosticMetaData");
        let kind = if meta.has("hangDuration") {
            EventKind::Stall
        } else if meta.has("totalCPUTime") {
            EventKind::Cpu
        } else {
            EventKind::Crash
        };
        if payload.has("callStacks") {
            // The bare tree.
            let tree = std::mem::take(&mut payload);
            payload.keep("callStackTree", tree);
        }
        payload.keep("diagnosticMetaData", meta);
        return vec![one(payload, kind, "", time)];
    }
    if let Some(first) = readings.first_mut()
        && !payload.is_empty()
    {
        let left = payload.into_value();
        first
            .report
            .unknown
            .push(("metrickit_payload".into(), left));
    }
    readings
}

fn one(mut fields: Fields, kind: EventKind, list: &str, time: Option<u64>) -> Reading {
    let mut draft = Draft::default();
    draft.report.head.time = wall(time.unwrap_or(0));
    let tree = fields.take("callStackTree");
    let mut meta = fields.object("diagnosticMetaData");
    head(&mut draft, &mut meta);
    event(&mut draft, &mut meta, kind, list);
    if let Some(duration) = meta.text("hangDuration") {
        if let Some(nanoseconds) = values::duration(&duration) {
            draft.lasted(nanoseconds);
        }
        draft
            .event()
            .extra
            .push(("hangDuration".into(), Value::Text(duration)));
    }
    if let Some(tree) = tree {
        stacks(&mut draft, tree, kind);
    }
    fields.keep("diagnosticMetaData", meta);
    draft.finish(Layout::MetricKit, fields)
}

fn head(draft: &mut Draft, meta: &mut Fields) {
    let head = &mut draft.report.head;
    let bundle = meta.text("bundleIdentifier").unwrap_or_default();
    head.app.name = bundle.rsplit('.').next().unwrap_or("").to_owned();
    if !bundle.is_empty() {
        head.app
            .extra
            .push(("identifier".into(), Value::Text(bundle)));
    }
    head.app.version = joined(meta.text("appVersion"), meta.text("appBuildVersion"));
    head.os = values::os(&meta.text("osVersion").unwrap_or_default());
    head.device = meta.text("deviceType");
    head.arch = values::arch(&meta.text("platformArchitecture").unwrap_or_default());
    head.pid = meta.unsigned("pid").unwrap_or(0);
}

fn event(draft: &mut Draft, meta: &mut Fields, kind: EventKind, list: &str) {
    let exception = meta
        .unsigned("exceptionType")
        .and_then(values::exception_name);
    let code = meta.signed("exceptionCode");
    let number = meta.unsigned("signal");
    let region = meta.text("virtualMemoryRegionInfo");
    let event = draft.event();
    event.kind = kind;
    event.fatal = kind == EventKind::Crash;
    event.name = exception.map(str::to_owned);
    event.reason = meta.text("terminationReason");
    if list == "appLaunchDiagnostics" {
        event.class = Some("launch".into());
    } else if kind == EventKind::Other {
        event
            .extra
            .push(("type".into(), Value::Text("disk_write".into())));
    }
    let name = number.and_then(values::signal_name);
    let name = name.or_else(|| values::signal_of_exception(exception?));
    if number.is_some() || name.is_some() {
        event.signal = Some(Signal {
            number: number.unwrap_or_else(|| values::signal_number(name.unwrap_or(""))),
            name: name.map_or_else(|| format!("signal {}", number.unwrap_or(0)), str::to_owned),
            code: code.unwrap_or(0),
            // `0 is not in any region.  Bytes before following region: …`
            address: region
                .as_deref()
                .and_then(|text| values::number(text.split_whitespace().next()?)),
            ..Signal::default()
        });
    }
    if let Some(region) = region {
        event
            .extra
            .push(("virtualMemoryRegionInfo".into(), Value::Text(region)));
    }
    let mut thrown = meta.object("exceptionReason");
    if let Some(message) = thrown.text("composedMessage") {
        event.kind = EventKind::Exception;
        event.message = Some(message);
        event.name = thrown.text("exceptionName").or(event.name.take());
    }
    meta.keep("exceptionReason", thrown);
}

fn stacks(draft: &mut Draft, tree: Value, kind: EventKind) {
    let mut tree = Fields::of(tree);
    let per_thread = tree.bool("callStackPerThread").unwrap_or(true);
    let mut stacks: Vec<(bool, Fields, Vec<TreeNode>)> = Vec::new();
    for stack in tree.list("callStacks") {
        let mut stack = Fields::of(stack);
        let attributed = stack.bool("threadAttributed").unwrap_or(false);
        let nodes = flatten(stack.list("callStackRootFrames"));
        stacks.push((attributed, stack, nodes));
    }
    let images = images(draft, stacks.iter().flat_map(|(_, _, nodes)| nodes));
    let only = stacks.len() == 1;
    for (index, (attributed, left, mut nodes)) in stacks.into_iter().enumerate() {
        for node in &mut nodes {
            if let (0, Some(offset)) = (node.pc, node.offset) {
                // Without an address the offset stands for it, in an image at nought.
                node.pc = offset;
            }
        }
        let innermost_first = is_innermost_first(&nodes, per_thread);
        let mut paths = paths(&nodes, innermost_first);
        let mut thread = Thread {
            id: index as u64,
            crashed: kind == EventKind::Crash && attributed,
            main: kind == EventKind::Stall && (attributed || only),
            extra: left.into_extra(),
            ..Thread::default()
        };
        let total = paths
            .iter()
            .fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let heaviest = paths.iter().max_by_key(|(_, count)| *count);
        if let Some((path, _)) = heaviest {
            let frame = |at: &usize| {
                let node = &nodes[*at];
                frame(node.pc, images.get(&key(node)).copied(), None)
            };
            thread.frames = path.iter().map(frame).collect();
            let sampled = paths.len() > 1 || total > 1;
            if sampled && kind != EventKind::Crash && (attributed || only || !per_thread) {
                paths.truncate(limits::FRAMES);
                for (path, count) in &paths {
                    draft.report.samples.push(Sample {
                        count: (*count).max(1),
                        frames: path.iter().map(frame).collect(),
                        ..Sample::default()
                    });
                }
            }
        }
        let left: Vec<(usize, Fields)> = nodes
            .into_iter()
            .map(|node| node.left)
            .enumerate()
            .collect();
        keep_frames(&mut thread, left);
        draft.thread(thread);
    }
}

/// An image's id and name: all that tells one from another.
type Key = (Vec<u8>, String);

fn key(node: &TreeNode) -> Key {
    (node.id.clone(), node.name.clone())
}

/// The images that frames name, each with the base that its frames agree on.
fn images<'a>(draft: &mut Draft, nodes: impl Iterator<Item = &'a TreeNode>) -> BTreeMap<Key, u32> {
    let mut by_image: BTreeMap<Key, Vec<(u64, u64)>> = BTreeMap::new();
    for node in nodes {
        if node.name.is_empty() && node.id.is_empty() {
            continue;
        }
        let frames = by_image.entry(key(node)).or_default();
        if let Some(offset) = node.offset {
            frames.push((node.pc, offset));
        }
    }
    let mut images = BTreeMap::new();
    for ((id, name), frames) in by_image {
        let base = base_of(&frames);
        let highest = frames.iter().map(|(pc, _)| pc.saturating_sub(base)).max();
        let index = draft.image(Image {
            name: name.clone(),
            id: id.clone(),
            base,
            // As much of it as frames tell.
            size: highest.unwrap_or(0).saturating_add(1),
            ..Image::default()
        });
        images.insert((id, name), index);
    }
    images
}

/// Returns the base at which an image was loaded, from its frames' `address` and `offsetIntoBinaryTextSegment`.
///
/// If the second is an offset, the base is their difference; if it is the load address, it is the base
/// itself. Whichever makes all of the image's frames agree on one base is right; a single frame is
/// decided by which of the two lies on a page, and then by size: no image's text is as long as the
/// address it is loaded at.
fn base_of(frames: &[(u64, u64)]) -> u64 {
    const PAGE: u64 = 0x1000;
    let Some(&(pc, offset)) = frames.iter().find(|(pc, _)| *pc != 0) else {
        return 0;
    };
    let as_offset = pc.wrapping_sub(offset);
    let agree = |base: fn(&(u64, u64)) -> u64| {
        frames
            .iter()
            .all(|f| f.0 == 0 || base(f) == base(&(pc, offset)))
    };
    let offsets_agree = agree(|(pc, offset)| pc.wrapping_sub(*offset)) && offset <= pc;
    let bases_agree = agree(|(_, offset)| *offset) && offset <= pc;
    let distinct = frames.iter().any(|f| f.0 != 0 && f.0 != pc);
    match (offsets_agree, bases_agree) {
        (true, false) if distinct => return as_offset,
        (false, true) if distinct => return offset,
        _ => {}
    }
    match (
        as_offset % PAGE == 0 && offset <= pc,
        offset % PAGE == 0 && offset <= pc,
    ) {
        (true, false) => as_offset,
        (false, true) => offset,
        // The smaller of the two is the offset.
        _ if offset <= pc && as_offset < offset => offset,
        _ => as_offset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_load_addresses_are_distinguished() {
        let (base, a, b) = (0x1_0223_0000u64, 0x64bc, 0x61cc);
        assert_eq!(base_of(&[(base + a, a), (base + b, b)]), base);
        assert_eq!(base_of(&[(base + a, base), (base + b, base)]), base);
        // one frame alone
        assert_eq!(base_of(&[(base + a, a)]), base);
        assert_eq!(base_of(&[(base + a, base)]), base);
        // one frame, at the very start of a page
        assert_eq!(base_of(&[(base + 0x4000, 0x4000)]), base);
        assert_eq!(base_of(&[(base + 0x4000, base)]), base);
        assert_eq!(base_of(&[]), 0);
    }
}
