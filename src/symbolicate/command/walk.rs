//! The reports in a folder and those below it, in order of name, in bounded memory.

use crate::symbolicate::error::plain_words;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;
use walkdir::{DirEntry, WalkDir};

use crate::report::limits;
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::import;

/// Names of one folder held at a time. A folder with more of them is read again for each further so
/// many: a second's work for a million, where their names would take a hundred megabytes.
const WINDOW: usize = 1 << 17;
/// Folders below folders are followed so deep.
const DEPTH: usize = 64;

/// Calls `found` with each report below `folder`, folders and reports in order of name, until it returns
/// `false`. Links to folders are not followed.
///
/// # Errors
/// If a folder can't be read, or lies too deep: which, and why. What was found before has been given.
pub(super) fn walk(folder: &Path, found: &mut dyn FnMut(PathBuf) -> bool) -> Result<(), String> {
    walk_by(folder, WINDOW, 0, found).map(|_| ())
}

/// `Ok(false)` where `found` wants no more.
fn walk_by(
    folder: &Path,
    window: usize,
    depth: usize,
    found: &mut dyn FnMut(PathBuf) -> bool,
) -> Result<bool, String> {
    let mut last: Option<OsString> = None;
    let mut wrong = None;
    loop {
        let names = next_names(folder, last.as_ref(), window)
            .map_err(|error| format!("{}: {}", folder.display(), plain_words(&error)))?;
        let is_full = names.len() == window;
        for (name, is_folder) in &names {
            let path = folder.join(name);
            let goes_on = if !is_folder {
                !is_report(&path) || found(path)
            } else if depth < DEPTH {
                // A folder that can't be read does not keep those behind it from being read.
                walk_by(&path, window, depth + 1, found).unwrap_or_else(|error| {
                    wrong.get_or_insert(error);
                    true
                })
            } else {
                let deeper = format!(
                    "{}: it lies more than {DEPTH} folders deep and was not read: name it on the command line",
                    path.display()
                );
                wrong.get_or_insert(deeper);
                true
            };
            if !goes_on {
                return Ok(false);
            }
        }
        if !is_full {
            return wrong.map_or(Ok(true), Err);
        }
        last = names.into_iter().next_back().map(|(name, _)| name);
    }
}

/// The first `count` names behind `last`, in order, and whether each is a folder.
fn next_names(
    folder: &Path,
    last: Option<&OsString>,
    count: usize,
) -> io::Result<BTreeSet<(OsString, bool)>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if last.is_some_and(|last| name <= *last) {
            continue;
        }
        if names.len() == count && names.last().is_some_and(|(most, _)| name > *most) {
            continue;
        }
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder && !has_known_ending(Path::new(&name)) {
            continue;
        }
        names.insert((name, is_folder));
        if names.len() > count {
            names.pop_last();
        }
    }
    Ok(names)
}

/// Returns true if a name has an ending for which its file is examined.
fn has_known_ending(path: &Path) -> bool {
    matches!(ending(path), Some("json" | "txt")) || has_report_ending(path)
}

fn has_report_ending(path: &Path) -> bool {
    const ENDINGS: [&str; 8] = [
        "wedjat", "partial", "ips", "crash", "hang", "spin", "diag", "plcrash",
    ];
    ending(path).is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Recognises a report by its name; JSON and plain text also by their contents. Output of this command is not a report:
/// it lies in the reports' folder after `symbolicate . > all.txt`, and they are there, too.
fn is_report(path: &Path) -> bool {
    has_report_ending(path)
        || SharedBytes::read(path, limits::REPORT_BYTES as u64)
            .is_ok_and(|bytes| import::detect(&bytes).is_some() && !is_result(&bytes))
}

/// Returns true if this command printed it, as `--format text`, `json` or `ndjson`.
fn is_result(bytes: &[u8]) -> bool {
    // Behind a path and a name, which a report may have long.
    let front = &bytes[..bytes.len().min(1 << 16)];
    if front.first().is_some_and(|first| b"{[".contains(first)) {
        let follows = |at: usize, what: &[u8]| {
            let rest = front[at..].trim_ascii_start();
            rest.starts_with(what)
                .then(|| front.len() - rest.len() + what.len())
        };
        return memmem::find_iter(front, b"\"format\"").any(|at| {
            follows(at + 8, b":")
                .and_then(|at| follows(at, b"\"wedjat\""))
                .is_some()
        });
    }
    let versions = front.split(|byte| *byte == b'\n');
    let mut versions = versions.filter_map(|line| line.strip_prefix(b"Report Version:"));
    versions.any(|version| version.trim_ascii_start().starts_with(b"wedjat "))
}

fn ending(path: &Path) -> Option<&str> {
    path.extension().and_then(|ending| ending.to_str())
}

/// Counts the reports below the folders among `paths`, and files among them; for a progress bar, so JSON and text files
/// count as reports whatever they hold.
pub(super) fn count(paths: &[PathBuf], stop: &dyn Fn() -> bool) -> u64 {
    let below = paths.iter().flat_map(WalkDir::new);
    let found = below.take_while(|_| !stop()).flatten();
    let is_report = |entry: &DirEntry| {
        !entry.file_type().is_dir() && (entry.depth() == 0 || has_known_ending(entry.path()))
    };
    found.filter(is_report).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_more_names_than_are_held_is_given_whole_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("m");
        std::fs::create_dir(&below).unwrap();
        for index in 0..25 {
            let name = format!("{:02}.wedjat", (index * 7) % 25);
            std::fs::write(folder.path().join(&name), "x").unwrap();
            std::fs::write(below.join(&name), "x").unwrap();
        }
        std::fs::write(folder.path().join("notes.md"), "x").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "x").unwrap();
        for window in [1, 3, 26, 1000] {
            let mut all = Vec::new();
            let mut found = |path: PathBuf| {
                all.push(path);
                true
            };
            assert_eq!(walk_by(folder.path(), window, 0, &mut found), Ok(true));
            assert_eq!(all.len(), 50, "{window}");
            assert!(all.is_sorted(), "{window}: {all:?}");
        }
        let mut few = 0;
        let mut three = |_| {
            few += 1;
            few < 3
        };
        assert_eq!(walk_by(folder.path(), 2, 0, &mut three), Ok(false));
        assert_eq!(few, 3);
    }
}
