//! Calls functions when the process exits, when our library is unloaded, and when a thread ends.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The occasion on which the callback is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitOrUnload {
    /// The process exits, with this status where libc gives it.
    Exits(Option<i32>),
    /// The library that we are part of is unloaded, and the process goes on.
    Unloaded,
}

static CALLBACK: OnceLock<fn(ExitOrUnload)> = OnceLock::new();
/// The key of [`at_thread_end`].
static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
/// The time at which the process began to exit, as time(2) gives it; 0 until then. It stays when the library that we
/// are part of is unloaded; null if there was no memory for it.
static EXIT_TIME: AtomicPtr<i64> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" {
    fn __cxa_atexit(
        call: unsafe extern "C" fn(*mut c_void, c_int),
        argument: *mut c_void,
        library: *const c_void,
    ) -> c_int;
    #[cfg(target_os = "linux")]
    fn at_quick_exit(call: extern "C" fn()) -> c_int;
    /// time(2), which looks at its first argument alone.
    fn time(into: *mut c_void, ignored: c_int);
    /// The handle of the library or program that we are part of.
    static __dso_handle: c_void;
}

/// Calls `callback` when the process exits by `exit`, by the end of `main` or, where libc says so, by
/// `quick_exit`; and when the library that we are part of is unloaded.
///
/// Source: `__cxa_atexit` of the Itanium C++ ABI, 3.3.6: it is called at `exit`, or when the library of its handle is
/// unloaded. A second entry tells exit from unload. It is libc's `time`, which writes a word. It is called before ours,
/// and only at exit. Its handle is the word's address, so no unload matches it. The handle is not null, as
/// ThreadSanitizer drops the argument of an entry without a handle. glibc passes the status to each entry
/// (stdlib/exit.c), other libcs do not. `at_quick_exit` is of C11, 7.22.4.3; its entries go with their library, too.
pub fn on_exit_or_unload(callback: fn(ExitOrUnload)) {
    extern "C" fn call_at_exit(_: *mut c_void, status: c_int) {
        let status = cfg!(target_env = "gnu").then_some(status);
        // SAFETY: null, or a word that is never freed.
        let exits = unsafe { EXIT_TIME.load(Ordering::Acquire).as_ref() };
        if exits.is_some_and(|time| *time != 0) {
            return call(ExitOrUnload::Exits(status));
        }
        if let Some(key) = KEY.get() {
            // SAFETY: a key of ours, whose destructor is about to be unmapped.
            unsafe { libc::pthread_key_delete(*key) };
        }
        call(ExitOrUnload::Unloaded);
    }
    #[cfg(target_os = "linux")]
    extern "C" fn call_quick() {
        call(ExitOrUnload::Exits(None));
    }
    let _ = CALLBACK.set(callback);
    let exits = Box::into_raw(Box::new(0));
    EXIT_TIME.store(exits, Ordering::Release);
    // SAFETY: the functions are there until the library of the handle is unloaded, when they are called and forgotten. The
    // word is never freed. Without memory for an entry nothing is called.
    unsafe {
        __cxa_atexit(call_at_exit, std::ptr::null_mut(), &raw const __dso_handle);
        __cxa_atexit(time, exits.cast(), exits.cast());
        #[cfg(target_os = "linux")]
        at_quick_exit(call_quick);
    }
}

fn call(event: ExitOrUnload) {
    CALLBACK.get().inspect(|call| call(event));
}

/// Calls `call` when the calling thread ends. The main thread counts if it ends by `pthread_exit`. Nothing is called when
/// the process exits. `call` must be the same function each time.
pub fn at_thread_end(call: unsafe extern "C" fn(*mut c_void)) {
    let mut key = 0;
    // SAFETY: the key lives across the call; before `call` is unloaded, it is deleted.
    if KEY.get().is_none() && unsafe { libc::pthread_key_create(&mut key, Some(call)) } == 0 {
        let _ = KEY.set(key);
    }
    let value = (&raw const KEY).cast();
    if let Some(key) = KEY.get() {
        // SAFETY: a key of ours, whose destructor does not look at the value.
        unsafe { libc::pthread_setspecific(*key, value) };
    }
}
