//! Installing a monitor, step by step; where one fails, nothing stays.

use std::ffi::c_void;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::reports::{Notice, OnReport, Outbox};
use super::{InstallError, Monitor, MonitorBuilder, panics, reports, threads};
use crate::capture::{CaptureLimits, ImageTable};
use crate::platform::directory::Directory;
use crate::platform::exit::at_thread_end;
use crate::platform::folder::Folder;
use crate::platform::stacks::ensure_alternate_stack;
#[cfg(target_os = "linux")]
use crate::platform::stop;
use crate::platform::{MainQueue, Thread, abort, fresh_id, open_for_reports, process_token};
use crate::recorder::{
    COUNTERS, CRASH_WRITER, CrashRecorder, Helper, LiveRecorder, LoadRecorder, ProcessInfo, Shared,
    StallEvent, StallRecorder, TERMINATE, prepare_crash,
};
use crate::report::name::Name;
use crate::report::time::nanos;
use crate::store::launch::{self, LaunchRecord};
use crate::store::unfinished::Budget;
use crate::store::{self, Limits, Tidying};
use crate::trigger::heartbeat::{HEARTBEAT, Registry};
use crate::trigger::load::Loads;
use crate::trigger::loss::LOSSES;
use crate::trigger::rate_limit::RateLimiter;
use crate::trigger::watchdog::Watchdog;
use crate::trigger::{Crash, Worker, crash, load_watch, terminate};
use crate::vitals::{FRAMES, LAUNCHED, VITALS};

/// Room on the disk that is kept for the report of a crash, bytes.
const CRASH_ROOM: u32 = 256 << 10;
/// Bytes of the watched thread's alternate stack that are resident from the install on.
const TOUCHED: usize = 16 << 10;

/// Token of the process that a monitor is installed in; 0 without one. A child of `fork` may install its own beside
/// its parent's, which it may be unable to drop.
static INSTALLED: AtomicU32 = AtomicU32::new(0);

/// The right of a process to be the one with a monitor; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Claim(u32);

impl Claim {
    fn take() -> Result<Claim, InstallError> {
        // Tokens differ between a process and its children from now on.
        crate::platform::forked::install();
        let this = process_token();
        match INSTALLED.swap(this, Ordering::AcqRel) {
            before if before == this => Err(InstallError::AlreadyInstalled),
            _ => Ok(Claim(this)),
        }
    }

    /// Returns true if this is a parent's, and its child has a monitor of its own.
    pub fn is_superseded(&self) -> bool {
        INSTALLED.load(Ordering::Acquire) != self.0
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let order = Ordering::AcqRel;
        let _ = INSTALLED.compare_exchange(self.0, 0, order, Ordering::Relaxed);
    }
}

/// Opens the folder of reports, made for this user alone where it is missing.
fn open_folder(path: &Path, may_be_shared: bool, room: u32) -> Result<Folder, InstallError> {
    let directory = Directory::make(path).map_err(in_folder(path))?;
    let writers = directory.other_writers(path).map_err(in_folder(path))?;
    if let (Some(writers), false) = (writers, may_be_shared) {
        return Err(InstallError::SharedDirectory {
            path: path.to_owned(),
            fix_command: writers.repair(path),
        });
    }
    let folder = Folder::new(directory, path, writers.is_some()).map_err(in_folder(path))?;
    Ok(folder.with_room(room))
}

impl MonitorBuilder {
    /// Installs the monitor. Call it on the thread to be watched, early.
    ///
    /// This closes the last 32 reports that earlier launches began and did not finish. A thread of the monitor's
    /// closes older ones, and removes what is beyond the limits of the folder.
    ///
    /// # Errors
    /// [`InstallError`]. Nothing stays installed then.
    pub fn install(mut self) -> Result<Monitor, InstallError> {
        let installed = Claim::take()?;
        #[cfg(target_os = "linux")]
        stop::claim_signals(self.capture_signal)
            .map_err(|(signal, source)| InstallError::Signal { signal, source })?;
        let (directory, folder) = self.open_directory()?;
        // The record of a monitor that this process had before.
        launch::unlock_record();
        let left = store::unfinished::names(folder.directory()).map_err(in_folder(&directory))?;

        let facts = self.gather_facts();
        let limits = CaptureLimits {
            stopped: nanos(self.stop_budget),
            ..CaptureLimits::default()
        };
        prepare_process();
        let record = begin_record(&folder, &facts, &self.version);
        let live = LiveRecorder::new(facts.clone(), folder.clone(), &limits);
        panics::prepare();
        let reports = spawn_reports(self.on_report.take())?;
        let outbox = reports.as_ref().map(Worker::inbox);
        let helper = spawn_helper(folder.clone(), self.limits)?;
        MainQueue::forget();
        // Dropped in this order: the reports of all other threads are still handed on.
        threads::keep((helper, reports));
        at_thread_end(installing_thread_ends);
        let mut monitor = Monitor {
            heartbeat: Registry.open(),
            live: Arc::new(live),
            process: process_token(),
            directory: directory.clone(),
            crash: None,
            watched: Thread::current(),
            ended: Vec::new(),
            #[cfg(target_vendor = "apple")]
            run_loop: None,
            is_watched: self.stall.is_some(),
            _folder: folder.clone(),
            _record: record,
            _installed: installed,
        };
        store::set_launch(Some(facts.launch));

        if let Some(wanted) = self.crash {
            monitor.report_crashes(wanted, facts.clone(), outbox.clone())?;
        }
        let shared = Shared {
            facts,
            folder,
            limiter: Arc::new(Mutex::new(RateLimiter::new(self.rate_limit))),
            log: {
                let outbox = outbox.clone();
                Arc::new(move |event: &StallEvent<'_>| reports::log(&outbox, event))
            },
            done: Arc::new(move |name: Name| {
                Helper::tidy_soon();
                reports::put(&outbox, directory.join(name.as_str()), Duration::ZERO);
            }),
        };
        self.prepare_watchdog(limits.clone(), shared.clone());
        if self.stall.is_some() {
            monitor.watch_this_thread()?;
        }
        if self.loads.has_trigger() {
            threads::keep(spawn_load_watch(self.loads, &limits, shared)?);
        }
        monitor._record.iter_mut().for_each(LaunchRecord::confirm);
        // Only now: what is taken by an install that fails would be told to nobody.
        monitor.close_earlier(&left);
        // Battery and heat, and a folder that is full: both may take long.
        Helper::refresh_soon();
        Helper::tidy_soon();
        Ok(monitor)
    }

    /// Opens the folder of the reports, and returns its absolute path with it.
    fn open_directory(&mut self) -> Result<(PathBuf, Arc<Folder>), InstallError> {
        let given = self.directory.take();
        let given = given.filter(|path| !path.as_os_str().is_empty());
        let path = given.ok_or(InstallError::NoDirectory)?;
        let directory = std::path::absolute(&path).map_err(in_folder(&path))?;
        let room = self.crash.map_or(0, |_| CRASH_ROOM);
        let folder = open_folder(&directory, self.shared_directory, room)?;
        Ok((directory, Arc::new(folder)))
    }

    /// Gathers the facts of the launch, with the app's choices of what is in a report.
    fn gather_facts(&self) -> ProcessInfo {
        let mut facts = ProcessInfo::gather(&self.name, &self.version, fresh_id());
        facts.all_images = self.all_images;
        facts.names = self.resolve_names;
        facts.threads = self.max_other_threads;
        facts
    }

    /// Describes the watchdog, which runs from the first thread on that is to be watched.
    fn prepare_watchdog(&mut self, limits: CaptureLimits, shared: Shared) {
        let (stall, on_stall) = (self.stall, self.on_stall.take());
        threads::prepare(Box::new(move || {
            let recorder = StallRecorder::new(stall.is_some(), &limits, shared, on_stall)?;
            let watchdog = Watchdog::spawn(stall, &HEARTBEAT, recorder)?;
            VITALS.set_watchdog(watchdog.thread_id() as u64);
            Ok(watchdog)
        }));
    }
}

impl Monitor {
    /// Installs the handlers of crashes and panics, and what they need.
    fn report_crashes(
        &mut self,
        wanted: Crash,
        facts: ProcessInfo,
        outbox: Outbox,
    ) -> Result<(), InstallError> {
        // Threads that do not answer may hold a dying process up for so long.
        let limits = CaptureLimits {
            answer: 50_000_000,
            ..CaptureLimits::default()
        };
        let recorder = CrashRecorder::new(facts, self._folder.clone(), &limits, wanted.near_memory);
        prepare_crash(recorder.map_err(no_memory)?);
        abort::install();
        terminate::install();
        TERMINATE.store(true, Ordering::SeqCst);
        // Set first: where the install fails, the drop of the monitor removes what was installed.
        self.crash = Some(wanted);
        crash::install(&wanted, &CRASH_WRITER).map_err(|(signal, source)| match signal {
            Some(signal) => InstallError::Signal { signal, source },
            None => InstallError::SignalStack { source },
        })?;
        if wanted.panics {
            panics::write_with((self.live.clone(), outbox), self.directory.clone());
        }
        Ok(())
    }

    /// Starts the watchdog, with the calling thread as the one that is watched.
    fn watch_this_thread(&mut self) -> Result<(), InstallError> {
        // The captures' signal may come while a handler of the app's runs on an alternate stack.
        let given = ensure_alternate_stack(TOUCHED).map_err(no_memory)?;
        threads::start()
            .inspect_err(|_| given.take_back())
            .map_err(no_thread)?;
        #[cfg(target_vendor = "apple")]
        if Thread::current().is_main() {
            self.run_loop = crate::trigger::ping::RunLoop::observe(self.heartbeat);
        }
        Ok(())
    }

    /// Reads how earlier launches ended, and closes the reports that they left.
    fn close_earlier(&mut self, left: &[String]) {
        let budget = Budget::at_install();
        self.ended = launch::take(self._folder.directory(), left, budget);
        store::unfinished::close(self._folder.directory(), left, budget);
    }
}

/// Sets up what there is once in a process: its images are listed, its gauges read, and all counts begin at 0.
fn prepare_process() {
    threads::end();
    open_for_reports();
    ImageTable::refresh();
    VITALS.install();
    FRAMES.reset();
    LAUNCHED.reset();
    LOSSES.reset();
    COUNTERS.reset();
}

/// Begins the record of this launch. Without a record the next launch knows less, but this one is recorded.
fn begin_record(folder: &Arc<Folder>, facts: &ProcessInfo, version: &str) -> Option<LaunchRecord> {
    let record = LaunchRecord::begin(folder, &facts.launch, version);
    launch::record_at_work(&VITALS.memory());
    record.ok()
}

/// Starts the thread that hands reports on to the app, if it wants them.
fn spawn_reports(on_report: Option<OnReport>) -> Result<Option<Worker<Notice>>, InstallError> {
    // Events of `tracing` come from there too.
    let is_told = on_report.is_some() || cfg!(feature = "tracing");
    let reports = is_told.then(|| reports::spawn(on_report));
    reports.transpose().map_err(no_thread)
}

/// Starts the thread that tidies the folder up, and lists images anew.
fn spawn_helper(folder: Arc<Folder>, limits: Limits) -> Result<Helper, InstallError> {
    // A folder that cannot be tidied up now can be at the next report.
    let tidy = move || Tidying::begin(folder.clone(), limits, Helper::tidy_soon).ok();
    Helper::spawn(tidy).map_err(no_thread)
}

/// The app's last thread may end while the process has ours.
unsafe extern "C" fn installing_thread_ends(_: *mut c_void) {
    Helper::look_for_last_end(threads::shut_down_last);
}

/// Starts the thread that looks at CPU, memory and frames.
fn spawn_load_watch(
    loads: Loads,
    limits: &CaptureLimits,
    shared: Shared,
) -> Result<Worker, InstallError> {
    let watchdog = threads::watchdog(Watchdog::thread_id);
    let recorder = LoadRecorder::new(Thread::current(), watchdog, limits, shared);
    load_watch::spawn(loads, recorder.map_err(no_memory)?).map_err(no_thread)
}

fn in_folder(path: &Path) -> impl Fn(io::Error) -> InstallError {
    move |source| InstallError::Directory {
        path: path.to_owned(),
        source,
    }
}

fn no_memory(source: io::Error) -> InstallError {
    InstallError::Resources {
        what: "memory for captures",
        source,
    }
}

fn no_thread(source: io::Error) -> InstallError {
    InstallError::Resources {
        what: "thread",
        source,
    }
}
