//! The C interface: what an app in C, C++, Objective-C or Swift calls.
//!
//! `include/wedjat.h` is generated from this room. Strings are UTF-8 and end with a zero byte; invalid UTF-8 is
//! replaced. A null for a string or a monitor is an error or does nothing, never a crash. Of these functions, signal
//! handlers may call [`wedjat_begin`] and [`wedjat_end`] alone.
//!
//! Structs begin with their size in the caller's header. A later version adds fields at the end. It reads and writes
//! only the fields that the caller's header has.
//!
//! Built by `cargo rustc --release --lib --no-default-features --features ffi --crate-type staticlib`.
#![allow(non_camel_case_types)]
// Each function's doc, which becomes its text in the header, has the caller's duties.
#![allow(clippy::missing_safety_doc)]

mod app;
mod earlier_launches;
mod monitor;
mod options;

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

pub use app::*;
pub use earlier_launches::*;
pub use monitor::*;
pub use options::*;

/// The app's pointer for a callback, which the monitor's threads call.
#[derive(Clone, Copy)]
struct AppData(*mut c_void);

// SAFETY: the header states that the monitor's threads use the pointer.
unsafe impl Send for AppData {}

impl AppData {
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

/// Copies as much of `text` as fits, in whole characters, and a zero byte after it.
///
/// # Safety
/// `room` is null, or `size` bytes may be written there.
unsafe fn copy_text(text: &[u8], room: *mut c_char, size: usize) {
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

/// Returns the greatest length up to `most` that cuts no character of `text`. Invalid UTF-8 may be cut anywhere.
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

/// Converts a path to a C string; returns `None` if it contains a zero byte.
fn c_path(path: &Path) -> Option<CString> {
    CString::new(path_bytes(path)).ok()
}

/// Reads a struct of the caller's that begins with its size. Fields that the caller's version lacks are zero. `bools`
/// are the offsets of the fields of type `bool`, where every byte except 0 is true. Returns `None` if the struct is
/// smaller than `least`.
///
/// # Safety
/// `from` is null, or as many bytes may be read there as the `usize` at its start says. `T` is `repr(C)`, begins with
/// that `usize`, and may be all zeros, or any bytes where all its `bool`s are 0 or 1.
unsafe fn sized<T: Copy>(
    from: *const T,
    least: usize,
    bools: impl Iterator<Item = usize>,
) -> Option<T> {
    if from.is_null() {
        return None;
    }
    // SAFETY: the caller promises a size at the start.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if size < least {
        return None;
    }
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let bytes = value.as_mut_ptr().cast::<u8>();
    // SAFETY: `size` bytes may be read, and no more than `value` has are written. All of `value` is initialized, and
    // each `bool` is within it and is 0 or 1 at the end.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), bytes, size.min(size_of::<T>()));
        for offset in bools {
            let field = bytes.add(offset);
            field.write(u8::from(field.read() != 0));
        }
        Some(value.assume_init())
    }
}

/// Writes the fields that the caller's version has to a struct of the caller's that begins with its size. Returns
/// false if it has room for none.
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
