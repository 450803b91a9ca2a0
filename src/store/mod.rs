//! The folder of reports: names, limits, and what the last launch left.
//!
//! A report has the name `<wall time>-<event>-<short id>.partial` while it is written, and `.wedjat`
//! once its `end` section is written. The writer holds a lock (`flock`) on its file. An unlocked
//! `.partial` is of a process that is gone: [`reports`] cuts it to its last
//! whole section, closes it with `closed_by: next_launch` and renames it.
//!
//! A process that can make no file when it crashes appends the report to its launch's record; [`reports`] moves it
//! to a file of its own.
//!
//! A report that is never sent again is named `.refused`, an unreadable one `.damaged`. `.launch` is a launch's record.
//!
//! Other files stay untouched: a file is renamed, cut or removed only if its name and first bytes are those of
//! this crate's files.

pub(crate) mod launch;
mod out_of_memory;
mod send;
mod tidy;
pub(crate) mod unfinished;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{O_RDONLY, O_RDWR};

use crate::platform::descriptors::{self, OpenFile};
use crate::platform::directory::Directory;
use crate::report::{self, Reading, limits};
use unfinished::Budget;

pub use launch::{EndedLaunch, HowEnded, launches};
pub use send::{Answer, Sent, send};
pub(crate) use tidy::{OVERSIZED, Tidying};

pub(crate) use crate::report::name::{DAMAGED, Name, PARTIAL, REFUSED, WHOLE};

/// The launch id of the monitor that runs in this process, in two halves; 0 where none does.
static LAUNCH: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Sets for [`reports`] which reports are this launch's own.
pub(crate) fn set_launch(id: Option<[u8; 16]>) {
    let id = u128::from_be_bytes(id.unwrap_or_default());
    LAUNCH[0].store((id >> 64) as u64, Ordering::Relaxed);
    LAUNCH[1].store(id as u64, Ordering::Relaxed);
}

fn is_of_this_launch(launch: &[u8; 16]) -> bool {
    let own = (u128::from(LAUNCH[0].load(Ordering::Relaxed)) << 64)
        | u128::from(LAUNCH[1].load(Ordering::Relaxed));
    own != 0 && own == u128::from_be_bytes(*launch)
}

/// The reports that earlier launches left in `directory`, oldest first.
///
/// Reports that were cut short when their process died are closed on the way; those that another
/// process is writing now, and those of the present launch, are left alone. A folder that does not
/// exist holds none. Links, files with a second name and those of other users are no reports.
///
/// # Errors
/// When the folder is there but cannot be listed. A file that cannot be closed does not stop the others: it is
/// returned unchanged.
///
/// ```
/// # fn send(_: &wedjat::report::Report) -> bool { true }
/// # let directory = std::env::temp_dir().join("wedjat-doc-none");
/// for old in wedjat::store::reports(&directory)? {
///     let reading = old.read()?;
///     println!("{}: {:?}", old.path().display(), reading.report.event);
///     if send(&reading.report) {
///         old.remove()?; // only once it was accepted
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn reports(directory: impl AsRef<Path>) -> io::Result<Vec<StoredReport>> {
    let directory = directory.as_ref();
    let Some(folder) = open(directory)? else {
        return Ok(Vec::new());
    };
    unfinished::close(&folder, &list(&folder)?, Budget::max());
    let mut found = tidy::list_and_pin(directory, || {
        let mut names = list(&folder)?;
        let is_report = |name: &str| name.ends_with(".wedjat") || ending(name) == Some(PARTIAL);
        names.retain(|name| is_report(name) && folder.own_length(name).is_some());
        Ok(names)
    })?;
    found.retain(|stored| {
        let is_whole = stored.name().ends_with(".wedjat");
        // Of the others those whose writer is gone, and which could not be closed.
        let is_left = || is_whole || send::lock_report(&folder, stored).is_some();
        let launch = stored.launch();
        launch.map_or(is_whole, |launch| !is_of_this_launch(&launch) && is_left())
    });
    Ok(found)
}

/// A report that an earlier launch left. While the app holds one of those that [`reports`] returned, this process
/// removes none of them for its [`Limits`].
#[derive(Debug, Clone)]
pub struct StoredReport {
    path: PathBuf,
    _listing: Arc<tidy::Listing>,
}

impl PartialEq for StoredReport {
    fn eq(&self, other: &StoredReport) -> bool {
        self.path == other.path
    }
}

impl Eq for StoredReport {}

impl std::hash::Hash for StoredReport {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.path.hash(state);
    }
}

impl AsRef<Path> for StoredReport {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl StoredReport {
    /// Path of the report.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it.
    ///
    /// # Errors
    /// When the file cannot be read or holds no report at all; whatever else is wrong with it is
    /// listed in [`Reading::damage`].
    pub fn read(&self) -> io::Result<Reading> {
        let file = self.folder()?.open_own(self.name(), O_RDONLY)?;
        let bytes = read_all(&file, limits::REPORT_BYTES as u64)?;
        report::read(&bytes).map_err(|error| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: {error}", self.path.display()),
            )
        })
    }

    /// Removes it, as a sender does once it was accepted.
    ///
    /// # Errors
    /// As [`std::fs::remove_file`].
    pub fn remove(self) -> io::Result<()> {
        self.folder()?.remove(self.name())
    }

    fn name(&self) -> &str {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.unwrap_or_default()
    }

    fn folder(&self) -> io::Result<Directory> {
        Directory::open(self.path.parent().ok_or(io::ErrorKind::NotFound)?)
    }

    /// The launch that wrote it, from its first section.
    fn launch(&self) -> io::Result<[u8; 16]> {
        use std::io::Read;
        let mut bytes = Vec::new();
        let file = self.folder()?.open_own(self.name(), O_RDONLY)?;
        (&*file).take(16 << 10).read_to_end(&mut bytes)?;
        let origin = report::edit::origin(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(origin.launch)
    }
}

settings! {
    /// Limits of a folder of reports; the oldest are removed first, soon after a monitor is installed or a report
    /// was written.
    ///
    /// ```
    /// # let _ =
    /// wedjat::Monitor::builder("MyApp", "1.2.3").limits(wedjat::store::Limits::default().reports(20).bytes(4 << 20));
    /// ```
    #[derive(Eq)]
    pub struct Limits {
        /// Reports that are kept (100 by default); at least 1.
        pub(crate) reports: usize = 100, reports: usize => reports.max(1);
        /// Bytes that they may have together (32 MiB by default).
        pub(crate) bytes: u64 = 32 << 20;
    }
}

/// Marks a whole report as that of what the process died of.
pub(crate) fn make_fatal(path: &Path) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::NotFound)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let (folder, name) = (Directory::open(directory)?, name.unwrap_or_default());
    let file = folder.open_own(name, O_RDONLY)?;
    let bytes = read_all(&file, limits::REPORT_BYTES as u64)?;
    let bytes = report::edit::fatal(&bytes).ok_or(io::ErrorKind::InvalidData)?;
    let fresh = with_ending(name, "fatal");
    folder.write(&fresh, &bytes)?;
    folder.replace(&fresh, name)
}

/// A file that is empty for so long has no writer.
const EMPTY_FOR: std::time::Duration = std::time::Duration::from_secs(60);

/// A file of ours that no other process has, for as long as this lives, and its whole content.
struct HeldFile {
    bytes: Vec<u8>,
    file: OpenFile,
}

impl HeldFile {
    /// `None` while it is written, where it was removed or renamed meanwhile, and where it has more than `most` bytes.
    fn lock(folder: &Directory, name: &str, most: u64) -> io::Result<Option<HeldFile>> {
        let file = folder.open_own(name, O_RDWR)?;
        if !is_within(&file, most) || !descriptors::try_lock(&file) || !folder.is_at(name, &file) {
            return Ok(None);
        }
        let bytes = read_all(&file, most)?;
        Ok(Some(HeldFile { bytes, file }))
    }

    /// Returns true if it begins as reports do.
    fn is_own(&self) -> bool {
        is_own_content(&self.bytes)
    }

    /// Removes it where its process was gone before the first byte. One that is young may have been made this very
    /// moment by a process that has not locked it yet.
    fn remove_if_empty(&self, folder: &Directory, name: &str) -> io::Result<()> {
        let modified = self.file.metadata().and_then(|data| data.modified());
        let is_old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > EMPTY_FOR));
        if self.bytes.is_empty() && is_old {
            folder.remove(name)
        } else {
            Ok(())
        }
    }
}

/// Returns true if a file has at most `most` bytes.
fn is_within(file: &OpenFile, most: u64) -> bool {
    file.metadata().is_ok_and(|data| data.len() <= most)
}

/// All of a file from its beginning; an error where it has more than `most` bytes.
fn read_all(file: &OpenFile, most: u64) -> io::Result<Vec<u8>> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    if is_within(file, most) {
        (&**file).seek(io::SeekFrom::Start(0))?;
        // It may grow meanwhile.
        (&**file).take(most).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

fn close_partial(folder: &Directory, name: &str, most: u64) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let Some(held) = HeldFile::lock(folder, name, most)? else {
        return Ok(false);
    };
    if held.bytes.is_empty() || !held.is_own() {
        held.remove_if_empty(folder, name)?;
        return Ok(false);
    }
    let survey = report::survey(&held.bytes);
    if !survey.has_head {
        folder.rename(name, &with_ending(name, DAMAGED))?;
        return Ok(false);
    }
    if !survey.is_closed {
        held.file.set_len(survey.len)?;
        let mut buffer = [0; 256];
        let mut tail: Vec<u8> = Vec::new();
        report::ReportWriter::resume(&mut buffer, &mut tail, survey.crc, survey.sections)
            .finish(report::ClosedBy::NextLaunch)
            .map_err(io::Error::other)?;
        held.file.write_all_at(&tail, survey.len)?;
    }
    folder.rename(name, &with_ending(name, WHOLE))?;
    Ok(true)
}

/// This name with another ending.
fn with_ending(name: &str, ending: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    format!("{stem}.{ending}")
}

/// The ending of a name that we give, see [`Name::new`] and [`launch`]; `None` for any other.
fn ending(name: &str) -> Option<&str> {
    report::name::ending_of(name).or_else(|| launch::ending_of(name))
}

/// First bytes of every report: the array of two of its first section, and that section's kind.
const FRONT: &[u8] = b"\x92\xa4head";

/// Returns true if it begins as reports do, or the system has lost its contents and left zeros.
fn is_own_content(bytes: &[u8]) -> bool {
    let front = bytes.get(..FRONT.len()).unwrap_or(bytes);
    FRONT.starts_with(front) || bytes.iter().all(|&byte| byte == 0)
}

/// Returns true if the file `name`, which is one that we give, holds a report.
fn is_own_file(folder: &Directory, name: &str) -> bool {
    use std::io::Read;
    let mut front = Vec::new();
    let file = folder.open_own(name, O_RDONLY);
    let read = file.and_then(|file| (&*file).take(4096).read_to_end(&mut front));
    read.is_ok() && is_own_content(&front)
}

/// Opens a folder of reports; `None` if it does not exist.
fn open(directory: &Path) -> io::Result<Option<Directory>> {
    match Directory::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// The names in a folder that we give, in order, that is by time.
fn list(folder: &Directory) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    folder.list(usize::MAX, |name| {
        if ending(name).is_some() || name.ends_with(".wedjat") {
            names.push(name.to_owned());
        }
    })?;
    names.sort_unstable();
    Ok(names)
}
