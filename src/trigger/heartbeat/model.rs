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
                state.listen([(&*state, seen)].into_iter(), None, || ());
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
                state.listen([(&*state, seen)].into_iter(), None, || ());
            }
            app.join().unwrap();
        });
    }

    /// Two threads rest, and the watchdog sleeps for good: the beat of either wakes it.
    #[test]
    fn model_a_beat_of_any_thread_wakes_the_watchdog() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let wake_up = loom::sync::Arc::new(super::Semaphore::new());
            let new = || loom::sync::Arc::new(HeartbeatState::beside(&wake_up));
            let states = [new(), new()];
            let apps = [0, 1].map(|index: usize| {
                let app = loom::sync::Arc::clone(&states[index]);
                loom::thread::spawn(move || app.begin())
            });
            let rest = Beat::NONE.begun().ended();
            let is_busy = |state: &HeartbeatState| state.beat() != rest;
            while !states.iter().all(|state| is_busy(state)) {
                let seen = states.iter().map(|state| (&**state, state.beat()));
                let seen: Vec<_> = seen.collect();
                if seen.iter().all(|(_, beat)| *beat != rest) {
                    break;
                }
                states[0].listen(seen.iter().copied(), None, || ());
            }
            apps.into_iter().for_each(|app| app.join().unwrap());
        });
    }

    /// A thread joins while the watchdog, which does not know it, sleeps for good: its first beat wakes the watchdog. So does
    /// the end of the thread.
    #[test]
    fn model_a_thread_that_joins_and_ends_is_seen() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let wake_up = loom::sync::Arc::new(super::Semaphore::new());
            let main = HeartbeatState::beside(&wake_up);
            let other = loom::sync::Arc::new(HeartbeatState::beside(&wake_up));
            let joins = loom::sync::Arc::clone(&other);
            let app = loom::thread::spawn(move || {
                joins
                    .wake_request
                    .swap(1, loom::sync::atomic::Ordering::SeqCst);
                joins.install.swap(1, loom::sync::atomic::Ordering::SeqCst);
                joins.begin();
                joins.uninstall();
                joins.wake();
            });
            let rest = Beat::NONE.begun().ended();
            // It knows the thread from the wake-up on, and waits for its end.
            while other.beat() == rest {
                main.listen([(&main, rest)].into_iter(), None, || ());
            }
            while other.installed().is_some() {
                let seen = [(&main, rest), (&*other, other.beat())];
                main.listen(seen.into_iter(), None, || ());
            }
            app.join().unwrap();
        });
    }
}
