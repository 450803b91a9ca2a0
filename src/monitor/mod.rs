//! What an app installs: triggers, capture and store wired together.

mod builder;
mod error;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use builder::MonitorBuilder;
pub use error::InstallError;

use crate::context::{CONTEXT, Context};
use crate::platform::file::Folder;
use crate::platform::process_id;
use crate::recorder::{Helper, LiveDesk, retire_crash};
use crate::store::{self, Limits};
use crate::trigger::heartbeat::PULSE;
use crate::trigger::ping::{Beat, Ping};
use crate::trigger::watchdog::Watchdog;
use crate::trigger::{Crash, Heartbeat, crash, panic};
use crate::vitals::GAUGES;

/// The recorder of this process, from [`MonitorBuilder::install`] until it is dropped.
///
/// There is one at a time. Dropping it takes back every handler, closes the report of a stall that
/// lasts (`stall_end` says `uninstalled`) and turns heartbeats that are left over into no-ops.
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
    live: Arc<LiveDesk>,
    /// The process that installed; a child of `fork` has another id.
    process: u32,
    directory: PathBuf,
    limits: Limits,
    crash: Option<Crash>,
    /// One strike of the stall that is watched for, nanoseconds; `None` without a watch.
    timeout: Option<u64>,
    // Dropped in this order: pings stop first; the watchdog closes its report before the helper stops.
    ping: Mutex<Option<Ping>>,
    watchdog: Option<Watchdog>,
    helper: Option<Helper>,
    _folder: Arc<Folder>,
    _installed: builder::Claim,
}

impl Monitor {
    /// Begins to describe a monitor for the app of this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> MonitorBuilder {
        MonitorBuilder::new(name.into(), version.into())
    }

    /// The run loop's pulse: `begin` when the watched thread has something to do, `end` when it is
    /// about to wait. A plain value: copy it wherever it is needed.
    pub fn heartbeat(&self) -> Heartbeat {
        self.heartbeat
    }

    /// Writes a report of all threads, now, and gives its path. `reason` says in the report why.
    ///
    /// Each other thread is stopped for as long as its stack takes to copy; one that does not
    /// answer is listed without a stack. Not for signal handlers.
    ///
    /// # Errors
    /// When the report cannot be written: the folder is gone, the disk is full. Whatever got
    /// through is kept there as a `.partial` file, which the next launch closes.
    pub fn record(&self, reason: &str) -> io::Result<PathBuf> {
        // Libraries that were loaded since; a loader that is stuck must not hold us.
        Helper::refresh_within(50_000_000);
        let name = self.live.record(reason)?;
        // A folder that cannot be tidied up now can be at the next report.
        let _ = store::prune(&self.directory, self.limits);
        Ok(self.directory.join(name.as_str()))
    }

    /// Watches a run loop that cannot be observed: `post` puts each beat into the watched thread's
    /// own queue, and the loop is alive while they come back. In place of [`Monitor::heartbeat`].
    ///
    /// A beat is a `fn()`, to be called on the watched thread. There is one under way at a time,
    /// one every time-out of [`Stall`](crate::Stall), so that the watched thread is woken 20 times
    /// a second by default, and never left at rest. `post` is called on a thread of the monitor's;
    /// where it blocks for ever, so does dropping the monitor.
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
    /// for event in events.iter().take(3) {
    ///     event();
    /// }
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Without [`stall`](MonitorBuilder::stall), if pings are on already, or if their thread cannot
    /// be started.
    pub fn watch_by_ping(&self, post: impl FnMut(Beat) + Send + 'static) -> io::Result<()> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        let timeout = self.timeout.ok_or_else(|| {
            invalid("pings find stalls: install the monitor with `.stall(Stall::default())`")
        })?;
        let mut ping = self
            .ping
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if ping.is_some() {
            return Err(invalid("this monitor watches by ping already"));
        }
        *ping = Some(Ping::spawn(self.heartbeat, timeout, post)?);
        Ok(())
    }

    /// What the app says of its own state: it stands in every report from now on. It belongs to the
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

    /// The signals whose handler somebody has replaced since [`MonitorBuilder::install`]: a crash by
    /// one of them is reported only if that handler passes it on.
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
        self.crash.as_ref().map(crash::replaced).unwrap_or_default()
    }

    /// The folder of the reports.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if let Some(crash) = &self.crash {
            panic::uninstall();
            if crash::uninstall(crash) {
                // SAFETY: `uninstall` said that no handler looks at it any more.
                unsafe { retire_crash() };
            }
        }
        // An answer that is still under way comes to nothing.
        PULSE.uninstall();
        let ping = self
            .ping
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        if self.process != process_id() {
            // In a child of `fork` there are no such threads: nobody could be waited for.
            std::mem::forget((ping, self.watchdog.take(), self.helper.take()));
            return;
        }
        drop(ping);
        self.watchdog = None;
        GAUGES.set_watchdog(0);
        self.helper = None;
        store::set_launch(None);
    }
}
