//! The work of a run: the reports that the arguments name, in batches, one after the other.

use super::output::{Target, refusal};
use super::walk::walk;
use crate::report::{ReadError, Reading, ReportReader, limits};
use crate::symbolicate::error::plain_words;
use crate::symbolicate::files::own::descriptor;
use crate::symbolicate::import;
use std::cell::RefCell;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reports of a batch.
const BATCH: usize = 64;
/// Reports of larger files are read one by one here, rather than all in one piece.
const LARGE: u64 = 4 << 20;

/// One thing to do.
pub(super) enum Item {
    /// A file to be read.
    File(PathBuf),
    /// A report, or what stands in its place, of a stream that is read already.
    Read(Arc<str>, Box<Result<Reading, ReadError>>),
    /// Bytes of a layout that is still to be found.
    Bytes(Arc<str>, Vec<u8>),
    /// A warning for people.
    Warning(String),
    /// The input that could not be read, and the reason.
    Error(String),
    /// Why nothing may be written: this is an input, and the output as well.
    Refused(String),
}

/// Passes batches on; see [`feed`].
pub(super) struct Feed<'a> {
    pass: &'a mut dyn FnMut(Vec<Item>) -> bool,
    batch: Vec<Item>,
    target: &'a Target,
    /// True while more is wanted.
    goes_on: bool,
}

/// Passes on what the paths name, in order, until `pass` says `false` or one of them is `target`: reports in folders in
/// order of name, and for `-` those that `input` holds.
pub(super) fn feed(
    paths: &[PathBuf],
    input: &mut dyn Read,
    target: &Target,
    pass: &mut dyn FnMut(Vec<Item>) -> bool,
) {
    let mut feed = Feed {
        pass,
        batch: Vec::new(),
        target,
        goes_on: true,
    };
    for path in paths {
        let goes_on = if path == Path::new("-") {
            feed.stream(input)
        } else if let Some(descriptor) = descriptor(path) {
            feed.descriptor(path, descriptor, input)
        } else if path.is_dir() {
            feed.folder(path)
        } else {
            feed.file(path.clone())
        };
        if !goes_on {
            return;
        }
    }
    feed.flush();
}

impl Feed<'_> {
    fn item(&mut self, item: Item) -> bool {
        self.batch.push(item);
        self.batch.len() < BATCH || self.flush()
    }

    fn flush(&mut self) -> bool {
        if !self.batch.is_empty() {
            self.goes_on = self.goes_on && (self.pass)(std::mem::take(&mut self.batch));
        }
        self.goes_on
    }

    fn folder(&mut self, folder: &Path) -> bool {
        let (mut goes_on, mut any) = (true, false);
        let walked = walk(folder, &mut |path| {
            any = true;
            goes_on = self.file(path);
            goes_on
        });
        if goes_on && let Err(error) = walked {
            goes_on = self.item(Item::Error(error));
            any = true;
        }
        if goes_on && !any {
            goes_on = self.item(Item::Warning(format!(
                "{}: no reports (*.wedjat, *.partial, *.ips, *.crash, *.hang, *.spin, *.plcrash, or *.json of a known layout) in it",
                folder.display()
            )));
        }
        goes_on
    }

    fn file(&mut self, path: PathBuf) -> bool {
        if self.target.is(&path) {
            self.item(Item::Refused(refusal(&path.display().to_string())));
            self.flush();
            self.goes_on = false;
            return false;
        }
        let is_large = std::fs::metadata(&path).is_ok_and(|m| m.is_file() && m.len() > LARGE);
        if !is_large {
            return self.item(Item::File(path));
        }
        match File::open(&path) {
            Ok(mut file) => self.named_stream(&path.display().to_string(), &mut file),
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
            return self.stream(input);
        }
        match File::open(path) {
            Ok(mut file) => self.named_stream(&path.display().to_string(), &mut file),
            Err(error) => self.item(Item::Error(format!(
                "{}: {}",
                path.display(),
                plain_words(&error)
            ))),
        }
    }

    fn stream(&mut self, input: &mut dyn Read) -> bool {
        self.named_stream("standard input", input)
    }

    /// Reports of our own are passed on as they come; the layout of others is known once they are whole.
    fn named_stream(&mut self, origin: &str, input: &mut dyn Read) -> bool {
        let origin: Arc<str> = origin.into();
        let mut bytes = Vec::new();
        if let Err(error) = (&mut *input).take(1).read_to_end(&mut bytes) {
            return self.item(Item::Error(format!("{origin}: {}", plain_words(&error))));
        }
        // Sections are arrays of two; no text and no other layout begins with that byte.
        if bytes != [0x92] {
            let most = limits::REPORT_BYTES as u64 + 1;
            if let Err(error) = (&mut *input).take(most).read_to_end(&mut bytes) {
                return self.item(Item::Error(format!("{origin}: {}", plain_words(&error))));
            }
            if import::detect(&bytes).is_some() || (bytes.len() as u64) < most {
                return self.item(Item::Bytes(origin, bytes));
            }
        }
        self.readings(&origin, &mut Cursor::new(bytes).chain(input))
    }

    fn readings(&mut self, origin: &Arc<str>, input: &mut dyn Read) -> bool {
        let feed = RefCell::new(self);
        let input = BeforeReading(input, || {
            feed.borrow_mut().flush();
        });
        ReportReader::new(input).all(|reading| {
            feed.borrow_mut()
                .item(Item::Read(origin.clone(), Box::new(reading)))
        })
    }
}

/// Calls a function before each read: reading may have to wait, and what was read should not.
struct BeforeReading<'a, F>(&'a mut dyn Read, F);

impl<F: FnMut()> Read for BeforeReading<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        (self.1)();
        self.0.read(buffer)
    }
}
