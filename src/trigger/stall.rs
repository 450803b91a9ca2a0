//! The stall detector: a pure state machine over time and the watched thread's heartbeat. No clock, no
//! thread, no system call: its driver hands in one [`Observation`] after another.
//!
//! # How it counts
//! The watchdog looks once every `timeout`. A turn is *slow* while the beat stands still from one
//! observation to the next. Slow turns that follow each other without rest are an **episode**; its time runs
//! from the last observation at which all was well (so it is never short of the truth, and at most one
//! time-out too long). An episode of `timeout × strikes` is a stall: one long freeze as well as several
//! short ones, one stall each. From the second slow turn on, the watchdog requests to be woken at each
//! beat, so that the turns of an episode are measured exactly; a turn shorter than `timeout`, or a rest
//! of a tenth of it, breaks the episode. A report's duration runs from the observation that saw the first turn, or from the beat
//! that woke the watchdog: it is never longer than the truth.
//!
//! Time that the thread could not have used is not counted: when the observation itself came late (the
//! machine slept, the process was stopped, the watchdog had no CPU), only what the thread's own
//! CPU clock shows is, or that it has not run at all (a stop makes it run); and none while a
//! debugger holds it or while a nested run loop waits for events. An episode that is no stall only
//! because of that is *dropped*, with the reason.
//!
//! Before the first beat nothing shows whether the thread works or waits for its first event. It works
//! while it uses the CPU, and while it waits for a disk or for a lock that another thread holds; whatever
//! else it waits for is a rest, which ends an episode (`launch.rs`).
//!
//! Of a thread that is pinged, the start of each turn is known, and a ping that the next observation finds answered was quick. Once
//! one is missed, its answer wakes the watchdog (`pinged.rs`).

mod account;
mod detector;
mod due;
mod episode;
mod launch;
mod observation;
mod pinged;

use std::time::Duration;

pub use detector::Detector;
pub use observation::{Decision, Held, Next, Observation, Reason, StallEndInfo, StallInfo};

pub use crate::report::{StallClass, StallOutcome};

#[cfg(feature = "__internals")]
pub use crate::platform::gauge::Waits;

settings! {
    /// Thresholds that make a freeze of the watched thread a stall.
    ///
    /// ```
    /// use std::time::Duration;
    /// use wedjat::Stall;
    /// let stall = Stall::default().timeout(Duration::from_millis(100)).strikes(3);
    /// assert_eq!(stall.threshold(), Duration::from_millis(300));
    /// ```
    #[derive(Eq)]
    pub struct Stall {
        /// Sets the length of one strike (50 ms by default): the watchdog observes so often. At least 1 ms, at most a minute.
        pub(crate) timeout: Duration = Duration::from_millis(50), timeout: Duration => timeout.clamp(Duration::from_millis(1), Duration::from_secs(60));
        /// Sets how many strikes in a row are a stall: 5 by default, at least 1, at most 10,000.
        pub(crate) strikes: u32 = 5, strikes: u32 => strikes.clamp(1, 10_000);
        /// Sets how long the launch may take, from `install` to the end of the first turn. The default is that of any other
        /// turn, [`threshold`](Stall::threshold).
        ///
        /// Before the first beat, time counts while the thread computes, waits for a disk, or waits for a
        /// lock that another thread holds. A thread that waits for anything else may wait for its first
        /// event. That time does not count, unless [`launch_waits`](Stall::launch_waits) is set. After a
        /// minute of such waiting, the app is watched again from its first beat on.
        ///
        /// The thread's CPU time, state and system call distinguish these. A disk is
        /// an uninterruptible sleep, or a call on an open file. A lock is a `pthread_mutex_t`, and on Apple platforms
        /// also a `pthread_rwlock_t` and an `os_unfair_lock`. Rust's own `Mutex` and `RwLock` on Linux,
        /// conditions and semaphores look like waiting for an event.
        pub(crate) launch_threshold: Option<Duration> = None, threshold: Duration => Some(threshold);
        /// Sets whether all waiting before the first beat counts as part of the launch (off by default). Use it if your
        /// app beats soon after `install`. It finds a launch that waits for another process or for the network. It also
        /// finds a wait for a lock that does not name its owner, as Rust's `Mutex`. An app that is idle before its first beat
        /// is then a stall.
        pub(crate) launch_waits: bool = false;
        /// Sets whether the app cannot do without the thread (off by default): a launch that ends in a stall of it is
        /// [`Stalled`](crate::store::HowEnded::Stalled). For the thread that installed this is always so.
        pub(crate) essential: bool = false;
    }
}

impl Stall {
    /// A freeze of so long is a stall: `timeout × strikes`.
    pub fn threshold(&self) -> Duration {
        self.timeout.saturating_mul(self.strikes)
    }
}
