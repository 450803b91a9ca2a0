//! The run loop's heartbeat: one word that the watched thread writes, one by which the watchdog requests
//! to be woken.
//!
//! The two sides never miss each other, by the store-then-load handshake of Dekker: the watchdog
//! stores its *wake request* and then reads the *beat*; `begin` stores its beat and then reads the request.
//! With sequentially consistent order at least one of them sees the other, so that either the
//! watchdog stays up or `begin` wakes it. `end` has no such order (it would cost another fence):
//! its wake-up is early news of when a freeze ended, and what it misses the next observation finds.

mod beat;
#[cfg(all(loom, test))]
mod model;
mod state;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::atomic::Ordering;

pub use beat::Beat;
pub use state::{HEARTBEAT, HeartbeatState};

/// Reports to the watchdog that the watched thread is busy or idle.
///
/// It is a plain value: copy it wherever it is needed. Beats come from the thread that is watched;
/// from several threads at once they are safe, but miscounted. Once the monitor is dropped, those
/// that are left do nothing.
///
/// `begin` and `end` nest: a nested run loop (a modal dialog) that still turns is no stall.
#[derive(Debug, Clone, Copy)]
pub struct Heartbeat {
    state: &'static HeartbeatState,
    install: u32,
}

impl Heartbeat {
    /// The thread has something to do: an event arrived, a timer fired.
    ///
    /// Costs one sequentially consistent store. When the watchdog sleeps, this wakes it (one
    /// system call). Never blocks, allocates or panics.
    #[inline]
    pub fn begin(self) {
        if self.state.install.load(Ordering::Relaxed) == self.install {
            self.state.begin();
        }
    }

    /// The thread is done with it and about to wait for the next event.
    #[inline]
    pub fn end(self) {
        if self.state.install.load(Ordering::Relaxed) == self.install {
            self.state.end();
        }
    }

    /// Of an install of the process' heartbeat.
    pub(crate) fn of(install: u32) -> Heartbeat {
        Heartbeat {
            state: &HEARTBEAT,
            install,
        }
    }

    /// The install that it belongs to.
    pub(crate) fn install(self) -> u32 {
        self.install
    }

    /// One turn of the run loop: [`begin`](Self::begin), `handle`, [`end`](Self::end), which comes
    /// even if `handle` panics.
    #[inline]
    pub fn turn<T>(self, handle: impl FnOnce() -> T) -> T {
        struct End(Heartbeat);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        self.begin();
        let _end = End(self);
        handle()
    }
}
