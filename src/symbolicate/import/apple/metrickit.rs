//! MetricKit's diagnostics: `MXDiagnosticPayload.jsonRepresentation()`, or one diagnostic of it.
//!
//! Two things its documentation leaves open, and how they are decided here:
//!
//! - `offsetIntoBinaryTextSegment` has shipped both as what its name says (the address less the
//!   image's load address) and as the load address itself. See [`base_of`].
//! - Stacks nest through `subFrames`. Where they are given by thread, the outer object is the innermost
//!   frame; where they are sampled and branch, it is the outermost. See [`is_innermost_first`].

use std::collections::BTreeMap;

use super::exception;
use crate::report::time::wall;
use crate::report::{EventKind, Image, Reading, StallClass, Thread, Value};
use crate::symbolicate::import::{
    HeadPaths, JsonFields, Layout, ReportBuilder, SampleNode, SampleTree, frame, values,
};

const HEAD: HeadPaths = HeadPaths {
    name: "diagnosticMetaData.bundleIdentifier",
    version: "diagnosticMetaData.appVersion",
    build: "diagnosticMetaData.appBuildVersion",
    os: "diagnosticMetaData.osVersion",
    device: "diagnosticMetaData.deviceType",
    arch: "diagnosticMetaData.platformArchitecture",
    pid: "diagnosticMetaData.pid",
    ..HeadPaths::NONE
};

/// The payload's lists, what they hold, and the key that tells a diagnostic of it without its list.
#[rustfmt::skip]
const LISTS: [(&str, EventKind, &str); 5] = [
    ("crashDiagnostics", EventKind::Crash, ""),
    ("hangDiagnostics", EventKind::Stall, "hangDuration"),
    ("cpuExceptionDiagnostics", EventKind::Cpu, "totalCPUTime"),
    ("diskWriteExceptionDiagnostics", EventKind::Other, "writesCaused"),
    ("appLaunchDiagnostics", EventKind::Stall, "launchDuration"),
];

/// The keys under which a hang and a launch have their duration.
const DURATIONS: [&str; 2] = ["hangDuration", "launchDuration"];

/// Returns true if an object has a tree of stacks: by itself, as a diagnostic, or in a list of diagnostics.
pub fn has_tree<'a>(get: &dyn Fn(&str) -> Option<&'a Value>) -> bool {
    let is_diagnostic = |value: &Value| match value {
        Value::Map(entries) => JsonFields::get_in(entries, "callStackTree").is_some(),
        _ => false,
    };
    let mut lists = LISTS.iter().filter_map(|(list, ..)| get(list));
    matches!(get("callStackTree"), Some(Value::Map(_)))
        || matches!(get("callStacks"), Some(Value::Array(_)))
        || lists.any(|list| matches!(list, Value::Array(all) if all.iter().any(is_diagnostic)))
}

pub fn read(mut payload: JsonFields) -> Vec<Reading> {
    let time = payload.text("timeStampEnd");
    let time = time.and_then(|time| values::time(&time));
    let mut readings = Vec::new();
    for (list, kind, _) in LISTS {
        for diagnostic in payload.list(list) {
            readings.push(read_one(JsonFields::of(diagnostic), kind, list, time));
        }
    }
    if readings.is_empty() && (payload.has("callStackTree") || payload.has("callStacks")) {
        let meta = payload.object("diagnosticMetaData");
        let list = LISTS.into_iter().find(|(.., key)| meta.has(key));
        let (list, kind, _) = list.unwrap_or(LISTS[0]);
        if payload.has("callStacks") {
            // The bare tree.
            payload = JsonFields::one("callStackTree", payload.into_raw());
        }
        payload.keep("diagnosticMetaData", meta);
        return vec![read_one(payload, kind, list, time)];
    }
    if let Some(first) = readings.first_mut()
        && !payload.is_empty()
    {
        let left = ("metrickit_payload".into(), payload.into_value());
        first.report.unknown.push(left);
    }
    readings
}

fn read_one(mut fields: JsonFields, kind: EventKind, list: &str, time: Option<u64>) -> Reading {
    let mut builder = ReportBuilder::default();
    builder.head(&mut fields, &HEAD);
    let head = &mut builder.report.head;
    head.time = wall(time.unwrap_or(0));
    let bundle = std::mem::take(&mut head.app.name);
    head.app.name = bundle.rsplit('.').next().unwrap_or("").to_owned();
    if !bundle.is_empty() {
        let bundle = ("identifier".into(), Value::Text(bundle));
        head.app.extra.push(bundle);
    }
    let tree = fields.take("callStackTree");
    event(&mut builder, &mut fields, kind, list);
    for key in DURATIONS {
        if let Some(duration) = fields.text(&format!("diagnosticMetaData.{key}")) {
            if let Some(nanoseconds) = values::duration(&duration) {
                builder.lasted(nanoseconds);
            }
            let duration = (key.into(), Value::Text(duration));
            builder.event().extra.push(duration);
        }
    }
    if let Some(tree) = tree {
        threads(&mut builder, tree, kind);
    }
    builder.finish(Layout::MetricKit, fields)
}

fn event(builder: &mut ReportBuilder, fields: &mut JsonFields, kind: EventKind, list: &str) {
    let mut meta = fields.object("diagnosticMetaData");
    let exception = meta.unsigned("exceptionType");
    let exception = exception.and_then(values::exception_name);
    let code = meta.signed("exceptionCode");
    let number = meta.unsigned("signal");
    let region = meta.text("virtualMemoryRegionInfo");
    let unknown = number.filter(|number| values::signal_name(*number, false).is_none());
    let unknown = unknown.filter(|_| exception.and_then(values::signal_of_exception).is_none());
    let unknown = unknown.map(|number| format!("signal {number}"));
    if let Some(signal) = builder.signal(number, unknown, exception) {
        signal.code = code.unwrap_or(0);
        // `0 is not in any region.  Bytes before following region: …`
        let words = region.as_deref().unwrap_or("");
        let address = words.split_whitespace().next();
        signal.address = address.and_then(values::number);
    }
    let event = builder.event();
    event.kind = kind;
    event.fatal = kind == EventKind::Crash;
    event.name = exception.map(str::to_owned);
    let reason = meta.text("terminationReason");
    let reason = reason.map(|reason| exception::with_known_code(&reason));
    exception::set_reason(event, reason);
    let mut extra = |key: &str, text: String| event.extra.push((key.into(), Value::Text(text)));
    if list == "appLaunchDiagnostics" {
        event.class = Some(StallClass::Launch);
    } else if kind == EventKind::Other {
        extra("type", "disk writes".into());
    }
    if let Some(region) = region {
        extra("virtualMemoryRegionInfo", region);
    }
    let mut thrown = meta.object("objectiveCexceptionReason|exceptionReason");
    if !thrown.is_empty() {
        event.kind = EventKind::Exception;
        event.message = thrown.text("composedMessage");
        event.name = thrown.text("exceptionName").or(event.name.take());
        meta.keep("objectiveCexceptionReason", thrown);
    }
    fields.keep("diagnosticMetaData", meta);
}

fn threads(builder: &mut ReportBuilder, tree: Value, kind: EventKind) {
    let mut tree = JsonFields::of(tree);
    let per_thread = tree.bool("callStackPerThread").unwrap_or(true);
    let mut trees: Vec<(bool, JsonFields, Vec<TreeNode>)> = Vec::new();
    for stack in tree.list("callStacks") {
        let mut stack = JsonFields::of(stack);
        let attributed = stack.bool("threadAttributed").unwrap_or(false);
        let nodes = flatten(stack.list("callStackRootFrames"));
        trees.push((attributed, stack, nodes));
    }
    let images = images(builder, trees.iter().flat_map(|(_, _, nodes)| nodes));
    let only = trees.len() == 1;
    for (index, (attributed, left, tree)) in trees.into_iter().enumerate() {
        let mut thread: Thread = Thread {
            id: index as u64,
            crashed: kind == EventKind::Crash && attributed,
            main: kind == EventKind::Stall && (attributed || only),
            extra: left.into_extra(),
            ..Thread::default()
        };
        let innermost_first = is_innermost_first(&tree, per_thread);
        let mut nodes = Vec::with_capacity(tree.len());
        for (at, placed) in tree.into_iter().enumerate() {
            let mut node = placed.node;
            // Without an address the offset replaces it, in an image at nought.
            if node.frame.pc == 0 {
                node.frame.pc = placed.offset.unwrap_or(0);
            }
            node.frame.image = images.get(&placed.image).copied();
            // Of a chain from the innermost frame outwards the object outside has the count.
            if innermost_first {
                node.count *= u64::from(node.parent.is_none());
                node.parent = (placed.children > 0).then_some(at + 1);
            }
            nodes.push(node);
        }
        let mut stacks = SampleTree::new(nodes);
        stacks.heaviest(&mut thread);
        let sampled = stacks.ends.len() > 1 || stacks.ends.iter().any(|(_, count)| *count > 1);
        if sampled && kind != EventKind::Crash && (attributed || only || !per_thread) {
            builder.samples(&stacks, 0);
        }
        builder.thread(thread);
    }
}

/// A node of the tree, flattened: its parent is before it.
struct TreeNode {
    node: SampleNode,
    children: usize,
    offset: Option<u64>,
    image: Key,
}

/// The tree without recursion, and its frames without their `subFrames`.
fn flatten(roots: Vec<Value>) -> Vec<TreeNode> {
    let mut nodes: Vec<TreeNode> = Vec::new();
    let roots = roots.into_iter().rev();
    let mut open: Vec<(Option<usize>, Value)> = roots.map(|root| (None, root)).collect();
    while let Some((parent, value)) = open.pop() {
        let mut left = JsonFields::of(value);
        let below = left.list("subFrames");
        let at = nodes.len();
        let id = values::id(&left.text("binaryUUID").unwrap_or_default());
        let pc = left.unsigned("address").unwrap_or(0);
        let count = left.unsigned("sampleCount").unwrap_or(1).max(1);
        let offset = left.unsigned("offsetIntoBinaryTextSegment");
        let image = (id, left.text("binaryName").unwrap_or_default());
        let node = SampleNode {
            parent,
            count,
            frame: frame(pc, None, None),
            left,
            ..SampleNode::default()
        };
        nodes.push(TreeNode {
            node,
            children: below.len(),
            offset,
            image,
        });
        open.extend(below.into_iter().rev().map(|v| (Some(at), v)));
    }
    nodes
}

/// Returns true if the outermost object is the innermost frame.
///
/// A branching tree grows from its outermost frame. In a chain, the images at its ends tell: threads
/// begin in `dyld` or `libsystem_pthread`, and wait in `libsystem_kernel`. Else, stacks by thread are
/// innermost first, and sampled ones outermost first.
fn is_innermost_first(nodes: &[TreeNode], per_thread: bool) -> bool {
    if nodes.iter().any(|node| node.children > 1) {
        return false;
    }
    let starts = ["dyld", "libdyld.dylib", "libsystem_pthread.dylib"];
    let starts = |node: &TreeNode| starts.contains(&node.image.1.as_str());
    let waits = |node: &TreeNode| node.image.1 == "libsystem_kernel.dylib";
    match nodes {
        [outer, .., inner] if waits(outer) || (starts(inner) && !starts(outer)) => true,
        [outer, .., inner] if waits(inner) || (starts(outer) && !starts(inner)) => false,
        _ => per_thread,
    }
}

/// An image's id and name: all that tells one from another.
type Key = (Vec<u8>, String);

/// The images that frames name, each with the base that its frames agree on.
fn images<'a>(
    builder: &mut ReportBuilder,
    nodes: impl Iterator<Item = &'a TreeNode>,
) -> BTreeMap<Key, u32> {
    let mut by_image: BTreeMap<Key, Vec<(u64, u64)>> = BTreeMap::new();
    for node in nodes.filter(|node| node.image != Key::default()) {
        let frames = by_image.entry(node.image.clone()).or_default();
        let offset = node.offset.map(|offset| (node.node.frame.pc, offset));
        frames.extend(offset);
    }
    let mut images = BTreeMap::new();
    for ((id, name), frames) in by_image {
        let base = base_of(&frames);
        let highest = frames.iter().map(|(pc, _)| pc.saturating_sub(base)).max();
        let index = builder.image(Image {
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
        let mut frames = frames.iter();
        frames.all(|f| f.0 == 0 || base(f) == base(&(pc, offset)))
    };
    let offsets_agree = agree(|(pc, offset)| pc.wrapping_sub(*offset)) && offset <= pc;
    let bases_agree = agree(|(_, offset)| *offset) && offset <= pc;
    let distinct = frames.iter().any(|f| f.0 != 0 && f.0 != pc);
    match (offsets_agree, bases_agree) {
        (true, false) if distinct => return as_offset,
        (false, true) if distinct => return offset,
        _ => {}
    }
    let is_page = |address: u64| address.is_multiple_of(PAGE) && offset <= pc;
    match (is_page(as_offset), is_page(offset)) {
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

    /// The innermost address of a sample is where the thread was, the others are return addresses, as in a crash.
    #[test]
    fn the_first_frame_of_a_sample_is_where_the_thread_was() {
        let hang = serde_json::json!({"hangDiagnostics": [{
            "diagnosticMetaData": {"hangDuration": "20 sec"},
            "callStackTree": {"callStackPerThread": false, "callStacks": [{"callStackRootFrames": [{
                "address": 0x1000, "sampleCount": 3, "binaryName": "till", "subFrames": [
                    {"address": 0x2000, "sampleCount": 2, "binaryName": "till"},
                    {"address": 0x3000, "sampleCount": 1, "binaryName": "till"},
                ],
            }]}]},
        }]});
        let found = crate::symbolicate::import::read(hang.to_string().as_bytes()).unwrap();
        let samples = &found[0].report.samples;
        let frames = samples.iter().map(|sample| &sample.frames);
        let frames: Vec<Vec<_>> = frames
            .map(|frames| frames.iter().map(|f| (f.pc, f.found)).collect())
            .collect();
        use crate::report::Found::Context;
        let caller = (0x1000, crate::report::Found::Unknown);
        assert_eq!(
            frames,
            [[(0x2000, Context), caller], [(0x3000, Context), caller]]
        );
    }

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
