//! The values of a report that count in its group, and the group's key.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::copies::{Identity, identity};
use super::stack::frame_named;
use super::{NO_END, normalised};
use crate::report::time::since_epoch;
use crate::report::{Event, EventKind, Os, Report, Value};
use crate::symbolicate::frame::{Symbolicated, image_file_name};
use crate::symbolicate::keys::ENDED_BY;
use crate::symbolicate::names::title::{TitleParts, pattern, shortened};

/// The values of a report that count in its group. It can be made on any thread, and takes little memory.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Member {
    /// The group's [`key`](super::Group::key).
    pub key: u128,
    /// A hash of its id, which copies have in common; `None` where it has none.
    pub(super) identity: Option<Identity>,
    /// The kind of event.
    pub kind: EventKind,
    /// The kind in a word; of [`EventKind::Other`] the word that the report has for it.
    pub(crate) word: String,
    /// The [`normalised`] stack, innermost first.
    pub stack: Box<[Arc<str>]>,
    /// The code by which the system ended the app, where there is one: `FRONTBOARD 0x8BADF00D`.
    pub(crate) ended_by: Option<String>,
    /// File and line of the innermost frame of the stack, or of the panic: `act.rs:12`.
    pub(crate) place: Option<String>,
    /// The message of a panic or an exception, shortened.
    pub(crate) message: Option<String>,
    /// The report's file or source.
    pub origin: String,
    /// Duration of the stall; zero where it is unknown, or where the report is of no stall.
    pub duration: Duration,
    /// True if the stall was never seen to end: `duration` is up to its last sample.
    pub at_least: bool,
    /// True if the launch ended by it, as far as this report shows.
    pub ended: bool,
    /// The way it ended: the signal, `panic`, the word of a stall's end, [`NO_END`](super::NO_END).
    pub ending: String,
    /// When, in nanoseconds since the epoch; `None` where the report has no time.
    pub(crate) time: Option<u64>,
    /// Id of the launch; of a report without one, the report's own.
    pub(crate) launch: [u8; 16],
    /// See [`Group::labels`](super::Group::labels).
    pub(crate) labels: Vec<(Label, String)>,
}

/// The name of something that groups count.
pub type Label = Cow<'static, str>;
/// The beginning of the labels that are the app's keys.
pub(crate) const APP_KEY: &str = "key ";
/// The value of what a report does not say.
pub(crate) const UNKNOWN: &str = "unknown";

impl Member {
    /// Takes the facts that count from a report. `origin` is its file or source.
    pub fn new(origin: &str, symbolicated: &Symbolicated) -> Member {
        let report = &symbolicated.report;
        let event = report.event.as_ref();
        let kind = event.map_or(EventKind::Other, |event| event.kind);
        let stack = normalised(symbolicated);
        let (duration, at_least) = duration_of(report, kind);
        let fatal = event.is_some_and(|event| event.fatal);
        let signal = event.and_then(|event| event.signal.as_ref());
        let ended_by = event.and_then(ended_by);
        let ending = match (&report.stall_end, signal) {
            (_, Some(signal)) => ended_by.unwrap_or(&signal.name).to_owned(),
            (Some(end), _) => end.how_word().to_owned(),
            _ if at_least => NO_END.to_owned(),
            _ if fatal => event.map_or("", |event| event.word()).to_owned(),
            _ => "went on".to_owned(),
        };
        let place = stack.first().and_then(|name| place_of(symbolicated, name));
        let message = event.and_then(|event| message_of(event, shortened));
        // Panics at one place may be faults of many kinds.
        let panic = event.filter(|_| kind == EventKind::Panic);
        let panic_pattern = panic.and_then(|event| message_of(event, pattern));
        let facts = [ended_by, panic_pattern.as_deref()];
        let head = &report.head;
        let reason = report.reason().and_then(pattern).unwrap_or_default();
        let label = |name: &'static str, value: &str| {
            let value = if value.is_empty() { UNKNOWN } else { value };
            (name.into(), value.to_owned())
        };
        let mut labels: Vec<(Label, String)> = vec![
            label("versions", &head.app.version),
            label("devices", head.device.as_deref().unwrap_or("")),
            label("systems", &system_text(&head.os)),
            label("endings", &ending),
            label("classes", report.class_word().unwrap_or("")),
            label("reasons", &reason),
        ];
        let keys = report.context.iter().flat_map(|context| &context.keys);
        labels.extend(keys.map(app_key));
        let launch = Some(head.launch).filter(|launch| *launch != [0; 16]);
        Member {
            key: key_of(kind, facts, &app_word(&head.app.name), &stack),
            identity: identity(report, !symbolicated.damage.is_empty()),
            kind,
            word: event.map_or(kind.as_str(), |event| event.word()).to_owned(),
            stack,
            ended_by: ended_by.map(str::to_owned),
            place,
            message,
            origin: origin.to_owned(),
            duration,
            at_least,
            ended: fatal || ending == NO_END,
            ending,
            time: Some(since_epoch(head.time)).filter(|time| *time > 0),
            launch: launch.unwrap_or(head.id),
            labels,
        }
    }
}

/// Returns the file and line of a function of the stack; without debug information, those of the panic.
fn place_of(of: &Symbolicated, function: &str) -> Option<String> {
    let frame = frame_named(of, function);
    let known = frame.and_then(|frame| Some((frame.file.as_deref()?, frame.line)));
    match known {
        Some((file, Some(line))) => Some(format!("{}:{line}", image_file_name(file))),
        _ => panic_place(of).or_else(|| Some(image_file_name(known?.0).to_owned())),
    }
}

/// Returns `act.rs:12` for a panic at `src/act.rs:12:5`.
fn panic_place(of: &Symbolicated) -> Option<String> {
    let location = of.report.event.as_ref()?.location.as_deref()?;
    let parts = image_file_name(location).split(':').take(2);
    Some(parts.collect::<Vec<_>>().join(":"))
}

/// Returns the message of a panic or an exception, edited by `edit`; that of an exception with its name.
fn message_of(event: &Event, edit: fn(&str) -> Option<String>) -> Option<String> {
    let message = event.message.as_deref().and_then(edit);
    match event.kind {
        EventKind::Panic => message,
        EventKind::Exception => {
            let name = event.name.as_deref().filter(|name| !name.is_empty());
            // Some recorders put the name into the message.
            let name = name.filter(|name| !message.as_deref().unwrap_or("").contains(name));
            let parts: Vec<&str> = name.into_iter().chain(message.as_deref()).collect();
            Some(parts.join(": ")).filter(|text| !text.is_empty())
        }
        _ => None,
    }
}

impl Member {
    /// The value of one of [`labels`](Member::labels).
    pub(crate) fn label(&self, name: &str) -> &str {
        let mut labels = self.labels.iter();
        let label = labels.find(|(label, _)| label == name);
        label.map_or(UNKNOWN, |(_, value)| value)
    }

    /// The title of the report, and of its group.
    pub(crate) fn title(&self) -> TitleParts<'_> {
        TitleParts {
            what: &self.word,
            ended_by: self.ended_by.as_deref(),
            function: Some(self.stack.first().map_or("(no stack)", |name| name)),
            place: self.place.as_deref(),
            message: self.message.as_deref(),
            ..TitleParts::default()
        }
    }
}

/// The code by which the system ended the app, as importers note it.
fn ended_by(event: &Event) -> Option<&str> {
    event.extra.iter().find_map(|(key, value)| match value {
        Value::Text(word) if key == ENDED_BY => Some(word.as_str()),
        _ => None,
    })
}

/// The system and its version. Apple's crash reports still call iOS `iPhone OS`.
fn system_text(os: &Os) -> String {
    let name = os.name.replace("iPhone OS", "iOS");
    format!("{name} {}", os.version).trim().to_owned()
}

/// A key of the app as a label, with its value.
fn app_key((key, value): &(String, Value)) -> (Label, String) {
    let text = match value {
        Value::Text(text) => text.clone(),
        value => serde_json::to_string(value).unwrap_or_default(),
    };
    let label = format!("{APP_KEY}{key}");
    (label.into(), shortened(&text).unwrap_or_default())
}

/// Returns the duration of a report's stall, and true if it lasted longer: a stall that was never seen to end was the
/// last thing that its launch did, and lasted at least to its last sample.
fn duration_of(report: &Report, kind: EventKind) -> (Duration, bool) {
    if kind != EventKind::Stall {
        return (Duration::ZERO, false);
    }
    let last = report.samples.iter().map(|sample| sample.at).max();
    match &report.stall_end {
        Some(end) => (end.duration, end.at_least),
        None => (last.unwrap_or_default(), true),
    }
}

/// A group's key as every output has it: 32 hexadecimal digits.
pub fn key_text(key: u128) -> String {
    format!("{key:032x}")
}

/// Version of the recipe by which keys are made. Keys of different recipes are never the same.
pub const RECIPE: u32 = 8;

/// The app's name as every recorder writes it: `com.example.My-Kiosk`, `My Kiosk` and `mykiosk` are one.
fn app_word(name: &str) -> String {
    let is_bundle = name.split('.').count() > 2 && !name.contains(' ');
    let word = match name.rsplit('.').next() {
        Some(last) if is_bundle => last,
        _ => name,
    };
    let letters = word.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// FNV-1a of 128 bits: for a hash that must never change, simple enough to be written in any language.
fn key_of(kind: EventKind, facts: [Option<&str>; 2], app: &str, stack: &[Arc<str>]) -> u128 {
    let recipe = RECIPE.to_string();
    let front = [recipe.as_str(), kind.as_str(), app];
    let words = front.into_iter().chain(facts.into_iter().flatten());
    let words = words.chain(stack.iter().map(|name| &**name));
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in words.flat_map(|word| word.bytes().chain([0])) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    hash
}
