//! What can go wrong at the desk, with the file it went wrong in.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a debug file, a report or a cache could not be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to open or read a file.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not what it should be; the text says what is wrong and where.
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Error {
        Error::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn bad_file(path: &Path, what: impl fmt::Display) -> Error {
        Error::BadFile {
            path: path.to_owned(),
            what: what.to_string(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, source } => {
                // The system's own words, without Rust's "(os error 2)".
                let text = source.to_string();
                let text = text.split(" (os error").next().unwrap_or(&text);
                write!(f, "{}: {}", path.display(), text)
            }
            Error::BadFile { path, what } => write!(f, "{}: {}", path.display(), what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::BadFile { .. } => None,
        }
    }
}
