//! Reads the reports that the arguments name, in batches and in bounded memory. Folders are walked in order of name.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::memmem;
use walkdir::{DirEntry, WalkDir};

use super::cut::CutReport;
use super::output::{Target, refusal};
use super::tally::Message;
use super::unpack::{self, Packing};
use crate::report::{ReadError, Reading, ReportReader, limits};
use crate::symbolicate::error::plain_words;
use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::links::GivenFolder;
use crate::symbolicate::files::owner::descriptor;
use crate::symbolicate::{Error, import};

/// Most items of a batch.
const MAX_BATCH: usize = 64;
/// Most bytes of a batch's files. One file may hold a thousand reports.
const MAX_BATCH_BYTES: u64 = 1 << 20;
/// Reports of larger files are read one by one here, rather than all in one piece.
const MIN_LARGE: u64 = 4 << 20;

/// The origin of what no path names.
const STDIN: &str = "standard input";

/// One thing to do.
pub(super) enum Item {
    /// A file to be read.
    File(PathBuf),
    /// A cut report of a file, to be read again.
    Cut(CutReport),
    /// A report, or what stands in its place, of a stream that is read already.
    Read(Arc<str>, Box<Result<Reading, ReadError>>),
    /// Bytes of a layout that is still to be found.
    Bytes(Arc<str>, Vec<u8>),
    /// What there is to say in place of a report.
    Message(Message),
}

impl Item {
    /// Where it comes from, for messages.
    pub(super) fn origin(&self) -> String {
        match self {
            Item::File(path) => path.display().to_string(),
            Item::Cut(report) => report.path.display().to_string(),
            Item::Read(origin, _) | Item::Bytes(origin, _) => origin.to_string(),
            Item::Message(_) => String::new(),
        }
    }
}

/// Where reports come from.
pub(super) struct Inputs {
    pub paths: Vec<PathBuf>,
    /// Follows links of files out of the folders.
    pub follow_links: bool,
    /// The file that results go to: it is no input.
    pub target: Target,
}

/// Collects items and passes them on in batches; see [`feed`].
pub(super) struct BatchReader<'a> {
    send: &'a mut dyn FnMut(Vec<Item>) -> bool,
    batch: Vec<Item>,
    /// Size of the batch's files.
    bytes: u64,
    inputs: &'a Inputs,
    /// True while more is wanted.
    wants_more: bool,
}

/// Passes the inputs on in the order of the paths. Reports in a folder come in order of name. `-` stands for `input`. It
/// stops when `send` returns false or when a path is the target.
pub(super) fn feed(inputs: &Inputs, input: &mut dyn Read, send: &mut dyn FnMut(Vec<Item>) -> bool) {
    let mut reader = BatchReader {
        send,
        batch: Vec::new(),
        bytes: 0,
        inputs,
        wants_more: true,
    };
    for path in &inputs.paths {
        let wants_more = if path == Path::new("-") {
            reader.maybe_compressed(STDIN, input)
        } else if let Some(descriptor) = descriptor(path) {
            reader.descriptor(path, descriptor, input)
        } else if path.is_dir() {
            reader.folder(path)
        } else if let Err(error @ Error::Io { .. }) = SharedBytes::read(path, 0) {
            // It cannot be opened.
            reader.message(Message::Unopened(error.to_string()))
        } else {
            reader.file(path.clone())
        };
        if !wants_more {
            return;
        }
    }
    reader.flush();
}

impl BatchReader<'_> {
    fn item(&mut self, item: Item) -> bool {
        self.batch.push(item);
        (self.batch.len() < MAX_BATCH && self.bytes < MAX_BATCH_BYTES) || self.flush()
    }

    fn message(&mut self, message: Message) -> bool {
        self.item(Item::Message(message))
    }

    fn error(&mut self, origin: &str, error: &io::Error) -> bool {
        let words = plain_words(error);
        self.message(Message::Unopened(format!("{origin}: {words}")))
    }

    fn flush(&mut self) -> bool {
        self.bytes = 0;
        if !self.batch.is_empty() {
            self.wants_more = self.wants_more && (self.send)(std::mem::take(&mut self.batch));
        }
        self.wants_more
    }

    fn folder(&mut self, folder: &Path) -> bool {
        let (mut wants_more, mut any) = (true, false);
        let given = (!self.inputs.follow_links).then(|| GivenFolder::new(folder));
        let mut found = |path| {
            any = true;
            wants_more = self.file(path);
            wants_more
        };
        let mut walk = ReportWalk {
            window: MAX_NAMES,
            given,
            links_out: 0,
            found: &mut found,
        };
        let walked = walk.folder(folder, 0).map(|_| ());
        let links_out = walk.links_out;
        if wants_more && links_out > 0 {
            wants_more = self.message(Message::Warning(super::links_out(folder, links_out)));
        }
        if wants_more && let Err(error) = walked {
            wants_more = self.message(Message::Unreadable(error));
            any = true;
        }
        if wants_more && !any {
            wants_more = self.message(Message::Warning(format!(
                "{}: no reports (*.wedjat, *.partial, *.ips, *.crash, *.hang, *.spin, *.envelope, or *.json of a known layout; or those with .gz or .zst) in it",
                folder.display()
            )));
        }
        wants_more
    }

    fn file(&mut self, path: PathBuf) -> bool {
        if self.inputs.target.is(&path) {
            self.message(Message::Refused(refusal(&path.display().to_string())));
            self.flush();
            self.wants_more = false;
            return false;
        }
        let meta = std::fs::metadata(&path).ok().filter(|meta| meta.is_file());
        let len = meta.map_or(0, |meta| meta.len());
        if len <= MIN_LARGE {
            self.bytes += len;
            return self.item(Item::File(path));
        }
        match File::open(&path) {
            Ok(mut file) => self.maybe_compressed(&path.display().to_string(), &mut file),
            Err(_) => self.item(Item::File(path)), // which says why
        }
    }

    /// A pipe that the shell has opened already, as `<(..)` does: reading it waits for no more than
    /// reading standard input.
    fn descriptor(&mut self, path: &Path, number: u32, input: &mut dyn Read) -> bool {
        if std::fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
            return self.file(path.to_owned());
        }
        if number == 0 {
            return self.maybe_compressed(STDIN, input);
        }
        match File::open(path) {
            Ok(mut file) => self.maybe_compressed(&path.display().to_string(), &mut file),
            Err(error) => self.error(&path.display().to_string(), &error),
        }
    }

    /// Reads reports, compressed or not.
    fn maybe_compressed(&mut self, origin: &str, input: &mut dyn Read) -> bool {
        let (packing, mut input) = match unpack::peek(input) {
            Ok(peeked) => peeked,
            Err(error) => return self.error(origin, &error),
        };
        match packing {
            Some(packing) => self.uncompressed(origin, &mut unpack::reader(packing, input)),
            None => self.uncompressed(origin, &mut input),
        }
    }

    /// Reports of our own are passed on as they come; the layout of others is known once they are whole.
    fn uncompressed(&mut self, origin: &str, input: &mut dyn Read) -> bool {
        let origin: Arc<str> = origin.into();
        let mut bytes = Vec::new();
        if let Err(error) = (&mut *input).take(1).read_to_end(&mut bytes) {
            return self.error(&origin, &error);
        }
        // Sections are arrays of two; no text and no other layout begins with that byte.
        if bytes != [0x92] {
            let most = limits::REPORT_BYTES as u64 + 1;
            if let Err(error) = (&mut *input).take(most).read_to_end(&mut bytes) {
                return self.error(&origin, &error);
            }
            if import::detect(&bytes).is_some() || (bytes.len() as u64) < most {
                return self.item(Item::Bytes(origin, bytes));
            }
        }
        self.readings(&origin, &mut Cursor::new(bytes).chain(input))
    }

    fn readings(&mut self, origin: &Arc<str>, input: &mut dyn Read) -> bool {
        let this = RefCell::new(self);
        let input = BeforeReading(input, || {
            this.borrow_mut().flush();
        });
        ReportReader::new(input).all(|reading| {
            this.borrow_mut()
                .item(Item::Read(origin.clone(), Box::new(reading)))
        })
    }
}

/// Calls a function before each read: reading may have to wait, and what was read should not.
struct BeforeReading<'a, F>(&'a mut dyn Read, F);

impl<F: FnMut()> Read for BeforeReading<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.1)();
        self.0.read(buffer)
    }
}

/// Names of one folder held at a time. A larger folder is read once per `MAX_NAMES` names. For a million names this takes a
/// second; all the names would take 100 MB.
const MAX_NAMES: usize = 1 << 17;
/// Folders below folders are followed so deep.
const MAX_DEPTH: usize = 64;

/// Finds the reports below a folder, folders and reports in order of name. Links to folders are not followed.
struct ReportWalk<'a> {
    /// Names held at a time.
    window: usize,
    /// The folder whose links to files may not lead out of it; `None` if they may.
    given: Option<GivenFolder>,
    /// Count of those that do, which are not followed.
    links_out: u64,
    /// Called with each report, until it returns `false`.
    found: &'a mut dyn FnMut(PathBuf) -> bool,
}

impl ReportWalk<'_> {
    /// `Ok(false)` where `found` wants no more.
    ///
    /// # Errors
    /// If a folder can't be read, or lies too deep: which, and why. What was found before has been given.
    fn folder(&mut self, folder: &Path, depth: usize) -> Result<bool, String> {
        let mut last: Option<OsString> = None;
        let mut wrong = None;
        loop {
            let names = next_names(folder, last.as_ref(), self.window)
                .map_err(|error| format!("{}: {}", folder.display(), plain_words(&error)))?;
            let is_full = names.len() == self.window;
            for (name, is_folder) in &names {
                let path = folder.join(name);
                let wants_more = if !is_folder {
                    self.file(path)
                } else if depth < MAX_DEPTH {
                    // A folder that can't be read does not keep those behind it from being read.
                    self.folder(&path, depth + 1).unwrap_or_else(|error| {
                        wrong.get_or_insert(error);
                        true
                    })
                } else {
                    let deeper = format!(
                        "{}: it lies more than {MAX_DEPTH} folders deep and was not read: name it on the command line",
                        path.display()
                    );
                    wrong.get_or_insert(deeper);
                    true
                };
                if !wants_more {
                    return Ok(false);
                }
            }
            if !is_full {
                return wrong.map_or(Ok(true), Err);
            }
            last = names.into_iter().next_back().map(|(name, _)| name);
        }
    }

    fn file(&mut self, path: PathBuf) -> bool {
        if let Some(given) = &self.given
            && path.is_symlink()
            && given.is_left_by(&path)
        {
            self.links_out += 1;
            return true;
        }
        !is_report(&path) || (self.found)(path)
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
    matches!(ending(path), Some("json" | "txt" | "log")) || has_report_ending(path)
}

/// Returns true for the endings of reports, and of what may hold some and is refused by name.
fn has_report_ending(path: &Path) -> bool {
    const ENDINGS: &str =
        "wedjat partial ips crash hang spin diag plcrash envelope dmp tar tgz zip";
    let is_known = |ending: &str| ENDINGS.split(' ').any(|known| known == ending);
    ending(path).is_some_and(is_known)
}

/// Recognises a report by its name; JSON and plain text also by their contents. Output of this command is not a report:
/// it lies in the reports' folder after `symbolicate . > all.txt`, and they are there, too.
fn is_report(path: &Path) -> bool {
    has_report_ending(path)
        || SharedBytes::read(path, limits::REPORT_BYTES as u64).is_ok_and(|bytes| {
            let packing = Packing::of(&bytes);
            let unpacked = packing.map(|packing| unpack::unpacked(packing, &bytes));
            let bytes = match &unpacked {
                Some(unpacked) => unpacked.as_deref().unwrap_or_default(),
                None => &bytes[..],
            };
            import::detect(bytes).is_some() && !is_result(bytes)
        })
}

/// Returns true if this command printed it, as `--format text`, `json` or `ndjson`.
fn is_result(bytes: &[u8]) -> bool {
    // Behind a path and a name, which a report may have long.
    let front = &bytes[..bytes.len().min(1 << 16)];
    if front.first().is_some_and(|first| b"{[".contains(first)) {
        let signatures = [r#""format":"wedjat""#, r#""format": "wedjat""#];
        let has = |signature: &&str| memmem::find(front, signature.as_bytes()).is_some();
        return signatures.iter().any(has);
    }
    let versions = front.split(|byte| *byte == b'\n');
    let mut versions = versions.filter_map(|line| line.strip_prefix(b"Report Version:"));
    versions.any(|version| version.trim_ascii_start().starts_with(b"wedjat "))
}

/// The ending of a name, without that of a packing.
fn ending(path: &Path) -> Option<&str> {
    let name = Packing::name_unpacked(path.file_name()?.to_str()?);
    Path::new(name).extension()?.to_str()
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

    fn walk_by(window: usize, found: &mut dyn FnMut(PathBuf) -> bool) -> ReportWalk<'_> {
        ReportWalk {
            window,
            given: None,
            links_out: 0,
            found,
        }
    }

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
            let mut walk = walk_by(window, &mut found);
            assert_eq!(walk.folder(folder.path(), 0), Ok(true));
            assert_eq!(all.len(), 50, "{window}");
            assert!(all.is_sorted(), "{window}: {all:?}");
        }
        let mut few = 0;
        let mut three = |_| {
            few += 1;
            few < 3
        };
        let mut walk = walk_by(2, &mut three);
        assert_eq!(walk.folder(folder.path(), 0), Ok(false));
        assert_eq!(few, 3);
    }
}
