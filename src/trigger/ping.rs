//! Beats that the app need not write: of its main run loop, which is observed, and of a queue of its own that carries
//! pings round.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::heartbeat::{HEARTBEAT, Heartbeat};
use super::worker::Worker;
#[cfg(target_vendor = "apple")]
use crate::platform::run_loop::{self, Observers};

/// The install that these beats belong to: an answer that comes late, from an earlier one, counts for nothing.
static INSTALL: AtomicU32 = AtomicU32::new(0);

/// Starts the thread that posts a ping every `period` nanoseconds, once the one before has been answered: a ping is a turn
/// that begins when it is posted and ends when the watched thread has run it. `post` has that thread run the function that
/// it is given.
pub(crate) fn spawn(
    heart: Heartbeat,
    period: u64,
    mut post: impl FnMut(fn()) + Send + 'static,
) -> io::Result<Worker> {
    INSTALL.store(heart.install(), Ordering::SeqCst);
    Worker::spawn("wedjat-ping", move |inbox| {
        loop {
            if HEARTBEAT.beat().depth() == 0 {
                heart.begin();
                post(answer);
            }
            if !inbox.goes_on(period) {
                break;
            }
        }
    })
}

/// Ends the turn that a ping or the run loop has begun.
pub(crate) fn answer() {
    Heartbeat::of(INSTALL.load(Ordering::SeqCst)).end();
}

/// Beats at each turn of the main run loop, until it is dropped.
#[cfg(target_vendor = "apple")]
#[derive(Debug)]
pub struct RunLoop {
    _observers: Observers,
}

#[cfg(target_vendor = "apple")]
impl RunLoop {
    /// `None` where the process has no run loop.
    pub fn observe(heart: Heartbeat) -> Option<RunLoop> {
        INSTALL.store(heart.install(), Ordering::SeqCst);
        let busy = || Heartbeat::of(INSTALL.load(Ordering::SeqCst)).begin();
        let observers = run_loop::observe(busy, answer)?;
        Some(RunLoop {
            _observers: observers,
        })
    }
}
