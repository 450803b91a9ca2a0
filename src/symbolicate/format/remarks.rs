//! Lines that several formats have in common.

use std::fmt::Write as _;

use super::plain;
use crate::report::model::Event;
use crate::symbolicate::Missing;
use crate::symbolicate::frame::{id_text, image_file_name};

/// Most images of the system that are named.
const NAMED: usize = 3;

/// Lines about missing debug files: one for each, and one for all images of the operating system that
/// have not even symbols.
pub(crate) fn missing_lines<'a>(missing: impl IntoIterator<Item = &'a Missing>) -> Vec<String> {
    let (system, others): (Vec<_>, Vec<_>) = missing.into_iter().partition(|of| of.system);
    let mut lines: Vec<String> = others.into_iter().map(missing_text).collect();
    let system: Vec<_> = system.into_iter().filter(|of| !of.symbols).collect();
    if let Some(first) = system.first() {
        let names = system.iter().take(NAMED);
        let names: Vec<&str> = names.map(|of| image_file_name(&of.name)).collect();
        let mut text = format!("system: {}", names.join(", "));
        if let Some(more @ 1..) = system.len().checked_sub(NAMED) {
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
pub(crate) fn missing_text(missing: &Missing) -> String {
    let id = if missing.id.is_empty() {
        "no id".into()
    } else {
        id_text(&missing.id)
    };
    let mut text = format!("{}  {id}", image_file_name(&missing.name));
    if let Some(arch) = &missing.arch {
        let _ = write!(text, "  {arch}");
    }
    if missing.split {
        text.push_str("  (its .dwo or .dwp files; named by its symbol table alone where they are)");
    } else if missing.symbols {
        text.push_str("  (named by its symbol table alone)");
    }
    text.push_str(&unread_text(missing.damaged, missing.refused));
    if !missing.others.is_empty() {
        let others: Vec<String> = missing.others.iter().map(|id| id_text(id)).collect();
        let _ = write!(text, "  (found only {})", others.join(", "));
    }
    plain(&text).into_owned()
}

/// Damage of a debug file in words, if it was not read in whole: its units with damaged lines, and those not read.
pub(crate) fn unread_text(damaged: usize, refused: usize) -> String {
    let mut text = String::new();
    if damaged > 0 {
        let _ = write!(
            text,
            "  (lines damaged in {damaged} of its units; those around are read)"
        );
    }
    if refused > 0 {
        let _ = write!(
            text,
            "  ({refused} of its units or sections not read: damaged, or too large)"
        );
    }
    text
}

/// The event in a few words.
pub(super) fn kind_text(event: &Event) -> String {
    let class = event
        .class
        .as_ref()
        .map_or(String::new(), |class| format!(", {class}"));
    let fatal = if event.fatal { ", fatal" } else { "" };
    format!("{}{class}{fatal}", event.word())
}
