//! The thread that looks for too much load: there only where a trigger of that kind is set.

use std::io;

use super::crash;
use super::load::{Excess, LoadDetector, LoadObservation, Loads};
use super::worker::Worker;

/// Source of the gauges and receiver of the findings; all calls are made on that thread.
pub trait LoadWatcher {
    /// Reads the gauges now.
    fn gauge(&mut self) -> LoadObservation;

    /// This was too much.
    fn excess(&mut self, excess: &Excess);
}

/// Starts the thread that observes: it wakes once a second, or as often as the times that are set ask for. While the process
/// may die of a crash, findings are held back.
pub(crate) fn spawn(
    loads: Loads,
    mut watcher: impl LoadWatcher + Send + 'static,
) -> io::Result<Worker> {
    Worker::spawn("wedjat-load", move |inbox| {
        let mut detector = LoadDetector::new(loads, watcher.gauge());
        let mut held = [const { None }; 3];
        while inbox.sleep_unless_stopped(detector.period()) {
            for (held, found) in held.iter_mut().zip(detector.observe(&watcher.gauge())) {
                *held = found.or(held.take());
            }
            if !crash::is_undecided() {
                held.iter_mut()
                    .filter_map(Option::take)
                    .for_each(|excess| watcher.excess(&excess));
            }
        }
    })
}
