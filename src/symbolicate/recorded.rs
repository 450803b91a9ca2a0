//! Functions, files and lines that a report has for its own frames: another recorder has named them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::debug_info::names;
use super::frame::{Source, SourceFrame, bounded};
use super::keys::{FRAME_FIELDS, SYMBOL_OFFSET};
use crate::report::Value;
use crate::report::model::Thread;

/// Of one thread, by the index of the physical frame.
pub(super) struct Recorded<'a> {
    thread: &'a Thread,
    fields: FxHashMap<u64, Vec<&'a [(Value, Value)]>>,
}

impl<'a> Recorded<'a> {
    pub(super) fn new(thread: &'a Thread) -> Recorded<'a> {
        let mut fields: FxHashMap<u64, Vec<&[(Value, Value)]>> = FxHashMap::default();
        let kept = thread.extra.iter().find(|(key, _)| key == FRAME_FIELDS);
        if let Some((_, Value::Array(kept))) = kept {
            for entry in kept {
                if let Value::Map(entry) = entry
                    && let Some(Value::Unsigned(frame)) = field(entry, "frame")
                {
                    fields.entry(*frame).or_default().push(entry);
                }
            }
        }
        Recorded { thread, fields }
    }

    /// Bytes from the beginning of the frame's function to its address.
    pub(super) fn offset(&self, index: usize) -> Option<u64> {
        self.thread.frames.get(index)?.name.as_ref()?;
        let mut entries = self.fields.get(&(index as u64))?.iter();
        let own = entries.rfind(|entry| field(entry, "inlined").is_none())?;
        match field(own, SYMBOL_OFFSET)? {
            Value::Unsigned(offset) => Some(*offset),
            _ => None,
        }
    }

    /// The functions at a frame, innermost first; empty where the report has none.
    pub(super) fn frames(&self, index: usize) -> Arc<[SourceFrame]> {
        let name = self.thread.frames.get(index).and_then(|f| f.name.as_ref());
        let fields = self.fields.get(&(index as u64));
        let mut frames: Vec<SourceFrame> = Vec::new();
        let mut own = named_frame(name.map(String::as_str));
        for entry in fields.into_iter().flatten() {
            let (file, line) = (field(entry, "sourceFile"), field(entry, "sourceLine"));
            let inlined = field(entry, "inlined");
            let mut frame = match inlined {
                Some(Value::Map(inlined)) => match field(inlined, "symbol") {
                    Some(Value::Text(symbol)) => named_frame(Some(symbol)),
                    _ => named_frame(None),
                },
                _ => std::mem::take(&mut own),
            };
            if let Some(Value::Text(file)) = file {
                frame.file = Some((&*bounded(file)).into());
            }
            if let Some(Value::Unsigned(line)) = line {
                frame.line = u32::try_from(*line).ok().filter(|line| *line > 0);
            }
            if inlined.is_some() {
                frame.inlined = true;
                frames.push(frame);
            } else {
                own = frame;
            }
        }
        if own.function.is_some() || own.file.is_some() || !frames.is_empty() {
            frames.push(own);
        }
        // One without any takes no memory.
        let frames = Some(frames).filter(|frames| !frames.is_empty());
        frames.map_or_else(Arc::default, Arc::from)
    }
}

fn named_frame(name: Option<&str>) -> SourceFrame {
    SourceFrame {
        source: Source::Report,
        ..name.map_or(SourceFrame::default(), names::named)
    }
}

fn field<'a>(entry: &'a [(Value, Value)], key: &str) -> Option<&'a Value> {
    let is_it = |name: &Value| matches!(name, Value::Text(name) if name == key);
    Some(&entry.iter().find(|(name, _)| is_it(name))?.1)
}
