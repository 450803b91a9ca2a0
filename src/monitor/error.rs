//! Errors of an install, and of calls that the installed monitor can't serve.

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
        mend: String,
    },
    /// A signal's handler could not be installed; without a number, the handlers' stack.
    Signal {
        /// The signal's number.
        signal: Option<i32>,
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
            InstallError::SharedDirectory { path, mend } => {
                write!(
                    f,
                    "other users may write in the folder of reports, {}: run `{mend}`, choose a folder that only this user can write in, or allow it (shared_directory)",
                    path.display()
                )
            }
            InstallError::Signal {
                signal: Some(signal),
                source,
            } => {
                write!(f, "signal {signal} could not be handled: {source}")
            }
            InstallError::Signal {
                signal: None,
                source,
            } => {
                write!(f, "no stack for the signal handlers: {source}")
            }
            InstallError::Resources { what, source } => write!(f, "no {what}: {source}"),
        }
    }
}

impl std::error::Error for InstallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InstallError::AlreadyInstalled
            | InstallError::NoDirectory
            | InstallError::SharedDirectory { .. } => None,
            InstallError::Directory { source, .. }
            | InstallError::Signal { source, .. }
            | InstallError::Resources { source, .. } => Some(source),
        }
    }
}

/// A call that a monitor can't serve as it was installed. It is within the [`io::Error`] that the call returns:
///
/// ```
/// use wedjat::{Misuse, Monitor};
/// # let dir = std::env::temp_dir().join(format!("wedjat-misuse-{}", std::process::id()));
/// let monitor = Monitor::builder("MyApp", "1").directory(&dir).install()?;
/// let error = monitor.watch_by_ping(|_| {}).unwrap_err();
/// let misuse = error.get_ref().and_then(|inner| inner.downcast_ref());
/// assert_eq!(misuse, Some(&Misuse::NoStall));
/// # drop(monitor);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Misuse {
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
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Misuse::NoStall => {
                "watching by ping needs `.stall(Stall::default())` when the monitor is installed"
            }
            Misuse::WatchedAlready => "this monitor watches by ping already",
            Misuse::Forked => {
                "a child of `fork` cannot use its parent's monitor: drop it and install another"
            }
            Misuse::NoMonitor => "no monitor is installed: install one before threads are watched",
            Misuse::ThreadWatched => "this thread is watched already",
            Misuse::TooManyThreads => {
                "256 threads are watched already: drop the guard of one, or let one end"
            }
        })
    }
}

impl std::error::Error for Misuse {}

impl From<Misuse> for io::Error {
    fn from(misuse: Misuse) -> io::Error {
        let kind = match misuse {
            Misuse::Forked => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, misuse)
    }
}
