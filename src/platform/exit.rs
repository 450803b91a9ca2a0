//! The end of a process that leaves by itself.

/// Has `leaving` called with the status when the process exits by `exit`; for good.
///
/// Source: on_exit(3), of glibc; elsewhere atexit(3), and the status is given as 0.
pub fn call(leaving: fn(i32)) {
    #[cfg(target_env = "gnu")]
    {
        use std::ffi::{c_int, c_void};
        extern "C" fn pass(status: c_int, leaving: *mut c_void) {
            // SAFETY: `on_exit` below passes such a function.
            let leaving = unsafe { std::mem::transmute::<*mut c_void, fn(i32)>(leaving) };
            leaving(status);
        }
        unsafe extern "C" {
            fn on_exit(call: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
        }
        // SAFETY: both functions live for ever. Without memory for the entry nothing is called.
        unsafe { on_exit(pass, leaving as *mut c_void) };
    }
    #[cfg(not(target_env = "gnu"))]
    {
        use std::sync::atomic::{AtomicPtr, Ordering};
        static LEAVING: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
        extern "C" fn pass() {
            let leaving = LEAVING.load(Ordering::Acquire);
            // SAFETY: only such a function is stored here, before `pass` is registered.
            let leaving = unsafe { std::mem::transmute::<*mut (), fn(i32)>(leaving) };
            leaving(0);
        }
        LEAVING.store(leaving as *mut (), Ordering::Release);
        // SAFETY: `pass` lives for ever. Without memory for the entry nothing is called.
        unsafe { libc::atexit(pass) };
    }
}
