//! Callbacks of the monitor: stalls and reports.

use std::ffi::{CString, c_char, c_void};

use super::Data;
use crate::report::time::nanos;
use crate::stall::StallEvent;

/// Called with the path of a report; `data` is what was given with the function.
pub type wedjat_report_function =
    Option<unsafe extern "C" fn(path: *const c_char, data: *mut c_void)>;

/// Puts `beat` into the watched thread's own queue; `data` is what was given with the function.
pub type wedjat_post_function =
    Option<unsafe extern "C" fn(beat: extern "C" fn(), data: *mut c_void)>;

/// Called when a stall is sure, and when it is over; `data` is what was given with the function. `event` is gone once
/// it has returned.
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
    /// Turns of the run loop it has taken so far; 1 for one long freeze.
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
    pub what: *const c_char,
    /// The outcome: "recovered", "uninstalled" or "thread_ended"; null while the stall lasts.
    pub how: *const c_char,
}

/// Wraps `callback` as a closure that is called with each event.
pub(super) fn stall_callback(
    callback: unsafe extern "C" fn(*const wedjat_stall_event, *mut c_void),
    data: Data,
) -> impl FnMut(&StallEvent<'_>) + Send + 'static {
    move |event| {
        let (info, how) = match event {
            StallEvent::Began(info) => (*info, None),
            StallEvent::Ended(end) => (&end.info, CString::new(end.how.as_str()).ok()),
        };
        let what = CString::new(info.class.as_str()).unwrap_or_default();
        let event = wedjat_stall_event {
            size: size_of::<wedjat_stall_event>(),
            is_over: how.is_some(),
            never_beat: info.never_beat,
            turns: info.turns,
            start: nanos(info.start),
            lasted: nanos(info.lasted),
            cpu: nanos(info.cpu),
            delay: nanos(info.delay),
            what: what.as_ptr(),
            how: how.as_ref().map_or(std::ptr::null(), |how| how.as_ptr()),
        };
        // SAFETY: the caller of `wedjat_install` promises that it may be called.
        unsafe { callback(&event, data.get()) };
    }
}
