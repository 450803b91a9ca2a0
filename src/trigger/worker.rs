//! A thread of ours that works and waits by turns, until it is dropped.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::platform::Semaphore;

/// More than what the work of these threads, and a callback of the app's on them, needs.
const STACK: usize = 256 << 10;

/// The running thread, which takes none of the app's signals. Dropping it stops and joins it,
/// unless it is dropped on that very thread.
#[derive(Debug)]
pub(super) struct Worker {
    wake_up: Arc<WakeUp>,
    thread: Option<JoinHandle<()>>,
}

/// The flag and the semaphore for which the thread waits.
#[derive(Debug)]
pub(super) struct WakeUp {
    stop: AtomicBool,
    posted: Semaphore,
}

impl WakeUp {
    /// Waits so many nanoseconds, or less if the thread is to end; whether it is to go on.
    pub fn wait(&self, nanoseconds: u64) -> bool {
        if !self.stop.load(Ordering::SeqCst) {
            self.posted.wait_timeout(nanoseconds);
        }
        !self.stop.load(Ordering::SeqCst)
    }
}

impl Worker {
    /// Starts it. `work` returns soon once [`WakeUp::wait`] returns `false`.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn spawn(name: &str, work: impl FnOnce(&WakeUp) + Send + 'static) -> io::Result<Worker> {
        let wake_up = Arc::new(WakeUp {
            stop: AtomicBool::new(false),
            posted: Semaphore::new(),
        });
        let theirs = Arc::clone(&wake_up);
        let thread = super::spawn(name, STACK, move || work(&theirs))?;
        Ok(Worker {
            wake_up,
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.wake_up.stop.store(true, Ordering::SeqCst);
        self.wake_up.posted.post();
        if let Some(thread) = self.thread.take() {
            super::join(thread);
        }
    }
}
