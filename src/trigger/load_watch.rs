//! The thread that looks for too much load: there only where a trigger of that kind is asked for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::load::{Excess, Gauge, LoadDetector, Loads};
use crate::platform::{Semaphore, SignalMask};

/// What the thread asks and tells; all on that thread.
pub trait LoadWatcher {
    /// What is to be seen now.
    fn gauge(&mut self) -> Gauge;

    /// This was too much.
    fn excess(&mut self, excess: &Excess);
}

/// The running thread: it wakes once a second, or as often as the times that are set ask for.
/// Dropping it stops and joins it.
#[derive(Debug)]
pub struct LoadWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    bell: Semaphore,
}

impl LoadWatch {
    /// Starts to look.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn spawn(
        loads: Loads,
        mut watcher: impl LoadWatcher + Send + 'static,
    ) -> io::Result<LoadWatch> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            bell: Semaphore::new(),
        });
        let theirs = Arc::clone(&shared);
        let mask = SignalMask::block_all();
        let thread = std::thread::Builder::new()
            .name("wedjat-load".into())
            .stack_size(1 << 18)
            .spawn(move || {
                let mut detector = LoadDetector::new(loads, watcher.gauge());
                while !theirs.stop.load(Ordering::SeqCst) {
                    theirs.bell.wait_timeout(detector.period());
                    if theirs.stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let found = detector.look(&watcher.gauge());
                    found
                        .iter()
                        .flatten()
                        .for_each(|excess| watcher.excess(excess));
                }
            });
        drop(mask);
        Ok(LoadWatch {
            shared,
            thread: Some(thread?),
        })
    }
}

impl Drop for LoadWatch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.bell.post();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}
