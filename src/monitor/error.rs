//! Errors of an install, and of calls to the installed monitor. Each text includes the system's error. `source()` does not
//! return it too, so a printed chain has it only once.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why [`MonitorBuilder::install`](super::MonitorBuilder::install) failed. Nothing stays installed.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstallError {
    /// A monitor is installed in this process already.
    AlreadyInstalled,
    /// No folder was given, or an empty path; or [`directory_for`](super::MonitorBuilder::directory_for) found no home
    /// folder, or its argument is not the name of one folder.
    NoDirectory,
    /// The folder cannot be made, opened or written to.
    Directory {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Others may write in the folder. They could make this process and later launches read and remove what they like.
    /// See [`MonitorBuilder::shared_directory`](super::MonitorBuilder::shared_directory).
    SharedDirectory {
        /// The folder.
        path: PathBuf,
        /// The shell command that fixes it.
        fix_command: String,
    },
    /// A signal's handler could not be installed.
    Signal {
        /// The signal's number.
        signal: i32,
        /// The system's error.
        source: io::Error,
    },
    /// There is no memory for the stack of the signals' handlers.
    SignalStack {
        /// The system's error.
        source: io::Error,
    },
    /// Memory, threads or descriptors ran out.
    Resources {
        /// The resource and its purpose, as `memory for captures`.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstallError::AlreadyInstalled => f.write_str(
                "this process has a monitor already: drop it before you install another",
            ),
            InstallError::NoDirectory => {
                f.write_str("no folder for the reports: set `directory` before the install (`directory_for` needs a home folder, and a name without `/`)")
            }
            InstallError::Directory { path, source } => {
                write!(
                    f,
                    "reports cannot be written to {}: {source}",
                    path.display()
                )
            }
            InstallError::SharedDirectory { path, fix_command } => {
                write!(
                    f,
                    "other users may write in the folder of reports, {}: run `{fix_command}`, choose a folder that only this user can write in, or allow it (shared_directory)",
                    path.display()
                )
            }
            InstallError::Signal { signal, source } => {
                write!(f, "signal {signal} could not be handled: {source}")
            }
            InstallError::SignalStack { source } => {
                write!(f, "no stack for the signal handlers: {source}")
            }
            InstallError::Resources { what, source } => write!(f, "no {what}: {source}"),
        }
    }
}

impl std::error::Error for InstallError {}

/// The reason why a call to an installed monitor failed.
///
/// ```
/// use wedjat::{Monitor, MonitorError};
/// # let dir = std::env::temp_dir().join(format!("wedjat-misuse-{}", std::process::id()));
/// let monitor = Monitor::builder("MyApp", "1").directory(&dir).install()?;
/// let refused = monitor.watch_by_ping(|_| {});
/// assert!(matches!(refused, Err(MonitorError::NoStall)));
/// # drop(monitor);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum MonitorError {
    /// Pings find stalls, and [`MonitorBuilder::stall`](super::MonitorBuilder::stall) was not called.
    NoStall,
    /// A monitor watches by one ping, and this one does already.
    WatchedAlready,
    /// The process is a child of `fork`: its parent's monitor has no threads here, and perhaps locked locks.
    Forked,
    /// No monitor is installed.
    NoMonitor,
    /// The thread is watched already.
    ThreadWatched,
    /// As many threads are watched as can be at once: 256.
    TooManyThreads,
    /// The program has no libdispatch.
    NoMainQueue,
    /// This process has no such thread.
    UnknownThread {
        /// The id that was given.
        id: u64,
    },
    /// Memory or a thread cannot be had.
    Resources {
        /// The system's error.
        source: io::Error,
    },
    /// The report could not be written: the folder is gone, or the disk is full.
    Write {
        /// The system's error.
        source: io::Error,
    },
}

impl MonitorError {
    pub(super) fn resources(source: io::Error) -> MonitorError {
        MonitorError::Resources { source }
    }

    /// The error of a report.
    pub(super) fn of_report(source: io::Error) -> MonitorError {
        match source.kind() {
            io::ErrorKind::OutOfMemory => MonitorError::Resources { source },
            _ => MonitorError::Write { source },
        }
    }
}

impl fmt::Display for MonitorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MonitorError::NoStall => {
                "watching by ping needs `.stall(Stall::default())` when the monitor is installed"
            }
            MonitorError::WatchedAlready => "this monitor watches by ping already",
            MonitorError::Forked => {
                "a child of `fork` cannot use its parent's monitor: drop it and install another"
            }
            MonitorError::NoMonitor => "no monitor is installed: install one first",
            MonitorError::ThreadWatched => "this thread is watched already",
            MonitorError::TooManyThreads => "256 threads are watched already: end the watch of one",
            MonitorError::NoMainQueue => {
                "this program has no libdispatch whose main queue could be watched"
            }
            MonitorError::UnknownThread { id } => {
                return write!(f, "no thread {id} in this process");
            }
            MonitorError::Resources { source } => {
                return write!(f, "memory or a thread cannot be had: {source}");
            }
            MonitorError::Write { source } => {
                return write!(f, "the report cannot be written: {source}");
            }
        })
    }
}

impl std::error::Error for MonitorError {}

impl From<MonitorError> for io::Error {
    fn from(error: MonitorError) -> io::Error {
        let kind = match error {
            MonitorError::Resources { source } | MonitorError::Write { source } => return source,
            MonitorError::Forked | MonitorError::NoMainQueue => io::ErrorKind::Unsupported,
            MonitorError::UnknownThread { .. } => io::ErrorKind::NotFound,
            _ => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}
