//! The end of a process that leaves by itself.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The occasion on which the callback is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// The process exits, with this status where libc gives it.
    Exits(Option<i32>),
    /// The library that we are part of is unloaded, and the process goes on.
    Unloaded,
}

/// The callback; null before [`on_leaving`].
static LEAVING: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
/// The time at which the process began to exit, as time(2) gives it; 0 until then. It stays when the library that we
/// are part of is unloaded; null if there was no memory for it.
static EXITS: AtomicPtr<i64> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" {
    fn __cxa_atexit(
        call: unsafe extern "C" fn(*mut c_void, c_int),
        argument: *mut c_void,
        library: *const c_void,
    ) -> c_int;
    /// The handle of the library or program that we are part of.
    static __dso_handle: c_void;
}

/// Sets `leaving` to be called, once: when the process exits by `exit` or by the end of `main`, or when the library
/// that we are part of is unloaded.
///
/// Source: `__cxa_atexit` of the Itanium C++ ABI, 3.3.6: it is called at `exit`, or when the library of its handle is
/// unloaded. Which of the two it is shows in a second one, a function of libc that no unloading concerns and that is
/// called before the first: it sets a word. Its handle is that word's address, which is no library's: of an entry without
/// one ThreadSanitizer drops the argument. glibc gives each the status (stdlib/exit.c), others do not.
pub fn on_leaving(leaving: fn(Leaving)) {
    extern "C" fn call_leaving(_: *mut c_void, status: c_int) {
        let status = cfg!(target_env = "gnu").then_some(status);
        let exits = EXITS.load(Ordering::Acquire);
        let leaving = LEAVING.load(Ordering::Acquire);
        // SAFETY: null, or a word that is never freed.
        let begun = unsafe { exits.as_ref() }.is_some_and(|time| *time != 0);
        // SAFETY: only such a function is stored there, before this one is registered.
        let leaving = unsafe { std::mem::transmute::<*mut (), fn(Leaving)>(leaving) };
        leaving(if begun {
            Leaving::Exits(status)
        } else {
            Leaving::Unloaded
        });
    }
    LEAVING.store(leaving as *mut (), Ordering::Release);
    let exits = Box::into_raw(Box::new(0));
    EXITS.store(exits, Ordering::Release);
    // SAFETY: `call_leaving` is there until the library of the handle is unloaded, when it is called and forgotten.
    // time(2) looks at its first argument alone, as a C function that is given more does, and the word is never
    // freed. Without memory for an entry nothing is called.
    unsafe {
        let time: unsafe extern "C" fn(*mut i64) -> i64 = libc::time;
        let time = std::mem::transmute::<
            unsafe extern "C" fn(*mut i64) -> i64,
            unsafe extern "C" fn(*mut c_void, c_int),
        >(time);
        __cxa_atexit(call_leaving, std::ptr::null_mut(), &raw const __dso_handle);
        __cxa_atexit(time, exits.cast(), exits.cast());
    }
}
