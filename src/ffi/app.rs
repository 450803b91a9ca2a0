//! State that an app in C records about itself: keys, gauges, breadcrumbs, marks.

use std::ffi::c_char;

use super::{text, wedjat_monitor};
use crate::report::ValueView;

/// A timed mark in progress: `wedjat_mark_begin` returns it, `wedjat_mark_end` ends it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wedjat_mark {
    /// Number of the mark.
    pub ticket: u64,
    /// Time at which it began, nanoseconds of the monotonic clock.
    pub start: u64,
}

/// Ticket of a mark that was not begun.
const NO_MARK: u64 = u64::MAX;

/// # Safety
/// As [`text`], and `monitor` is null or from `wedjat_install`.
unsafe fn set<'a>(monitor: *const wedjat_monitor, key: *const c_char, value: ValueView<'a>) {
    // SAFETY: as the caller promises.
    if let (Some(monitor), Some(key)) = unsafe { (wedjat_monitor::get(monitor), text(key)) } {
        monitor.context().set(&key, value);
    }
}

/// Sets a key of the app to a text, for every later report; a null `value` removes the key. There is room for 64 keys:
/// removing one makes room for another.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_set(
    monitor: *const wedjat_monitor,
    key: *const c_char,
    value: *const c_char,
) {
    // SAFETY: as the caller promises.
    match unsafe { text(value) } {
        // SAFETY: as the caller promises.
        Some(value) => unsafe { set(monitor, key, ValueView::Text(&value)) },
        // SAFETY: as the caller promises.
        None => unsafe { wedjat_remove(monitor, key) },
    }
}

/// Sets a key to an integer, as `wedjat_set` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_set_integer(
    monitor: *const wedjat_monitor,
    key: *const c_char,
    value: i64,
) {
    // SAFETY: as the caller promises.
    unsafe { set(monitor, key, ValueView::Signed(value)) }
}

/// Sets a key to a number, as `wedjat_set` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_set_number(
    monitor: *const wedjat_monitor,
    key: *const c_char,
    value: f64,
) {
    // SAFETY: as the caller promises.
    unsafe { set(monitor, key, ValueView::Float(value)) }
}

/// Sets a key to true or false, as `wedjat_set` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_set_bool(
    monitor: *const wedjat_monitor,
    key: *const c_char,
    value: bool,
) {
    // SAFETY: as the caller promises.
    unsafe { set(monitor, key, ValueView::Bool(value)) }
}

/// Removes a key, which makes room for another.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_remove(monitor: *const wedjat_monitor, key: *const c_char) {
    // SAFETY: as the caller promises.
    if let (Some(monitor), Some(key)) = unsafe { (wedjat_monitor::get(monitor), text(key)) } {
        monitor.context().remove(&key);
    }
}

/// Sets a gauge: a number by name, such as a queue's length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_gauge(
    monitor: *const wedjat_monitor,
    name: *const c_char,
    value: f64,
) {
    // SAFETY: as the caller promises.
    if let (Some(monitor), Some(name)) = unsafe { (wedjat_monitor::get(monitor), text(name)) } {
        monitor.context().gauge(&name, value);
    }
}

/// Leaves a breadcrumb: one line about what just happened, with the time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_breadcrumb(monitor: *const wedjat_monitor, line: *const c_char) {
    // SAFETY: as the caller promises.
    if let (Some(monitor), Some(line)) = unsafe { (wedjat_monitor::get(monitor), text(line)) } {
        monitor.context().breadcrumb(&line);
    }
}

/// Begins a timed mark, such as a network call or a page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_mark_begin(
    monitor: *const wedjat_monitor,
    name: *const c_char,
) -> wedjat_mark {
    // SAFETY: as the caller promises.
    let (ticket, start) = match unsafe { (wedjat_monitor::get(monitor), text(name)) } {
        (Some(monitor), Some(name)) => monitor.context().mark(&name).into_parts(),
        _ => (NO_MARK, 0),
    };
    wedjat_mark { ticket, start }
}

/// Ends a timed mark.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wedjat_mark_end(monitor: *const wedjat_monitor, mark: wedjat_mark) {
    // SAFETY: as the caller promises.
    if let Some(monitor) = unsafe { wedjat_monitor::get(monitor) }
        && mark.ticket != NO_MARK
    {
        drop(monitor.context().mark_from_parts(mark.ticket, mark.start));
    }
}
