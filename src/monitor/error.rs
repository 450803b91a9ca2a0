//! Why a monitor could not be installed.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why [`MonitorBuilder::install`](super::MonitorBuilder::install) failed. Nothing stays installed.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstallError {
    /// A monitor is installed in this process already.
    AlreadyInstalled,
    /// No folder was given.
    NoDirectory,
    /// The folder cannot be made, opened or written to.
    Directory {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A signal's handler could not be installed; without a number, the handlers' stack.
    Signal {
        /// The signal's number.
        signal: Option<i32>,
        /// What the system said.
        source: io::Error,
    },
    /// Memory, threads or descriptors ran out.
    Resources {
        /// What for.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstallError::AlreadyInstalled => {
                write!(
                    f,
                    "a monitor is installed already: there is one a process; drop it first"
                )
            }
            InstallError::NoDirectory => {
                write!(
                    f,
                    "no folder for the reports: call .directory(..) before .install()"
                )
            }
            InstallError::Directory { path, source } => {
                write!(
                    f,
                    "reports cannot be written to {}: {source}",
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
            InstallError::AlreadyInstalled | InstallError::NoDirectory => None,
            InstallError::Directory { source, .. }
            | InstallError::Signal { source, .. }
            | InstallError::Resources { source, .. } => Some(source),
        }
    }
}
