//! Reports that other recorders wrote, read into the same [`Report`](crate::report::Report).
//!
//! The content decides the layout, never the file's name. A text is made plain (`plain_text.rs`), cut into its reports
//! (`recognize.rs`), and each is read by the reader of its layout. A file may hold several, of several layouts.
//!
//! | layout | known by |
//! | --- | --- |
//! | `ips` | a line of JSON with `bug_type`, then JSON with `threads` or `processByPid`, or a text of Apple's |
//! | `crash_text` | two labels in Apple's order and an exception; or a stack under `Thread 0 Crashed:`, `Last Exception Backtrace:` |
//! | `spindump` | `Date/Time:` and below it `Steps:`, `Event:`, `Data Source:`; or a tree under `Thread 0x` |
//! | `sample` | `Analysis of sampling`, and below it `Call graph:` |
//! | `metrickit` | JSON with `callStackTree`, by itself or in a list of diagnostics |
//! | `kscrash` | JSON with an object `crash`, beside `report`, `system` or `binary_images` |
//! | `event_json` | JSON with `stacktrace` and its `frames`, in `exception` or `threads`; also in an envelope |
//! | `plcrash` | the first seven bytes |
//! | `crashlytics` | a line `# Crashlytics - …` |
//! | `swift_backtrace` | `*** Signal N: Backtracing from`, `*** Program crashed:`, `Current stack trace:`, with a stack below; JSON of kind `crashReport` |
//! | `core_dump` | `Stack trace of thread N:`, and below it `#0  0x… name (module + 0x…)` |
//! | `first_throw` | `*** First throw call stack:`, and below it a parenthesis |
//! | `printed_stack` | two lines in a row of `backtrace_symbols`, glog, absl, boost or Chromium |
//!
//! These layouts change every year. Missing fields are tolerated. Unknown fields are kept: a thread's and
//! an image's in their `extra`, all others in a section with the layout's name. A file that was cut is read
//! up to the cut. Reading has the bounds of our own reports: time linear in the bytes, and no more nesting,
//! frames or bytes than [`crate::report::limits`] allows.
//!
//! A caller's address is a return address in all of them: only the first frame of a thread is looked
//! up as it is. No layout says how a frame was found: [`Found::Unknown`](crate::report::Found::Unknown).

mod apple;
mod builder;
mod core_dump;
mod events;
mod json;
mod json_fields;
mod paths;
mod plain_text;
mod printed;
mod recognize;
mod stack_lines;
mod swift;
mod unread;
mod values;

use std::fmt;

use memchr::memmem;

use self::apple::{call_tree, crash_text, ips, metrickit};
use self::builder::{ReportBuilder, SampleNode, SampleTree, frame, numbered_thread};
pub(crate) use self::events::sentry::{EnvelopeItem, envelope_items};
use self::events::{crashlytics, kscrash, plcrash, sentry};
use self::json::Document;
use self::json_fields::{JsonFields, texts_of, unsigned};
use self::paths::{HeadPaths, ThreadPaths, image_of, registers, release};
use self::plain_text::{LineNumbers, plain_lines};
use self::recognize::cut;
pub(crate) use self::unread::other_product;
use crate::report::{Damage, DamageKind, Reading, Value, limits};

words! {
    /// The layouts, with the words under which a report keeps what was not understood.
    #[non_exhaustive]
    pub enum Layout {
        /// Apple's `.ips`: a header line and a body, both JSON.
        Ips = "ips",
        /// Apple's older text.
        CrashText = "crash_text",
        /// Apple's text of hangs and spins.
        Spindump = "spindump",
        /// The call graph of Apple's `sample`.
        Sample = "sample",
        /// MetricKit's diagnostics, as `jsonRepresentation()` returns them.
        MetricKit = "metrickit",
        /// KSCrash's JSON.
        KsCrash = "kscrash",
        /// A JSON event with `stacktrace` and `debug_meta`.
        Event = "event_json",
        /// PLCrashReporter's protocol buffer.
        PlCrash = "plcrash",
        /// Crashlytics' text.
        Crashlytics = "crashlytics",
        /// The backtraces that Swift's own runtime prints.
        Swift = "swift_backtrace",
        /// What systemd-coredump says of a process that dumped core.
        CoreDump = "core_dump",
        /// What Foundation prints of an exception that nothing catches.
        FirstThrow = "first_throw",
        /// A stack that a program prints by a library.
        Printed = "printed_stack",
    }
}

impl Layout {
    /// Returns true for a text of many sections, whose messages may have stacks of other layouts.
    fn is_page(self) -> bool {
        use Layout::{CrashText, Crashlytics, Sample, Spindump};
        matches!(self, CrashText | Crashlytics | Sample | Spindump)
    }

    /// Returns true if each report of the layout has a list of images.
    fn has_images(self) -> bool {
        use Layout::{Event, Ips, KsCrash, MetricKit, PlCrash, Sample, Spindump};
        matches!(
            self,
            Event | Ips | KsCrash | MetricKit | PlCrash | Sample | Spindump
        )
    }
}

/// Why nothing could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportError {
    /// The layout is not a known one.
    Unknown,
    /// More bytes than a report may have.
    TooLong {
        /// Length in bytes.
        bytes: u64,
    },
    /// The layout is known, but there is nothing in it.
    Nothing {
        /// The layout.
        layout: Layout,
        /// Offset from the start of the file, in bytes.
        offset: u64,
        /// Description of the fault there.
        what: &'static str,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Unknown => write!(f, "none of the known report layouts"),
            ImportError::TooLong { bytes } => {
                let most = limits::REPORT_BYTES;
                write!(f, "{bytes} bytes, but a report has {most} at most")
            }
            ImportError::Nothing {
                layout,
                offset,
                what,
            } => {
                let layout = layout.as_str();
                write!(
                    f,
                    "it looks like a report of layout `{layout}`, but at byte {offset} {what}: nothing could be read of it"
                )
            }
        }
    }
}

impl std::error::Error for ImportError {}

/// Detects the layout by the content; `None` for wedjat's own reports and for anything else.
///
/// ```
/// use wedjat::symbolicate::import::{Layout, detect};
/// assert_eq!(detect(b"{\"bug_type\":\"309\"}\n{\"threads\":[]}"), Some(Layout::Ips));
/// assert_eq!(detect(b"plcrash\x01"), Some(Layout::PlCrash));
/// assert_eq!(detect(b"hello"), None);
/// ```
pub fn detect(bytes: &[u8]) -> Option<Layout> {
    if bytes.starts_with(PLCRASH) {
        return Some(Layout::PlCrash);
    }
    let text = without_byte_order_mark(bytes);
    let json = first_report(text).map(|(layout, _)| layout);
    json.or_else(|| {
        let text = String::from_utf8_lossy(Some(text).filter(|text| is_text(text))?);
        Some(cut(&plain_lines(&text)).first()?.layout)
    })
}

/// Reads every report in `bytes`: one file may hold several, as an array or one after the other.
///
/// # Errors
/// If the layout is not a known one, or holds nothing.
pub fn read(bytes: &[u8]) -> Result<Vec<Reading>, ImportError> {
    if bytes.len() > limits::REPORT_BYTES {
        detect(bytes).ok_or(ImportError::Unknown)?;
        let bytes = bytes.len() as u64;
        return Err(ImportError::TooLong { bytes });
    }
    let text = without_byte_order_mark(bytes);
    let (layout, found) = if bytes.starts_with(PLCRASH) {
        (Layout::PlCrash, plcrash::read(bytes))
    } else if let Some((layout, documents)) = first_report(text) {
        let read = read_json(bytes, text, layout, documents);
        let read = read.map(|(mut readings, end)| {
            let rest = read_text(bytes, &text[end..], JsonFields::default());
            readings.extend(rest.unwrap_or_default());
            readings
        });
        (layout, read)
    } else {
        // Of texts the header of an `.ips` alone can be all that there is.
        (Layout::Ips, read_text(bytes, text, JsonFields::default()))
    };
    let mut readings = found.map_err(|(offset, what)| ImportError::Nothing {
        layout,
        offset: (bytes.len() - text.len() + offset) as u64,
        what,
    })?;
    let left_out = readings.len().saturating_sub(MAX_REPORTS);
    readings.truncate(MAX_REPORTS);
    let last = readings.last_mut().ok_or(ImportError::Unknown)?;
    if left_out > 0 {
        let text = format!("a file has no more than {MAX_REPORTS} reports: the rest is left out");
        last.damage.push(damage(0, DamageKind::Limit, text));
    }
    Ok(readings)
}

/// The first bytes of PLCrashReporter's reports.
const PLCRASH: &[u8] = b"plcrash";

/// Reports that are read of one file.
const MAX_REPORTS: usize = 1 << 16;

/// An offset in a text, and what is wrong there.
type Fault = (usize, &'static str);

fn damage(offset: usize, kind: DamageKind, message: String) -> Damage {
    let offset = offset as u64;
    Damage {
        offset,
        kind,
        message,
    }
}

/// Returns true for bytes that may be a text; an array of two is a section of a report of our own.
fn is_text(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() != Some(&0x92)
        && !bytes[..bytes.len().min(1 << 12)].contains(&0)
}

/// Reads the reports in `text`, a part of `file`; `header` is the line of JSON in front of the first.
fn read_text(file: &[u8], text: &[u8], header: JsonFields) -> Result<Vec<Reading>, Fault> {
    let mut readings = Vec::new();
    if !is_text(text) {
        return Ok(readings);
    }
    let start = text.as_ptr().addr().saturating_sub(file.as_ptr().addr());
    let before = file.get(..start).unwrap_or_default();
    let above = memchr::memchr_iter(b'\n', before).count();
    let ends = memchr::memchr_iter(b'\n', text).map(|at| start + at + 1);
    let starts: Vec<usize> = std::iter::once(start).chain(ends).collect();
    let text = String::from_utf8_lossy(text);
    let lines = plain_lines(&text);
    let mut header = Some(header);
    for part in cut(&lines) {
        let own = lines[part.from..part.to].join("\n");
        let above = above + part.from;
        let starts = &starts[part.from..];
        let numbers = LineNumbers { starts, above };
        let header = header.take().unwrap_or_default();
        readings.extend(match part.layout {
            Layout::CrashText => vec![crash_text::read(&own, header, numbers)],
            Layout::Crashlytics => vec![crashlytics::read(&own)],
            Layout::CoreDump => vec![core_dump::read(&own)],
            Layout::FirstThrow => vec![crash_text::read_first_throw(&own)],
            Layout::Printed => vec![printed::read(&own, &lines[..part.from])],
            Layout::Swift => swift::read(&own),
            // One that can't be read is refused if it is alone.
            Layout::Ips => match read_json(own.as_bytes(), own.as_bytes(), part.layout, Vec::new())
            {
                Err(fault) if readings.is_empty() => return Err(fault),
                found => found.unwrap_or_default().0,
            },
            layout => vec![call_tree::read(&own, header, numbers, layout)],
        });
        if readings.len() > MAX_REPORTS {
            break;
        }
    }
    Ok(readings)
}

/// Reads the text that `file` ends with: one document of JSON, or several, one after the other. The first ones may have
/// been parsed. Returns where it stops: an `.ips` may have a text below.
fn read_json(
    file: &[u8],
    text: &[u8],
    layout: Layout,
    parsed: Vec<Document>,
) -> Result<(Vec<Reading>, usize), Fault> {
    let (mut readings, mut damages, mut at) = (Vec::new(), Vec::new(), 0);
    let mut parsed = parsed.into_iter();
    while at < text.len()
        && (layout != Layout::Ips || at == 0 || b"{[,".contains(&text[at]))
        && readings.len() <= MAX_REPORTS
        && damages.len() < limits::DAMAGES
    {
        let document = parsed.next().or_else(|| json::read(text, at));
        let read = document.ok_or((at, NO_JSON));
        let read = read.and_then(|document| read_document(file, text, document, layout));
        let (found, end, fault) = match read {
            Err(fault) if readings.is_empty() => return Err(fault),
            Err(fault) => (Vec::new(), text.len(), Some(fault)),
            Ok(read) => read,
        };
        let start = file.len() - text.len();
        if let Some((at, what)) = fault {
            let kind = [DamageKind::Garbage, DamageKind::Cut][usize::from(what == "it ends here")];
            let message = format!("the JSON can't be read on: {what}; all before is kept");
            damages.push(damage(start + at, kind, message));
        } else if found.is_empty() {
            let message = "a JSON value that is no report is left out".to_owned();
            damages.push(damage(start + at, DamageKind::Garbage, message));
        }
        readings.extend(found);
        let end = fault.map_or(end, |_| text.len());
        at = text.len() - text[end..].trim_ascii_start().len();
    }
    let last: &mut Reading = readings.last_mut().ok_or((0, "there is no diagnostic"))?;
    last.damage.extend(damages);
    Ok((readings, at))
}

const NO_JSON: &str = "there is no JSON value";

/// Reads the reports of a document. Returns the first byte after it, and where it could not be read on.
fn read_document(
    file: &[u8],
    text: &[u8],
    document: Document,
    layout: Layout,
) -> Result<(Vec<Reading>, usize, Option<Fault>), Fault> {
    let (end, fault) = (document.end, document.damage);
    // What is beside a report may be another, or something else; what was cut may have lost what it is known by.
    let own = value_layout(&document.value).or(fault.map(|_| layout));
    if own != Some(Layout::Ips) {
        let readings = own.map_or(Vec::new(), |own| reports(document.value, own));
        return Ok((readings, end, fault));
    }
    let header = JsonFields::of(document.value);
    // A body that someone cut the header off.
    if header.has("threads") {
        return Ok((vec![ips::read(header)], end, fault));
    }
    let rest = text.get(end..).unwrap_or_default();
    if let Some(what) = unread_kind(&header) {
        return Err((document.start, what));
    }
    let Some(after) = rest.trim_ascii_start().first() else {
        let fields = JsonFields::one("header", header.into_raw());
        let ends = fault.or(Some((text.len(), "it ends here")));
        return Ok((vec![ips::read(fields)], end, ends));
    };
    if *after != b'{' {
        // Other kinds of `.ips` have text after the header.
        let len = next_header(rest).unwrap_or(rest.len());
        let readings = read_text(file, &rest[..len], header)?;
        if readings.is_empty() {
            return Err((end, "there is no crash report"));
        }
        return Ok((readings, end + len, fault));
    }
    let body = json::read(text, end).ok_or((end, NO_JSON))?;
    let mut fields = JsonFields::of(body.value);
    if !ips::is_hang(&fields) && !fields.has("threads") && body.damage.is_none() {
        return Err((end, "there are no stacks"));
    }
    fields.keep("header", header);
    Ok((vec![ips::read(fields)], body.end, fault.or(body.damage)))
}

/// Where the next line of JSON with `bug_type` begins.
fn next_header(text: &[u8]) -> Option<usize> {
    let starts = memmem::find_iter(text, b"\n{").map(|at| at + 1);
    let line = |at: usize| text[at..].split(|c| *c == b'\n').next().unwrap_or_default();
    let mut starts = starts.filter(|at| memmem::find(line(*at), b"\"bug_type\"").is_some());
    starts.next()
}

/// Names the `.ips` that is not read, cut or whole, by its header.
fn unread_kind(header: &JsonFields) -> Option<&'static str> {
    Some(match header.peek("bug_type")? {
        "298" => "it is a `JetsamEvent` (the system ran out of memory), which has no stacks",
        "151" | "210" => "it is the report of a kernel panic, which is not read",
        "115" => "it is the note of a restart of the device (`ResetCounter`), which has no stacks",
        "211" => "it is a file of analytics, which has no stacks",
        "188" => "it is a log of the system's own diagnostics (bug type 188), which has no stacks",
        _ => return None,
    })
}

/// The reports in a value: one, or those of an array, as apps collect them.
fn reports(value: Value, layout: Layout) -> Vec<Reading> {
    let one = |layout, value| match (layout, JsonFields::of(value)) {
        (Layout::MetricKit, payload) => metrickit::read(payload),
        (Layout::Ips, body) => vec![ips::read(body)],
        (Layout::KsCrash, report) => vec![kscrash::read(report)],
        (Layout::Swift, backtrace) => vec![swift::read_json(backtrace, &[])],
        (_, event) => vec![sentry::read(event)],
    };
    let Value::Array(values) = value else {
        return one(layout, value);
    };
    let values = values.into_iter();
    let maps = values.filter(|value| matches!(value, Value::Map(_)));
    let known = maps.filter_map(|value| Some((value_layout(&value)?, value)));
    let all = known.flat_map(|(layout, value)| one(layout, value));
    all.take(MAX_REPORTS + 1).collect()
}

/// The documents that a text begins with, up to the first that is a report, and its layout.
fn first_report(text: &[u8]) -> Option<(Layout, Vec<Document>)> {
    let mut documents: Vec<Document> = Vec::new();
    let is_json = matches!(text.trim_ascii_start().first(), Some(b'{' | b'['));
    while is_json && documents.last().is_none_or(|last| last.damage.is_none()) {
        let document = json::read(text, documents.last().map_or(0, |last| last.end))?;
        let layout = value_layout(&document.value);
        documents.push(document);
        if let Some(layout) = layout {
            return Some((layout, documents));
        }
    }
    None
}

/// The layout of a value, by the keys that its outermost objects have at their places.
fn value_layout(value: &Value) -> Option<Layout> {
    let Value::Map(entries) = value else {
        let Value::Array(values) = value else {
            return None;
        };
        let mut maps = values.iter().filter(|value| matches!(value, Value::Map(_)));
        return maps.find_map(value_layout);
    };
    let get = |path: &str| JsonFields::get_in(entries, path);
    let is_map = |path: &str| matches!(get(path), Some(Value::Map(_)));
    let is_list = |path: &str| matches!(get(path), Some(Value::Array(_)));
    if get("bug_type").is_some() || is_list("usedImages") && is_list("threads") {
        return Some(Layout::Ips);
    }
    if matches!(get("kind"), Some(Value::Text(kind)) if kind == "crashReport") && is_list("threads")
    {
        return Some(Layout::Swift);
    }
    if metrickit::has_tree(&get) {
        return Some(Layout::MetricKit);
    }
    let beside = ["report", "system", "binary_images"];
    if is_map("recrash_report") || is_map("crash") && beside.iter().any(|key| get(key).is_some()) {
        return Some(Layout::KsCrash);
    }
    let has_stack = |value: &Value| match value {
        Value::Map(entries) => JsonFields::get_in(entries, "stacktrace.frames").is_some(),
        _ => false,
    };
    let lists = ["exception.values", "exception", "threads.values", "threads"];
    let mut lists = lists.iter().filter_map(|path| get(path));
    let has_stacks =
        lists.any(|list| matches!(list, Value::Array(all) if all.iter().any(has_stack)));
    has_stacks.then_some(Layout::Event)
}

/// Without the byte order mark that some editors put in front.
fn without_byte_order_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}
