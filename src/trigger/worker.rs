//! A thread of ours that works and waits by turns, until it is dropped.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::platform::Semaphore;

/// More than what the work of these threads, and a callback of the app's on them, needs.
const STACK: usize = 1 << 20;

/// The running thread, which takes none of the app's signals. Dropping it tells it to end, behind what it was given before,
/// and joins it, unless it is dropped on that very thread.
#[derive(Debug)]
pub(crate) struct Worker<T = ()> {
    inbox: Arc<Inbox<T>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is to do. std's channels would do as well, with 70 KB of code.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    waiting: Mutex<Vec<T>>,
    stop: AtomicBool,
    posted: Semaphore,
}

impl<T> Inbox<T> {
    /// Gives the thread something to do.
    pub fn put(&self, work: T) {
        self.waiting().push(work);
        self.posted.post();
    }

    /// Waits for the next thing to do; `None` once the thread is to end and nothing is left.
    pub fn next(&self) -> Option<T> {
        loop {
            // Before the look: nothing is put behind it.
            let ends = self.stop.load(Ordering::SeqCst);
            let mut waiting = self.waiting();
            if ends || !waiting.is_empty() {
                return (!waiting.is_empty()).then(|| waiting.remove(0));
            }
            drop(waiting);
            self.posted.wait();
        }
    }

    /// Waits so many nanoseconds, or less if the thread is to end; returns true if it is to go on.
    pub fn sleep_unless_stopped(&self, nanoseconds: u64) -> bool {
        if !self.stop.load(Ordering::SeqCst) {
            self.posted.wait_timeout(nanoseconds);
        }
        !self.stop.load(Ordering::SeqCst)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> Worker<T> {
    /// Starts it. `work` returns soon once [`Inbox::next`] gives nothing, or it is not to go on.
    pub fn spawn(
        name: &str,
        work: impl FnOnce(&Inbox<T>) + Send + 'static,
    ) -> io::Result<Worker<T>> {
        let inbox = Arc::new(Inbox {
            // Who puts little there allocates nothing.
            waiting: Mutex::new(Vec::with_capacity(16)),
            stop: AtomicBool::new(false),
            posted: Semaphore::new(),
        });
        let theirs = inbox.clone();
        let thread = super::spawn(name, STACK, Box::new(move || work(&theirs)))?;
        Ok(Worker {
            inbox,
            thread: Some(thread),
        })
    }

    pub fn inbox(&self) -> Arc<Inbox<T>> {
        self.inbox.clone()
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.inbox.stop.store(true, Ordering::SeqCst);
        self.inbox.posted.post();
        if let Some(thread) = self.thread.take() {
            super::join(thread);
        }
    }
}
