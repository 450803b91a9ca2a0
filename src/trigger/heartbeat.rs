//! A thread's heartbeat: one word that the watched thread writes, one by which the watchdog requests
//! to be woken. Each watched thread has the two, in a table of fixed size; all have one watchdog.
//!
//! The two sides never miss each other: the watchdog stores its *wake request* and then reads the *beat*; `begin` and
//! `end` store their beat and then read the request. At least one of them sees the other, so that either the
//! watchdog stays up or the beat wakes it. What is usual for that, a fence on each side, costs the run loop more than all
//! the rest of a beat. So only the watchdog has one: before it sleeps without a time-out it sleeps with one that is
//! longer than any processor keeps a store back, and reads the beat again (Morrison and Afek, "Temporally Bounding TSO for
//! Fence-Free Asymmetric Synchronization", ASPLOS 2015).
// Runs in each turn of the app: nothing in these modules can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

#[cfg(all(loom, test))]
mod model;
mod registry;
mod state;
#[cfg(all(test, not(loom)))]
mod tests;

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

pub(crate) use registry::{Refusal, Registry, WatchedMember};
pub use registry::{THREADS, own_heartbeat, own_state};
pub use state::{Beat, HEARTBEAT, HeartbeatState};

/// The watched thread's own heartbeat: it reports to the watchdog that the thread is busy or idle.
///
/// It is a plain value: copy it wherever it is needed. Beats of another thread than the watched one are
/// ignored, and counted ([`Stats::stray_beats`](crate::Stats::stray_beats)). Once the monitor is dropped, heartbeats
/// that are left do nothing.
///
/// `begin` and `end` nest: a nested run loop (a modal dialog) that still turns is no stall.
#[derive(Debug, Clone, Copy)]
pub struct Heartbeat {
    state: &'static HeartbeatState,
    install: u32,
}

/// The heartbeat of the installed monitor's thread, for code that has no [`Monitor`](crate::Monitor), such as a library or a
/// callback of a toolkit's. It does nothing if no monitor was installed when this was called, so call this for each turn. Where
/// the monitor is at hand, [`Monitor::heartbeat`](crate::Monitor::heartbeat) returns the same one once and for all.
///
/// Lock-free, and never allocates.
///
/// ```
/// fn on_event() {
///     wedjat::heartbeat().turn(|| { /* … handles it … */ });
/// }
/// on_event(); // Before the install it only calls the function.
/// # let dir = std::env::temp_dir().join(format!("wedjat-heartbeat-{}", std::process::id()));
/// let monitor = wedjat::Monitor::builder("MyApp", "1.2.3").directory(&dir).install()?;
/// on_event();
/// assert_eq!(monitor.stats().turns, 1);
/// # drop(monitor);
/// # on_event();
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn heartbeat() -> Heartbeat {
    let state = &HEARTBEAT;
    // No install has the greatest number.
    let install = state.installed().unwrap_or(u32::MAX);
    Heartbeat { state, install }
}

impl Heartbeat {
    /// The thread has something to do: an event arrived, a timer fired.
    ///
    /// Costs a plain store and four loads. When the watchdog sleeps, this wakes it (one
    /// system call). Never blocks, allocates or panics.
    #[inline]
    pub fn begin(self) {
        if self.beats() {
            self.state.begin();
        }
    }

    /// The thread is done with it and about to wait for the next event.
    #[inline]
    pub fn end(self) {
        if self.beats() {
            self.state.end();
        }
    }

    /// Returns true if a beat of the calling thread counts.
    #[inline]
    fn beats(self) -> bool {
        let (is_installed, is_own) = (self.is_installed(), self.state.is_own());
        if is_installed && !is_own {
            self.state.stray();
        }
        is_installed && is_own
    }

    #[inline]
    fn is_installed(self) -> bool {
        self.state.install.load(Ordering::Relaxed) == self.install
    }

    /// Returns true for the heartbeat of the thread that installed the monitor.
    pub(crate) fn is_main(self) -> bool {
        registry::index_of(self.state) == 0
    }

    /// Ends the watch of its thread, the calling one, unless that is the thread that installed the monitor. The thread goes on: a
    /// turn is over.
    pub(crate) fn leave(self) {
        if self.is_installed() && !self.is_main() && self.state.beat().depth() != 0 {
            self.state.report(Beat::paused);
        }
        Registry.leave(self.state, self.install);
    }

    /// Rests, on the watched thread, until [`Heartbeat::resume`].
    pub(crate) fn pause(self) {
        if self.is_installed() {
            self.state.pause();
        }
    }

    /// Ends the last pause.
    pub(crate) fn resume(self) {
        if self.is_installed() {
            self.state.resume();
        }
    }

    /// Ends the turn of a ping, on the thread that works the watched queue off.
    pub(crate) fn answer(self) {
        if self.is_installed() {
            self.state.answer();
        }
    }

    /// The heartbeat of this [number](Self::number); one that does nothing where no watched thread has it.
    pub(crate) fn of(number: u32) -> Heartbeat {
        Heartbeat {
            state: registry::state_at(number / (state::INSTALLS + 1)),
            install: number & state::INSTALLS,
        }
    }

    /// The number of the install that it belongs to: in its high bits the state, in the others the count of its installs.
    pub(crate) fn number(self) -> u32 {
        registry::index_of(self.state)
            .wrapping_mul(state::INSTALLS + 1)
            .wrapping_add(self.install)
    }

    /// One turn of the run loop: [`begin`](Self::begin), `handle`, [`end`](Self::end), which comes
    /// even if `handle` panics.
    #[inline]
    pub fn turn<T>(self, handle: impl FnOnce() -> T) -> T {
        let _busy = self.busy();
        handle()
    }

    /// Begins a turn that ends when the guard is dropped: by the end of a scope, `?`, `break`, `continue`
    /// or a panic.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-busy-{}", std::process::id()));
    /// # let monitor = wedjat::Monitor::builder("MyApp", "1.2.3").directory(&dir).install()?;
    /// let heart = monitor.heartbeat();
    /// for event in ["open", "quit", "paint"] {
    ///     let _busy = heart.busy();
    ///     if event == "quit" {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(monitor.stats().turns, 2);
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn busy(self) -> Busy {
        self.begin();
        Busy {
            heart: self,
            _same_thread: PhantomData,
        }
    }
}

/// A turn that lasts until this is dropped, see [`Heartbeat::busy`].
///
/// It stays on the thread that began the turn: it is not `Send`.
///
/// ```compile_fail
/// # fn any() -> wedjat::Heartbeat { unimplemented!() }
/// let busy = any().busy();
/// std::thread::spawn(move || drop(busy)); // the turn belongs to the watched thread
/// ```
#[derive(Debug)]
#[must_use = "the turn ends when the guard is dropped"]
pub struct Busy {
    heart: Heartbeat,
    _same_thread: PhantomData<*const ()>,
}

impl Drop for Busy {
    #[inline]
    fn drop(&mut self) {
        self.heart.end();
    }
}
