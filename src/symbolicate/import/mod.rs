//! Reports that other recorders wrote, read into the same [`Report`](crate::report::Report).
//!
//! The content decides the layout, never the file's name:
//!
//! | layout | recognised by |
//! | --- | --- |
//! | Apple's `.ips` (crash) | a JSON line with `bug_type`, then a JSON body with `threads` |
//! | Apple's `.crash` text, also after an `.ips` header line | `Incident Identifier:`, `Process:` or `Thread 0` lines |
//! | Apple's stackshot `.ips` (hang) | the same header line, then a body with `processByPid` |
//! | Apple's text of hangs and spins, of much CPU and of many writes, also after an `.ips` header line | `Steps:` and `Event:` or `Data Source:` lines |
//! | the call graph of Apple's `sample` | `Analysis of sampling` and `Call graph:` lines |
//! | MetricKit's `MXDiagnosticPayload`, whole or one diagnostic of it | `callStackTree` |
//! | KSCrash's JSON | `crash` and `report` |
//! | an event of Sentry | `stacktrace` with `frames`, and `exception` or `threads` |
//! | Crashlytics' text | a line `# Crashlytics - …` |
//! | Swift's own backtraces, also within a log | `*** Program crashed:`, `*** Swift runtime failure:`, `Current stack trace:`; in JSON `crashReport` and `platform` |
//! | PLCrashReporter's `.plcrash` | its first seven bytes |
//!
//! These layouts change every year. Missing fields are tolerated. Unknown fields are kept: a thread's and
//! an image's in their `extra`, all others in a section with the layout's name. A file that was cut is read
//! up to the cut. Reading has the bounds of our own reports: time linear in the bytes, and no more nesting,
//! frames or bytes than [`crate::report::limits`] allows.
//!
//! A caller's address is a return address in all of them: only the first frame of a thread is looked
//! up as it is. No layout says how a frame was found: [`Found::Unknown`](crate::report::Found::Unknown).

mod call_tree;
mod crash_text;
mod crashlytics;
mod draft;
mod ended;
mod event;
mod fields;
mod ips;
mod json;
mod kscrash;
mod line_numbers;
mod lines;
mod metrickit;
mod nodes;
mod others;
mod parts;
mod plcrash;
mod stackshot;
mod swift;
mod text;
mod titles;
mod values;

use std::fmt;

use memchr::memmem;

use self::fields::Fields;
use self::line_numbers::{LineNumbers, dedented};
pub(crate) use self::others::other_product;
use crate::report::{Damage, DamageKind, Reading, Value, limits};

/// The layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Apple's `.ips`: a header line and a body, both JSON.
    Ips,
    /// Apple's older text.
    CrashText,
    /// Apple's text of hangs and spins.
    Spindump,
    /// The call graph of Apple's `sample`.
    Sample,
    /// MetricKit's diagnostics, as `jsonRepresentation()` returns them.
    MetricKit,
    /// KSCrash's JSON.
    KsCrash,
    /// A JSON event with `stacktrace` and `debug_meta`.
    Event,
    /// PLCrashReporter's protocol buffer.
    PlCrash,
    /// Crashlytics' text.
    Crashlytics,
    /// The backtraces that Swift's own runtime prints.
    Swift,
}

impl Layout {
    /// The word under which a report keeps what was not understood.
    pub fn as_str(self) -> &'static str {
        match self {
            Layout::Ips => "ips",
            Layout::CrashText => "crash_text",
            Layout::Spindump => "spindump",
            Layout::Sample => "sample",
            Layout::MetricKit => "metrickit",
            Layout::KsCrash => "kscrash",
            Layout::Event => "event_json",
            Layout::PlCrash => "plcrash",
            Layout::Crashlytics => "crashlytics",
            Layout::Swift => "swift_backtrace",
        }
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
            ImportError::TooLong { bytes } => write!(
                f,
                "{bytes} bytes are more than a report has ({} at most)",
                limits::REPORT_BYTES
            ),
            ImportError::Nothing {
                layout,
                offset,
                what,
            } => write!(
                f,
                "it looks like a report of layout `{}`, but at byte {offset} {what}: nothing could be read of it",
                layout.as_str()
            ),
        }
    }
}

impl std::error::Error for ImportError {}

/// Detects the layout by the content; `None` for wedjat's own reports and for anything else.
///
/// ```
/// use wedjat::symbolicate::import::{Layout, detect};
/// assert_eq!(detect(b"plcrash\x01"), Some(Layout::PlCrash));
/// assert_eq!(detect(b"{\"bug_type\":\"309\"}\n{\"threads\":[]}"), Some(Layout::Ips));
/// assert_eq!(detect(b"hello"), None);
/// ```
pub fn detect(bytes: &[u8]) -> Option<Layout> {
    if bytes.starts_with(b"plcrash") {
        return Some(Layout::PlCrash);
    }
    let text = without_mark(bytes);
    match text.trim_ascii_start().first()? {
        b'{' | b'[' => detect_json(text),
        // An array of two, as each section of a report of our own is.
        0x92 => None,
        _ => text_layout(text),
    }
}

/// The layout of a text for people.
fn text_layout(text: &[u8]) -> Option<Layout> {
    let front = &text[..text.len().min(1 << 16)];
    if call_tree::is_sample(front) {
        return Some(Layout::Sample);
    }
    if call_tree::is_spindump(front) {
        return Some(Layout::Spindump);
    }
    if crashlytics::is_one(front) {
        return Some(Layout::Crashlytics);
    }
    let is_crash = crash_text::is_one(front);
    is_crash
        .then_some(Layout::CrashText)
        .or_else(|| swift::is_one(text).then_some(Layout::Swift))
}

/// Returns true if a line of the text begins with this, but for spaces.
fn starts_a_line(text: &[u8], with: &[u8]) -> bool {
    let mut lines = text.split(|c| *c == b'\n');
    lines.any(|line| line.trim_ascii_start().starts_with(with))
}

/// Reads the text that `file` ends with, which `header` may be in front of.
fn read_text(file: &[u8], text: &[u8], header: Fields) -> Option<Reading> {
    let (lines, dedented) = (LineNumbers::new(file, text), dedented(text));
    let dedented = String::from_utf8_lossy(&dedented);
    Some(match text_layout(text)? {
        Layout::CrashText => crash_text::read(&dedented, header, lines),
        Layout::Crashlytics => crashlytics::read(&dedented),
        Layout::Swift => return swift::read(&dedented).pop(),
        layout => call_tree::read(&dedented, header, lines, layout),
    })
}

/// Reads every report in `bytes`: one file may hold several, as an array or one after the other.
///
/// # Errors
/// If the layout is not a known one, or holds nothing.
pub fn read(bytes: &[u8]) -> Result<Vec<Reading>, ImportError> {
    let layout = detect(bytes).ok_or(ImportError::Unknown)?;
    if bytes.len() > limits::REPORT_BYTES {
        let bytes = bytes.len() as u64;
        return Err(ImportError::TooLong { bytes });
    }
    let text = without_mark(bytes);
    let found = match layout {
        Layout::PlCrash => plcrash::read(bytes).map(|reading| vec![reading]),
        Layout::Swift if text.trim_ascii_start().first() != Some(&b'{') => {
            Ok(swift::read(&String::from_utf8_lossy(text)))
        }
        Layout::Spindump | Layout::Sample | Layout::CrashText | Layout::Crashlytics => {
            let reading = read_text(bytes, text, Fields::default());
            Ok(reading.into_iter().collect())
        }
        _ => read_json(bytes, text, layout),
    };
    found.map_err(|(offset, what)| ImportError::Nothing {
        layout,
        offset: (bytes.len() - text.len() + offset) as u64,
        what,
    })
}

/// Reports that are read of one file.
const REPORTS: usize = 1 << 16;

/// An offset in a text, and what is wrong there.
type JsonFault = (usize, &'static str);

/// Reads the text that `file` ends with: one document of JSON, or several, one after the other.
fn read_json(file: &[u8], text: &[u8], layout: Layout) -> Result<Vec<Reading>, JsonFault> {
    let (mut readings, mut damage, mut at) = (Vec::new(), Vec::new(), 0);
    let mut note = |at: usize, kind, message: String| {
        let offset = (file.len() - text.len() + at) as u64;
        damage.push(Damage {
            offset,
            kind,
            message,
        });
        damage.len() < limits::DAMAGES
    };
    let mut goes_on = true;
    while goes_on && at < text.len() {
        let (found, end, fault) = match read_document(file, text, at, layout) {
            Ok(found) => found,
            Err(fault) if readings.is_empty() => return Err(fault),
            Err(fault) => (Vec::new(), at, Some(fault)),
        };
        if let Some((at, what)) = fault {
            let kind = match what {
                "it ends here" => DamageKind::Cut,
                _ => DamageKind::Garbage,
            };
            let message = format!("the JSON can't be read on: {what}; all before is kept");
            note(at, kind, message);
            goes_on = false;
        } else if found.is_empty() {
            let message = "a JSON value that is no report is left out";
            goes_on = note(at, DamageKind::Garbage, message.to_owned());
        }
        readings.extend(found);
        if readings.len() > REPORTS {
            readings.truncate(REPORTS);
            let message =
                format!("a file has no more than {REPORTS} reports: the rest is left out");
            note(at, DamageKind::Limit, message);
            goes_on = false;
        }
        at = text.len() - text[end..].trim_ascii_start().len();
    }
    let last: &mut Reading = readings.last_mut().ok_or((0, "there is no diagnostic"))?;
    last.damage.extend(damage);
    Ok(readings)
}

/// Reads the reports of the document at `at`. Returns the first byte after it, and where it could not be read on.
fn read_document(
    file: &[u8],
    text: &[u8],
    at: usize,
    layout: Layout,
) -> Result<(Vec<Reading>, usize, Option<JsonFault>), JsonFault> {
    const NO_JSON: &str = "there is no JSON value";
    let first = json::read(text, at).ok_or((at, NO_JSON))?;
    let (end, fault) = (first.end, first.damage);
    // What is beside a report may be another, or something else.
    let own = match fault {
        None if layout != Layout::Ips => detect_json(&text[at..end]),
        _ => Some(layout),
    };
    if own != Some(Layout::Ips) {
        let readings = own.map_or(Vec::new(), |own| reports(first.value, own));
        return Ok((readings, end, fault));
    }
    let header = Fields::of(first.value);
    // A body that someone cut the header off.
    if header.has("threads") {
        return Ok((vec![ips::read(header)], end, fault));
    }
    let rest = text.get(end..).unwrap_or_default();
    if let Some(what) = unread_kind(&header) {
        return Err((at, what));
    }
    let Some(behind) = rest.trim_ascii_start().first() else {
        let mut fields = Fields::default();
        fields.keep("header", header);
        let ends = fault.or(Some((text.len(), "it ends here")));
        return Ok((vec![ips::read(fields)], end, ends));
    };
    if *behind != b'{' {
        // Other kinds of `.ips` have text after the header.
        let reading = read_text(file, rest, header).ok_or((end, "there is no crash report"))?;
        return Ok((vec![reading], text.len(), fault));
    }
    let body = json::read(text, end).ok_or((end, NO_JSON))?;
    let mut fields = Fields::of(body.value);
    let is_hang = stackshot::is_hang(&fields);
    if !is_hang && !fields.has("threads") && body.damage.is_none() {
        return Err((end, "there are no stacks"));
    }
    fields.keep("header", header);
    let reading = if is_hang {
        stackshot::read(fields)
    } else {
        ips::read(fields)
    };
    Ok((vec![reading], body.end, fault.or(body.damage)))
}

/// Names the `.ips` that is not read, cut or whole, by its header.
fn unread_kind(header: &Fields) -> Option<&'static str> {
    let kind = match header.get("bug_type")? {
        Value::Text(kind) => kind.as_str(),
        _ => return None,
    };
    Some(match kind {
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
    let one = |value| match (layout, Fields::of(value)) {
        (Layout::MetricKit, payload) => metrickit::read(payload),
        (Layout::KsCrash, report) => vec![kscrash::read(report)],
        (Layout::Swift, backtrace) => vec![swift::read_json(backtrace)],
        (_, event) => vec![event::read(event)],
    };
    match value {
        Value::Array(values) => {
            let values = values.into_iter();
            let maps = values.filter(|value| matches!(value, Value::Map(_)));
            maps.flat_map(one).take(REPORTS + 1).collect()
        }
        value => one(value),
    }
}

/// By the keys of the outermost objects, wherever they stand: the text itself is read only once more.
fn detect_json(text: &[u8]) -> Option<Layout> {
    let has = |key: &[u8]| memmem::find(text, key).is_some();
    let start = text.trim_ascii_start();
    let line = start.split(|c| *c == b'\n').next().unwrap_or_default();
    if memmem::find(line, b"\"bug_type\"").is_some()
        || (has(b"\"usedImages\"") && has(b"\"threads\""))
    {
        return Some(Layout::Ips);
    }
    if swift::is_json(text) {
        return Some(Layout::Swift);
    }
    if has(b"\"callStackTree\"") || has(b"\"callStacks\"") {
        return Some(Layout::MetricKit);
    }
    if has(b"\"crash\"") && (has(b"\"binary_images\"") || has(b"\"report\"")) {
        return Some(Layout::KsCrash);
    }
    if has(b"\"stacktrace\"")
        && has(b"\"frames\"")
        && (has(b"\"exception\"") || has(b"\"threads\""))
    {
        return Some(Layout::Event);
    }
    None
}

/// Without the mark of UTF-8 that some editors put in front.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}
