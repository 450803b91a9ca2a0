//! The platform's semaphore, for loom.

use loom::sync::{Condvar, Mutex};

/// The platform's semaphore, as loom sees it.
#[derive(Debug)]
pub struct Semaphore {
    count: Mutex<u32>,
    change: Condvar,
    /// Held while a beat is on its way, see `HeartbeatState::report`.
    pub buffer: Mutex<()>,
}

impl Semaphore {
    pub fn new() -> Semaphore {
        Semaphore {
            count: Mutex::new(0),
            change: Condvar::new(),
            buffer: Mutex::new(()),
        }
    }

    pub fn post(&self) {
        *self.count.lock().unwrap() += 1;
        self.change.notify_one();
    }

    pub fn wait(&self) {
        let mut count = self.count.lock().unwrap();
        while *count == 0 {
            count = self.change.wait(count).unwrap();
        }
        *count -= 1;
    }

    /// The time-out comes at any moment, but no earlier than a beat that was on its way.
    pub fn wait_until(&self, _deadline: u64) -> bool {
        drop(self.buffer.lock());
        let mut count = self.count.lock().unwrap();
        let taken = *count > 0;
        *count -= u32::from(taken);
        taken
    }
}
