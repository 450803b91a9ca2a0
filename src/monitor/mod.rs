//! The monitor that an app installs: triggers, capture and store wired together.
// Signal-safe code is in this room: nothing in it can panic.
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

mod builder;
mod error;
mod install;
mod panics;
mod reports;
mod stats;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use builder::MonitorBuilder;
pub use error::{InstallError, MonitorError};
pub use stats::Stats;
#[cfg(feature = "ffi")]
pub(crate) use threads::join;
pub use threads::{ThreadWatch, enter, watch_thread};

pub use crate::recorder::{StallEvent, Threads};

use crate::context::{CONTEXT, Context};
use crate::platform::folder::Folder;
use crate::platform::{MainQueue, Thread, clock, process_token, signals, stop};
use crate::recorder::{Helper, LiveRecorder, retire_crash, trace_report};
use crate::report::name::Name;
use crate::store::launch::{self, LaunchRecord};
use crate::store::{self, EndedLaunch};
use crate::trigger::heartbeat::{HEARTBEAT, Registry};
use crate::trigger::ping;
use crate::trigger::watchdog::Watchdog;
use crate::trigger::{Crash, Heartbeat, crash, panic};
use crate::vitals::{FRAMES, LAUNCHED, VITALS};

/// The recorder of this process, from [`MonitorBuilder::install`] until it is dropped.
///
/// There is one at a time. Dropping it uninstalls every handler, closes the report of a stall that
/// lasts (`stall_end` is `uninstalled`), and makes remaining heartbeats no-ops.
///
/// ```
/// use wedjat::{Crash, Monitor, Stall};
/// # let dir = std::env::temp_dir().join(format!("wedjat-doc-{}", std::process::id()));
/// let monitor = Monitor::builder("MyApp", "1.2.3")
///     .directory(&dir)
///     .stall(Stall::default())
///     .crash(Crash::default())
///     .install()?; // on the thread to be watched
///
/// let heart = monitor.heartbeat();
/// heart.turn(|| { /* handle one event */ });
///
/// let path = monitor.record("support button")?;
/// let reading = wedjat::report::read(&std::fs::read(&path)?)?;
/// assert_eq!(reading.report.event.unwrap().reason.as_deref(), Some("support button"));
/// # drop(monitor);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping the monitor uninstalls it"]
#[derive(Debug)]
pub struct Monitor {
    heartbeat: Heartbeat,
    live: Arc<LiveRecorder>,
    /// The process that installed; a child of `fork` has another id.
    process: u32,
    directory: PathBuf,
    crash: Option<Crash>,
    /// The thread that installed.
    watched: Thread,
    /// Earlier launches, oldest first.
    ended: Vec<EndedLaunch>,
    #[cfg(target_vendor = "apple")]
    run_loop: Option<crate::trigger::ping::RunLoop>,
    /// True if the watchdog watches the thread that installed.
    is_watched: bool,
    _folder: Arc<Folder>,
    // After the threads: its last word is that the monitor was uninstalled.
    _record: Option<LaunchRecord>,
    _installed: install::Claim,
}

impl Monitor {
    /// Returns a builder of a monitor, for the app of this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> MonitorBuilder {
        MonitorBuilder::new(name.into(), version.into())
    }

    /// The run loop's heartbeat: `begin` when the watched thread has something to do, `end` when it is
    /// about to wait. A plain value: copy it wherever it is needed, or call [`heartbeat`](crate::heartbeat()) there.
    pub fn heartbeat(&self) -> Heartbeat {
        self.heartbeat
    }

    /// Writes a report of all threads, now, and returns its path. The report has `reason`.
    ///
    /// Each other thread that runs is stopped for as long as its stack takes to copy. One that does not answer has
    /// the frames that can be read without it. Not for signal handlers.
    ///
    /// # Errors
    /// If the report cannot be written: the folder is gone, or the disk is full. What was written stays there as a
    /// `.partial` file, which the next launch closes. Also in a child of `fork`: the monitor is its parent's.
    pub fn record(&self, reason: &str) -> Result<PathBuf, MonitorError> {
        self.not_forked()?;
        // Libraries that were loaded since. A stuck loader holds us no longer; a helper that lacks a core has had one by then.
        Helper::refresh_within(500_000_000);
        let name = self.live.record(reason).map_err(MonitorError::of_report)?;
        Ok(self.recorded(name))
    }

    fn recorded(&self, name: Name) -> PathBuf {
        Helper::tidy_soon();
        let path = self.directory.join(name.as_str());
        trace_report(&path);
        path
    }

    /// Writes a report as [`Monitor::record`] does, about the thread with this id: title, blame and group are that thread's.
    /// [`threads::id`](crate::threads::id) is the calling thread's. Not for signal handlers.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-thread-{}", std::process::id()));
    /// # let monitor = wedjat::Monitor::builder("MyApp", "1").directory(&dir).install()?;
    /// use std::sync::mpsc;
    /// let (send, worker) = mpsc::channel();
    /// let (stop, stopped) = mpsc::channel::<()>();
    /// let thread = std::thread::spawn(move || {
    ///     send.send(wedjat::threads::id()).unwrap();
    ///     stopped.recv() // it hangs
    /// });
    /// let worker = worker.recv()?;
    /// let path = monitor.record_thread(worker, "the worker hangs")?;
    /// let report = wedjat::report::read(&std::fs::read(&path)?)?.report;
    /// assert_eq!((report.threads[0].id, report.threads[0].main), (worker, false));
    /// # drop(stop);
    /// # let _ = thread.join();
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Monitor::record`], and [`MonitorError::UnknownThread`].
    pub fn record_thread(&self, id: u64, reason: &str) -> Result<PathBuf, MonitorError> {
        self.not_forked()?;
        // As for `record`.
        Helper::refresh_within(500_000_000);
        let name = self.live.record_thread(id, reason);
        let name = name.ok_or(MonitorError::UnknownThread { id })?;
        let name = name.map_err(MonitorError::of_report)?;
        Ok(self.recorded(name))
    }

    /// Watches a run loop that cannot be observed, in place of [`Monitor::heartbeat`]: `post` adds each beat to the
    /// watched thread's own queue. The loop is alive while beats are called.
    ///
    /// A beat is a `fn()`; call it on the watched thread. One beat is under way at a time. While the thread works, one is posted
    /// every time-out of [`Stall`](crate::Stall), 20 a second by default. While it rests, none is: the watchdog then looks four
    /// times a second if the thread has run. So a freeze that comes after a rest and uses no CPU may be reported up to 250 ms
    /// too short. `post` is called on the watchdog's thread and must not block: meanwhile nothing is watched.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-ping-{}", std::process::id()));
    /// use std::sync::mpsc;
    /// use wedjat::{Monitor, Stall};
    /// # let monitor = Monitor::builder("MyApp", "1").directory(&dir).stall(Stall::default()).install()?;
    /// let (queue, events) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    /// monitor.watch_by_ping(move |beat| {
    ///     let _ = queue.send(Box::new(beat));
    /// })?;
    /// // The run loop of the app:
    /// for event in events.iter().take(1) {
    ///     event();
    /// }
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Without [`stall`](MonitorBuilder::stall), or if pings are on already.
    pub fn watch_by_ping(
        &self,
        post: impl FnMut(fn()) + Send + 'static,
    ) -> Result<(), MonitorError> {
        self.not_forked()?;
        if !self.is_watched {
            return Err(MonitorError::NoStall);
        }
        ping::prepare(self.heartbeat);
        match threads::watchdog(|watchdog| watchdog.ping(post)) {
            Some(true) => Ok(()),
            _ => Err(MonitorError::WatchedAlready),
        }
    }

    /// Watches the main queue of libdispatch, as [`Monitor::watch_by_ping`] does with a queue of the app's own: on Apple
    /// platforms and in a Swift program on Linux. Reports have the stack of the thread that works the queue off. That is the
    /// main thread, where a run loop does, and a thread of the system's pool after `dispatch_main`, which ends the main
    /// thread. An async `main` of Swift ends in `dispatch_main`, too.
    ///
    /// On Apple platforms, where [`MonitorBuilder::install`] observes the main run loop, it is for `dispatch_main` alone. On
    /// Linux it claims SIGPROF until the monitor is dropped, if that has its default action: by it threads of libdispatch are
    /// stopped, which block real-time signals.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-queue-{}", std::process::id()));
    /// # let monitor = wedjat::Monitor::builder("MyApp", "1").directory(&dir).stall(wedjat::Stall::default()).install()?;
    /// if let Err(error) = monitor.watch_main_queue() {
    ///     eprintln!("{error}"); // a program without libdispatch
    /// }
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Monitor::watch_by_ping`], and [`MonitorError::NoMainQueue`].
    pub fn watch_main_queue(&self) -> Result<(), MonitorError> {
        let queue = MainQueue::find().ok_or(MonitorError::NoMainQueue)?;
        self.watch_by_ping(move |beat| queue.post(beat))
            .inspect(|()| stop::claim_profiling())
    }

    /// State that the app records about itself: every report has it from now on. It belongs to the
    /// process: another monitor that is installed later finds it as it was.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-context-{}", std::process::id()));
    /// # let monitor = wedjat::Monitor::builder("MyApp", "1").directory(&dir).install()?;
    /// monitor.context().set("screen", "Checkout");
    /// monitor.context().breadcrumb("tapped Buy");
    /// let page = monitor.context().mark("render prices");
    /// # drop(page);
    /// let path = monitor.record("look")?;
    /// let report = wedjat::report::read(&std::fs::read(&path)?)?.report;
    /// assert_eq!(report.context.unwrap().breadcrumbs[0].1, "tapped Buy");
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn context(&self) -> &'static Context {
        &CONTEXT
    }

    /// The signals whose handler was replaced since [`MonitorBuilder::install`]. A crash by one of them is reported
    /// only if that handler passes it on. On Linux this includes the two real-time signals of captures: another free signal
    /// takes the place of one. If no signal is free, stacks are lost as `unsent` ([`Stats::losses`]).
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-replaced-{}", std::process::id()));
    /// # let builder = wedjat::Monitor::builder("MyApp", "1").directory(&dir);
    /// let monitor = builder.crash(wedjat::Crash::default()).install()?;
    /// assert!(monitor.replaced_signals().is_empty());
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replaced_signals(&self) -> Vec<i32> {
        let signals = self.crash.as_ref().map_or(&[][..], Crash::signals);
        let replaced = signals::replaced(signals).into_iter();
        #[cfg(target_os = "linux")]
        let replaced = replaced.chain(stop::taken());
        replaced.collect()
    }

    /// Counts a frame: call it for each frame shown. The vitals of every report have the frame rate, and
    /// [`slow_frames`](MonitorBuilder::slow_frames) watches it. Lock-free; from any thread.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-frame-{}", std::process::id()));
    /// # let monitor = wedjat::Monitor::builder("MyApp", "1").directory(&dir).install()?;
    /// monitor.frame();
    /// let path = monitor.record("look")?;
    /// let report = wedjat::report::read(&std::fs::read(&path)?)?.report;
    /// assert_eq!(report.vitals.unwrap().frame_rate, Some(1.0));
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn frame(&self) {
        FRAMES.record(clock::monotonic());
    }

    /// Ends the launch: the app is usable, and may wait for its first event. After it there is no stall of the launch.
    ///
    /// The vitals of every report have the time since the process started, and the kind of the launch. A launch is `cold` if
    /// the process had a major page fault, which reads a page from the disk, and `warm` otherwise. Only the first call counts.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-launched-{}", std::process::id()));
    /// # let monitor = wedjat::Monitor::builder("MyApp", "1").directory(&dir).install()?;
    /// monitor.launched();
    /// let path = monitor.record("look")?;
    /// let vitals = wedjat::report::read(&std::fs::read(&path)?)?.report.vitals.unwrap();
    /// assert!(vitals.launch_time.is_some() && vitals.launch_kind.is_some());
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn launched(&self) {
        HEARTBEAT.set_launched();
        LAUNCHED.set();
    }

    /// Sets whether the app is in the foreground; at first it is. The next launch finds it in
    /// [`Monitor::previous_launch`].
    ///
    /// A thread of the monitor writes it to the disk, usually within a millisecond. After an earlier kill the disk has the
    /// previous value. Signal-safe.
    pub fn set_foreground(&self, foreground: bool) {
        launch::foreground(foreground);
        Helper::wake();
    }

    /// The end of the launch before this one, even if it left no report. If several ended since, the one that began
    /// last; see [`Monitor::previous_launches`]. `None` if none was found.
    pub fn previous_launch(&self) -> Option<&EndedLaunch> {
        self.ended.last()
    }

    /// The launches that have ended since a monitor was last installed on this folder, oldest first. In a folder of more
    /// than 8,000 files, or of 32 such launches, those that were not found in time are for the next install;
    /// [`store::launches`] finds all.
    pub fn previous_launches(&self) -> &[EndedLaunch] {
        &self.ended
    }

    /// The stacks of threads as text, at once: a line a frame, innermost first, `image address symbol +
    /// offset`. Names are those of the images' symbol and export tables, Rust's demangled; without a symbol
    /// for an address, the line ends in `image + offset`. A thread is only stopped while its
    /// stack is copied, one that is blocked not at all.
    ///
    /// A stack that was not walked to the thread's first function ends in a line `(callers are missing: WHY)`. A line
    /// `(N frames are missing here)` replaces frames of a stack with too many.
    ///
    /// With [`Threads::All`], each thread is under a line `thread ID NAME`, with an empty line between.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-stacks-{}", std::process::id()));
    /// # let monitor = wedjat::Monitor::builder("MyApp", "1").directory(&dir).install()?;
    /// let text = monitor.stacks(wedjat::Threads::Current)?;
    /// println!("{text}");
    /// assert!(text.lines().count() > 2);
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When memory for the copies cannot be had, and in a child of `fork`.
    // Inlined, to make the caller's line the first frame.
    #[inline(always)]
    pub fn stacks(&self, threads: Threads) -> Result<String, MonitorError> {
        self.not_forked()?;
        // Libraries that were loaded since. A stuck loader holds us no longer; a helper that lacks a core has had one by then.
        Helper::refresh_within(500_000_000);
        self.live
            .stacks(threads, self.watched)
            .map_err(MonitorError::resources)
    }

    /// Counters of the monitor since it was installed.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-stats-{}", std::process::id()));
    /// # let builder = wedjat::Monitor::builder("MyApp", "1").directory(&dir);
    /// let monitor = builder.stall(wedjat::Stall::default()).install()?;
    /// monitor.heartbeat().turn(|| ());
    /// let stats = monitor.stats();
    /// assert_eq!((stats.turns, stats.stalls), (1, 0));
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        Stats::now(threads::watchdog(Watchdog::cpu).unwrap_or(0))
    }

    /// An error in a child of `fork`: it has none of the monitor's threads, and perhaps its locks as a
    /// thread of the parent held them.
    fn not_forked(&self) -> Result<(), MonitorError> {
        if self.process == process_token() {
            return Ok(());
        }
        Err(MonitorError::Forked)
    }

    /// The folder of the reports.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let is_superseded = self._installed.is_superseded();
        if let Some(crash) = self.crash.as_ref().filter(|_| !is_superseded) {
            if crash.panics {
                panic::drops_monitor();
            }
            panic::uninstall();
            panics::forget_recorder();
            if crash::uninstall(crash) {
                // SAFETY: `uninstall` returned that no handler reads it any more.
                unsafe { retire_crash() };
            }
        }
        // An answer that is still under way comes to nothing.
        if !is_superseded {
            HEARTBEAT.uninstall();
            stop::release_profiling();
        }
        if !is_superseded {
            threads::end();
            Registry.close();
        }
        if self.process != process_token() {
            #[cfg(target_vendor = "apple")]
            std::mem::forget(self.run_loop.take());
            return;
        }
        VITALS.set_watchdog(0);
        store::set_launch(None);
    }
}
