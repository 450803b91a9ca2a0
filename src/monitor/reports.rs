//! Delivers finished reports to the app's callback, on a thread of its own: a slow callback delays nothing else.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::platform::own_thread::with_mask_of_app;
use crate::recorder::{StallEvent, trace_report};
#[cfg(feature = "tracing")]
use crate::trigger::stall::{StallInfo, StallOutcome};
use crate::trigger::{Inbox, Worker, is_left};

/// The app's callback for reports.
pub(super) type OnReport = Box<dyn FnMut(&Path) + Send>;

/// News for the app, or for its log.
#[derive(Debug)]
pub(super) enum Notice {
    /// A finished report, and the time from which it may be delivered.
    Report(PathBuf, Instant),
    /// A stall, and how it ended, for the log.
    #[cfg(feature = "tracing")]
    Stall(StallInfo, Option<StallOutcome>),
}

/// The queue for news from the monitor's threads. None of them ever waits for the callback or for a log.
pub(super) type Outbox = Option<Arc<Inbox<Notice>>>;

/// Delay before the report of a panic is delivered. If the panic aborts, the crash handler replaces the report in
/// that time.
pub(super) const PANIC_SETTLES: Duration = Duration::from_millis(200);

thread_local! {
    /// True on the thread of the callback.
    static IS_CALLBACK_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Starts the thread. Dropping the worker delivers the news that is left.
pub(super) fn spawn(mut on_report: Option<OnReport>) -> io::Result<Worker<Notice>> {
    Worker::spawn("wedjat-reports", move |inbox: &Inbox<Notice>| {
        IS_CALLBACK_THREAD.set(true);
        while !is_left()
            && let Some(news) = inbox.next()
        {
            let (path, not_before) = match news {
                Notice::Report(path, not_before) => (path, not_before),
                #[cfg(feature = "tracing")]
                Notice::Stall(info, outcome) => {
                    crate::recorder::log_stall(&info, outcome);
                    continue;
                }
            };
            thread::sleep(not_before.saturating_duration_since(Instant::now()));
            if !path.exists() {
                continue;
            }
            trace_report(&path);
            if let Some(callback) = &mut on_report {
                // The panic hook has reported a callback that panics. The next report is delivered all the same.
                let call = || catch_unwind(AssertUnwindSafe(|| callback(&path)));
                let _ = with_mask_of_app(call);
            }
        }
    })
}

/// Delivers a report after `delay`. Skips the report of a panic in the callback itself, which would panic again.
pub(super) fn put(outbox: &Outbox, path: PathBuf, delay: Duration) {
    if let Some(inbox) = outbox
        && !IS_CALLBACK_THREAD.try_with(Cell::get).unwrap_or(false)
    {
        let now = Instant::now();
        inbox.put(Notice::Report(path, now.checked_add(delay).unwrap_or(now)));
    }
}

/// Sends a stall to the log.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
pub(super) fn log(outbox: &Outbox, event: &StallEvent<'_>) {
    #[cfg(feature = "tracing")]
    if let Some(inbox) = outbox {
        inbox.put(match event {
            StallEvent::Began(info) => Notice::Stall(**info, None),
            StallEvent::Ended(end) => Notice::Stall(end.info, Some(end.outcome)),
        });
    }
}
