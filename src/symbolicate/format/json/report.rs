//! A report as a JSON value: as the report itself is written, with names and groups. Each frame is spelled once, in
//! a table; stacks hold indices into it.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value as Json, json};

use super::FrameJson;
use crate::symbolicate::format::Style;
use crate::symbolicate::format::findings::{Findings, owner_word};
use crate::symbolicate::frame::{PhysicalFrame, Stack, Symbolicated, id_text};

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
    Findings::new(origin, symbolicated).put_into(&mut top);
    let mut table = FrameTable {
        of: symbolicated,
        style,
        indices: FxHashMap::default(),
        frames: Vec::new(),
    };
    let threads = report.threads.iter().zip(&symbolicated.threads);
    for (object, (thread, stack)) in objects(&mut top, "threads").zip(threads) {
        object.insert("end".to_owned(), json!(thread.end_word()));
        table.refer(object, stack);
    }
    let samples = report.samples.iter().zip(&symbolicated.samples);
    for (object, (sample, stack)) in objects(&mut top, "samples").zip(samples) {
        object.insert("end".to_owned(), json!(sample.end_word()));
        // The stack is all of it here.
        object.shift_remove("keep");
        table.refer(object, stack);
    }
    top.insert("frames".to_owned(), json!(table.frames));
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

/// The frames of all stacks, each once.
struct FrameTable<'a> {
    of: &'a Symbolicated,
    style: &'a Style,
    indices: FxHashMap<&'a PhysicalFrame, usize>,
    frames: Vec<Json>,
}

impl<'a> FrameTable<'a> {
    /// Puts a stack, as indices of frames with names, in the place of its addresses.
    fn refer(&mut self, object: &mut Map<String, Json>, stack: &'a Stack) {
        let indices = stack.frames.iter().map(|frame| json!(self.index(frame)));
        object.insert("frames".to_owned(), indices.collect());
        // As the index of the frame behind the gap, and how many are in it.
        object.insert("omitted".to_owned(), json!(stack.omitted));
    }

    fn index(&mut self, physical: &'a PhysicalFrame) -> usize {
        let next = self.frames.len();
        let index = *self.indices.entry(physical).or_insert(next);
        if index == next {
            let frames = physical.frames.iter().map(|frame| {
                json!(FrameJson {
                    owner: Some(owner_word(self.of, physical, Some(frame))),
                    ..FrameJson::new(frame, self.style)
                })
            });
            self.frames.push(json!({
                "pc": hex(physical.pc),
                "found": physical.found.code(),
                "image": physical.image,
                "address": physical.svma.map(hex),
                "offset": physical.offset,
                // Of the function that the others are inlined into.
                "owner": owner_word(self.of, physical, physical.frames.last()),
                "frames": frames.collect::<Json>(),
            }));
        }
        index
    }
}

fn hex(address: u64) -> String {
    format!("{address:#x}")
}
