//! Errors of the symbolicator, each with the file in which it occurred.

use std::fmt;
use std::path::{Path, PathBuf};

/// The reason why a debug file, a report or a cache could not be used. Its text contains the system's error;
/// `source()` returns `None`.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to open or read a file.
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file is not what it should be; the text says what is wrong and where.
    BadFile {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
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

/// Returns the system's words for an error, without Rust's "(os error 2)".
pub(crate) fn plain_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((words, rest)) => {
            let after = rest.split_once(')').map_or("", |(_, after)| after);
            format!("{words}{after}")
        }
        None => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, source } => {
                write!(f, "{}: {}", path.display(), plain_words(source))
            }
            Error::BadFile { path, what } => write!(f, "{}: {}", path.display(), what),
        }
    }
}

impl std::error::Error for Error {}
