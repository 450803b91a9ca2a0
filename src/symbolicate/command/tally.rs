//! Counts of a run, printed once all reports are done: how many were damaged, and which debug files are missing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::args::Args;
use super::{DAMAGED, DONE, Messages, UNREADABLE};
use crate::report::model::Image;
use crate::symbolicate::format::facts::count;
use crate::symbolicate::format::missing_lines;
use crate::symbolicate::frame::image_file_name;
use crate::symbolicate::{DebugFiles, MissingFile, Symbolicated};

/// Most messages about reports that are printed. Further ones are only counted.
const MAX_MESSAGES: u64 = 10;
/// Most missing debug files that are listed.
const MAX_MISSING: usize = 1 << 14;

const NOWHERE: &str = "debug files missing (give them with --debug):";
const REFUSED: &str = "at the path in the report, but not read (give it with --debug):";
const IN_PART: &str = "debug files not read in whole:";
const SHORT: &str =
    "source code that is not what was compiled (give that of the commit with --source):";

/// What there is to say about an input.
pub(super) enum Message {
    Warning(String),
    /// The input that could not be opened, and the reason.
    Unopened(String),
    /// A part of an input that was not read, and the reason.
    Unreadable(String),
    /// Why nothing may be written: this input is the output as well.
    Refused(String),
}

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
    /// The lines about reports that came again.
    pub copies: Vec<String>,
    pub missing: BTreeMap<(String, Vec<u8>), MissingFile>,
    /// Files of source code that end before a frame's line.
    pub short_sources: Vec<PathBuf>,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.seen += other.seen;
        self.unwanted += other.unwanted;
        self.damaged += other.damaged;
        self.unopened += other.unopened;
        for (key, missing) in other.missing {
            if self.missing.len() < MAX_MISSING {
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
    pub fn conclude(&self, args: &Args, files: &DebugFiles, messages: &mut Messages<'_>) -> u8 {
        if self.seen > 0 && self.unwanted == self.seen {
            let all = count(self.seen, "report");
            messages.warning(&format!(
                "{all} read, but none has the type, time and version that you asked for"
            ));
        }
        for line in &self.copies {
            messages.note(&format!("symbolicate: {line}"));
        }
        // The system's own libraries are known to lack debug files: `--list-missing` has them.
        let missing = self.missing.values().filter(|m| !(m.system && m.symbols));
        let missing: Vec<&MissingFile> = missing.collect();
        let is_partial = |file: &&MissingFile| file.unread.damaged + file.unread.refused > 0;
        let (in_part, nowhere): (Vec<_>, Vec<_>) = missing.iter().copied().partition(is_partial);
        let shown = [MAX_MESSAGES as usize, usize::MAX][usize::from(args.verbose)];
        let refused = nowhere.iter().filter_map(|missing| refused(files, missing));
        let refused: Vec<String> = refused.collect();
        let (nowhere, in_part) = (missing_lines(nowhere), missing_lines(in_part));
        let short = self.short_sources.iter();
        let short = short.map(|path| path.display().to_string()).collect();
        let (list, all) = ("--list-missing", "--verbose");
        for (title, lines, all) in [
            (NOWHERE, nowhere, list),
            (REFUSED, refused, all),
            (IN_PART, in_part, list),
            (SHORT, short, all),
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
            UNREADABLE
        } else if self.damaged > 0 || args.strict && !missing.is_empty() {
            DAMAGED
        } else {
            DONE
        }
    }
}

/// Returns the reason why the file at a report's own path was not read; `None` if there is no file, or it was.
fn refused(files: &DebugFiles, missing: &MissingFile) -> Option<String> {
    let image = Image {
        name: missing.name.clone(),
        id: missing.id.clone(),
        ..Image::default()
    };
    let error = files.at_named_path(&image)?.err()?;
    Some(error.to_string()).filter(|_| !missing.symbols)
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
        !self.verbose && self.messages > MAX_MESSAGES
    }

    /// Count of the messages that were not printed; `None` if all were.
    pub fn hidden(&self) -> Option<u64> {
        let more = self.messages.saturating_sub(MAX_MESSAGES);
        (!self.verbose && more > 0).then_some(more)
    }
}
