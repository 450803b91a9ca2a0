//! An app's options in C, the callbacks among them, and the install.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::offset_of;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use super::{AppData, c_path, copy_text, path, sized, text, wedjat_monitor};
use crate::load::{CpuLoad, MemoryLoad, SlowFrames};
use crate::report::time::nanos;
use crate::stall::StallEvent;
use crate::store::Limits;
use crate::{Crash, InstallError, Monitor, MonitorBuilder, MonitorError, RateLimit, Stall};

/// Called with the path of a report; `data` is the pointer passed with the function.
pub type wedjat_report_function =
    Option<unsafe extern "C" fn(path: *const c_char, data: *mut c_void)>;

/// Adds `beat` to the watched thread's own queue; `data` is the pointer passed with the function.
pub type wedjat_post_function =
    Option<unsafe extern "C" fn(beat: extern "C" fn(), data: *mut c_void)>;

/// Called when a stall is certain, and when it is over; `data` is the pointer passed with the function. `event` is valid until
/// it returns.
pub type wedjat_stall_function =
    Option<unsafe extern "C" fn(event: *const wedjat_stall_event, data: *mut c_void)>;

/// A stall that has begun or is over.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wedjat_stall_event {
    /// Its size, so that a later version may add to it.
    pub size: usize,
    /// True if the stall is over.
    pub is_over: bool,
    /// True if no heartbeat ever came: the stall is the launch.
    pub never_beat: bool,
    /// Turns of the run loop so far; 1 for one long freeze.
    pub turns: u32,
    /// Time at which it began, nanoseconds of the monotonic clock.
    pub start: u64,
    /// Duration so far, nanoseconds.
    pub lasted: u64,
    /// CPU time that the thread has used since, nanoseconds.
    pub cpu: u64,
    /// Time that the thread was ready but had no CPU, nanoseconds.
    pub delay: u64,
    /// Its class: "launch", "busy", "blocked" or "starved". Slow frames cause no call.
    pub stall_class: *const c_char,
    /// The outcome: "recovered", "uninstalled" or "thread_ended"; null while the stall lasts.
    pub outcome: *const c_char,
}

/// Wraps `callback` as a closure that is called with each event.
fn stall_callback(
    callback: unsafe extern "C" fn(*const wedjat_stall_event, *mut c_void),
    data: AppData,
) -> impl FnMut(&StallEvent<'_>) + Send + 'static {
    move |event| {
        let (info, outcome) = match event {
            StallEvent::Began(info) => (*info, None),
            StallEvent::Ended(end) => (&end.info, CString::new(end.outcome.as_str()).ok()),
        };
        let class = CString::new(info.class.as_str()).unwrap_or_default();
        let event = wedjat_stall_event {
            size: size_of::<wedjat_stall_event>(),
            is_over: outcome.is_some(),
            never_beat: info.never_beat,
            turns: info.turns,
            start: nanos(info.start),
            lasted: nanos(info.lasted),
            cpu: nanos(info.cpu),
            delay: nanos(info.delay),
            stall_class: class.as_ptr(),
            outcome: outcome.as_deref().map_or(std::ptr::null(), CStr::as_ptr),
        };
        // SAFETY: the caller of `wedjat_install` promises that it may be called.
        unsafe { callback(&event, data.get()) };
    }
}

/// Options of a monitor: the triggers, their limits, and the folder of reports. Begin with `wedjat_options_init`, then set
/// what you want. A trigger that you do not set is off. A number of 0 means the default in parentheses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wedjat_options {
    /// `sizeof(wedjat_options)`.
    pub size: usize,
    /// The app's name, UTF-8. Required.
    pub name: *const c_char,
    /// The app's version, UTF-8. Required.
    pub version: *const c_char,
    /// The folder of reports; made if it is missing. Required.
    pub directory: *const c_char,

    /// Watch the installing thread for stalls.
    pub stall: bool,
    /// With `stall`: whatever the thread waits for before its first beat counts as part of the launch.
    pub stall_launch_waits: bool,
    /// Report fatal signals.
    pub crash: bool,
    /// With `crash`: report SIGTERM too.
    pub sigterm: bool,
    /// With `crash`: leave signals to the debugger while one is attached.
    pub leave_to_debugger: bool,
    /// With `crash`: report bytes around the crash, and texts that registers point at. They may be any data of the
    /// app.
    pub near_memory: bool,
    /// Report when the process uses much CPU for long.
    pub cpu: bool,
    /// Report when the process has much memory of its own.
    pub memory: bool,
    /// Report when the frame rate (of `wedjat_frame`) stays low while the installing thread is busy.
    pub slow_frames: bool,
    /// Add names from the images' own symbols to frames.
    pub resolve_names: bool,
    /// List all images of the process, not only those that frames point into.
    pub all_images: bool,

    /// Time without a beat that makes one strike, milliseconds (50).
    pub stall_timeout_ms: u32,
    /// Strikes in a row that make a stall (5).
    pub stall_strikes: u32,
    /// Time the launch may take, milliseconds (as long as a later turn).
    pub launch_threshold_ms: u32,
    /// With `cpu`: over how long, milliseconds (60,000).
    pub cpu_over_ms: u32,
    /// With `cpu`: which share of one core (0.8; two cores are 2.0).
    pub cpu_share: f64,
    /// With `memory`: above so many bytes (by the share alone).
    pub memory_bytes: u64,
    /// With `memory`, without `memory_bytes`: above this share of the process's limit (0.8).
    pub memory_share: f64,
    /// With `slow_frames`: below so many frames a second (30).
    pub frames_below: f64,
    /// With `slow_frames`: while the thread uses more than this share of a core (0.6).
    pub frames_cpu_share: f64,
    /// With `slow_frames`: for so long, milliseconds (5,000).
    pub frames_lasting_ms: u32,

    /// Most threads in a report besides the first (1024); -1 for none.
    pub max_other_threads: i32,
    /// Longest time a capture may stop a thread, microseconds (1,000).
    pub stop_budget_us: u32,
    /// The real-time signal that stops threads on Linux (the first free one).
    pub capture_signal: i32,

    /// Most reports in the folder (100).
    pub limit_reports: u32,
    /// Most bytes of all reports in the folder together (32 MiB).
    pub limit_bytes: u64,
    /// Most stalls with the same heaviest stack that are reported before a cooldown (5).
    pub same_stalls: u32,
    /// The first cooldown between reports of equal stalls after that, milliseconds (60,000).
    pub cooldown_ms: u32,
    /// Most reports within an hour (60).
    pub reports_per_hour: u32,
    /// Most stacks of the watched thread that are taken within an hour (20,000).
    pub captures_per_hour: u32,
    /// Most bytes of reports within an hour (32 MiB).
    pub bytes_per_hour: u64,

    /// Called with the path of each report of a stall, of load or of a caught panic once it is whole, on a thread of
    /// the monitor's; may be null.
    pub on_report: wedjat_report_function,
    /// Passed to `on_report`.
    pub on_report_data: *mut c_void,
    /// Called when a stall is certain and when it is over, on the watchdog's thread; may be null. It must not block.
    pub on_stall: wedjat_stall_function,
    /// Passed to `on_stall`.
    pub on_stall_data: *mut c_void,

    /// Use the folder even if others may write in it, which is an error otherwise. They can then remove reports,
    /// and forge how the last launch ended.
    pub shared_directory: bool,
}

/// Reason of a failure, for programs; the text of `wedjat_install` is for people.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub enum wedjat_error {
    /// The last call did not fail, or there was none.
    #[default]
    WEDJAT_ERROR_NONE = 0,
    /// The options cannot be used, or a name is null.
    WEDJAT_ERROR_OPTIONS = 1,
    /// A monitor is installed in this process already.
    WEDJAT_ERROR_ALREADY_INSTALLED = 2,
    /// The folder cannot be made, opened or written to.
    WEDJAT_ERROR_DIRECTORY = 3,
    /// Others may write in the folder; see `shared_directory`.
    WEDJAT_ERROR_SHARED_DIRECTORY = 4,
    /// A handler of signals could not be installed.
    WEDJAT_ERROR_SIGNAL = 5,
    /// Memory, threads or descriptors ran out.
    WEDJAT_ERROR_RESOURCES = 6,
    /// No monitor is installed, or none since `fork` in this child.
    WEDJAT_ERROR_NOT_INSTALLED = 7,
    /// The thread is watched already, as the one that called `wedjat_install` is.
    WEDJAT_ERROR_WATCHED_ALREADY = 8,
    /// 256 threads are watched; `refused_threads` counts the others.
    WEDJAT_ERROR_TOO_MANY_THREADS = 9,
}

impl From<&InstallError> for wedjat_error {
    fn from(error: &InstallError) -> Self {
        match error {
            InstallError::AlreadyInstalled => Self::WEDJAT_ERROR_ALREADY_INSTALLED,
            InstallError::NoDirectory => Self::WEDJAT_ERROR_OPTIONS,
            InstallError::Directory { .. } => Self::WEDJAT_ERROR_DIRECTORY,
            InstallError::SharedDirectory { .. } => Self::WEDJAT_ERROR_SHARED_DIRECTORY,
            InstallError::Signal { .. } | InstallError::SignalStack { .. } => {
                Self::WEDJAT_ERROR_SIGNAL
            }
            InstallError::Resources { .. } => Self::WEDJAT_ERROR_RESOURCES,
        }
    }
}

impl From<&MonitorError> for wedjat_error {
    fn from(error: &MonitorError) -> Self {
        match error {
            MonitorError::NoMonitor | MonitorError::Forked => Self::WEDJAT_ERROR_NOT_INSTALLED,
            MonitorError::ThreadWatched => Self::WEDJAT_ERROR_WATCHED_ALREADY,
            MonitorError::TooManyThreads => Self::WEDJAT_ERROR_TOO_MANY_THREADS,
            _ => Self::WEDJAT_ERROR_RESOURCES,
        }
    }
}

thread_local! {
    pub(super) static LAST_ERROR: Cell<wedjat_error> = const { Cell::new(wedjat_error::WEDJAT_ERROR_NONE) };
}

/// The reason why the last call of `wedjat_install`, `wedjat_watch_thread` or `wedjat_enter` on the calling thread failed.
#[unsafe(no_mangle)]
pub extern "C" fn wedjat_last_error() -> wedjat_error {
    LAST_ERROR.get()
}

/// Installs the monitor. Call it early, on the thread to be watched. There is one monitor at a time.
///
/// Returns null on failure, and writes the reason to `error` (at most `error_size` bytes with the zero byte; may be null).
///
/// `options` points at `options->size` bytes, and its strings end with a zero byte. You may free it once this returns.
/// The callbacks may be called on other threads, with their data, until `wedjat_uninstall` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_install(
    options: *const wedjat_options,
    error: *mut c_char,
    error_size: usize,
) -> *mut wedjat_monitor {
    // SAFETY: as the caller promises.
    let installed = unsafe { install(options) }.map_err(|(code, why)| {
        // SAFETY: as the caller promises.
        unsafe { copy_text(why.as_bytes(), error, error_size) };
        code
    });
    LAST_ERROR.set(installed.as_ref().err().copied().unwrap_or_default());
    installed.map_or(std::ptr::null_mut(), wedjat_monitor::give)
}

/// Offsets of the triggers and their switches, which are `bool`s without a gap: a caller may have put any byte there.
const SWITCHES: Range<usize> =
    offset_of!(wedjat_options, stall)..offset_of!(wedjat_options, all_images) + 1;
const _: () = assert!(SWITCHES.end - SWITCHES.start == 11);

/// The error of options that cannot be used.
fn unusable(why: &str) -> (wedjat_error, String) {
    (wedjat_error::WEDJAT_ERROR_OPTIONS, why.into())
}

/// # Safety
/// As [`wedjat_install`].
unsafe fn install(options: *const wedjat_options) -> Result<Monitor, (wedjat_error, String)> {
    if options.is_null() {
        return Err(unusable("no options were given"));
    }
    // The oldest header ends behind the first triggers.
    let least = offset_of!(wedjat_options, stall_timeout_ms);
    // SAFETY: as the caller promises; zeros are null pointers, no callbacks and `false`.
    let options = unsafe {
        let bools = SWITCHES.chain([offset_of!(wedjat_options, shared_directory)]);
        sized(options, least, bools)
    };
    let wrong_size = || unusable("wedjat_options.size must be sizeof(wedjat_options)");
    let options = options.ok_or_else(wrong_size)?;
    let is_null = |field: &str| unusable(&format!("wedjat_options.{field} is null"));
    // SAFETY: as the caller promises.
    let (name, version, directory) = unsafe {
        (
            text(options.name).ok_or_else(|| is_null("name"))?,
            text(options.version).ok_or_else(|| is_null("version"))?,
            path(options.directory).ok_or_else(|| is_null("directory"))?,
        )
    };
    let mut builder = triggers(
        Monitor::builder(name, version)
            .directory(directory)
            .shared_directory(options.shared_directory),
        &options,
    );
    builder = limits(builder, &options);
    if let Some(callback) = options.on_report {
        let data = AppData(options.on_report_data);
        builder = builder.on_report(move |path: &Path| {
            if let Some(path) = c_path(path) {
                // SAFETY: the caller of `wedjat_install` promises that it may be called.
                unsafe { callback(path.as_ptr(), data.get()) };
            }
        });
    }
    if let Some(callback) = options.on_stall {
        builder = builder.on_stall(stall_callback(callback, AppData(options.on_stall_data)));
    }
    let installed = builder.install();
    installed.map_err(|error| (wedjat_error::from(&error), error.to_string()))
}

/// A number, unless it is 0.
fn number<T: Default + PartialEq>(given: T) -> Option<T> {
    (given != T::default()).then_some(given)
}

fn milliseconds(given: u32) -> Option<Duration> {
    number(given).map(|given| Duration::from_millis(given.into()))
}

/// Settings, of which what was given is set.
trait SetGiven: Sized {
    fn with<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}

impl<S> SetGiven for S {}

/// The thresholds of a stall, 0 for the defaults.
pub(super) fn stall_of(timeout_ms: u32, strikes: u32) -> Stall {
    Stall::default()
        .with(milliseconds(timeout_ms), Stall::timeout)
        .with(number(strikes), Stall::strikes)
}

fn triggers(mut builder: MonitorBuilder, given: &wedjat_options) -> MonitorBuilder {
    if given.stall {
        let launch = milliseconds(given.launch_threshold_ms);
        let stall = stall_of(given.stall_timeout_ms, given.stall_strikes)
            .launch_waits(given.stall_launch_waits)
            .with(launch, Stall::launch_threshold);
        builder = builder.stall(stall);
    }
    if given.crash {
        let crash = Crash::default()
            .sigterm(given.sigterm)
            .leave_to_debugger(given.leave_to_debugger)
            .near_memory(given.near_memory);
        builder = builder.crash(crash);
    }
    if given.cpu {
        let cpu = CpuLoad::default()
            .with(milliseconds(given.cpu_over_ms), CpuLoad::over)
            .with(number(given.cpu_share), CpuLoad::share);
        builder = builder.cpu(cpu);
    }
    if given.memory {
        let memory = MemoryLoad::default()
            .with(number(given.memory_bytes), MemoryLoad::bytes)
            .with(number(given.memory_share), MemoryLoad::share);
        builder = builder.memory(memory);
    }
    if given.slow_frames {
        let frames = SlowFrames::default()
            .with(number(given.frames_below), SlowFrames::below)
            .with(number(given.frames_cpu_share), SlowFrames::cpu)
            .with(milliseconds(given.frames_lasting_ms), SlowFrames::lasting);
        builder = builder.slow_frames(frames);
    }
    builder = builder.all_images(given.all_images);
    builder.resolve_names(given.resolve_names)
}

fn limits(builder: MonitorBuilder, given: &wedjat_options) -> MonitorBuilder {
    let threads = number(given.max_other_threads).map(|most| usize::try_from(most).unwrap_or(0));
    let budget = number(given.stop_budget_us).map(|most| Duration::from_micros(most.into()));
    let reports = number(given.limit_reports).map(|most| most as usize);
    let limits = Limits::default()
        .with(reports, Limits::reports)
        .with(number(given.limit_bytes), Limits::bytes);
    let captures = number(given.captures_per_hour);
    let rates = RateLimit::default()
        .with(number(given.same_stalls), RateLimit::same_stalls)
        .with(milliseconds(given.cooldown_ms), RateLimit::cooldown)
        .with(number(given.reports_per_hour), RateLimit::per_hour)
        .with(captures, RateLimit::captures_per_hour)
        .with(number(given.bytes_per_hour), RateLimit::bytes_per_hour);
    builder
        .with(threads, MonitorBuilder::max_other_threads)
        .with(budget, MonitorBuilder::stop_budget)
        .with(number(given.capture_signal), MonitorBuilder::capture_signal)
        .limits(limits)
        .rate_limit(rates)
}
