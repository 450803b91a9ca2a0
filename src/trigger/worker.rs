//! A thread of ours that works and waits by turns, until it is dropped.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// More than what the work of these threads, and a callback of the app's on them, needs.
const STACK: usize = 1 << 20;

/// The running thread, which takes none of the app's signals. Dropping it tells it to end, behind the messages that were
/// sent before, and joins it, unless it is dropped on that very thread.
#[derive(Debug)]
pub(crate) struct Worker<T = ()> {
    sender: Sender<Option<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts it. `work` returns soon once it receives `None`.
    pub fn spawn(
        name: &str,
        work: impl FnOnce(&Receiver<Option<T>>) + Send + 'static,
    ) -> io::Result<Worker<T>> {
        let (sender, receiver) = channel();
        let thread = super::spawn(name, STACK, move || work(&receiver))?;
        Ok(Worker {
            sender,
            thread: Some(thread),
        })
    }

    /// Sends it messages.
    pub fn sender(&self) -> Sender<Option<T>> {
        self.sender.clone()
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        let _ = self.sender.send(None);
        if let Some(thread) = self.thread.take() {
            super::join(thread);
        }
    }
}

/// Waits so many nanoseconds, or less if the thread is to end; returns true if it is to go on.
pub(super) fn goes_on(receiver: &Receiver<Option<()>>, nanoseconds: u64) -> bool {
    let waited = receiver.recv_timeout(Duration::from_nanos(nanoseconds));
    waited == Err(RecvTimeoutError::Timeout)
}
