//! A report as a JSON value: as the report itself is written, with names and groups.

use serde_json::{Map, Value as Json, json};

use super::FrameJson;
use crate::symbolicate::format::Style;
use crate::symbolicate::frame::{PhysicalFrame, Stack, Symbolicated, id_text};
use crate::symbolicate::group::{Member, RECIPE, key_text};

/// Everything that the report says, with names.
pub(super) fn report_json(origin: &str, symbolicated: &Symbolicated, style: &Style) -> Json {
    let report = &symbolicated.report;
    let mut top = Map::new();
    top.insert("report".to_owned(), json!(origin));
    // Never an error: all keys are texts.
    if let Ok(Json::Object(all)) = serde_json::to_value(report) {
        top.extend(all);
    }
    // Words that this version does not know stand in their place.
    if let (Some(event), Some(Json::Object(object))) = (&report.event, top.get_mut("event")) {
        object.insert("type".to_owned(), json!(event.word()));
    }
    let threads = report.threads.iter().zip(&symbolicated.threads);
    for (object, (thread, stack)) in objects(&mut top, "threads").zip(threads) {
        object.insert("end".to_owned(), json!(thread.end_word()));
        name(object, stack, style);
    }
    let samples = report.samples.iter().zip(&symbolicated.samples);
    for (object, (sample, stack)) in objects(&mut top, "samples").zip(samples) {
        object.insert("end".to_owned(), json!(sample.end_word()));
        // The stack is all of it here.
        object.shift_remove("keep");
        name(object, stack, style);
    }
    let group = key_text(Member::new(origin, symbolicated).key);
    top.insert("group".to_owned(), json!(group));
    top.insert("group_recipe".to_owned(), json!(RECIPE));
    let missing = symbolicated.missing.iter().map(|missing| {
        json!({
            "name": missing.name,
            "id": id_text(&missing.id),
            "arch": missing.arch,
            "symbols": missing.symbols,
            "split": missing.split,
            "damaged": missing.damaged,
            "refused": missing.refused,
            "system": missing.system,
            "others": missing.others.iter().map(|id| id_text(id)).collect::<Vec<_>>(),
        })
    });
    top.insert("missing".to_owned(), missing.collect());
    top.insert("damage".to_owned(), json!(symbolicated.damage));
    Json::Object(top)
}

/// The objects in a list of the report.
fn objects<'j>(
    top: &'j mut Map<String, Json>,
    list: &str,
) -> impl Iterator<Item = &'j mut Map<String, Json>> {
    let list = top.get_mut(list).and_then(Json::as_array_mut);
    list.into_iter().flatten().filter_map(Json::as_object_mut)
}

/// Puts a stack with names in the place of its addresses.
fn name(object: &mut Map<String, Json>, stack: &Stack, style: &Style) {
    let physical = |physical: &PhysicalFrame| {
        let frames = physical
            .frames
            .iter()
            .map(|frame| json!(FrameJson::new(frame, style)));
        json!({
            "pc": hex(physical.pc),
            "found": physical.found.code(),
            "image": physical.image,
            "address": physical.svma.map(hex),
            "offset": physical.offset,
            "frames": frames.collect::<Json>(),
        })
    };
    object.insert(
        "frames".to_owned(),
        stack.frames.iter().map(physical).collect(),
    );
    // As the index of the frame behind the gap, and how many are in it.
    object.insert("omitted".to_owned(), json!(stack.omitted));
}

fn hex(address: u64) -> String {
    format!("{address:#x}")
}
