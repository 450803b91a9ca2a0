//! Watches threads besides the one that installed the monitor. The first watched thread starts the watchdog.

use std::io;
use std::marker::PhantomData;

use super::MonitorError;
use crate::platform::forked::{ForkLock, around_forks};
use crate::platform::own_thread::with_mask_of_app;
use crate::platform::{process_token, stop};
use crate::trigger::heartbeat::{Refusal, Registry};
use crate::trigger::watchdog::Watchdog;
use crate::trigger::{Heartbeat, Stall};

/// Starts the watchdog.
type StartWatchdog = Box<dyn FnOnce() -> io::Result<Watchdog> + Send>;

/// The watchdog of a monitor.
enum WatchState {
    /// There is no monitor.
    Gone,
    /// No thread is watched yet.
    Waiting(StartWatchdog),
    Running(Watchdog),
}

/// Threads of a monitor, each of which ends when it is dropped.
type KeptThreads = Vec<Box<dyn Send>>;

/// The watchdog of this process' monitor with its other threads, and the token of the process that they belong to.
static WATCH: ForkLock<(u32, WatchState, KeptThreads)> =
    ForkLock::new((0, WatchState::Gone, Vec::new()));

/// Keeps a thread of the monitor's until [`end`].
pub(super) fn keep(thread: impl Send + 'static) {
    around_forks!(WATCH);
    if let Some(mut watch) = WATCH.lock() {
        watch.0 = process_token();
        watch.2.insert(0, Box::new(thread));
    }
}

/// Stores a new monitor's `start`, which the first watched thread calls.
pub(super) fn prepare(start: StartWatchdog) {
    if let Some(mut watch) = WATCH.lock() {
        watch.1 = WatchState::Waiting(start);
    }
}

/// Starts the watchdog, unless it was started before.
///
/// # Errors
/// If memory or a thread cannot be allocated.
pub(super) fn start() -> io::Result<()> {
    let mut watch = WATCH.lock().ok_or(MonitorError::NoMonitor)?;
    watch.1 = match std::mem::replace(&mut watch.1, WatchState::Gone) {
        WatchState::Waiting(start) => WatchState::Running(start()?),
        other => other,
    };
    Ok(())
}

/// Ends the watchdog, then the other threads, the one that was kept last first. In a child of `fork` they are forgotten: they
/// are the parent's.
pub(super) fn end() {
    let none = (0, WatchState::Gone, Vec::new());
    let locked = WATCH.lock();
    match locked.map(|mut watch| std::mem::replace(&mut *watch, none)) {
        Some(previous) if previous.0 != process_token() => std::mem::forget(previous),
        previous => drop(previous),
    }
}

/// The app has no threads any more: [`end`]s the monitor's, on a thread that is like the app's last one. libc exits on it.
pub(super) fn shut_down_last() {
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    // Without memory for it the process stays.
    let _ = with_mask_of_app(|| thread.spawn(end));
}

/// Calls `ask` with the watchdog; returns `None` while it does not run.
pub(super) fn watchdog<T>(ask: impl FnOnce(&Watchdog) -> T) -> Option<T> {
    match &WATCH.lock()?.1 {
        WatchState::Running(watchdog) => Some(ask(watchdog)),
        _ => None,
    }
}

/// Adds the calling thread to those that are watched, and starts the watchdog.
pub(crate) fn join(name: &str, is_pool: bool, stall: Stall) -> Result<Heartbeat, MonitorError> {
    let is_child = WATCH.lock().is_some_and(|watch| {
        let is_gone = matches!(watch.1, WatchState::Gone);
        !is_gone && watch.0 != process_token()
    });
    if is_child {
        return Err(MonitorError::Forked);
    }
    let heartbeat = Registry
        .join(name, is_pool, stall)
        .map_err(|refusal| match refusal {
            Refusal::NoMonitor => MonitorError::NoMonitor,
            Refusal::Watched => MonitorError::ThreadWatched,
            Refusal::Full => MonitorError::TooManyThreads,
        })?;
    start().map_err(|error| {
        heartbeat.leave();
        MonitorError::resources(error)
    })?;
    stop::claim_profiling_for_this_thread();
    Ok(heartbeat)
}

/// Guard of [`watch_thread`]: the thread is watched until this is dropped or the thread ends. It cannot leave its
/// thread.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct ThreadWatch {
    heart: Heartbeat,
    _same_thread: PhantomData<*const ()>,
}

impl ThreadWatch {
    /// The thread's own heartbeat: `begin` when the thread has something to do, `end` when it is about to wait.
    pub fn heartbeat(&self) -> Heartbeat {
        self.heart
    }
}

impl Drop for ThreadWatch {
    fn drop(&mut self) {
        self.heart.leave();
    }
}

/// Watches the calling thread, besides the one that installed the [`Monitor`](crate::Monitor), until the guard is dropped, the
/// thread ends, or the monitor is dropped. Reports of its stalls have `name`, cut after 64 bytes.
///
/// The watch begins with the first beat: a thread that has not beaten has no stall. A monitor without
/// [`stall`](crate::MonitorBuilder::stall) watches such threads too. At most 256 threads are watched at once. A
/// monitor that is installed later watches none of them until they call this again.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("wedjat-watch-thread-{}", std::process::id()));
/// # let monitor = wedjat::Monitor::builder("MyApp", "1").directory(&dir).install()?;
/// # fn draw() {}
/// let render = std::thread::spawn(|| -> Result<(), wedjat::MonitorError> {
///     let watch = wedjat::watch_thread("render", wedjat::Stall::default())?;
///     for _frame in 0..3 {
///         watch.heartbeat().turn(|| draw());
///     }
///     Ok(())
/// });
/// render.join().expect("no panic")?;
/// # drop(monitor);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`MonitorError`]: there is no monitor, the thread is watched already, or 256 threads are
/// ([`Stats::refused_threads`](crate::Stats::refused_threads) counts these). Also if the watchdog cannot start.
pub fn watch_thread(name: &str, stall: Stall) -> Result<ThreadWatch, MonitorError> {
    Ok(ThreadWatch {
        heart: join(name, false, stall)?,
        _same_thread: PhantomData,
    })
}

/// Watches the calling thread until it ends, as a member of the pool `name`. The beats are [`begin`](crate::threads::begin) and
/// [`end`](crate::threads::end). Does nothing without a monitor, on a thread that is watched, or where 256 threads are watched
/// ([`Stats::refused_threads`](crate::Stats::refused_threads) counts these).
///
/// Members have numbers from 1 on. A pool has one [`RateLimit`](crate::RateLimit). A report of a stall says how many other members
/// were in a stall or at rest. A member that has never beaten, such as a thread for blocking calls, has no stall. On Linux a
/// thread that blocks real-time signals is stopped by SIGPROF, unless the app uses that.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("wedjat-enter-{}", std::process::id()));
/// # let monitor = wedjat::Monitor::builder("MyApp", "1").directory(&dir).install()?;
/// use wedjat::{Stall, threads};
/// let worker = std::thread::spawn(|| {
///     threads::enter("worker", Stall::default());
///     threads::begin();
///     // … handles what there is to do …
///     threads::end();
/// });
/// # worker.join().unwrap();
/// # assert_eq!(monitor.stats().watched_threads, 0);
/// # drop(monitor);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn enter(name: &str, stall: Stall) {
    let _ = join(name, true, stall);
}
