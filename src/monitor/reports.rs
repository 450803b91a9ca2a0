//! The way of finished reports to the app: a thread of their own, on which its callback may take its time.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::platform::own_thread::with_mask_of_app;
use crate::recorder::{StallEvent, trace_report};
#[cfg(feature = "tracing")]
use crate::trigger::stall::{How, StallInfo};
use crate::trigger::{Inbox, Worker, is_left};

/// The app's callback for reports.
pub(super) type OnReport = Box<dyn FnMut(&Path) + Send>;

/// News for the app, or for its log.
#[derive(Debug)]
pub(super) enum News {
    /// A finished report, from this time on.
    Report(PathBuf, Instant),
    /// A stall, and how it ended, for the log.
    #[cfg(feature = "tracing")]
    Stall(StallInfo, Option<How>),
}

/// Takes news from any thread of the monitor's: none ever waits for the callback, or for a log.
pub(super) type Outbox = Option<Arc<Inbox<News>>>;

/// A report of a panic is handed on only after so long: if the panic aborts, the crash handler replaces it.
pub(super) const PANIC_SETTLES: Duration = Duration::from_millis(200);

thread_local! {
    /// True on the thread of the callback.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Starts the thread. Dropped, it hands on what is left.
pub(super) fn spawn(mut on_report: Option<OnReport>) -> io::Result<Worker<News>> {
    Worker::spawn("wedjat-reports", move |inbox: &Inbox<News>| {
        IS_OURS.set(true);
        while !is_left()
            && let Some(news) = inbox.next()
        {
            let (path, from) = match news {
                News::Report(path, from) => (path, from),
                #[cfg(feature = "tracing")]
                News::Stall(info, how) => {
                    crate::recorder::trace(&info, how);
                    continue;
                }
            };
            thread::sleep(from.saturating_duration_since(Instant::now()));
            if !path.exists() {
                continue;
            }
            trace_report(&path);
            if let Some(callback) = &mut on_report {
                // The panic hook has reported one that panics; the next report is handed on all the same.
                let call = || catch_unwind(AssertUnwindSafe(|| callback(&path)));
                let _ = with_mask_of_app(call);
            }
        }
    })
}

/// Hands a report on, after `settles`. Not one of a panic of the callback's own: it would panic again.
pub(super) fn put(outbox: &Outbox, path: PathBuf, settles: Duration) {
    if let Some(inbox) = outbox
        && !IS_OURS.try_with(Cell::get).unwrap_or(false)
    {
        let now = Instant::now();
        inbox.put(News::Report(path, now.checked_add(settles).unwrap_or(now)));
    }
}

/// Hands a stall on to the log.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
pub(super) fn log(outbox: &Outbox, event: &StallEvent<'_>) {
    #[cfg(feature = "tracing")]
    if let Some(inbox) = outbox {
        inbox.put(match event {
            StallEvent::Began(info) => News::Stall(**info, None),
            StallEvent::Ended(end) => News::Stall(end.info, Some(end.how)),
        });
    }
}
