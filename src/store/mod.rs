//! The folder of reports: names, limits, and what the last launch left behind.
//!
//! A report lies in the folder as `<wall time>-<event>-<short id>.partial` while it is written, and
//! as `.wedjat` once its `end` section stands. The writer holds a lock (`flock`) on its file. A
//! `.partial` that is not locked was left by a process that is gone: [`reports`] cuts it to its last
//! whole section, closes it with `closed_by: next_launch` and renames it.
//!
//! A running process that reports crashes keeps up to two empty files there, `.spare` and
//! `.spare-beside`, for a crash in which it can open none any more. They are no reports, for readers and
//! for limits alike, before something is written to them; where the process was denied to rename them
//! then, [`reports`] does it.
//!
//! A report that is never to be sent again lies there as `.refused`, one of which nothing could be read as `.damaged`.
//! `.beside` is the dying thread's part of a crash report, which the next launch joins; `.launch` a launch's record;
//! `.unfinished` the list of files begun.
//!
//! Whatever else lies in the folder is left alone: what is renamed, cut or removed has a name that only
//! this crate gives, and begins as such a file does.

mod fallback;
pub(crate) mod launch;
pub(crate) mod left;
mod out_of_memory;
mod send;
mod spare;
mod tidy;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{O_RDONLY, O_RDWR};

use crate::platform::{self, descriptors};
use crate::report::{self, Reading};

pub use launch::{EndedLaunch, HowEnded, launches};
pub use send::{Answer, Sent, send};
pub(crate) use tidy::Tidying;

pub(crate) use crate::report::name::{
    DAMAGED, FALLBACK, Name, PARTIAL, REFUSED, SPARE, SPARE_FALLBACK, WHOLE,
};

/// The launch id of the monitor that runs in this process, in two halves; 0 where none does.
static LAUNCH: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Sets for [`reports`] which reports are this launch's own.
pub(crate) fn set_launch(id: Option<[u8; 16]>) {
    let id = u128::from_be_bytes(id.unwrap_or_default());
    LAUNCH[0].store((id >> 64) as u64, Ordering::Relaxed);
    LAUNCH[1].store(id as u64, Ordering::Relaxed);
}

fn is_own(launch: &[u8; 16]) -> bool {
    let own = (u128::from(LAUNCH[0].load(Ordering::Relaxed)) << 64)
        | u128::from(LAUNCH[1].load(Ordering::Relaxed));
    own != 0 && own == u128::from_be_bytes(*launch)
}

/// The reports that earlier launches left in `directory`, oldest first.
///
/// Reports that were cut short when their process died are closed on the way; those that another
/// process is writing now, and those of the present launch, are left alone. A folder that does not
/// exist holds none.
///
/// # Errors
/// When the folder is there but cannot be listed. A single file that cannot be closed does not
/// stop the others: it is given as it is.
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
    left::close_all(&list(directory)?);
    let mut found = tidy::hold(|| {
        let mut paths = list(directory)?;
        paths.retain(|path| has_ending(path, WHOLE));
        Ok(paths)
    })?;
    found.retain(|stored| !stored.launch().is_ok_and(|launch| is_own(&launch)));
    Ok(found)
}

/// A report that an earlier launch left. While the app has one of those that [`reports`] gave it, this
/// process removes none of them to keep to its [`Limits`]; it does once the app has let go of them all.
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

impl AsRef<Path> for StoredReport {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl StoredReport {
    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it.
    ///
    /// # Errors
    /// When the file cannot be read or holds no report at all; whatever else is wrong with it is
    /// listed in [`Reading::damage`].
    pub fn read(&self) -> io::Result<Reading> {
        let bytes = descriptors::read(&self.path)?;
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
        std::fs::remove_file(&self.path)
    }

    /// The launch that wrote it, from its first section.
    fn launch(&self) -> io::Result<[u8; 16]> {
        use std::io::Read;
        let mut bytes = Vec::new();
        let file = descriptors::open_file(&self.path, O_RDONLY)?;
        (&*file).take(16 << 10).read_to_end(&mut bytes)?;
        let origin = report::edit::origin(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(origin.launch)
    }
}

/// How much a folder of reports may hold; the oldest go first, soon after a monitor is installed or a report
/// was written.
///
/// ```
/// let limits = wedjat::store::Limits::default().reports(20).bytes(4 << 20);
/// assert_eq!(limits.reports, 20);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Reports, 100.
    pub reports: usize,
    /// Bytes of all of them together, 32 MiB.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            reports: 100,
            bytes: 32 << 20,
        }
    }
}

impl Limits {
    /// Sets how many reports are kept; at least 1.
    #[must_use]
    pub fn reports(mut self, reports: usize) -> Limits {
        self.reports = reports.max(1);
        self
    }

    /// Sets how many bytes they may have together.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Limits {
        self.bytes = bytes;
        self
    }
}

/// Marks a whole report as that of what the process died of.
pub(crate) fn make_fatal(path: &Path) -> io::Result<()> {
    let bytes = report::edit::fatal(&descriptors::read(path)?).ok_or(io::ErrorKind::InvalidData)?;
    let fresh = path.with_extension("fatal");
    descriptors::write(&fresh, &bytes)?;
    std::fs::rename(&fresh, path)
}

/// A file that is empty for so long has no writer.
const EMPTY_FOR: std::time::Duration = std::time::Duration::from_secs(60);

fn is_old(file: &std::fs::File) -> bool {
    let modified = file.metadata().and_then(|data| data.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > EMPTY_FOR))
}

fn close_partial(path: &Path) -> io::Result<bool> {
    use std::io::{Seek, Write};
    let mut file = descriptors::open_file(path, O_RDWR)?;
    if !platform::descriptors::try_lock(&file) {
        return Ok(false);
    }
    if !path.exists() {
        // Another process closed it while this one waited for the lock.
        return Ok(false);
    }
    let bytes = descriptors::read(path)?;
    if bytes.is_empty() {
        // The process was gone before the first byte: there is nothing to keep. One that is young
        // may have been made this very moment by a process that has not locked it yet.
        if is_old(&file) {
            std::fs::remove_file(path)?;
        }
        return Ok(false);
    }
    if !is_own_content(&bytes) {
        return Ok(false);
    }
    let survey = report::survey(&bytes);
    if !survey.has_head {
        std::fs::rename(path, path.with_extension(DAMAGED))?;
        return Ok(false);
    }
    if !survey.is_closed {
        file.set_len(survey.len)?;
        file.seek(io::SeekFrom::End(0))?;
        let mut buffer = [0; 256];
        let mut tail: Vec<u8> = Vec::new();
        report::ReportWriter::resume(&mut buffer, &mut tail, survey.crc, survey.sections)
            .finish(report::ClosedBy::NextLaunch)
            .map_err(io::Error::other)?;
        file.write_all(&tail)?;
    }
    std::fs::rename(path, path.with_extension(WHOLE))?;
    Ok(true)
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

/// The ending of a name that we give, see [`Name::new`] and [`launch`]; `None` for any other.
fn ending(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    report::name::ending_of(name).or_else(|| launch::ending_of(name))
}

/// How every report begins: the array of two of its first section, and that section's kind.
const FRONT: &[u8] = b"\x92\xa4head";

/// Whether it begins as reports do, or the system has lost what it was: then there are zeros.
fn is_own_content(bytes: &[u8]) -> bool {
    let front = bytes.get(..FRONT.len()).unwrap_or(bytes);
    FRONT.starts_with(front) || bytes.iter().all(|&byte| byte == 0)
}

/// Whether the file at `path`, whose name is one that we give, holds a report.
fn is_own_file(path: &Path) -> bool {
    use std::io::Read;
    let mut front = Vec::new();
    let file = descriptors::open_file(path, O_RDONLY | libc::O_NOFOLLOW);
    let read = file.and_then(|file| (&*file).take(4096).read_to_end(&mut front));
    read.is_ok() && is_own_content(&front)
}

/// The files of a folder, by name, that is by time.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let listed = descriptors::list(directory, |name, is_file| {
        if is_file {
            paths.push(directory.join(name));
        }
    });
    match listed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    }
    paths.sort();
    Ok(paths)
}

/// 16 bytes that no other report has: from the system's random source, else from clocks and
/// addresses. Signal-safe.
pub(crate) fn fresh_id() -> [u8; 16] {
    platform::random::id()
}
