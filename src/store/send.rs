//! Sends the reports of earlier launches, each once, even if other processes send from the same folder.

use std::io;
use std::path::{Path, PathBuf};

use libc::{O_RDONLY, O_RDWR};

use super::{REFUSED, StoredReport, reports};
use crate::platform::descriptors;
use crate::platform::directory::Directory;

/// The fate of a report that was to be sent, see [`send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// It arrived: it is removed.
    Accepted,
    /// It will never be taken: it cannot be read, or the receiver wants no such report. It is set aside under the
    /// ending `.refused`, and counts toward the folder's limits.
    Refused,
    /// It cannot be taken now: it stays, and the next one is tried.
    Later,
    /// No report can be taken now, as without a network: this one and all later ones stay.
    Stop,
}

/// The result of [`send`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Sent {
    /// Reports that were accepted and removed.
    pub accepted: usize,
    /// Paths of the reports that were set aside.
    pub refused: Vec<PathBuf>,
    /// Reports that stay for another time.
    pub deferred: usize,
    /// Reports that another sender has in hand.
    pub busy: usize,
}

/// Calls `each` with each report that earlier launches left in `directory`, oldest first, and does with it what
/// the answer asks for.
///
/// While `each` has a report, no other call of `send` has it, in this process or in another, and this process does
/// not remove it to keep to its limits. A process that dies in the middle leaves the report for the next call. A
/// receiver recognizes a report that arrives twice by [`Head::id`](crate::report::Head::id).
///
/// Not for the watched thread if `each` uses a network, and not for signal handlers.
///
/// # Errors
/// If the folder cannot be listed. If a report cannot be removed or set aside, after the others.
///
/// ```
/// use wedjat::store::{self, Answer};
/// # fn post(_: &wedjat::report::Report) -> Option<u16> { Some(204) }
/// # let directory = std::env::temp_dir().join("wedjat-doc-none");
/// let sent = store::send(&directory, |stored| {
///     let Ok(reading) = stored.read() else {
///         return Answer::Refused;
///     };
///     match post(&reading.report) {
///         Some(200..=299) => Answer::Accepted,
///         Some(400 | 413 | 415 | 422) => Answer::Refused,
///         Some(_) => Answer::Later,
///         None => Answer::Stop,
///     }
/// })?;
/// println!("{} sent, {} to come", sent.accepted, sent.deferred);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn send(
    directory: impl AsRef<Path>,
    mut each: impl FnMut(&StoredReport) -> Answer,
) -> io::Result<Sent> {
    let mut sent = Sent::default();
    let mut first_error = None;
    let mut stopped = false;
    let Some(folder) = super::open(directory.as_ref())? else {
        return Ok(sent);
    };
    for stored in reports(directory)? {
        if stopped {
            sent.deferred += 1;
            continue;
        }
        let Some(_in_hand) = lock_report(&folder, &stored) else {
            sent.busy += usize::from(stored.path().exists());
            continue;
        };
        let done = match each(&stored) {
            Answer::Accepted => folder.remove(stored.name()).map(|()| sent.accepted += 1),
            Answer::Refused => {
                let aside = super::with_ending(stored.name(), REFUSED);
                let path = stored.path().with_file_name(&aside);
                folder
                    .rename(stored.name(), &aside)
                    .map(|()| sent.refused.push(path))
            }
            answer => {
                sent.deferred += 1;
                stopped = answer == Answer::Stop;
                Ok(())
            }
        };
        if let Err(error) = done {
            let path = stored.path().display();
            first_error = first_error
                .or_else(|| Some(io::Error::new(error.kind(), format!("{path}: {error}"))));
        }
    }
    match first_error {
        Some(error) => Err(error),
        None => Ok(sent),
    }
}

/// Locks a report; returns `None` if it is gone, or if another sender has the lock.
pub(super) fn lock_report(folder: &Directory, report: &StoredReport) -> Option<impl Drop> {
    let open = |flags| folder.open_own(report.name(), flags).ok();
    // A file that may only be read can be locked on a file system with flock(2).
    let file = open(O_RDWR).or_else(|| open(O_RDONLY))?;
    // Another sender may have removed it between the open and the lock.
    (descriptors::try_lock(&file) && folder.is_at(report.name(), &file)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::name::Name;

    fn left(folder: &Path, number: u8, bytes: &[u8]) -> PathBuf {
        let name = Name::new(
            u64::from(number) * 1_000_000_000,
            "live",
            &[number; 16],
            "wedjat",
        );
        let path = folder.join(name.as_str());
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn report() -> Vec<u8> {
        crate::report::to_bytes(&crate::report::Report::default())
    }

    #[test]
    fn one_that_cannot_be_read_or_is_refused_does_not_hold_up_the_others() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let damaged = left(folder, 1, b"no report");
        let refused = left(folder, 2, &report());
        let later = left(folder, 3, &report());
        let good = left(folder, 4, &report());
        let stops = left(folder, 5, &report());
        let behind = left(folder, 6, &report());
        let sent = send(folder, |stored| match stored.path() {
            _ if stored.read().is_err() => Answer::Refused,
            path if path == refused => Answer::Refused,
            path if path == later => Answer::Later,
            path if path == stops => Answer::Stop,
            path if path == behind => panic!("it was stopped"),
            _ => Answer::Accepted,
        })
        .unwrap();
        assert_eq!((sent.accepted, sent.deferred, sent.busy), (1, 3, 0));
        let aside = [damaged, refused].map(|path| path.with_extension("refused"));
        assert_eq!(sent.refused, aside);
        assert!(aside.iter().all(|path| path.exists()) && !good.exists());
        // A report that was set aside is not tried again.
        let mut tried = 0;
        let again = send(folder, |_| {
            tried += 1;
            Answer::Accepted
        });
        assert_eq!((again.unwrap().accepted, tried), (3, 3));
    }

    #[test]
    fn a_report_that_one_sender_has_in_hand_is_not_given_to_another() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        left(folder, 1, &report());
        left(folder, 2, &report());
        let outer = send(folder, |_| {
            let inner = send(folder, |_| Answer::Accepted).unwrap();
            assert_eq!(inner.busy, 1);
            Answer::Accepted
        });
        let outer = outer.unwrap();
        // The first call's inner one has sent the second report.
        assert_eq!((outer.accepted, outer.busy), (1, 0));
        assert!(reports(folder).unwrap().is_empty());
    }
}
