//! The ping: for run loops that cannot be observed, the app's own queue carries a beat round.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use super::heartbeat::{Heartbeat, PULSE};
use crate::platform::{Semaphore, SignalMask};

/// What is to be run on the watched thread: a function without arguments. It may be called as it
/// is, sent through a channel, or boxed.
pub type Beat = fn();

/// The install that pings belong to: an answer that comes late, from an earlier one, is nobody's.
static INSTALL: AtomicU32 = AtomicU32::new(0);

/// The thread that posts pings, one at a time: a ping is a turn that begins when it is posted and
/// ends when the watched thread has run it. Dropping it stops and joins the thread.
#[derive(Debug)]
pub struct Ping {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    bell: Semaphore,
}

impl Ping {
    /// Posts a ping every `period` nanoseconds, once the one before has been answered.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn spawn(
        heart: Heartbeat,
        period: u64,
        mut post: impl FnMut(Beat) + Send + 'static,
    ) -> io::Result<Ping> {
        INSTALL.store(heart.install(), Ordering::SeqCst);
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            bell: Semaphore::new(),
        });
        let theirs = Arc::clone(&shared);
        let mask = SignalMask::block_all();
        let thread = std::thread::Builder::new()
            .name("wedjat-ping".into())
            .stack_size(1 << 18)
            .spawn(move || {
                while !theirs.stop.load(Ordering::SeqCst) {
                    if PULSE.beat().depth() == 0 {
                        heart.begin();
                        post(answer);
                    }
                    theirs.bell.wait_timeout(period);
                }
            });
        drop(mask);
        Ok(Ping {
            shared,
            thread: Some(thread?),
        })
    }
}

impl Drop for Ping {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.bell.post();
        if let Some(thread) = self.thread.take() {
            // The app's `post` panicked: it has said so on standard error.
            let _ = thread.join();
        }
    }
}

/// The watched thread is alive.
pub(crate) fn answer() {
    Heartbeat::of(INSTALL.load(Ordering::SeqCst)).end();
}
