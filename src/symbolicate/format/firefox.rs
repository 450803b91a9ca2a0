//! The Firefox Profiler's processed profile format, version 55:
//! <https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md>.
//!
//! Its tables are columns of equal length; one refers to another by index. Each report is a process,
//! with the watched thread and its samples, or for a live report all threads.
//!
//! The crate `fxprof-processed-profile` (0.8) writes the same format for profiles that the viewer is to symbolicate. It
//! cannot write this one: it leaves `line`, `fileName` and `inlineDepth` empty, a frame has either a name of its own or an
//! image and an address, and two functions of one name in different files are one. `tests/format_pictures.rs` holds what is
//! written here against what the crate writes: version, keys, columns.

use crate::report::time::{nanos, since_epoch};
use std::io;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::facts::{app_state, began, vitals};
use super::remarks::kind_text;
use super::stacks::{outermost, weighed};
use super::{Format, PlainJson, Style};
use crate::report::{EventKind, Report};
use crate::symbolicate::blame::is_own;
use crate::symbolicate::frame::{Symbolicated, id_text, image_file_name};

/// Version of the processed format, as its documentation counts.
const VERSION: u32 = 55;

/// Profiles of all reports in one.
#[derive(Debug, Default)]
pub struct Firefox {
    libs: Vec<Value>,
    lib_indices: FxHashMap<(String, String), usize>,
    threads: Vec<Value>,
    start: Option<u64>,
    product: String,
    processes: u64,
}

/// One report as a process.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: u64,
    start: u64,
    product: String,
    end: Option<u64>,
    threads: Vec<Thread>,
    markers: Vec<Marker>,
    /// Name, path, debug id, architecture.
    libs: Vec<[String; 4]>,
}

/// Something that was noted with its time: nanoseconds from the profile's beginning.
#[derive(Debug)]
struct Marker {
    name: String,
    text: String,
    from: u64,
    /// `None` for a moment.
    to: Option<u64>,
}

#[derive(Debug)]
struct Thread {
    name: String,
    main: bool,
    tid: u64,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    at: u64,
    count: u64,
    /// Outermost first.
    frames: Vec<Frame>,
}

#[derive(Debug, PartialEq, Eq, Hash, Clone)]
struct Frame {
    function: String,
    file: Option<String>,
    line: Option<u32>,
    /// In the image, from its base.
    address: Option<u64>,
    /// Index into [`Process::libs`].
    lib: Option<usize>,
    /// How many functions it is inlined into.
    depth: u64,
    own: bool,
}

impl Firefox {
    /// None yet.
    pub fn new() -> Firefox {
        Firefox::default()
    }
}

impl Format for Firefox {
    type Part = Process;

    fn part(style: &Style, origin: &str, of: &Symbolicated) -> Process {
        let report = &of.report;
        let event = report.event.as_ref();
        let kind = event.map_or("report", |event| event.word());
        let live = event.is_some_and(|event| event.kind == EventKind::Live);
        let mut threads: Vec<Thread> = Vec::new();
        for weighed in weighed(of) {
            let thread = weighed.thread.and_then(|at| report.threads.get(at));
            if threads.is_empty() || live {
                let name = thread.and_then(|thread| thread.name.clone());
                threads.push(Thread {
                    name: name.unwrap_or_default(),
                    main: thread.is_none_or(|thread| thread.main),
                    tid: thread.map_or(report.head.pid, |thread| thread.id),
                    samples: Vec::new(),
                });
            }
            if let Some(thread) = threads.last_mut() {
                thread.samples.push(Sample {
                    at: weighed.at,
                    count: weighed.count,
                    frames: frames(of, &weighed, style),
                });
            }
        }
        let libs = report.images.iter().map(|image| {
            let arch = image.arch.as_deref().unwrap_or(&report.head.arch);
            let id = id_text(&image.id).replace('-', "");
            let name = image_file_name(&image.name).to_owned();
            [name, image.name.clone(), id, arch.to_owned()]
        });
        let (markers, shift) = markers(report);
        for sample in threads.iter_mut().flat_map(|thread| &mut thread.samples) {
            sample.at = sample.at.saturating_add(shift);
        }
        let into = nanos(report.head.clock)
            .saturating_sub(began(report))
            .saturating_add(shift);
        Process {
            name: format!("{kind}: {}", image_file_name(origin)),
            pid: report.head.pid,
            start: since_epoch(report.head.time).saturating_sub(into),
            product: report.head.app.name.clone(),
            end: report
                .stall_end
                .as_ref()
                .map(|end| nanos(end.duration).saturating_add(shift)),
            threads,
            markers,
            libs: libs.collect(),
        }
    }

    fn add(&mut self, process: Process, _out: &mut dyn io::Write) -> io::Result<()> {
        self.processes += 1;
        self.start.get_or_insert(process.start);
        if self.product.is_empty() {
            self.product.clone_from(&process.product);
        }
        let libs: Vec<usize> = process.libs.iter().map(|lib| self.lib(lib)).collect();
        // Reports of one process stay apart.
        let pid = format!("{}.{}", process.pid, self.processes);
        for (index, thread) in process.threads.iter().enumerate() {
            let value = Tables::default().thread(thread, &process, &libs, &pid, index);
            self.threads.push(value);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        let product = if self.product.is_empty() {
            "wedjat"
        } else {
            &self.product
        };
        let document = json!({
            "meta": {
                "categories": [
                    { "name": "Other", "color": "grey", "subcategories": ["Other"] },
                    { "name": "App", "color": "blue", "subcategories": ["Other"] },
                ],
                "debug": false,
                "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
                "interval": 1,
                "preprocessedProfileVersion": VERSION,
                "processType": 0,
                "product": product,
                "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
                "startTime": self.start.unwrap_or(0) as f64 / 1e6,
                "symbolicated": true,
                "pausedRanges": [],
                "version": 24,
                "usesOnlyOneStackType": true,
                "sourceCodeIsNotOnSearchfox": true,
                // 0: a moment; 1: from one time to another.
                "markerSchema": [{
                    "name": "Text",
                    "display": ["marker-chart", "marker-table", "timeline-overview"],
                    "chartLabel": "{marker.data.name}",
                    "tooltipLabel": "{marker.name}: {marker.data.name}",
                    "tableLabel": "{marker.name}: {marker.data.name}",
                    "fields": [{ "key": "name", "label": "Details", "format": "string", "searchable": true }],
                }],
            },
            "libs": std::mem::take(&mut self.libs),
            "pages": [],
            "profilerOverhead": [],
            "counters": [],
            "threads": std::mem::take(&mut self.threads),
        });
        serde_json::to_writer(PlainJson(&mut *out), &document)?;
        out.write_all(b"\n")?;
        out.flush()
    }
}

impl Firefox {
    /// Where the library stands in the shared table.
    fn lib(&mut self, [name, path, id, arch]: &[String; 4]) -> usize {
        let next = self.libs.len();
        let key = (path.clone(), id.clone());
        let index = *self.lib_indices.entry(key).or_insert(next);
        if index == next {
            // A breakpad id: the UUID and an age, which Mach-O and ELF don't have.
            self.libs.push(json!({
                "name": name, "path": path, "debugName": name, "debugPath": path,
                "breakpadId": format!("{id}0"), "codeId": id, "arch": arch,
            }));
        }
        index
    }
}

/// All facts of the report besides its stacks, as markers; and how long before the stall's beginning the
/// first of them stands.
fn markers(report: &Report) -> (Vec<Marker>, u64) {
    let (app, began) = (app_state(report), began(report));
    let moments = || app.marks.iter().chain(&app.breadcrumbs);
    let earliest = moments().map(|moment| moment.start).min();
    let shift = began.saturating_sub(earliest.unwrap_or(began));
    let at = |time: u64| time.saturating_sub(began - shift);
    let mut markers = Vec::new();
    if let Some(event) = &report.event {
        let lasted = report.stall_end.as_ref().map(|end| nanos(end.duration));
        markers.push(Marker {
            name: kind_text(event),
            text: event
                .reason
                .clone()
                .or_else(|| event.message.clone())
                .unwrap_or_default(),
            from: shift,
            to: lasted.map(|lasted| shift.saturating_add(lasted)),
        });
    }
    for mark in &app.marks {
        // One that is not over ends with the profile.
        let confirmed = nanos(report.head.clock).max(mark.start);
        let over = mark
            .lasted
            .map_or(confirmed, |lasted| mark.start.saturating_add(lasted));
        markers.push(Marker {
            name: mark.what.clone(),
            text: mark.how_long(),
            from: at(mark.start),
            to: Some(at(over)),
        });
    }
    for crumb in &app.breadcrumbs {
        markers.push(Marker {
            name: "breadcrumb".into(),
            text: crumb.what.clone(),
            from: at(crumb.start),
            to: None,
        });
    }
    let confirmed = at(nanos(report.head.clock));
    let facts = vitals(report)
        .into_iter()
        .map(|(label, text)| (label.to_owned(), text));
    for (name, text) in facts.chain(app.keys).chain(app.gauges) {
        markers.push(Marker {
            name,
            text,
            from: confirmed,
            to: None,
        });
    }
    (markers, shift)
}

fn frames(of: &Symbolicated, weighed: &super::stacks::Weighed<'_>, style: &Style) -> Vec<Frame> {
    let mut depth = 0;
    let mut last = None;
    let frames = outermost(of, weighed.stack, style).map(|(function, frame, physical)| {
        let here: *const _ = physical;
        depth = if last == Some(here) { depth + 1 } else { 0 };
        last = Some(here);
        let image = of.image(physical);
        Frame {
            function,
            file: frame.and_then(|f| f.file.as_deref()).map(str::to_owned),
            line: frame.and_then(|f| f.line),
            address: image.map(|image| physical.pc.wrapping_sub(image.base)),
            lib: physical
                .image
                .map(|at| at as usize)
                .filter(|_| image.is_some()),
            depth,
            own: is_own(of, physical, frame),
        }
    });
    frames.collect()
}

/// A thread's tables being filled.
#[derive(Default)]
struct Tables {
    strings: Vec<String>,
    string_indices: FxHashMap<String, usize>,
    frames: Columns<10>,
    frame_indices: FxHashMap<Frame, usize>,
    funcs: Columns<7>,
    func_indices: FxHashMap<(usize, Option<usize>, Option<usize>), usize>,
    stacks: Columns<2>,
    stack_indices: FxHashMap<(Option<usize>, usize), usize>,
    resources: Columns<4>,
    resource_indices: FxHashMap<usize, usize>,
}

impl Tables {
    fn thread(
        mut self,
        thread: &Thread,
        process: &Process,
        libs: &[usize],
        pid: &str,
        index: usize,
    ) -> Value {
        let (mut stacks, mut weights, mut deltas) = (Vec::new(), Vec::new(), Vec::new());
        let mut samples: Vec<&Sample> = thread.samples.iter().collect();
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

    fn frame(&mut self, frame: &Frame, process: &Process, libs: &[usize]) -> usize {
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
