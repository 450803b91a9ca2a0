//! The C interface: what an app in C, C++, Objective-C or Swift calls.
//!
//! `include/wedjat.h` is generated from this room. Strings are UTF-8 and end with a zero byte; what is not
//! UTF-8 in them is replaced. A null where a string or a monitor is wanted is an error or does nothing, never
//! a crash. Nothing here is for signal handlers but [`wedjat_begin`] and [`wedjat_end`].
//!
//! Structs begin with their size, as the caller's header has it: a later version adds fields at the end, reads
//! what an older caller gave, and writes no more than that caller has room for.
//!
//! Built by `cargo rustc --release --lib --no-default-features --features ffi --crate-type staticlib`.
#![allow(non_camel_case_types)]
// The caller's duties stand in each function's text, as a person reads it in the header.
#![allow(clippy::missing_safety_doc)]

mod app;
mod left;
mod monitor;
mod options;

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

pub use app::*;
pub use left::*;
pub use monitor::*;
pub use options::*;

/// The app's pointer that goes with a callback, on its way to the monitor's threads.
#[derive(Clone, Copy)]
struct Data(*mut c_void);

// SAFETY: the header says that the pointer is used on threads of the monitor's.
unsafe impl Send for Data {}

impl Data {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// `text` is null, or points at a string that ends with a zero byte.
unsafe fn text<'a>(text: *const c_char) -> Option<Cow<'a, str>> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

/// # Safety
/// As [`text`].
unsafe fn path<'a>(path: *const c_char) -> Option<&'a Path> {
    use std::os::unix::ffi::OsStrExt;
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Some(Path::new(std::ffi::OsStr::from_bytes(bytes)))
}

/// Writes as much of `text` as there is room for, in whole characters, always with a zero byte after it.
///
/// # Safety
/// `room` is null, or `size` bytes may be written there.
unsafe fn put(text: &[u8], room: *mut c_char, size: usize) {
    if room.is_null() || size == 0 {
        return;
    }
    let length = whole_characters(text, size - 1);
    // SAFETY: `length + 1` is at most `size`, and the caller promises that many bytes of room.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), room, length);
        *room.add(length) = 0;
    }
}

/// Returns the greatest length, at most `most`, at which no character of `text` is cut. What is not UTF-8 is cut anywhere.
fn whole_characters(text: &[u8], most: usize) -> usize {
    let most = text.len().min(most);
    let is_boundary = |at: &usize| text.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    let mut near = (most.saturating_sub(3)..=most).rev();
    near.find(is_boundary).unwrap_or(most)
}

fn path_bytes(path: &Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes()
}

/// A path as the C side wants it. None has a zero byte inside.
fn c_path(path: &Path) -> Option<CString> {
    CString::new(path_bytes(path)).ok()
}

/// Reads a struct of the caller's that begins with its size: what its version does not have is zero. `bools` are the
/// offsets of its fields of that type: any byte there but 0 is true.
///
/// # Safety
/// `from` is null, or as many bytes may be read there as the `usize` at its start says. `T` is `repr(C)`, begins with
/// that `usize`, and may be all zeros, or any bytes where all its `bool`s are 0 or 1.
unsafe fn sized<T: Copy>(from: *const T, least: usize, bools: &[usize]) -> Option<T> {
    if from.is_null() {
        return None;
    }
    // SAFETY: the caller promises a size at the start.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if size < least {
        return None;
    }
    let mut all = std::mem::MaybeUninit::<T>::zeroed();
    let bytes = all.as_mut_ptr().cast::<u8>();
    // SAFETY: so many bytes may be read, and `all` has room for its own size, all of it initialized; a `bool` is within,
    // and 0 or 1 by the end.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), bytes, size.min(size_of::<T>()));
        for offset in bools {
            let field = bytes.add(*offset);
            field.write(u8::from(field.read() != 0));
        }
        Some(all.assume_init())
    }
}

/// Fills a struct of the caller's that begins with its size: as much of it as its version has. Returns whether
/// there was room for anything.
///
/// # Safety
/// `into` is null, or as many bytes may be written there as the `usize` at its start says. `T` is `repr(C)` and
/// begins with that `usize`.
unsafe fn fill<T: Copy>(into: *mut T, value: T) -> bool {
    let head = size_of::<usize>();
    if into.is_null() {
        return false;
    }
    // SAFETY: the caller promises a size at the start.
    let size = unsafe { into.cast::<usize>().read_unaligned() }.min(size_of::<T>());
    if size <= head {
        return false;
    }
    // SAFETY: so many bytes may be written; the size itself stays as the caller set it.
    unsafe {
        std::ptr::copy_nonoverlapping(
            (&raw const value).cast::<u8>().add(head),
            into.cast::<u8>().add(head),
            size - head,
        );
    }
    true
}
