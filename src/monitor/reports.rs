//! The way of finished reports to the app: a thread of their own, on which its callback may take its time.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::recorder::trace_report;
use crate::trigger::{Inbox, Worker, is_left};

/// The app's callback for reports.
pub(super) type OnReport = Box<dyn FnMut(&Path) + Send>;

/// A finished report, and the time from which on it may be handed on.
pub(super) type Finished = (PathBuf, Instant);
/// Takes finished reports from any thread of the monitor's: none ever waits for the callback.
pub(super) type Outbox = Option<Arc<Inbox<Finished>>>;

/// A report of a panic is handed on only after so long: if the panic aborts, the crash handler replaces it.
pub(super) const PANIC_SETTLES: Duration = Duration::from_millis(200);

thread_local! {
    /// True on the thread of the callback.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Starts the thread. Dropped, it hands on what is left.
pub(super) fn spawn(mut on_report: Option<OnReport>) -> io::Result<Worker<Finished>> {
    Worker::spawn("wedjat-reports", move |inbox: &Inbox<Finished>| {
        IS_OURS.set(true);
        while !is_left()
            && let Some((path, from)) = inbox.next()
        {
            thread::sleep(from.saturating_duration_since(Instant::now()));
            if !path.exists() {
                continue;
            }
            trace_report(&path);
            if let Some(callback) = &mut on_report {
                // The panic hook has reported one that panics; the next report is handed on all the same.
                let _ = catch_unwind(AssertUnwindSafe(|| callback(&path)));
            }
        }
    })
}

/// Hands a report on, after `settles`. Not one of a panic of the callback's own: it would panic again.
pub(super) fn put(outbox: &Outbox, path: PathBuf, settles: Duration) {
    if let Some(inbox) = outbox
        && !IS_OURS.try_with(Cell::get).unwrap_or(false)
    {
        inbox.put((path, Instant::now() + settles));
    }
}
