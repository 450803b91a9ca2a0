//! Earlier launches: how they ended, and the reports they left, to be sent.

use std::ffi::{c_char, c_int, c_void};

use super::{c_path, copy_text, fill, path, wedjat_monitor, wedjat_report_function};
use crate::report::time::since_epoch;
use crate::store::{self, Answer, EndedLaunch, HowEnded};

/// The end of a launch.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum wedjat_how_ended {
    /// It ended by `exit`, or by a return of `main`, whatever the status.
    WEDJAT_ENDED_EXIT = 0,
    /// The app uninstalled its monitor; its later end is unknown.
    WEDJAT_ENDED_UNINSTALLED = 1,
    /// It ended by a crash that has a report.
    WEDJAT_ENDED_CRASH = 2,
    /// It ended by a Rust panic.
    WEDJAT_ENDED_PANIC = 3,
    /// It was killed in the middle of a stall.
    WEDJAT_ENDED_STALLED = 4,
    /// It was killed, most likely because memory ran out.
    WEDJAT_ENDED_OUT_OF_MEMORY = 5,
    /// The machine was restarted.
    WEDJAT_ENDED_REBOOT = 6,
    /// It was killed, or ended by `_exit`: these look the same afterwards.
    WEDJAT_ENDED_ABRUPT = 7,
}

/// An earlier launch: its end, and its state when last seen. Times are nanoseconds since the Unix epoch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wedjat_launch {
    /// `sizeof(wedjat_launch)`, set by the caller.
    pub size: usize,
    /// Identifies it; the same in all its reports.
    pub id: [u8; 16],
    /// The app's version at that time, ended by a zero byte.
    pub app_version: [c_char; 120],
    /// The process' id then.
    pub pid: u64,
    /// Time at which the monitor was installed.
    pub started: u64,
    /// Time at which it was last seen at work.
    pub last_seen: u64,
    /// Memory of its own then, bytes; 0 if unknown.
    pub footprint: u64,
    /// Free memory of the machine then, bytes; 0 if unknown.
    pub device_free: u64,
    /// The way it ended.
    pub how: wedjat_how_ended,
    /// The exit status; -1 if it did not exit or its status is not known.
    pub status: i32,
    /// True if the app was in the foreground, by its last `wedjat_set_foreground`.
    pub foreground: bool,
    /// True if the app itself ended the launch.
    pub is_clean: bool,
}

/// The fate of a report to be sent: the answer of the function passed to `wedjat_send`.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum wedjat_answer {
    /// It arrived. It is removed.
    WEDJAT_ACCEPTED = 0,
    /// The server will never accept it. It is set aside with the extension `.refused`.
    WEDJAT_REFUSED = 1,
    /// The server cannot accept it now. It stays, and the next one is tried.
    WEDJAT_LATER = 2,
    /// No report can be sent now, such as without a network. This one and all later ones stay.
    WEDJAT_STOP = 3,
}

/// Sends the report at `path`, and returns one of `wedjat_answer`; any other number is `WEDJAT_LATER`.
pub type wedjat_send_function =
    Option<unsafe extern "C" fn(path: *const c_char, data: *mut c_void) -> c_int>;

/// The result of `wedjat_send`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wedjat_sent {
    /// `sizeof(wedjat_sent)`, set by the caller.
    pub size: usize,
    /// Reports that were accepted and removed.
    pub accepted: u64,
    /// Reports that were set aside.
    pub refused: u64,
    /// Reports that stay for another time.
    pub deferred: u64,
    /// Reports that another sender has in hand.
    pub busy: u64,
}

/// Fills `*launch` with how the launch before this one ended, even if it left no report. Set `launch->size` before the
/// call. Returns false if there was no earlier launch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_previous_launch(
    monitor: *const wedjat_monitor,
    launch: *mut wedjat_launch,
) -> bool {
    // SAFETY: as the caller promises.
    let monitor = unsafe { wedjat_monitor::get(monitor) };
    match monitor.and_then(crate::Monitor::previous_launch) {
        // SAFETY: as the caller promises.
        Some(ended) => unsafe { fill(launch, to_c(ended)) },
        None => false,
    }
}

/// Converts a launch to C's struct. The caller's version of the struct decides its `size`.
fn to_c(ended: &EndedLaunch) -> wedjat_launch {
    let mut app_version = [0; 120];
    let version = ended.app_version.as_bytes();
    // SAFETY: the array has room for as many bytes.
    unsafe { copy_text(version, app_version.as_mut_ptr(), app_version.len()) };
    wedjat_launch {
        size: 0,
        id: ended.launch,
        app_version,
        pid: ended.pid,
        started: since_epoch(ended.started),
        last_seen: since_epoch(ended.last_seen),
        footprint: ended.footprint.unwrap_or(0),
        device_free: ended.device_free.unwrap_or(0),
        how: match ended.how {
            HowEnded::Exit => wedjat_how_ended::WEDJAT_ENDED_EXIT,
            HowEnded::Uninstalled => wedjat_how_ended::WEDJAT_ENDED_UNINSTALLED,
            HowEnded::Crash => wedjat_how_ended::WEDJAT_ENDED_CRASH,
            HowEnded::Panic => wedjat_how_ended::WEDJAT_ENDED_PANIC,
            HowEnded::Stalled => wedjat_how_ended::WEDJAT_ENDED_STALLED,
            HowEnded::OutOfMemory => wedjat_how_ended::WEDJAT_ENDED_OUT_OF_MEMORY,
            HowEnded::Reboot => wedjat_how_ended::WEDJAT_ENDED_REBOOT,
            HowEnded::Abrupt => wedjat_how_ended::WEDJAT_ENDED_ABRUPT,
        },
        status: ended.status.unwrap_or(-1),
        foreground: ended.foreground,
        is_clean: ended.how.is_clean(),
    }
}

/// Calls `each` (may be null) with the path of every report that earlier launches left in `directory`, oldest first.
/// The folder's limits remove none of them during the call. Returns the number of reports, or -1 if the folder cannot be
/// listed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_reports(
    directory: *const c_char,
    each: wedjat_report_function,
    data: *mut c_void,
) -> isize {
    // SAFETY: as the caller promises.
    let Some(Ok(reports)) = unsafe { path(directory) }.map(store::reports) else {
        return -1;
    };
    for report in &reports {
        if let (Some(path), Some(each)) = (c_path(report.path()), each) {
            // SAFETY: the caller promises that it may be called.
            unsafe { each(path.as_ptr(), data) };
        }
    }
    isize::try_from(reports.len()).unwrap_or(isize::MAX)
}

/// Calls `each` with each report that earlier launches left in `directory`, oldest first, and does with it what the
/// answer says. While `each` has a report, no other sender gets it, in this process or in another. `sent` (may be null;
/// set `sent->size`) gets the counts. Returns false if the folder cannot be listed, or if a report cannot be removed or
/// set aside.
///
/// Not for the watched thread if `each` uses a network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_send(
    directory: *const c_char,
    each: wedjat_send_function,
    data: *mut c_void,
    sent: *mut wedjat_sent,
) -> bool {
    // SAFETY: as the caller promises.
    let (Some(directory), Some(each)) = (unsafe { path(directory) }, each) else {
        return false;
    };
    let result = store::send(directory, |stored| {
        let Some(path) = c_path(stored.path()) else {
            return Answer::Later;
        };
        // SAFETY: the caller promises that it may be called.
        match unsafe { each(path.as_ptr(), data) } {
            0 => Answer::Accepted,
            1 => Answer::Refused,
            3 => Answer::Stop,
            _ => Answer::Later,
        }
    });
    let Ok(counts) = result else {
        return false;
    };
    let value = wedjat_sent {
        size: 0,
        accepted: counts.accepted as u64,
        refused: counts.refused.len() as u64,
        deferred: counts.deferred as u64,
        busy: counts.busy as u64,
    };
    // SAFETY: as the caller promises; null is allowed.
    unsafe { fill(sent, value) };
    true
}
