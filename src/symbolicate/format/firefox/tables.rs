//! The tables of a thread: strings, functions, frames, stacks, samples, each a set of columns of equal length.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::model::{Marker, Process, ProfileFrame, ProfileSample, ProfileThread};

/// A thread's tables being filled.
#[derive(Default)]
pub(super) struct Tables {
    strings: Vec<String>,
    string_indices: FxHashMap<String, usize>,
    frames: Columns<10>,
    frame_indices: FxHashMap<ProfileFrame, usize>,
    funcs: Columns<7>,
    func_indices: FxHashMap<(usize, Option<usize>, Option<usize>), usize>,
    stacks: Columns<2>,
    stack_indices: FxHashMap<(Option<usize>, usize), usize>,
    resources: Columns<4>,
    resource_indices: FxHashMap<usize, usize>,
}

impl Tables {
    pub fn thread(
        mut self,
        thread: &ProfileThread,
        process: &Process,
        libs: &[usize],
        pid: &str,
        index: usize,
    ) -> Value {
        let (mut stacks, mut weights, mut deltas) = (Vec::new(), Vec::new(), Vec::new());
        let mut samples: Vec<&ProfileSample> = thread.samples.iter().collect();
        samples.sort_by_key(|sample| sample.at);
        let mut before = 0;
        for sample in samples {
            let mut stack = None;
            for frame in &sample.frames {
                let frame = self.frame(frame, process, libs);
                stack = Some(self.stack(stack, frame));
            }
            stacks.push(json!(stack));
            weights.push(sample.count);
            deltas.push((sample.at - before) as f64 / 1e6);
            before = sample.at;
        }
        let end = process.end.map(|end| end as f64 / 1e6);
        // The app's words are of no thread: they stand with the first.
        let noted = if index == 0 {
            &process.markers[..]
        } else {
            &[]
        };
        let markers = self.markers(noted);
        let title = if thread.name.is_empty() || index == 0 {
            process.name.clone()
        } else {
            thread.name.clone()
        };
        json!({
            "name": title,
            "isMainThread": index == 0 || thread.main,
            "processType": "default",
            "processName": process.name,
            "processStartupTime": 0,
            "processShutdownTime": end,
            "registerTime": 0,
            "unregisterTime": end,
            "pausedRanges": [],
            "showMarkersInTimeline": true,
            "pid": pid,
            "tid": thread.tid.to_string(),
            "samples": {
                "length": stacks.len(),
                "weightType": "samples",
                "stack": stacks,
                "timeDeltas": deltas,
                "weight": weights,
                "threadCPUDelta": vec![Value::Null; deltas.len()],
            },
            "markers": markers,
            "stackTable": self.stacks.table(["prefix", "frame"]),
            "frameTable": self.frames.table([
                "address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol",
                "innerWindowID", "line", "column", "implementation",
            ]),
            "funcTable": self.funcs.table([
                "name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber", "columnNumber",
            ]),
            "resourceTable": self.resources.table(["lib", "name", "host", "type"]),
            "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
            "stringArray": self.strings,
        })
    }

    fn markers(&mut self, noted: &[Marker]) -> Value {
        let mut columns = Columns::<6>::default();
        for marker in noted {
            let name = self.string(&marker.name);
            let milliseconds = |time: u64| json!(time as f64 / 1e6);
            columns.push([
                json!(0),
                json!({ "type": "Text", "name": marker.text }),
                marker.to.map_or(Value::Null, milliseconds),
                json!(name),
                json!(u8::from(marker.to.is_some())),
                milliseconds(marker.from),
            ]);
        }
        columns.table(["category", "data", "endTime", "name", "phase", "startTime"])
    }

    fn string(&mut self, text: &str) -> usize {
        if let Some(index) = self.string_indices.get(text) {
            return *index;
        }
        self.strings.push(text.to_owned());
        let index = self.strings.len() - 1;
        self.string_indices.insert(text.to_owned(), index);
        index
    }

    fn stack(&mut self, prefix: Option<usize>, frame: usize) -> usize {
        let stacks = &mut self.stacks;
        let new = || stacks.push([json!(prefix), json!(frame)]);
        *self
            .stack_indices
            .entry((prefix, frame))
            .or_insert_with(new)
    }

    fn frame(&mut self, frame: &ProfileFrame, process: &Process, libs: &[usize]) -> usize {
        if let Some(index) = self.frame_indices.get(frame) {
            return *index;
        }
        let name = self.string(&frame.function);
        let file = frame.file.as_deref().map(|file| self.string(file));
        let lib = frame.lib.filter(|at| *at < libs.len());
        let resource = lib.map(|at| {
            let name = self.string(&process.libs[at][0]);
            let resources = &mut self.resources;
            // 1: a library.
            let new = || resources.push([json!(libs[at]), json!(name), Value::Null, json!(1)]);
            *self.resource_indices.entry(libs[at]).or_insert_with(new)
        });
        let funcs = &mut self.funcs;
        let new = || {
            let resource = resource.map_or(json!(-1), |at| json!(at));
            let (no, null) = (json!(false), Value::Null);
            funcs.push([
                json!(name),
                no.clone(),
                no,
                resource,
                json!(file),
                null.clone(),
                null,
            ])
        };
        let func = *self
            .func_indices
            .entry((name, file, resource))
            .or_insert_with(new);
        // Addresses are 32 bits wide in the format.
        let address = frame
            .address
            .and_then(|address| u32::try_from(address).ok());
        let index = self.frames.push([
            address.map_or(json!(-1), |address| json!(address)),
            json!(frame.depth),
            json!(u8::from(frame.own)),
            json!(0),
            json!(func),
            Value::Null,
            json!(0),
            json!(frame.line),
            Value::Null,
            Value::Null,
        ]);
        self.frame_indices.insert(frame.clone(), index);
        index
    }
}

/// Columns of equal length.
struct Columns<const N: usize>([Vec<Value>; N]);

impl<const N: usize> Default for Columns<N> {
    fn default() -> Columns<N> {
        Columns(std::array::from_fn(|_| Vec::new()))
    }
}

impl<const N: usize> Columns<N> {
    fn push(&mut self, row: [Value; N]) -> usize {
        for (column, value) in self.0.iter_mut().zip(row) {
            column.push(value);
        }
        self.0[0].len() - 1
    }

    fn table(self, names: [&str; N]) -> Value {
        let mut table = json!({ "length": self.0[0].len() });
        for (name, column) in names.into_iter().zip(self.0) {
            table[name] = Value::Array(column);
        }
        table
    }
}
