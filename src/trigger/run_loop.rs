//! The main run loop as the heartbeat: the app need not write one.

use std::sync::atomic::{AtomicU32, Ordering};

use super::heartbeat::Heartbeat;
use crate::platform::run_loop::{self, Observers};

/// The install that beats belong to; 0, no install, in between.
static INSTALL: AtomicU32 = AtomicU32::new(0);

/// Beats at each turn of the main run loop, until it is dropped.
#[derive(Debug)]
pub struct RunLoop {
    _observers: Observers,
}

impl RunLoop {
    /// `None` where the process has no run loop.
    pub fn observe(heart: Heartbeat) -> Option<RunLoop> {
        INSTALL.store(heart.install(), Ordering::SeqCst);
        let observers = run_loop::observe(busy, idle)?;
        Some(RunLoop {
            _observers: observers,
        })
    }
}

fn busy() {
    Heartbeat::of(INSTALL.load(Ordering::SeqCst)).begin();
}

fn idle() {
    Heartbeat::of(INSTALL.load(Ordering::SeqCst)).end();
}
