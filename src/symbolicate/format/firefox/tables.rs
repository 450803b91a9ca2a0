//! The processes of a profile, made from reports, and the tables of a thread: strings, functions, frames, stacks, samples, each a set of columns of equal length.

use serde_json::{Value, json};

use crate::symbolicate::format::stacks::Indices;

/// One report as a process.
#[derive(Debug)]
pub struct Process {
    pub name: String,
    pub pid: u64,
    pub start: u64,
    pub product: String,
    pub end: Option<u64>,
    pub threads: Vec<ProfileThread>,
    pub markers: Vec<Marker>,
    /// Name, path, debug id, architecture.
    pub libs: Vec<[String; 4]>,
}

/// Something that was noted with its time: nanoseconds from the profile's beginning.
#[derive(Debug)]
pub struct Marker {
    pub name: String,
    pub text: String,
    pub from: u64,
    /// `None` for a moment.
    pub to: Option<u64>,
}

#[derive(Debug)]
pub struct ProfileThread {
    pub name: String,
    pub main: bool,
    pub tid: u64,
    pub samples: Vec<ProfileSample>,
}

#[derive(Debug)]
pub struct ProfileSample {
    pub at: u64,
    pub count: u64,
    /// Outermost first.
    pub frames: Vec<ProfileFrame>,
}

#[derive(Debug, PartialEq, Eq, Hash, Clone)]
pub struct ProfileFrame {
    pub function: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// In the image, from its base.
    pub address: Option<u64>,
    /// Index into [`Process::libs`].
    pub lib: Option<u32>,
    /// Count of the functions into which it is inlined.
    pub depth: u64,
    pub own: bool,
}

/// A thread's tables being filled.
#[derive(Default)]
pub struct Tables {
    strings: Vec<String>,
    string_indices: Indices<String>,
    frames: Columns<10>,
    frame_indices: Indices<ProfileFrame>,
    funcs: Columns<7>,
    func_indices: Indices<(usize, Option<usize>, Option<usize>)>,
    stacks: Columns<2>,
    stack_indices: Indices<(Option<usize>, usize)>,
    resources: Columns<4>,
    resource_indices: Indices<usize>,
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
        let is_first = index == 0;
        let markers = self.markers(if is_first { &process.markers } else { &[] });
        let title = match is_first || thread.name.is_empty() {
            true => &process.name,
            false => &thread.name,
        };
        json!({
            "name": title,
            "isMainThread": is_first || thread.main,
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
        let (index, is_new) = self.string_indices.of(text.to_owned());
        self.strings.extend(is_new.then(|| text.to_owned()));
        index
    }

    fn stack(&mut self, prefix: Option<usize>, frame: usize) -> usize {
        let (index, is_new) = self.stack_indices.of((prefix, frame));
        if is_new {
            self.stacks.push([json!(prefix), json!(frame)]);
        }
        index
    }

    fn frame(&mut self, frame: &ProfileFrame, process: &Process, libs: &[usize]) -> usize {
        let (index, is_new) = self.frame_indices.of(frame.clone());
        if !is_new {
            return index;
        }
        let (no, null) = (json!(false), Value::Null);
        let name = self.string(&frame.function);
        let file = frame.file.as_deref().map(|file| self.string(file));
        let lib = frame.lib.map(|at| at as usize);
        let lib = lib.filter(|at| *at < libs.len());
        let resource = lib.map(|at| {
            let name = self.string(&process.libs[at][0]);
            let (index, is_new) = self.resource_indices.of(libs[at]);
            if is_new {
                // 1: a library.
                let row = [json!(libs[at]), json!(name), Value::Null, json!(1)];
                self.resources.push(row);
            }
            index
        });
        let (func, is_new) = self.func_indices.of((name, file, resource));
        if is_new {
            let resource = resource.map_or(json!(-1), |at| json!(at));
            let (name, file) = (json!(name), json!(file));
            let row = [
                name,
                no.clone(),
                no,
                resource,
                file,
                null.clone(),
                null.clone(),
            ];
            self.funcs.push(row);
        }
        // Addresses are 32 bits wide in the format.
        let address = frame
            .address
            .and_then(|address| u32::try_from(address).ok());
        self.frames.push([
            address.map_or(json!(-1), |address| json!(address)),
            json!(frame.depth),
            json!(u8::from(frame.own)),
            json!(0),
            json!(func),
            null.clone(),
            json!(0),
            json!(frame.line),
            null.clone(),
            null,
        ]);
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
    fn push(&mut self, row: [Value; N]) {
        for (column, value) in self.0.iter_mut().zip(row) {
            column.push(value);
        }
    }

    fn table(self, names: [&str; N]) -> Value {
        let mut table = json!({ "length": self.0[0].len() });
        for (name, column) in names.into_iter().zip(self.0) {
            table[name] = Value::Array(column);
        }
        table
    }
}
