//! The answers to a report, made once for every format: title, blame, group, normalised stack, an owner a frame, and
//! which debug files are missing.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::plain;
use super::stacks::heaviest;
use crate::report::Report;
use crate::report::model::Event;
use crate::report::time::nanos;
use crate::symbolicate::MissingFile;
use crate::symbolicate::blame::{Blamed, blamed};
use crate::symbolicate::frame::{Symbolicated, Unread, id_text, image_file_name};
use crate::symbolicate::group::{Group, Member, RECIPE, key_text, thread_in_question};

/// The answers to one report.
#[derive(Debug)]
pub(super) struct Findings {
    /// `stall in till::parse`.
    pub title: String,
    /// The function of the frame to blame; of one without a name, its image and the offset there.
    pub blame: Option<String>,
    /// Index of the thread that it is about.
    pub thread: Option<usize>,
    pub member: Member,
}

impl Findings {
    pub fn new(origin: &str, of: &Symbolicated) -> Findings {
        let member = Member::new(origin, of);
        Findings {
            title: member.title().text(),
            blame: to_blame(of).map(|found| blame_text(of, &found)),
            thread: thread_in_question(&of.report),
            member,
        }
    }

    /// As keys of a JSON object.
    pub fn put_into(&self, object: &mut Map<String, Json>) {
        let member = &self.member;
        let duration = (!member.duration.is_zero()).then(|| nanos(member.duration));
        let facts = [
            ("title", json!(self.title)),
            ("blame", json!(self.blame)),
            ("group", json!(key_text(member.key))),
            ("group_recipe", json!(RECIPE)),
            ("stack", stack_json(member)),
            ("thread", json!(self.thread)),
            ("ended", json!(member.ended)),
            ("ending", json!(member.ending)),
            ("duration", json!(duration)),
            ("at_least", json!(member.at_least)),
        ];
        object.extend(facts.map(|(key, value)| (key.to_owned(), value)));
    }
}

/// The names of a normalised stack.
pub(super) fn stack_json(member: &Member) -> Json {
    member.stack.iter().map(|name| &**name).collect()
}

/// The titles of groups in one list: no two are equal. Groups whose titles are equal have the innermost caller that not all of
/// them have at its depth, or else the beginning of their keys.
pub(super) fn titles(groups: &[&Group]) -> Vec<String> {
    let plain = groups.iter().map(|group| group.example.title().text());
    let plain: Vec<String> = plain.collect();
    let titled = groups.iter().zip(&plain).map(|(group, title)| {
        let all = groups.iter().zip(&plain);
        let same = || all.clone().filter(|(_, other)| *other == title);
        if same().count() == 1 {
            return title.clone();
        }
        let at = |group: &Group, depth: usize| group.example.stack.get(depth).cloned();
        let is_only = |depth: &usize| {
            same()
                .filter(|(other, _)| at(other, *depth) == at(group, *depth))
                .count()
                == 1
        };
        let depth = (1..group.example.stack.len()).find(is_only);
        match depth.and_then(|depth| at(group, depth)) {
            Some(caller) => format!("{title}, called by {caller}"),
            None => format!("{title}, group {}", &key_text(group.key)[..8]),
        }
    });
    titled.collect()
}

/// The frame to blame: of the heaviest sample, else of the thread that the report is about.
pub(super) fn to_blame(of: &Symbolicated) -> Option<Blamed<'_>> {
    let thread = || of.threads.get(thread_in_question(&of.report)?);
    let sample = heaviest(of).and_then(|(index, ..)| of.samples.get(index));
    blamed(of, sample.or_else(thread)?)
}

/// The function of a frame to blame; of one without a name, `kiosk + 14442`.
pub(super) fn blame_text(of: &Symbolicated, found: &Blamed<'_>) -> String {
    let name = found.name(of);
    let is_named = found.frame.is_some_and(|frame| frame.function.is_some());
    let image = of.image(found.physical);
    let image = image.filter(|image| !is_named && image.base != 0);
    let offset = image.and_then(|image| found.physical.pc.checked_sub(image.base));
    offset.map_or(name.to_owned(), |offset| format!("{name} + {offset}"))
}

/// Most images of the system that are named.
const MAX_NAMED: usize = 3;

/// Lines about missing debug files: one for each, and one for all images of the operating system that
/// have not even symbols.
pub(crate) fn missing_lines<'a>(missing: impl IntoIterator<Item = &'a MissingFile>) -> Vec<String> {
    let (system, others): (Vec<_>, Vec<_>) = missing.into_iter().partition(|of| of.system);
    let mut lines: Vec<String> = others.into_iter().map(missing_text).collect();
    let system: Vec<_> = system.into_iter().filter(|of| !of.symbols).collect();
    if let Some(first) = system.first() {
        let names = system.iter().take(MAX_NAMED);
        let names: Vec<&str> = names.map(|of| image_file_name(&of.name)).collect();
        let mut text = format!("system: {}", names.join(", "));
        if let Some(more @ 1..) = system.len().checked_sub(MAX_NAMED) {
            let _ = write!(text, " and {more} more");
        }
        if first.name.starts_with("/System/") || first.name.ends_with(".dylib") {
            text.push_str("  (Xcode's DeviceSupport folder, or a dyld shared cache, names them)");
        }
        lines.push(plain(&text).into_owned());
    }
    lines
}

/// One line about a missing debug file.
pub(crate) fn missing_text(missing: &MissingFile) -> String {
    let id = Some(id_text(&missing.id)).filter(|id| !id.is_empty());
    let id = id.unwrap_or("no id".into());
    let mut text = format!("{}  {id}", image_file_name(&missing.name));
    if let Some(arch) = &missing.arch {
        let _ = write!(text, "  {arch}");
    }
    if missing.symbols && !missing.unread.split {
        text.push_str("  (named by its symbol table alone)");
    }
    text.push_str(&unread_text(missing.unread));
    if !missing.others.is_empty() {
        let others: Vec<String> = missing.others.iter().map(|id| id_text(id)).collect();
        let _ = write!(text, "  (found only {})", others.join(", "));
    }
    plain(&text).into_owned()
}

/// Returns in words what of a debug file was not read; empty where all was.
pub(crate) fn unread_text(unread: Unread) -> String {
    let Unread {
        damaged,
        refused,
        split,
    } = unread;
    let files = "  (its .dwo, .dwp or dwz files; named by its symbol table alone where they are)";
    let split = split.then(|| files.to_owned());
    let damaged = (damaged > 0)
        .then(|| format!("  (lines damaged in {damaged} of its units; those around are read)"));
    let refused = (refused > 0)
        .then(|| format!("  ({refused} of its units or sections not read: damaged, or too large)"));
    [split, damaged, refused].into_iter().flatten().collect()
}

/// The event in a few words.
pub(super) fn kind_text(report: &Report, event: &Event) -> String {
    let class = report.class_word();
    let class = class.map_or(String::new(), |class| format!(", {class}"));
    let fatal = if event.fatal { ", fatal" } else { "" };
    format!("{}{class}{fatal}", event.word())
}
