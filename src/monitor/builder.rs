//! From the wish to the installed monitor.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{InstallError, Monitor};
use crate::capture::{CaptureLimits, ImageTable};
use crate::platform::exit::{self, Leaving};
use crate::platform::file::Folder;
use crate::platform::forked::{self, First, ForkLock};
use crate::platform::stacks::ensure_alternate_stack;
use crate::platform::{Thread, abort, open_for_reports, process_id};
use crate::recorder::{
    COUNTERS, CRASH_WRITER, CrashRecorder, Facts, Helper, LiveRecorder, LoadRecorder, MAX_THREADS,
    OnStall, Shared, StallEvent, StallRecorder, TERMINATE, prepare_crash, trace_report,
};
use crate::report::name::Name;
use crate::report::time::nanos;
use crate::store::launch;
use crate::store::{self, Limits, Tidying};
use crate::trigger::heartbeat::HEARTBEAT;
use crate::trigger::load::Loads;
use crate::trigger::load_watch::LoadWatch;
use crate::trigger::loss::LOSSES;
use crate::trigger::rate_limit::RateLimiter;
use crate::trigger::watchdog::Watchdog;
use crate::trigger::{
    CpuLoad, Crash, MemoryLoad, RateLimit, SlowFrames, Stall, crash, panic, terminate,
};
use crate::vitals::{FRAMES, GAUGES, LAUNCHED};

/// Room on the disk that is kept for the report of a crash, bytes.
const CRASH_RESERVE: u32 = 256 << 10;
/// What the watched thread is given if it has no alternate stack, or a smaller one; and how much of it is
/// there at once, bytes.
const ALTERNATE_STACK: usize = 64 << 10;
const TOUCHED: usize = 16 << 10;

type OnReport = Arc<Mutex<dyn FnMut(&Path) + Send>>;

/// Describes a monitor; [`MonitorBuilder::install`] makes it. A trigger that is not set is off.
#[must_use = "nothing is recorded before `install`"]
pub struct MonitorBuilder {
    name: String,
    version: String,
    directory: Option<PathBuf>,
    stall: Option<Stall>,
    crash: Option<Crash>,
    limits: Limits,
    rate_limit: RateLimit,
    loads: Loads,
    names: bool,
    all_images: bool,
    capture_signal: Option<i32>,
    stop_budget: Duration,
    /// Threads in a report besides the first, at most.
    threads: usize,
    on_stall: Option<OnStall>,
    on_report: Option<OnReport>,
}

impl std::fmt::Debug for MonitorBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MonitorBuilder")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("directory", &self.directory)
            .field("stall", &self.stall)
            .field("crash", &self.crash)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Whether a monitor is installed in this process.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// The right to be the one monitor; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Claim;

impl Claim {
    fn take() -> Result<Claim, InstallError> {
        match INSTALLED.swap(true, Ordering::AcqRel) {
            false => Ok(Claim),
            true => Err(InstallError::AlreadyInstalled),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        INSTALLED.store(false, Ordering::Release);
    }
}

/// What the panic hook writes with (nothing once the monitor is dropped), and where.
static ON_PANIC: ForkLock<Option<(Option<Arc<LiveRecorder>>, PathBuf)>> = ForkLock::new(None);

extern "C" fn before_fork() {
    ON_PANIC.before_fork();
}

extern "C" fn in_parent() {
    ON_PANIC.in_parent();
}

extern "C" fn in_child() {
    ON_PANIC.in_child();
}

fn for_panics() -> Option<(Option<Arc<LiveRecorder>>, PathBuf)> {
    // `try_lock`: a panic may come from anywhere, and `install` panics nowhere below.
    ON_PANIC.try_lock()?.clone()
}

fn on_panic(panic: &panic::Panic<'_>) -> Option<Name> {
    let (live, directory) = for_panics()?;
    let name = live?.panicked(panic)?.ok()?;
    Helper::tidy_soon();
    // The callback is not called for its own panics: it would panic again.
    if !IN_ON_REPORT.try_with(Cell::get).unwrap_or(false) {
        Helper::report_panic(directory.join(name.as_str()));
    }
    Some(name)
}

/// The monitor goes: no panic is written any more. Where those lie that were stays known, until the process exits.
pub(super) fn forget_recorder() {
    // Where it is not free, the next install does it.
    if let Some(mut on) = ON_PANIC.try_lock()
        && let Some((live, ..)) = on.as_mut()
    {
        *live = None;
    }
}

/// The process exits: a panic that escaped from `main` was fatal, as is known only now. Or our library is unloaded.
fn leaving(leaving: Leaving) {
    let Leaving::Exits(status) = leaving else {
        launch::let_go();
        return;
    };
    let panicked = panic::ends_process(status, launch::is_unwound());
    launch::exits(status, panicked);
    if panicked
        && let Some(name) = panic::last_report()
        && let Some((_, directory)) = for_panics()
    {
        // One that cannot be written again stays as it is.
        let _ = store::make_fatal(&directory.join(name.as_str()));
    }
}

impl MonitorBuilder {
    pub(super) fn new(name: String, version: String) -> MonitorBuilder {
        MonitorBuilder {
            name,
            version,
            directory: None,
            stall: None,
            crash: None,
            limits: Limits::default(),
            rate_limit: RateLimit::default(),
            loads: Loads::default(),
            names: false,
            all_images: false,
            capture_signal: None,
            stop_budget: Duration::from_millis(1),
            threads: MAX_THREADS,
            on_stall: None,
            on_report: None,
        }
    }

    /// Where the reports go. It is made if it is missing, and kept open.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> MonitorBuilder {
        self.directory = Some(directory.into());
        self
    }

    /// Watches the installing thread for stalls.
    pub fn stall(mut self, stall: Stall) -> MonitorBuilder {
        // The fields may have been set to what their setters do not let through.
        self.stall = Some(stall.timeout(stall.timeout).strikes(stall.strikes));
        self
    }

    /// Reports fatal signals and Rust panics.
    pub fn crash(mut self, crash: Crash) -> MonitorBuilder {
        self.crash = Some(crash);
        self
    }

    /// How much the folder may hold; the oldest reports go first.
    pub fn limits(mut self, limits: Limits) -> MonitorBuilder {
        self.limits = limits;
        self
    }

    /// Reports when the process uses much CPU for long: with the hottest threads, and samples of the
    /// hottest one.
    pub fn cpu(mut self, cpu: CpuLoad) -> MonitorBuilder {
        self.loads.cpu = Some(cpu);
        self
    }

    /// Reports when the process has much memory of its own.
    pub fn memory(mut self, memory: MemoryLoad) -> MonitorBuilder {
        self.loads.memory = Some(memory);
        self
    }

    /// Reports when the frame rate stays low while the installing thread is busy: a stall of the class
    /// `slow_frames`. The app reports its frames by [`Monitor::frame`].
    pub fn slow_frames(mut self, frames: SlowFrames) -> MonitorBuilder {
        self.loads.frames = Some(frames);
        self
    }

    /// Frames get names from the images' own symbol and export tables, in reports of a process that
    /// goes on. They are looked up after the thread runs again. This allocates: while the watched
    /// thread stands still for ever inside the allocator, with its lock, so does the watchdog.
    pub fn names(mut self, names: bool) -> MonitorBuilder {
        self.names = names;
        self
    }

    /// Reports list all images of the process, not only those that frames point into and the main one:
    /// for tools that look at addresses of their own, at some 100 bytes an image.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-images-{}", std::process::id()));
    /// let builder = wedjat::Monitor::builder("MyApp", "1").directory(&dir);
    /// let monitor = builder.all_images(true).install()?;
    /// let path = monitor.record("which libraries")?;
    /// let report = wedjat::report::read(&std::fs::read(&path)?)?.report;
    /// # #[cfg(target_os = "linux")]
    /// assert!(report.images.iter().any(|image| image.name.contains("ld-linux")));
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all_images(mut self, all: bool) -> MonitorBuilder {
        self.all_images = all;
        self
    }

    /// A capture stops a thread for at most about so long, 1 ms unless this is set: a copy of its
    /// stack that takes longer is cut short, and `capture.cut` is set. On Apple platforms too; a crash
    /// is not bound by it.
    pub fn stop_budget(mut self, budget: Duration) -> MonitorBuilder {
        self.stop_budget = budget;
        self
    }

    /// On Linux, captures stop threads by this real-time signal (`SIGRTMIN` to `SIGRTMAX`); unless this
    /// is set, by the first one from `SIGRTMIN + 4` on without a handler. Its handler stays for
    /// the rest of the process: an answer may come at any time later. Elsewhere this does nothing.
    ///
    /// [`install`](MonitorBuilder::install) fails where it is no real-time signal, where it has
    /// a handler already, and where an earlier monitor of this process took another one.
    pub fn capture_signal(mut self, signal: i32) -> MonitorBuilder {
        self.capture_signal = Some(signal);
        self
    }

    /// Reports hold at most so many threads besides the one in question, 1024 unless this is set:
    /// the main thread first, then those that the system lists first. How many were left out shows in
    /// `capture.cut`, which is `limit` then.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-threads-{}", std::process::id()));
    /// let builder = wedjat::Monitor::builder("MyApp", "1").directory(&dir);
    /// let monitor = builder.threads(0).install()?;
    /// let path = monitor.record("this thread alone")?;
    /// let report = wedjat::report::read(&std::fs::read(&path)?)?.report;
    /// assert_eq!(report.threads.len(), 1);
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn threads(mut self, most: usize) -> MonitorBuilder {
        self.threads = most;
        self
    }

    /// Called when a stall is certain and when it is over, on the watchdog's thread; of those too that
    /// the rate limit keeps from being reported. Don't block: nothing is watched meanwhile.
    pub fn on_stall(
        mut self,
        callback: impl FnMut(&StallEvent<'_>) + Send + 'static,
    ) -> MonitorBuilder {
        self.on_stall = Some(Box::new(callback));
        self
    }

    /// How much is recorded: the same stall ever more rarely, and only so many reports, bytes and
    /// captures an hour.
    pub fn rate_limit(mut self, rate_limit: RateLimit) -> MonitorBuilder {
        self.rate_limit = rate_limit;
        self
    }

    /// Called with the path of each report of a stall or of a caught panic once it is whole, on a
    /// thread of the monitor's. A report of a crash is found by [`store::reports`] at the next
    /// launch; that of [`Monitor::record`] is its result.
    ///
    /// One that panics is called again for the next report. It may drop the monitor: the thread that it
    /// runs on then ends once it has returned.
    pub fn on_report(mut self, callback: impl FnMut(&Path) + Send + 'static) -> MonitorBuilder {
        self.on_report = Some(Arc::new(Mutex::new(callback)));
        self
    }

    /// Installs the monitor. Call it on the thread to be watched, early.
    ///
    /// Reports that earlier launches were in the middle of are closed on the way, the last 32 of them;
    /// older ones, and what is beyond the limits of the folder, are left to a thread of the monitor's.
    ///
    /// # Errors
    /// [`InstallError`]; nothing stays installed then.
    pub fn install(self) -> Result<Monitor, InstallError> {
        let installed = Claim::take()?;
        #[cfg(target_os = "linux")]
        if let Some(signal) = self.capture_signal {
            crate::platform::stop::claim_signal(signal).map_err(|source| InstallError::Signal {
                signal: Some(signal),
                source,
            })?;
        }
        let path = self.directory.ok_or(InstallError::NoDirectory)?;
        let in_folder = |source| InstallError::Directory {
            path: path.clone(),
            source,
        };
        let directory = std::path::absolute(&path).map_err(in_folder)?;
        let open = || Folder::open(&directory).map_err(in_folder);
        let folder = Arc::new(open()?);
        // The record of a monitor that this process had before.
        launch::let_go();
        let left = store::left::left(&directory).map_err(in_folder)?;
        store::left::close_last(&left);

        // A folder whose records cannot be read knows of no launch.
        let ended = launch::take(&store::left::last_launches(&left)).unwrap_or_default();

        let mut facts = Facts::gather(&self.name, &self.version, store::fresh_id());
        facts.all_images = self.all_images;
        (facts.names, facts.threads) = (self.names, self.threads);
        let limits = CaptureLimits {
            stopped: nanos(self.stop_budget),
            ..CaptureLimits::default()
        };
        let memory = |source| InstallError::Resources {
            what: "memory for captures",
            source,
        };
        let thread = |source| InstallError::Resources {
            what: "thread",
            source,
        };
        open_for_reports();
        ImageTable::refresh();
        GAUGES.install();
        FRAMES.reset();
        LAUNCHED.reset();
        LOSSES.reset();
        COUNTERS.reset();
        // Without a record the next launch knows less, but this one is recorded.
        let memory_now = GAUGES.memory();
        let record =
            launch::LaunchRecord::begin(&folder, &facts.launch, &self.version, &memory_now).ok();
        launch::seen(&memory_now);

        let live = LiveRecorder::new(facts.clone(), folder.clone(), &limits);
        let live = Arc::new(live);
        static ONCE: First = First::new();
        if ONCE.is_now() {
            forked::around(before_fork, in_parent, in_child);
            exit::call(leaving);
        }

        let on_report = self.on_report.clone();
        let (in_helper, keep) = (directory.clone(), self.limits);
        // A folder that cannot be tidied up now can be at the next report.
        let tidy = move || Tidying::begin(&in_helper, keep, Helper::tidy_soon).ok();
        let helper = Helper::spawn(move |path| call(&on_report, &path), tidy).map_err(thread)?;
        let heartbeat = HEARTBEAT.install();
        let mut monitor = Monitor {
            heartbeat,
            live: live.clone(),
            process: process_id(),
            directory: directory.clone(),
            timeout: None,
            crash: None,
            watched: Thread::current(),
            ended,
            load: None,
            ping: Mutex::new(None),
            #[cfg(target_vendor = "apple")]
            run_loop: None,
            watchdog: None,
            #[cfg(target_os = "linux")]
            writer_thread: None,
            helper: Some(helper),
            _folder: folder.clone(),
            _record: record,
            _installed: installed,
        };
        store::set_launch(Some(facts.launch));

        if let Some(wanted) = self.crash {
            // Threads that do not answer may hold a dying process up for so long.
            let limits = CaptureLimits {
                answer: 50_000_000,
                ..CaptureLimits::default()
            };
            let folder = open()?.with_reserve(CRASH_RESERVE);
            let recorder = CrashRecorder::new(facts.clone(), folder, &limits, wanted.near_memory);
            prepare_crash(recorder.map_err(memory)?);
            #[cfg(target_os = "linux")]
            {
                monitor.writer_thread = Some(crash::WriterThread::spawn().map_err(thread)?);
            }
            abort::install();
            terminate::install();
            TERMINATE.store(true, Ordering::SeqCst);
            crash::install(&wanted, &CRASH_WRITER)
                .map_err(|(signal, source)| InstallError::Signal { signal, source })?;
            monitor.crash = Some(wanted);
            if wanted.panics {
                // A child of `fork` that can never have the lock goes without reports of panics.
                if let Some(mut on) = ON_PANIC.lock() {
                    *on = Some((Some(live), directory.clone()));
                    drop(on);
                    panic::install(on_panic);
                }
            }
        }
        let on_report = self.on_report;
        let shared = Shared {
            facts,
            folder,
            limiter: Arc::new(Mutex::new(RateLimiter::new(self.rate_limit))),
            done: Arc::new(move |name: Name| {
                Helper::tidy_soon();
                let path = directory.join(name.as_str());
                trace_report(&path);
                call(&on_report, &path);
            }),
        };
        if let Some(stall) = self.stall {
            // The captures' signal may come while a handler of the app's runs on an alternate stack.
            ensure_alternate_stack(ALTERNATE_STACK, TOUCHED).map_err(memory)?;
            let (watched, shared) = (Thread::current(), shared.clone());
            let recorder = StallRecorder::new(watched, &limits, shared, self.on_stall);
            let recorder = recorder.map_err(memory)?;
            let watchdog = Watchdog::spawn(stall, &HEARTBEAT, recorder).map_err(thread)?;
            GAUGES.set_watchdog(watchdog.thread_id() as u64);
            monitor.timeout = u64::try_from(stall.timeout.as_nanos()).ok();
            monitor.watchdog = Some(watchdog);
            #[cfg(target_vendor = "apple")]
            if Thread::current().is_main() {
                monitor.run_loop = crate::trigger::run_loop::RunLoop::observe(heartbeat);
            }
        }
        if self.loads.any() {
            let watchdog = monitor.watchdog.as_ref().map(Watchdog::thread_id);
            let watched = Thread::current();
            let recorder = LoadRecorder::new(watched, watchdog, &limits, shared);
            let load = LoadWatch::spawn(self.loads, recorder.map_err(memory)?).map_err(thread)?;
            monitor.load = Some(load);
        }
        // Battery and heat, and a folder that is full: both may take long.
        Helper::refresh_soon();
        Helper::tidy_soon();
        Ok(monitor)
    }
}

thread_local! {
    /// Whether this thread is in the app's `on_report`.
    static IN_ON_REPORT: Cell<bool> = const { Cell::new(false) };
}

/// The panic hook has reported a callback that panics; what is watched goes on being watched.
fn call(on_report: &Option<OnReport>, path: &Path) {
    if let Some(callback) = on_report {
        let mut callback = callback.lock().unwrap_or_else(PoisonError::into_inner);
        IN_ON_REPORT.set(true);
        let _ = catch_unwind(AssertUnwindSafe(|| callback(path)));
        IN_ON_REPORT.set(false);
    }
}
