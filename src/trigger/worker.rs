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
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread waits at.
#[derive(Debug)]
pub(super) struct Bell {
    stop: AtomicBool,
    rung: Semaphore,
}

impl Bell {
    /// Waits so many nanoseconds, or less if the thread is to end; says whether it is to go on.
    pub fn wait(&self, nanoseconds: u64) -> bool {
        if !self.stop.load(Ordering::SeqCst) {
            self.rung.wait_timeout(nanoseconds);
        }
        !self.stop.load(Ordering::SeqCst)
    }
}

impl Worker {
    /// Starts it. `work` returns soon once [`Bell::wait`] says so.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn spawn(name: &str, work: impl FnOnce(&Bell) + Send + 'static) -> io::Result<Worker> {
        let bell = Arc::new(Bell {
            stop: AtomicBool::new(false),
            rung: Semaphore::new(),
        });
        let theirs = Arc::clone(&bell);
        let thread = super::spawn(name, STACK, move || work(&theirs))?;
        Ok(Worker {
            bell,
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.bell.stop.store(true, Ordering::SeqCst);
        self.bell.rung.post();
        if let Some(thread) = self.thread.take() {
            super::join(thread);
        }
    }
}
