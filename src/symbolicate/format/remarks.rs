//! Lines that several formats have in common.

use std::fmt::Write as _;

use super::plain;
use crate::report::model::Event;
use crate::symbolicate::frame::{id_text, image_file_name};

/// One line about a missing debug file.
pub(crate) fn missing_text(missing: &crate::symbolicate::Missing) -> String {
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
    if !missing.others.is_empty() {
        let others: Vec<String> = missing.others.iter().map(|id| id_text(id)).collect();
        let _ = write!(text, "  (found only {})", others.join(", "));
    }
    plain(&text).into_owned()
}

/// What happened, in a few words.
pub(super) fn kind_text(event: &Event) -> String {
    let class = event
        .class
        .as_ref()
        .map_or(String::new(), |class| format!(", {class}"));
    let fatal = if event.fatal { ", fatal" } else { "" };
    format!("{}{class}{fatal}", event.word())
}
