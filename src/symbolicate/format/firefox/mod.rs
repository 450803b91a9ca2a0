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

mod tables;

use std::io;

use serde_json::{Value, json};

pub use tables::Process;
use tables::{Marker, ProfileFrame, ProfileSample, ProfileThread, Tables};

use super::facts::{app_state, began, vitals};
use super::findings::kind_text;
use super::stacks::{Indices, Weighed, outermost, weighed};
use super::{Format, PlainJson, Style};
use crate::report::time::{nanos, since_epoch};
use crate::report::{EventKind, Report};
use crate::symbolicate::blame::is_own;
use crate::symbolicate::frame::{Symbolicated, id_text, image_file_name};

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

impl Format for Firefox {
    type Part = Process;

    fn part(style: &Style, origin: &str, of: &Symbolicated) -> Process {
        let report = &of.report;
        let event = report.event.as_ref();
        let kind = event.map_or("report", |event| event.word());
        let live = event.is_some_and(|event| event.kind == EventKind::Live);
        let mut threads: Vec<ProfileThread> = Vec::new();
        for weighed in weighed(of) {
            let thread = weighed.thread.and_then(|at| report.threads.get(at));
            if threads.is_empty() || live {
                let name = thread.and_then(|thread| thread.name.clone());
                threads.push(ProfileThread {
                    name: name.unwrap_or_default(),
                    main: thread.is_none_or(|thread| thread.main),
                    tid: thread.map_or(report.head.pid, |thread| thread.id),
                    samples: Vec::new(),
                });
            }
            if let Some(thread) = threads.last_mut() {
                thread.samples.push(ProfileSample {
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
        let into = nanos(report.head.clock).saturating_sub(began(report));
        let into = into.saturating_add(shift);
        let end = report.stall_end.as_ref();
        Process {
            name: format!("{kind}: {}", image_file_name(origin)),
            pid: report.head.pid,
            start: since_epoch(report.head.time).saturating_sub(into),
            product: report.head.app.name.clone(),
            end: end.map(|end| nanos(end.duration).saturating_add(shift)),
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
    /// Returns the index of the library in the shared table; adds it if it is new.
    fn lib(&mut self, [name, path, id, arch]: &[String; 4]) -> usize {
        let (index, is_new) = self.lib_indices.of((path.clone(), id.clone()));
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

/// All facts of the report besides its stacks, as markers; and how long before the stall's beginning the
/// first of them stands.
fn markers(report: &Report) -> (Vec<Marker>, u64) {
    let (app, began) = (app_state(report), began(report));
    let moments = || app.marks.iter().chain(&app.breadcrumbs);
    let earliest = moments().map(|moment| moment.start).min();
    let shift = began.saturating_sub(earliest.unwrap_or(began));
    let at = |time: u64| time.saturating_sub(began - shift);
    let mut markers = Vec::new();
    let mut note = |name: String, text: String, from, to| {
        markers.push(Marker {
            name,
            text,
            from,
            to,
        });
    };
    if let Some(event) = &report.event {
        let lasted = report.stall_end.as_ref().map(|end| nanos(end.duration));
        let text = event.reason.as_ref().or(event.message.as_ref()).cloned();
        let to = lasted.map(|lasted| shift.saturating_add(lasted));
        note(kind_text(event), text.unwrap_or_default(), shift, to);
    }
    let confirmed = nanos(report.head.clock);
    for mark in &app.marks {
        // One that is not over ends with the profile.
        let lasted = mark.lasted.map(|lasted| mark.start.saturating_add(lasted));
        let over = lasted.unwrap_or(confirmed.max(mark.start));
        note(
            mark.what.clone(),
            mark.how_long(),
            at(mark.start),
            Some(at(over)),
        );
    }
    for crumb in &app.breadcrumbs {
        note(
            "breadcrumb".into(),
            crumb.what.clone(),
            at(crumb.start),
            None,
        );
    }
    let facts = vitals(report).into_iter();
    let facts = facts.map(|(label, text)| (label.to_owned(), text));
    for (name, text) in facts.chain(app.keys).chain(app.gauges) {
        note(name, text, at(confirmed), None);
    }
    (markers, shift)
}

fn frames(of: &Symbolicated, weighed: &Weighed<'_>, style: &Style) -> Vec<ProfileFrame> {
    let mut depth = 0;
    let mut last = None;
    let frames = outermost(of, weighed.stack, style).map(|(function, frame, physical)| {
        let here: *const _ = physical;
        depth = if last == Some(here) { depth + 1 } else { 0 };
        last = Some(here);
        let image = of.image(physical);
        ProfileFrame {
            function,
            file: frame.and_then(|f| f.file.as_deref()).map(str::to_owned),
            line: frame.and_then(|f| f.line),
            address: image.map(|image| physical.pc.wrapping_sub(image.base)),
            lib: physical.image.filter(|_| image.is_some()),
            depth,
            own: is_own(of, physical, frame),
        }
    });
    frames.collect()
}
