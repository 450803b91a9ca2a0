//! The name and version of this system, and the model of this machine.

use std::ffi::CStr;

pub use crate::platform::surface::System;

/// Queries the kernel. Allocates.
pub fn describe() -> System {
    let name = if cfg!(target_os = "macos") {
        "macOS"
    } else {
        "iOS"
    };
    // On iOS `hw.machine` is the model and `hw.model` the board.
    let model = if cfg!(target_os = "macos") {
        c"hw.model"
    } else {
        c"hw.machine"
    };
    System {
        name,
        version: text(c"kern.osproductversion").unwrap_or_default(),
        build: text(c"kern.osversion"),
        device: text(model),
    }
}

/// A value of `sysctlbyname` that is a text.
fn text(name: &CStr) -> Option<String> {
    let mut buffer = [0u8; 256];
    let length = value(name, &mut buffer)?;
    let text = buffer.get(..length)?.split(|&byte| byte == 0).next()?;
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

/// A value of `sysctlbyname`; how many bytes it has. Signal-safe.
pub(super) fn value(name: &CStr, into: &mut [u8]) -> Option<usize> {
    let mut length = into.len();
    let errno = super::errno();
    // SAFETY: a C string; buffer and length are ours and live across the call.
    let done = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            into.as_mut_ptr().cast(),
            &mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    super::set_errno(errno);
    (done == 0).then_some(length)
}
