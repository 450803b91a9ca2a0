//! The C interface: what an app in C, C++, Objective-C or Swift calls.
//!
//! `include/wedjat.h` is generated from this file. Strings are UTF-8 and end with a zero byte; what is
//! not UTF-8 in them is replaced. A null where a string or a monitor is wanted is an error or does
//! nothing, never a crash. Nothing here is for signal handlers but [`wedjat_begin`] and [`wedjat_end`].
//!
//! Built by `cargo rustc --release --lib --no-default-features --features ffi --crate-type staticlib`.
#![allow(non_camel_case_types)]

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::time::Duration;

use crate::{Crash, Heartbeat, Monitor, Stall};

/// The recorder of this process; see `wedjat_install`.
pub struct wedjat_monitor(Monitor);

/// Told the path of a report; `data` is what was given with the function.
pub type wedjat_report_function =
    Option<unsafe extern "C" fn(path: *const c_char, data: *mut c_void)>;

/// Puts `beat` into the watched thread's own queue; `data` is what was given with the function.
pub type wedjat_post_function =
    Option<unsafe extern "C" fn(beat: extern "C" fn(), data: *mut c_void)>;

/// What to record, and where. Fill it with zeros, then set `size` and what you want: a trigger that
/// is not asked for is off, a number that is 0 is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wedjat_options {
    /// `sizeof(wedjat_options)`: lets later versions grow it.
    pub size: usize,
    /// The app's name.
    pub name: *const c_char,
    /// The app's version.
    pub version: *const c_char,
    /// The folder of reports; made if it is missing.
    pub directory: *const c_char,
    /// Watch the installing thread for stalls.
    pub stall: bool,
    /// Report fatal signals.
    pub crash: bool,
    /// With `crash`: report SIGTERM too.
    pub sigterm: bool,
    /// How long without a beat is one strike, milliseconds (50).
    pub stall_timeout_ms: u32,
    /// How many strikes in a row are a stall (5).
    pub stall_strikes: u32,
    /// Called with each report of a stall once it is whole, on a thread of the monitor's; may be null.
    pub on_report: wedjat_report_function,
    /// Given to `on_report`; used on a thread of the monitor's.
    pub on_report_data: *mut c_void,
}

/// The run loop's pulse: a plain value, to be copied wherever it is needed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wedjat_heartbeat {
    /// Which install it belongs to.
    pub install: u32,
}

/// A timed mark that lasts: what `wedjat_mark_begin` gives and `wedjat_mark_end` takes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wedjat_mark {
    /// Its number.
    pub ticket: u64,
    /// When it began, nanoseconds of the monotonic clock.
    pub start: u64,
}

/// What the app gave with a function, on its way to the monitor's thread.
struct Data(*mut c_void);

// SAFETY: the header says that the pointer is used on a thread of the monitor's.
unsafe impl Send for Data {}

impl Data {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// `text` is null, or points at a string that ends with a zero byte.
unsafe fn text<'a>(text: *const c_char) -> Option<std::borrow::Cow<'a, str>> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

/// Writes as much of `text` as there is room for, always with a zero byte behind it.
///
/// # Safety
/// `room` is null, or `size` bytes may be written there.
unsafe fn put(text: &[u8], room: *mut c_char, size: usize) -> bool {
    if room.is_null() || size == 0 {
        return false;
    }
    let length = text.len().min(size - 1);
    // SAFETY: `length + 1` is at most `size`, and the caller promises that many bytes of room.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), room, length);
        *room.add(length) = 0;
    }
    length == text.len()
}

#[cfg(unix)]
fn path_bytes(path: &Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes()
}

/// A path as the C side wants it. None has a zero byte inside.
fn c_path(path: &Path) -> Option<std::ffi::CString> {
    std::ffi::CString::new(path_bytes(path)).ok()
}

/// Installs the monitor; to be called on the thread to be watched, early. There is one at a time.
///
/// Gives null on failure, and then says why in `error` (at most `error_size` bytes with the zero
/// byte; may be null).
///
/// # Safety
/// `options` points at `options->size` bytes; its strings end with a zero byte; `on_report` may be
/// called with `on_report_data` on another thread until `wedjat_uninstall` has returned; `error`
/// has room for `error_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_install(
    options: *const wedjat_options,
    error: *mut c_char,
    error_size: usize,
) -> *mut wedjat_monitor {
    // SAFETY: as the caller promises.
    match unsafe { install(options) } {
        Ok(monitor) => Box::into_raw(Box::new(wedjat_monitor(monitor))),
        Err(why) => {
            // SAFETY: as the caller promises.
            unsafe { put(why.as_bytes(), error, error_size) };
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// As [`wedjat_install`].
unsafe fn install(options: *const wedjat_options) -> Result<Monitor, String> {
    let too_small = "wedjat_options.size must be sizeof(wedjat_options)";
    if options.is_null() {
        return Err("no options were given".into());
    }
    // SAFETY: `size` is the first field, and the caller promises at least that much.
    if unsafe { (*options).size } < size_of::<wedjat_options>() {
        return Err(too_small.into());
    }
    // SAFETY: all fields that this version knows are there.
    let options = unsafe { *options };
    // SAFETY: as the caller promises.
    let (name, version, directory) = unsafe {
        (
            text(options.name).ok_or("wedjat_options.name is null")?,
            text(options.version).ok_or("wedjat_options.version is null")?,
            options.directory,
        )
    };
    if directory.is_null() {
        return Err("wedjat_options.directory is null".into());
    }
    let mut builder = Monitor::builder(name, version);
    // SAFETY: as the caller promises.
    let directory = unsafe { CStr::from_ptr(directory) };
    builder = builder.directory({
        use std::os::unix::ffi::OsStrExt;
        Path::new(std::ffi::OsStr::from_bytes(directory.to_bytes()))
    });
    if options.stall {
        let mut stall = Stall::default();
        if options.stall_timeout_ms > 0 {
            stall = stall.timeout(Duration::from_millis(options.stall_timeout_ms.into()));
        }
        if options.stall_strikes > 0 {
            stall = stall.strikes(options.stall_strikes);
        }
        builder = builder.stall(stall);
    }
    if options.crash {
        builder = builder.crash(Crash::default().sigterm(options.sigterm));
    }
    if let Some(told) = options.on_report {
        let data = Data(options.on_report_data);
        builder = builder.on_report(move |path: &Path| {
            if let Some(path) = c_path(path) {
                // SAFETY: the caller of `wedjat_install` promises that it may be called.
                unsafe { told(path.as_ptr(), data.get()) };
            }
        });
    }
    builder.install().map_err(|error| error.to_string())
}

/// Takes back every handler and ends the watch. Heartbeats that are left over do nothing. A null is
/// left alone.
///
/// # Safety
/// `monitor` is null, or what `wedjat_install` gave, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_uninstall(monitor: *mut wedjat_monitor) {
    if !monitor.is_null() {
        // SAFETY: as the caller promises, this is the last use of it.
        drop(unsafe { Box::from_raw(monitor) });
    }
}

/// The run loop's pulse.
///
/// # Safety
/// `monitor` is null (its heartbeat does nothing), or what `wedjat_install` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_get_heartbeat(monitor: *const wedjat_monitor) -> wedjat_heartbeat {
    // SAFETY: as the caller promises.
    let install = unsafe { monitor.as_ref() }.map_or(0, |monitor| monitor.0.heartbeat().install());
    wedjat_heartbeat { install }
}

/// The watched thread has something to do. Never blocks, allocates or fails.
#[unsafe(no_mangle)]
pub extern "C" fn wedjat_begin(heartbeat: wedjat_heartbeat) {
    Heartbeat::of(heartbeat.install).begin();
}

/// The watched thread is done with it and about to wait for the next event.
#[unsafe(no_mangle)]
pub extern "C" fn wedjat_end(heartbeat: wedjat_heartbeat) {
    Heartbeat::of(heartbeat.install).end();
}

/// Watches a run loop that cannot be observed: `post` puts each `beat` into the watched thread's own
/// queue, where it is to be called. `post` runs on a thread of the monitor's. Gives whether it began.
///
/// # Safety
/// `monitor` is null, or what `wedjat_install` gave; `post` may be called with `data` on another
/// thread until `wedjat_uninstall` has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_watch_by_ping(
    monitor: *const wedjat_monitor,
    post: wedjat_post_function,
    data: *mut c_void,
) -> bool {
    // SAFETY: as the caller promises.
    let (Some(monitor), Some(post)) = (unsafe { monitor.as_ref() }, post) else {
        return false;
    };
    let data = Data(data);
    let begun = monitor.0.watch_by_ping(move |_| {
        // SAFETY: the caller promises that it may be called.
        unsafe { post(answer, data.get()) };
    });
    begun.is_ok()
}

extern "C" fn answer() {
    crate::trigger::ping::answer();
}

/// Writes a report of all threads, now. `reason` (may be null) stands in it. Its path goes to `path`
/// (at most `path_size` bytes with the zero byte; may be null). Gives whether it was written; else
/// `path` has the reason why not.
///
/// # Safety
/// `monitor` is null, or what `wedjat_install` gave; `reason` is null or ends with a zero byte;
/// `path` has room for `path_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_record(
    monitor: *const wedjat_monitor,
    reason: *const c_char,
    path: *mut c_char,
    path_size: usize,
) -> bool {
    // SAFETY: as the caller promises.
    let Some(monitor) = (unsafe { monitor.as_ref() }) else {
        // SAFETY: as the caller promises.
        unsafe { put(b"no monitor", path, path_size) };
        return false;
    };
    // SAFETY: as the caller promises.
    let reason = unsafe { text(reason) }.unwrap_or_default();
    let recorded = monitor.0.record(&reason);
    match &recorded {
        // SAFETY: as the caller promises.
        Ok(written) => unsafe { put(path_bytes(written), path, path_size) },
        // SAFETY: as the caller promises.
        Err(error) => unsafe { put(error.to_string().as_bytes(), path, path_size) },
    };
    recorded.is_ok()
}

/// Sets a key of the app's own, which stands in every report from now on.
///
/// # Safety
/// `monitor` is null, or what `wedjat_install` gave; both strings end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_set(
    monitor: *const wedjat_monitor,
    key: *const c_char,
    value: *const c_char,
) {
    // SAFETY: as the caller promises.
    let given = unsafe { (monitor.as_ref(), text(key), text(value)) };
    if let (Some(monitor), Some(key), Some(value)) = given {
        monitor.0.context().set(&key, &*value);
    }
}

/// Takes a key away.
///
/// # Safety
/// As `wedjat_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_remove(monitor: *const wedjat_monitor, key: *const c_char) {
    // SAFETY: as the caller promises.
    if let (Some(monitor), Some(key)) = unsafe { (monitor.as_ref(), text(key)) } {
        monitor.0.context().remove(&key);
    }
}

/// Sets a gauge: a number by name, as a queue's length.
///
/// # Safety
/// As `wedjat_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_gauge(
    monitor: *const wedjat_monitor,
    name: *const c_char,
    value: f64,
) {
    // SAFETY: as the caller promises.
    if let (Some(monitor), Some(name)) = unsafe { (monitor.as_ref(), text(name)) } {
        monitor.0.context().gauge(&name, value);
    }
}

/// Leaves a breadcrumb: one line about what just happened, with the time.
///
/// # Safety
/// As `wedjat_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_breadcrumb(monitor: *const wedjat_monitor, line: *const c_char) {
    // SAFETY: as the caller promises.
    if let (Some(monitor), Some(line)) = unsafe { (monitor.as_ref(), text(line)) } {
        monitor.0.context().breadcrumb(&line);
    }
}

/// Starts a timed mark, as a network call or a page.
///
/// # Safety
/// As `wedjat_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_mark_begin(
    monitor: *const wedjat_monitor,
    name: *const c_char,
) -> wedjat_mark {
    // SAFETY: as the caller promises.
    let (ticket, start) = match unsafe { (monitor.as_ref(), text(name)) } {
        (Some(monitor), Some(name)) => monitor.0.context().mark(&name).into_parts(),
        _ => (u64::MAX, 0),
    };
    wedjat_mark { ticket, start }
}

/// Ends a timed mark.
///
/// # Safety
/// `monitor` is null, or what `wedjat_install` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_mark_end(monitor: *const wedjat_monitor, mark: wedjat_mark) {
    // SAFETY: as the caller promises.
    if let Some(monitor) = unsafe { monitor.as_ref() }
        && mark.ticket != u64::MAX
    {
        drop(monitor.0.context().mark_from_parts(mark.ticket, mark.start));
    }
}

/// Calls `each` with the path of every report that earlier launches left in `directory`, oldest
/// first. Gives how many there are, or -1 when the folder cannot be listed.
///
/// # Safety
/// `directory` is null, or ends with a zero byte; `each` may be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_reports(
    directory: *const c_char,
    each: wedjat_report_function,
    data: *mut c_void,
) -> isize {
    if directory.is_null() {
        return -1;
    }
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: as the caller promises.
    let directory = unsafe { CStr::from_ptr(directory) };
    let directory = Path::new(std::ffi::OsStr::from_bytes(directory.to_bytes()));
    let Ok(reports) = crate::store::reports(directory) else {
        return -1;
    };
    for report in &reports {
        if let (Some(path), Some(each)) = (c_path(report.path()), each) {
            // SAFETY: as the caller promises.
            unsafe { each(path.as_ptr(), data) };
        }
    }
    isize::try_from(reports.len()).unwrap_or(isize::MAX)
}
