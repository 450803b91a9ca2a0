//! The platform's semaphore, for loom.

use loom::sync::{Condvar, Mutex};

/// The platform's semaphore, as loom sees it. A wait with a deadline is not modelled.
#[derive(Debug)]
pub struct Semaphore {
    count: Mutex<u32>,
    change: Condvar,
}

impl Semaphore {
    pub fn new() -> Semaphore {
        Semaphore {
            count: Mutex::new(0),
            change: Condvar::new(),
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

    pub fn wait_until(&self, _deadline: u64) -> bool {
        unreachable!("the model waits without a deadline")
    }
}
