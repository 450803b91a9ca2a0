//! The handshake under every interleaving: `scripts/model`.

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

#[cfg(test)]
mod tests {
    use crate::trigger::heartbeat::{Beat, state::HeartbeatState};

    /// A watchdog that goes to sleep for good while the app's next turn begins: it always wakes
    /// (a lost wake-up would be a deadlock, which loom reports).
    #[test]
    fn model_no_wake_up_is_lost() {
        loom::model(|| {
            let state = loom::sync::Arc::new(HeartbeatState::new());
            let app = loom::sync::Arc::clone(&state);
            let app = loom::thread::spawn(move || app.begin());
            let seen = Beat::NONE.begun().ended();
            while state.beat() == seen {
                state.listen(seen, None, true, || ());
            }
            assert_eq!(state.beat().depth(), 1);
            app.join().unwrap();
        });
    }

    /// The same over a whole turn and the begin of the next: a freeze right after a rest is found.
    #[test]
    fn model_a_freeze_after_a_rest_is_found() {
        // Every interleaving with up to three preemptions; without a bound it takes hours.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let state = loom::sync::Arc::new(HeartbeatState::new());
            let app = loom::sync::Arc::clone(&state);
            let app = loom::thread::spawn(move || {
                app.begin();
                app.end();
                app.begin();
            });
            loop {
                let seen = state.beat();
                if seen.depth() == 1 && seen.count() == 5 {
                    break;
                }
                state.listen(seen, None, true, || ());
            }
            app.join().unwrap();
        });
    }
}
