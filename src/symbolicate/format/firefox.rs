//! The Firefox Profiler's processed profile format, version 55:
//! <https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md>.
//!
//! Its tables are columns of equal length; one refers to another by index. Each report is a process,
//! with the watched thread and its samples, or for a live report all threads.
//!
//! The crate `fxprof-processed-profile` (0.8) writes the same format for profiles that the viewer is to symbolicate. It
//! cannot write this one: it leaves `line`, `fileName` and `inlineDepth` empty, a frame has either a name of its own or
//! an image and an address, and two functions of one name in different files are one. `tests/symbolicate/format_pictures.rs` holds
//! what is written here against what the crate writes: version, keys, columns.

use std::io::{self, Write as _};

use serde_json::{Value, json};

use super::facts::{Moment, app_state, began, vitals, watched_name};
use super::findings::kind_text;
use super::stacks::{Indices, Weighed, outermost, weighed};
use super::{Parts, PlainJson, Style};
use crate::report::time::{nanos, since_epoch};
use crate::report::{EventKind, Report};
use crate::symbolicate::blame::is_own;
use crate::symbolicate::frame::{
    PhysicalFrame, SourceFrame, Stack, Symbolicated, id_text, image_file_name,
};

/// Version of the processed format, as its documentation counts.
const VERSION: u32 = 55;

/// Profiles of all reports in one.
#[derive(Debug, Default)]
pub struct Firefox {
    libs: Vec<Value>,
    lib_indices: Indices<(String, String)>,
    threads: Vec<Value>,
    start: Option<u64>,
    product: String,
    processes: u64,
}

/// One report as a process; its threads refer to the report's own images.
#[derive(Debug)]
pub struct Process {
    pid: u64,
    start: u64,
    product: String,
    threads: Vec<Value>,
    /// Name, path, debug id, architecture.
    libs: Vec<[String; 4]>,
}

impl Parts for Firefox {
    type Part = Process;

    fn part(style: &Style, origin: &str, of: &Symbolicated) -> Process {
        let report = &of.report;
        let event = report.event.as_ref();
        let kind = event.map_or("report", |event| event.word());
        let name = format!("{kind}: {}", image_file_name(origin));
        let libs = report.images.iter().map(|image| {
            let arch = image.arch.as_deref().unwrap_or(&report.head.arch);
            let id = id_text(&image.id).replace('-', "");
            let name = image_file_name(&image.name).to_owned();
            [name, image.name.clone(), id, arch.to_owned()]
        });
        let (markers, shift) = markers(report);
        let into = nanos(report.head.clock).saturating_sub(began(report));
        let into = into.saturating_add(shift);
        let mut stacks = weighed(of);
        // Of a live report each stack is a thread; of others all are samples of one.
        let live = event.is_some_and(|event| event.kind == EventKind::Live);
        let size = if live { 1 } else { stacks.len().max(1) };
        let threads = stacks.chunks_mut(size).enumerate().map(|(index, stacks)| {
            let tables = Tables {
                of,
                style,
                strings: Table::default(),
                frames: Table::default(),
                funcs: Table::default(),
                stacks: Table::default(),
                resources: Table::default(),
            };
            // The app's words are of no thread: they stand with the first.
            let noted = if index == 0 { &markers[..] } else { &[] };
            tables.thread(index, &name, stacks, noted, shift)
        });
        Process {
            pid: report.head.pid,
            start: since_epoch(report.head.time).saturating_sub(into),
            product: report.head.app.name.clone(),
            threads: threads.collect(),
            libs: libs.collect(),
        }
    }

    fn add(&mut self, process: Process, _out: &mut dyn io::Write) -> io::Result<()> {
        self.processes += 1;
        self.start.get_or_insert(process.start);
        if self.product.is_empty() {
            self.product = process.product;
        }
        let libs: Vec<usize> = process.libs.iter().map(|lib| self.lib(lib)).collect();
        // Reports of one process stay apart.
        let pid = format!("{}.{}", process.pid, self.processes);
        for mut thread in process.threads {
            thread["pid"] = json!(pid);
            let resources = thread["resourceTable"]["lib"].as_array_mut();
            for lib in resources.into_iter().flatten() {
                let at = lib.as_u64().and_then(|at| libs.get(at as usize));
                *lib = json!(at);
            }
            self.threads.push(thread);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        let product = match self.product.as_str() {
            "" => "wedjat",
            product => product,
        };
        let document = json!({
            "meta": {
                "categories": [
                    { "name": "Other", "color": "grey", "subcategories": ["Other"] },
                    { "name": "App", "color": "blue", "subcategories": ["Other"] },
                ],
                "debug": false, "interval": 1, "processType": 0, "symbolicated": true, "pausedRanges": [], "version": 24,
                "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
                "preprocessedProfileVersion": VERSION, "product": product,
                "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
                "startTime": self.start.unwrap_or(0) as f64 / 1e6,
                "usesOnlyOneStackType": true, "sourceCodeIsNotOnSearchfox": true,
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
            "libs": std::mem::take(&mut self.libs), "pages": [], "profilerOverhead": [], "counters": [],
            "threads": std::mem::take(&mut self.threads),
        });
        writeln!(PlainJson(&mut *out), "{document}")?;
        out.flush()
    }
}

impl Firefox {
    /// Returns the index of the library in the shared table; adds it if it is new.
    fn lib(&mut self, [name, path, id, arch]: &[String; 4]) -> usize {
        let (index, is_new) = self.lib_indices.index_of((path.clone(), id.clone()));
        if is_new {
            // A breakpad id: the UUID and an age, which Mach-O and ELF don't have.
            self.libs.push(json!({
                "name": name, "path": path, "debugName": name, "debugPath": path,
                "breakpadId": format!("{id}0"), "codeId": id, "arch": arch,
            }));
        }
        index
    }
}

/// Something that was noted: its name, its text, and from when to when, in nanoseconds from the profile's beginning; to `None`
/// for a moment.
type Marker = (String, String, u64, Option<u64>);

/// All facts of the report besides its stacks, as markers; and how long before the stall's beginning the
/// first of them stands.
fn markers(report: &Report) -> (Vec<Marker>, u64) {
    let (app, began) = (app_state(report), began(report));
    let moments = || app.marks.iter().chain(&app.breadcrumbs);
    let earliest = moments().map(|moment| moment.start).min();
    let shift = began.saturating_sub(earliest.unwrap_or(began));
    let at = |time: u64| time.saturating_sub(began - shift);
    let event = report.event.iter().map(|event| {
        let text = report.reason().or(event.message.as_deref());
        let lasted = report.stall_end.as_ref().map(|end| nanos(end.duration));
        let to = lasted.map(|lasted| shift.saturating_add(lasted));
        (
            kind_text(report, event),
            text.unwrap_or_default().to_owned(),
            shift,
            to,
        )
    });
    let confirmed = nanos(report.head.clock);
    // One that is not over ends with the profile.
    let end_of = |mark: &Moment| Some(at(mark.end(confirmed)));
    let marks = app.marks.iter();
    let marks = marks.map(|mark| (mark.what.clone(), mark.text(), at(mark.start), end_of(mark)));
    let crumbs = app.breadcrumbs.iter();
    let crumbs = crumbs.map(|crumb| {
        (
            "breadcrumb".into(),
            crumb.what.clone(),
            at(crumb.start),
            None,
        )
    });
    let facts = vitals(report).into_iter();
    let facts = facts.map(|(label, text)| (label.to_owned(), text));
    let facts = facts.chain(app.keys.clone()).chain(app.gauges.clone());
    let facts = facts.map(|(name, text)| (name, text, at(confirmed), None));
    let markers = event.chain(marks).chain(crumbs).chain(facts).collect();
    (markers, shift)
}

/// The tables of a thread being filled.
struct Tables<'a> {
    of: &'a Symbolicated,
    style: &'a Style,
    strings: Table<1>,
    frames: Table<5>,
    funcs: Table<3>,
    stacks: Table<2>,
    resources: Table<2>,
}

impl Tables<'_> {
    fn thread(
        mut self,
        index: usize,
        process: &str,
        samples: &mut [Weighed<'_>],
        noted: &[Marker],
        shift: u64,
    ) -> Value {
        let (mut stacks, mut weights, mut deltas) = (Vec::new(), Vec::new(), Vec::new());
        samples.sort_by_key(|sample| sample.at);
        let report = &self.of.report;
        let thread = samples.first().and_then(|sample| sample.thread);
        let thread = thread.and_then(|at| report.threads.get(at));
        let end = report.stall_end.as_ref();
        let end = end.map(|end| milliseconds(nanos(end.duration).saturating_add(shift)));
        let mut before = 0;
        for sample in samples {
            let at = sample.at.saturating_add(shift);
            stacks.push(self.stack(sample.stack));
            weights.push(sample.count);
            deltas.push(milliseconds(at - before));
            before = at;
        }
        let mut markers = Table::default();
        for (name, text, from, to) in noted {
            markers.rows.push([
                json!({ "type": "Text", "name": text }),
                json!(to.map(milliseconds)),
                self.string(name),
                json!(u8::from(to.is_some())),
                json!(milliseconds(*from)),
            ]);
        }
        let name = thread.and_then(|thread| thread.name.as_deref());
        let name = name.filter(|name| index > 0 && !name.is_empty());
        let event = report.event.as_ref().filter(|_| index == 0);
        let watched = event.and_then(|event| event.watched.as_ref());
        let watched = watched.map(watched_name);
        let is_main = index == 0 || thread.is_none_or(|thread| thread.main);
        let tid = thread.map_or(report.head.pid, |thread| thread.id);
        let null = || Value::Null;
        let strings: Value = self.strings.rows.into_iter().flatten().collect();
        json!({
            "name": name.or(watched.as_deref()).unwrap_or(process),
            "isMainThread": is_main, "processType": "default", "processName": process,
            "processStartupTime": 0, "processShutdownTime": end, "registerTime": 0, "unregisterTime": end,
            "pausedRanges": [], "showMarkersInTimeline": true, "pid": null, "tid": tid.to_string(),
            "samples": {
                "length": stacks.len(), "weightType": "samples", "stack": stacks, "timeDeltas": deltas,
                "weight": weights, "threadCPUDelta": vec![Value::Null; deltas.len()],
            },
            "markers": markers.json(["data", "endTime", "name", "phase", "startTime"], &[("category", json!(0))]),
            "stackTable": self.stacks.json(["prefix", "frame"], &[]),
            "frameTable": self.frames.json(["address", "inlineDepth", "category", "func", "line"], &[
                ("subcategory", json!(0)), ("nativeSymbol", null()), ("innerWindowID", json!(0)), ("column", null()),
                ("implementation", null()),
            ]),
            "funcTable": self.funcs.json(["name", "resource", "fileName"], &[
                ("isJS", json!(false)), ("relevantForJS", json!(false)), ("lineNumber", null()), ("columnNumber", null()),
            ]),
            // 1: a library.
            "resourceTable": self.resources.json(["lib", "name"], &[("host", null()), ("type", json!(1))]),
            "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
            "stringArray": strings,
        })
    }

    /// Returns the index of a stack; null for one without frames.
    fn stack(&mut self, stack: &Stack) -> Value {
        let (mut index, mut depth) = (Value::Null, 0);
        let mut last: Option<*const PhysicalFrame> = None;
        for (function, frame, physical) in outermost(self.of, stack, self.style) {
            depth = if last == Some(physical) { depth + 1 } else { 0 };
            last = Some(physical);
            let frame = self.frame(&function, frame, physical, depth);
            index = self.stacks.intern([index, frame]);
        }
        index
    }

    /// `depth` counts the functions into which it is inlined.
    fn frame(
        &mut self,
        function: &str,
        frame: Option<&SourceFrame>,
        physical: &PhysicalFrame,
        depth: u64,
    ) -> Value {
        let image = self.of.image(physical);
        let name = self.string(function);
        let file = frame.and_then(|frame| frame.file.as_deref());
        let file = file.map(|file| self.string(file));
        let resource = image.map_or(json!(-1), |image| {
            let name = self.string(image_file_name(&image.name));
            self.resources.intern([json!(physical.image), name])
        });
        let func = self.funcs.intern([name, resource, json!(file)]);
        // Addresses are 32 bits wide in the format.
        let address = image.map(|image| physical.pc.wrapping_sub(image.base));
        let address = address.and_then(|address| u32::try_from(address).ok());
        self.frames.intern([
            address.map_or(json!(-1), |address| json!(address)),
            json!(depth),
            json!(u8::from(is_own(self.of, physical, frame))),
            func,
            json!(frame.and_then(|frame| frame.line)),
        ])
    }

    fn string(&mut self, text: &str) -> Value {
        self.strings.intern([json!(text)])
    }
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// Rows, written as columns of equal length.
#[derive(Default)]
struct Table<const N: usize> {
    rows: Vec<[Value; N]>,
    indices: Indices<[Value; N]>,
}

impl<const N: usize> Table<N> {
    /// Returns the index of a row; adds it if it is new.
    fn intern(&mut self, row: [Value; N]) -> Value {
        let (index, is_new) = self.indices.index_of(row.clone());
        if is_new {
            self.rows.push(row);
        }
        json!(index)
    }

    /// `constant` columns have one value in all rows.
    fn json(self, names: [&str; N], constant: &[(&str, Value)]) -> Value {
        let mut table = json!({ "length": self.rows.len() });
        for (name, value) in constant {
            table[name] = json!(vec![value; self.rows.len()]);
        }
        for (at, name) in names.into_iter().enumerate() {
            table[name] = self.rows.iter().map(|row| row[at].clone()).collect();
        }
        table
    }
}
