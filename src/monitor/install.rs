//! Installing a monitor, step by step; where one fails, nothing stays.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{InstallError, Monitor, MonitorBuilder};
use super::{panics, reports, threads};
use crate::capture::{CaptureLimits, ImageTable};
use crate::platform::directory::{Directory, Others, open_above};
use crate::platform::folder::Folder;
use crate::platform::stacks::ensure_alternate_stack;
use crate::platform::{MainQueue, Thread, abort, fresh_id, open_for_reports, process_mark, user};
use crate::recorder::{
    COUNTERS, CRASH_WRITER, CrashRecorder, Facts, Helper, LiveRecorder, LoadRecorder, Shared,
    StallEvent, StallRecorder, TERMINATE, prepare_crash,
};
use crate::report::name::Name;
use crate::report::time::nanos;
use crate::store::launch::{self, LaunchRecord};
use crate::store::left::Effort;
use crate::store::{self, Tidying};
use crate::trigger::heartbeat::{HEARTBEAT, Registry};
use crate::trigger::loss::LOSSES;
use crate::trigger::rate_limit::RateLimiter;
use crate::trigger::watchdog::Watchdog;
use crate::trigger::{Worker, crash, load_watch, terminate};
use crate::vitals::{FRAMES, GAUGES, LAUNCHED};

/// Room on the disk that is kept for the report of a crash, bytes.
const CRASH_ROOM: u32 = 256 << 10;
/// Size of the alternate stack that the watched thread is given if it has none or a smaller one, and how much of it is
/// touched at install, bytes.
const ALTERNATE_STACK: usize = 64 << 10;
const TOUCHED: usize = 16 << 10;

/// The mark of the process that a monitor is installed in; 0 without one. A child of `fork` may install its own beside
/// its parent's, which it may be unable to drop.
static INSTALLED: AtomicU32 = AtomicU32::new(0);

/// The right of a process to be the one with a monitor; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Claim(u32);

impl Claim {
    fn take() -> Result<Claim, InstallError> {
        // Marks differ between a process and its children from now on.
        crate::platform::forked::install();
        let this = process_mark();
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
    let in_folder = |source| InstallError::Directory {
        path: path.to_owned(),
        source,
    };
    let directory = Directory::make(path).map_err(in_folder)?;
    if let Some(others) = directory.others(path).map_err(in_folder)?
        && !may_be_shared
    {
        return Err(InstallError::SharedDirectory {
            path: path.to_owned(),
            mend: mend(others, path),
        });
    }
    let folder = Folder::new(directory, path).map_err(in_folder)?;
    Ok(folder.with_room(room))
}

/// The command by which a folder is this user's alone.
fn mend(others: Others, path: &Path) -> String {
    let quoted = |path: &Path| path.to_string_lossy().replace('\'', r"'\''");
    let above = open_above(path).unwrap_or_default();
    let (path, above) = (quoted(path), quoted(&above));
    match others {
        Others::Write => format!("chmod go-w '{path}'"),
        Others::Own => format!("sudo chown {} '{path}'", user()),
        // To own a stranger's link would be to go where it leads.
        Others::Link => format!("sudo rm '{path}'"),
        Others::Above => format!("chmod o-w '{above}'"),
    }
}

impl MonitorBuilder {
    /// Installs the monitor. Call it on the thread to be watched, early.
    ///
    /// This closes the last 32 reports that earlier launches began and did not finish. A thread of the monitor's
    /// closes older ones, and removes what is beyond the limits of the folder.
    ///
    /// # Errors
    /// [`InstallError`]. Nothing stays installed then.
    pub fn install(self) -> Result<Monitor, InstallError> {
        let installed = Claim::take()?;
        #[cfg(target_os = "linux")]
        crate::platform::stop::forget_taken();
        #[cfg(target_os = "linux")]
        if let Some(signal) = self.capture_signal {
            crate::platform::stop::claim_signal(signal)
                .map_err(|source| InstallError::Signal { signal, source })?;
        }
        let given = self.directory.filter(|path| !path.as_os_str().is_empty());
        let path = given.ok_or(InstallError::NoDirectory)?;
        let in_folder = |source| InstallError::Directory {
            path: path.clone(),
            source,
        };
        let directory = std::path::absolute(&path).map_err(in_folder)?;
        let room = self.crash.map_or(0, |_| CRASH_ROOM);
        let folder = Arc::new(open_folder(&directory, self.shared_directory, room)?);
        // The record of a monitor that this process had before.
        launch::let_go();
        let left = store::left::left(folder.directory()).map_err(in_folder)?;

        let mut facts = Facts::gather(&self.name, &self.version, fresh_id());
        facts.all_images = self.all_images;
        facts.names = self.names;
        facts.threads = self.threads;
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
        let record = LaunchRecord::begin(&folder, &facts.launch, &self.version, &memory_now).ok();
        launch::seen(&memory_now);

        let live = LiveRecorder::new(facts.clone(), folder.clone(), &limits);
        let live = Arc::new(live);
        panics::prepare();

        // Events of `tracing` come from there too.
        let is_told = self.on_report.is_some() || cfg!(feature = "tracing");
        let reports = is_told.then(|| reports::spawn(self.on_report));
        let reports = reports.transpose().map_err(thread)?;
        let outbox = reports.as_ref().map(Worker::inbox);
        let (in_helper, keep) = (folder.clone(), self.limits);
        // A folder that cannot be tidied up now can be at the next report.
        let tidy = move || Tidying::begin(in_helper.clone(), keep, Helper::tidy_soon).ok();
        let helper = Helper::spawn(tidy).map_err(thread)?;
        MainQueue::forget();
        let heartbeat = Registry.open();
        let mut monitor = Monitor {
            heartbeat,
            live: live.clone(),
            process: process_mark(),
            directory: directory.clone(),
            crash: None,
            watched: Thread::current(),
            ended: Vec::new(),
            load: None,
            #[cfg(target_vendor = "apple")]
            run_loop: None,
            is_watched: self.stall.is_some(),
            helper: Some(helper),
            reports,
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
            let (facts, folder) = (facts.clone(), folder.clone());
            let recorder = CrashRecorder::new(facts, folder, &limits, wanted.near_memory);
            prepare_crash(recorder.map_err(memory)?);
            abort::install();
            terminate::install();
            TERMINATE.store(true, Ordering::SeqCst);
            // Before: where it fails, the drop of the monitor takes back what is there.
            monitor.crash = Some(wanted);
            crash::install(&wanted, &CRASH_WRITER).map_err(|(signal, source)| match signal {
                Some(signal) => InstallError::Signal { signal, source },
                None => InstallError::SignalStack { source },
            })?;
            if wanted.panics {
                panics::write_with((live, outbox.clone()), directory.clone());
            }
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
        let (stall, on_stall) = (self.stall, self.on_stall);
        let (of_threads, of_stalls) = (limits.clone(), shared.clone());
        threads::prepare(Box::new(move || {
            let recorder = StallRecorder::new(stall.is_some(), &of_threads, of_stalls, on_stall)?;
            let watchdog = Watchdog::spawn(stall, &HEARTBEAT, recorder)?;
            GAUGES.set_watchdog(watchdog.thread_id() as u64);
            Ok(watchdog)
        }));
        if stall.is_some() {
            // The captures' signal may come while a handler of the app's runs on an alternate stack.
            let given = ensure_alternate_stack(ALTERNATE_STACK, TOUCHED).map_err(memory)?;
            threads::start()
                .inspect_err(|_| given.take_back())
                .map_err(thread)?;
            #[cfg(target_vendor = "apple")]
            if Thread::current().is_main() {
                monitor.run_loop = crate::trigger::ping::RunLoop::observe(heartbeat);
            }
        }
        if self.loads.any() {
            let watchdog = threads::watchdog(Watchdog::thread_id);
            let watched = Thread::current();
            let recorder = LoadRecorder::new(watched, watchdog, &limits, shared);
            let load = load_watch::spawn(self.loads, recorder.map_err(memory)?).map_err(thread)?;
            monitor.load = Some(load);
        }
        monitor._record.iter_mut().for_each(LaunchRecord::confirm);
        // Only now: what is taken by an install that fails would be told to nobody.
        let effort = Effort::at_install();
        monitor.ended = launch::take(monitor._folder.directory(), &left, effort);
        store::left::close(monitor._folder.directory(), &left, effort);
        // Battery and heat, and a folder that is full: both may take long.
        Helper::refresh_soon();
        Helper::tidy_soon();
        Ok(monitor)
    }
}
