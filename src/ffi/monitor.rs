//! An app's calls to its monitor in C: heartbeats, reports, stacks, counters.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::options::{LAST_ERROR, stall_of};
use super::{AppData, copy_text, fill, path_bytes, text, wedjat_error, wedjat_post_function};
use crate::monitor::join;
use crate::report::time::nanos;
use crate::trigger::heartbeat::own_heartbeat;
use crate::{Heartbeat, Monitor, MonitorError, Threads};

/// The recorder of this process; see `wedjat_install`.
pub struct wedjat_monitor(Monitor);

/// The monitor of this process: one that the app keeps no pointer to is no leak. LeakSanitizer looks for pointers in statics.
static MONITOR: AtomicPtr<wedjat_monitor> = AtomicPtr::new(std::ptr::null_mut());

impl wedjat_monitor {
    pub(super) fn give(monitor: Monitor) -> *mut wedjat_monitor {
        let monitor = Box::into_raw(Box::new(wedjat_monitor(monitor)));
        MONITOR.store(monitor, Ordering::Relaxed);
        monitor
    }

    /// # Safety
    /// `monitor` is null, or what `wedjat_install` gave.
    pub(super) unsafe fn get<'a>(monitor: *const wedjat_monitor) -> Option<&'a Monitor> {
        // SAFETY: as the caller promises.
        unsafe { monitor.as_ref() }.map(|monitor| &monitor.0)
    }
}

/// The run loop's heartbeat: a plain value, to be copied wherever it is needed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wedjat_heartbeat {
    /// Number of the install it belongs to. 0 is an error: such a heartbeat does nothing.
    pub install: u32,
}

/// The threads that `wedjat_stacks` shows.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum wedjat_threads {
    /// The watched thread.
    WEDJAT_THREADS_MAIN = 0,
    /// The calling thread.
    WEDJAT_THREADS_CURRENT = 1,
    /// All of them.
    WEDJAT_THREADS_ALL = 2,
}

/// Counters of a monitor; times in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wedjat_stats {
    /// `sizeof(wedjat_stats)`, set by the caller.
    pub size: usize,
    /// Turns of the watched run loop that have ended.
    pub turns: u64,
    /// Frames that the app reported by `wedjat_frame`.
    pub shown_frames: u64,
    /// Stalls, reported or not, with a stall in progress.
    pub stalls: u64,
    /// Time in stalls that are over.
    pub stalled_time: u64,
    /// The longest of them.
    pub longest: u64,
    /// Whole reports of this launch.
    pub reports: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Stacks taken of the watched thread.
    pub captures: u64,
    /// CPU time of the watchdog's thread.
    pub watchdog_cpu: u64,
    /// Events that were not reported, for any reason.
    pub lost: u64,
    /// True while a stall lasts.
    pub stalled: bool,
    /// Files in the folder with names of reports that are larger than any report: they stay untouched.
    pub oversized: u64,
    /// Beats of other threads than the watched one: they are ignored.
    pub stray_beats: u64,
    /// Threads that are watched now besides the one that installed.
    pub watched_threads: u64,
    /// Threads that are not watched because 256 were at the time.
    pub refused_threads: u64,
}

/// The version of this header. `wedjat_version` returns that of the library.
pub const WEDJAT_VERSION_MAJOR: u32 = 0;
/// See `WEDJAT_VERSION_MAJOR`.
pub const WEDJAT_VERSION_MINOR: u32 = 1;
/// See `WEDJAT_VERSION_MAJOR`.
pub const WEDJAT_VERSION_PATCH: u32 = 0;

const _: () = {
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    let minor = env!("CARGO_PKG_VERSION_MINOR");
    let patch = env!("CARGO_PKG_VERSION_PATCH");
    assert!(is_number(major, WEDJAT_VERSION_MAJOR));
    assert!(is_number(minor, WEDJAT_VERSION_MINOR));
    assert!(is_number(patch, WEDJAT_VERSION_PATCH));
};

const fn is_number(text: &str, number: u32) -> bool {
    matches!(u32::from_str_radix(text, 10), Ok(stated) if stated == number)
}

/// The library's version, as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn wedjat_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Restores the previous handlers and ends the watch. Remaining heartbeats do nothing. `monitor` is the result of
/// `wedjat_install`, which you may not use again; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_uninstall(monitor: *mut wedjat_monitor) {
    if !monitor.is_null() {
        MONITOR.store(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: as the caller promises, this is the last use of it.
        drop(unsafe { Box::from_raw(monitor) });
    }
}

/// The run loop's heartbeat; that of a null monitor does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_get_heartbeat(monitor: *const wedjat_monitor) -> wedjat_heartbeat {
    // SAFETY: as the caller promises.
    let monitor = unsafe { wedjat_monitor::get(monitor) };
    let install = monitor.map_or(0, |monitor| monitor.heartbeat().number());
    wedjat_heartbeat { install }
}

/// Begins a turn: the watched thread has an event to handle. Never blocks, allocates or fails.
#[unsafe(no_mangle)]
pub extern "C" fn wedjat_begin(heartbeat: wedjat_heartbeat) {
    Heartbeat::of(heartbeat.install).begin();
}

/// Ends a turn: the watched thread is about to wait for the next event. Never blocks, allocates or fails.
#[unsafe(no_mangle)]
pub extern "C" fn wedjat_end(heartbeat: wedjat_heartbeat) {
    Heartbeat::of(heartbeat.install).end();
}

/// Watches the calling thread too, until `wedjat_unwatch_thread` or its end. Reports of its stalls have `name`, cut after 64
/// bytes. A stall is `strikes` (0: 5) times `stall_timeout_ms` (0: 50) without a beat; the watch begins with the first beat.
///
/// Returns the thread's heartbeat. On failure its `install` is 0, and `wedjat_last_error` returns the reason. A thread is watched
/// once: this fails on the thread that called `wedjat_install`, whose heartbeat `wedjat_get_heartbeat` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_watch_thread(
    monitor: *const wedjat_monitor,
    name: *const c_char,
    stall_timeout_ms: u32,
    strikes: u32,
) -> wedjat_heartbeat {
    // SAFETY: as the caller promises.
    unsafe { watch(monitor, name, false, (stall_timeout_ms, strikes)) }
}

/// Watches the calling thread as `wedjat_watch_thread` does, as a member of the pool `name`. Members have numbers from 1 on, and
/// share one limit of reports. A report of a stall has counts of the members that were in a stall and at rest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_enter(
    monitor: *const wedjat_monitor,
    name: *const c_char,
    stall_timeout_ms: u32,
    strikes: u32,
) -> wedjat_heartbeat {
    // SAFETY: as the caller promises.
    unsafe { watch(monitor, name, true, (stall_timeout_ms, strikes)) }
}

/// # Safety
/// `name` is null or a C string.
unsafe fn watch(
    monitor: *const wedjat_monitor,
    name: *const c_char,
    is_pool: bool,
    (stall_timeout_ms, strikes): (u32, u32),
) -> wedjat_heartbeat {
    let stall = stall_of(stall_timeout_ms, strikes);
    // SAFETY: as the caller promises.
    let watched = match unsafe { text(name) } {
        _ if monitor.is_null() => Err(wedjat_error::WEDJAT_ERROR_NOT_INSTALLED),
        Some(name) => join(&name, is_pool, stall).map_err(|error| wedjat_error::from(&error)),
        None => Err(wedjat_error::WEDJAT_ERROR_OPTIONS),
    };
    LAST_ERROR.set(watched.err().unwrap_or_default());
    let install = watched.map_or(0, Heartbeat::number);
    wedjat_heartbeat { install }
}

/// Ends the watch that `wedjat_watch_thread` or `wedjat_enter` began on the calling thread; nothing on any other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_unwatch_thread(monitor: *const wedjat_monitor) {
    if !monitor.is_null() {
        own_heartbeat().into_iter().for_each(Heartbeat::leave);
    }
}

/// Begins a pause of the calling thread, such as for a dialog within a turn. Until `wedjat_resume`, only turns that begin within
/// the pause can be stalls. Pauses nest. Does nothing on a thread that is not watched.
#[unsafe(no_mangle)]
pub extern "C" fn wedjat_pause() {
    crate::trigger::pause::pause();
}

/// Ends the last pause that `wedjat_pause` began on the calling thread. Turns from before the pause continue.
#[unsafe(no_mangle)]
pub extern "C" fn wedjat_resume() {
    crate::trigger::pause::resume();
}

/// Watches a run loop that cannot be observed: `post` adds each `beat` to the watched thread's own queue, which calls
/// it. `post` runs on the watchdog's thread, with `data`, until `wedjat_uninstall` returns, and must not block. Returns true if
/// it began. The monitor must watch for stalls, and does this once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_watch_by_ping(
    monitor: *const wedjat_monitor,
    post: wedjat_post_function,
    data: *mut c_void,
) -> bool {
    // SAFETY: as the caller promises.
    let (Some(monitor), Some(post)) = (unsafe { wedjat_monitor::get(monitor) }, post) else {
        return false;
    };
    let data = AppData(data);
    let begun = monitor.watch_by_ping(move |_| {
        // SAFETY: the caller promises that it may be called.
        unsafe { post(answer, data.get()) };
    });
    begun.is_ok()
}

extern "C" fn answer() {
    crate::trigger::ping::answer();
}

/// Watches the main queue of libdispatch, on Apple platforms and in Swift programs on Linux. Reports have the stack of the thread
/// that works it off: the main thread, or after `dispatch_main` one of the system's pool. Returns true if it began, and false
/// in a program without libdispatch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_watch_main_queue(monitor: *const wedjat_monitor) -> bool {
    // SAFETY: as the caller promises.
    let monitor = unsafe { wedjat_monitor::get(monitor) };
    monitor.is_some_and(|monitor| monitor.watch_main_queue().is_ok())
}

/// Writes a report of all threads, now. It has `reason` (may be null). Its path goes to `path` (at most
/// `path_size` bytes with the zero byte; may be null). Returns true if it was written; otherwise `path` has the reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_record(
    monitor: *const wedjat_monitor,
    reason: *const c_char,
    path: *mut c_char,
    path_size: usize,
) -> bool {
    // SAFETY: as the caller promises.
    let (monitor, reason) = unsafe { (wedjat_monitor::get(monitor), text(reason)) };
    let monitor = monitor.ok_or(MonitorError::NoMonitor);
    let recorded = monitor.and_then(|monitor| monitor.record(&reason.unwrap_or_default()));
    let answer = match &recorded {
        Ok(written) => path_bytes(written).into(),
        Err(error) => error.to_string().into_bytes(),
    };
    // SAFETY: as the caller promises.
    unsafe { copy_text(&answer, path, path_size) };
    recorded.is_ok()
}

/// Captures the stacks of `threads` (of `wedjat_threads`) now and writes them to `room` as text: one frame a line,
/// innermost first. A text that does not fit into `size` bytes is cut; a zero byte ends it. Nothing is written if `room`
/// is null or `size` is 0. Returns the length of the whole text in bytes, without the zero byte, or -1 on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_stacks(
    monitor: *const wedjat_monitor,
    threads: c_int,
    room: *mut c_char,
    size: usize,
) -> isize {
    // SAFETY: as the caller promises.
    let monitor = unsafe { wedjat_monitor::get(monitor) };
    let threads = match threads {
        0 => Threads::Main,
        1 => Threads::Current,
        2 => Threads::All,
        _ => return -1,
    };
    let Some(Ok(stacks)) = monitor.map(|monitor| monitor.stacks(threads)) else {
        return -1;
    };
    // SAFETY: as the caller promises.
    unsafe { copy_text(stacks.as_bytes(), room, size) };
    isize::try_from(stacks.len()).unwrap_or(isize::MAX)
}

/// Fills `*stats` with the monitor's counters since it was installed. Set `stats->size` before the call. Returns true if
/// it was filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_get_stats(
    monitor: *const wedjat_monitor,
    stats: *mut wedjat_stats,
) -> bool {
    // SAFETY: as the caller promises.
    let Some(monitor) = (unsafe { wedjat_monitor::get(monitor) }) else {
        return false;
    };
    let now = monitor.stats();
    let value = wedjat_stats {
        size: 0,
        turns: now.turns,
        shown_frames: now.shown_frames,
        stalls: now.stalls,
        stalled_time: nanos(now.stalled_time),
        longest: nanos(now.longest),
        reports: now.reports,
        bytes: now.bytes,
        captures: now.captures,
        watchdog_cpu: nanos(now.watchdog),
        lost: now.losses.values().sum(),
        stalled: now.stalled,
        oversized: now.oversized,
        stray_beats: now.stray_beats,
        watched_threads: now.watched_threads,
        refused_threads: now.refused_threads,
    };
    // SAFETY: as the caller promises.
    unsafe { fill(stats, value) }
}

/// Counts a frame: call it for each frame shown. Lock-free; from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_frame(monitor: *const wedjat_monitor) {
    // SAFETY: as the caller promises.
    let monitor = unsafe { wedjat_monitor::get(monitor) };
    monitor.into_iter().for_each(Monitor::frame);
}

/// Ends the launch: the app is usable, and may wait for its first event. Only the first call counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_launched(monitor: *const wedjat_monitor) {
    // SAFETY: as the caller promises.
    let monitor = unsafe { wedjat_monitor::get(monitor) };
    monitor.into_iter().for_each(Monitor::launched);
}

/// Sets whether the app is in the foreground. Until the first call it is assumed to be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_set_foreground(monitor: *const wedjat_monitor, foreground: bool) {
    // SAFETY: as the caller promises.
    if let Some(monitor) = unsafe { wedjat_monitor::get(monitor) } {
        monitor.set_foreground(foreground);
    }
}

/// Writes the signals whose handlers were replaced since `wedjat_install` to `signals`, at most `room` of them. Returns
/// their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_replaced_signals(
    monitor: *const wedjat_monitor,
    signals: *mut i32,
    room: usize,
) -> usize {
    // SAFETY: as the caller promises.
    let monitor = unsafe { wedjat_monitor::get(monitor) };
    let replaced = monitor.map(Monitor::replaced_signals).unwrap_or_default();
    if !signals.is_null() {
        let count = room.min(replaced.len());
        // SAFETY: the caller promises room for so many.
        unsafe { signals.copy_from_nonoverlapping(replaced.as_ptr(), count) };
    }
    replaced.len()
}
