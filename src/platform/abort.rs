//! Reads the message that libc left before it aborted: a failed assertion, a double free, a smashed stack.
//!
//! On Apple platforms it may be any library's message for the crash report. A libc other than glibc leaves no message.

#[cfg(target_vendor = "apple")]
pub use apple::{install, message};
#[cfg(not(target_vendor = "apple"))]
pub use glibc::{install, message};

/// True if libc, or another runtime, leaves its last words also when the process ends by a trap
/// (Swift's runtime errors do) instead of by `abort`.
pub const BEFORE_TRAPS: bool = cfg!(target_vendor = "apple");

#[cfg(target_vendor = "apple")]
mod apple {
    pub use crate::platform::os::crash_info::message;

    /// Registers with dyld, by a first call of `loader_counts`: each image that it adds is searched for a message. Not
    /// signal-safe.
    pub fn install() {
        crate::platform::os::images::loader_counts();
    }
}

#[cfg(not(target_vendor = "apple"))]
mod glibc {
    use std::sync::atomic::{AtomicPtr, Ordering};

    use crate::platform::memory;

    /// The place where libc keeps the pointer to its last message; null if it has no such place.
    static MESSAGE_POINTER: AtomicPtr<u64> = AtomicPtr::new(std::ptr::null_mut());

    /// Looks for the place. Not signal-safe.
    ///
    /// Source: glibc, `struct abort_msg_s *__abort_msg` in include/stdlib.h, kept there for debuggers
    /// and core dumps: an `unsigned int` size of the mapping, then the text with a final 0.
    pub fn install() {
        // SAFETY: a C string; the result is only read, and by checked reads.
        let place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__abort_msg".as_ptr()) };
        MESSAGE_POINTER.store(place.cast(), Ordering::Release);
    }

    /// Copies the message, without the line's end, and returns its length; 0 if libc left no message.
    /// Signal-safe.
    pub fn message(into: &mut [u8]) -> usize {
        let place = MESSAGE_POINTER.load(Ordering::Acquire);
        let mut pointer = [0u8; 8];
        if place.is_null() || memory::read(place as u64, &mut pointer) != pointer.len() {
            return 0;
        }
        let at = u64::from_ne_bytes(pointer);
        if at == 0 {
            return 0;
        }
        let got = memory::read(at.saturating_add(4), into);
        let text = into.get(..got).unwrap_or(&[]);
        let text = text.split(|&byte| byte == 0).next().unwrap_or(&[]);
        text.trim_ascii_end().len()
    }
}
