//! Counts of a run, printed once all reports are done: how many were damaged, and which debug files are missing.

use std::collections::{BTreeMap, BTreeSet};

use super::args::Args;
use super::{DAMAGED, DONE, Messages, NOTHING};
use crate::symbolicate::format::facts::{again_text, count};
use crate::symbolicate::format::missing_lines;
use crate::symbolicate::frame::image_file_name;
use crate::symbolicate::{MissingFile, Symbolicated};

/// Most messages about reports that are printed. Further ones are only counted.
const MESSAGES: u64 = 10;
/// Most missing debug files that are listed.
const MISSING: usize = 1 << 14;

/// The counts, and the missing debug files.
#[derive(Default)]
pub(super) struct Tally {
    /// Reports of which something could be read.
    pub seen: u64,
    /// Reports that the filters excluded.
    pub unwanted: u64,
    pub damaged: u64,
    /// Inputs that could not be opened or read.
    pub unopened: u64,
    /// Reports that came again, and were not counted again.
    pub again: u64,
    pub missing: BTreeMap<(String, Vec<u8>), MissingFile>,
    /// Files of source code that were shown and are not those that were compiled.
    pub changed: BTreeSet<String>,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.seen += other.seen;
        self.unwanted += other.unwanted;
        self.damaged += other.damaged;
        self.unopened += other.unopened;
        self.again += other.again;
        self.changed.extend(other.changed);
        for (key, missing) in other.missing {
            if self.missing.len() < MISSING {
                self.missing.entry(key).or_insert(missing);
            }
        }
    }

    pub fn note_missing(&mut self, report: &Symbolicated) {
        for missing in &report.missing {
            // One file has many paths: each device has its own.
            let name = image_file_name(&missing.name).to_owned();
            let key = (name, missing.id.clone());
            self.missing.entry(key).or_insert_with(|| missing.clone());
        }
    }

    /// Prints the summary, and returns the exit code.
    pub fn conclude(&self, args: &Args, messages: &mut Messages<'_>) -> u8 {
        if self.seen > 0 && self.unwanted == self.seen {
            let all = count(self.seen, "report");
            messages.warning(&format!(
                "{all} read, but none has the type, time and version that you asked for"
            ));
        }
        if self.again > 0 {
            messages.note(&format!("symbolicate: {}", again_text(self.again)));
        }
        // The system's own libraries are known to lack debug files: `--list-missing` has them.
        let missing = self.missing.values().filter(|m| !(m.system && m.symbols));
        let missing: Vec<&MissingFile> = missing.collect();
        let is_partial = |file: &&MissingFile| file.damaged + file.refused > 0;
        let (in_part, nowhere): (Vec<_>, Vec<_>) = missing.iter().copied().partition(is_partial);
        let most = (!args.verbose).then_some(MESSAGES as usize);
        let shown = most.unwrap_or(usize::MAX);
        let (nowhere, in_part) = (missing_lines(nowhere), missing_lines(in_part));
        let changed: Vec<String> = self.changed.iter().cloned().collect();
        for (title, lines, all) in [
            (
                "debug files missing (give them with --debug):",
                nowhere,
                "--list-missing",
            ),
            ("debug files not read in whole:", in_part, "--list-missing"),
            (
                "source code that is not what was compiled (give that of the commit with --source):",
                changed,
                "--verbose",
            ),
        ] {
            // `--list-missing` prints them itself.
            if args.list_missing || lines.is_empty() {
                continue;
            }
            messages.warning(title);
            for line in lines.iter().take(shown) {
                messages.note(&format!("  {line}"));
            }
            if let Some(more @ 1..) = lines.len().checked_sub(shown) {
                messages.note(&format!("  {more} more; {all} prints all"));
            }
        }
        if self.seen == 0 || self.unopened > 0 {
            NOTHING
        } else if self.damaged > 0 || args.strict && !missing.is_empty() {
            DAMAGED
        } else {
            DONE
        }
    }
}

/// Counts messages, so that thousands of them do not scroll by.
#[derive(Debug)]
pub(super) struct MessageLimit {
    verbose: bool,
    messages: u64,
}

impl MessageLimit {
    pub fn new(verbose: bool) -> MessageLimit {
        MessageLimit {
            verbose,
            messages: 0,
        }
    }

    /// Counts a message. Returns true if it is not to be printed, because so many were.
    pub fn is_over(&mut self) -> bool {
        self.messages += 1;
        !self.verbose && self.messages > MESSAGES
    }

    /// Count of the messages that were not printed; `None` if all were.
    pub fn hidden(&self) -> Option<u64> {
        let more = self.messages.saturating_sub(MESSAGES);
        (!self.verbose && more > 0).then_some(more)
    }
}
