//! Functions of frameworks that a process may have or not.

use std::ffi::{CStr, c_void};

/// The address of a symbol in any image; `None` where nobody has it.
pub(super) fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
