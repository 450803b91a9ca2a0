//! A `pthread_create` in front of libc's: every new thread begins with an alternate signal stack.
//!
//! Linked into a program by the feature `thread-stacks`; threads of Rust, C and whatever else goes
//! through `pthread_create` come here. A thread gives its stack back when it ends.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::platform::stacks::{GivenStack, ensure_alternate_stack};

type StartRoutine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type CreateThread = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    StartRoutine,
    *mut c_void,
) -> c_int;

/// The function that the new thread is to run.
struct ThreadStart {
    start: StartRoutine,
    argument: *mut c_void,
}

/// libc's own.
fn real_pthread_create() -> Option<CreateThread> {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut real = REAL.load(Ordering::Acquire);
    if real.is_null() {
        // SAFETY: a C string; the next definition behind ours is libc's.
        real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
        REAL.store(real, Ordering::Release);
    }
    // SAFETY: null, or a function of this type, by POSIX.
    unsafe { std::mem::transmute::<*mut c_void, Option<CreateThread>>(real) }
}

/// `pthread_create(3)`.
///
/// # Safety
/// - As for libc's own, which is called with the same arguments, except for the function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: StartRoutine,
    argument: *mut c_void,
) -> c_int {
    let Some(real) = real_pthread_create() else {
        return libc::EAGAIN;
    };
    let beginning = Box::into_raw(Box::new(ThreadStart { start, argument }));
    // SAFETY: the caller vouches for its arguments; `begin` takes the box.
    let result = unsafe { real(thread, attributes, begin, beginning.cast()) };
    if result != 0 {
        // SAFETY: there is no thread that could have taken it.
        drop(unsafe { Box::from_raw(beginning) });
    }
    result
}

/// Runs on the new thread. Nothing here has a destructor when `start` is called: pthread_exit and
/// cancellation unwind through this frame.
extern "C-unwind" fn begin(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` made the box for this call alone.
    let ThreadStart { start, argument } = *unsafe { Box::from_raw(argument.cast::<ThreadStart>()) };
    give_alternate_stack();
    start(argument)
}

/// Bytes of a stack that are resident at once.
const TOUCHED: usize = 16 << 10;

/// A stack for the calling thread, until it ends. Without memory for it the thread goes without.
fn give_alternate_stack() {
    let Some(key) = key() else {
        return;
    };
    if let Ok(given) = ensure_alternate_stack(TOUCHED) {
        let given = Box::into_raw(Box::new(given));
        // SAFETY: a key of ours; the value is taken by `give_back` alone.
        unsafe { libc::pthread_setspecific(key, given.cast()) };
    }
}

/// The key whose destructor finds a thread's stack when it ends; `None` without room for one more key. Without a lock,
/// so that a child of `fork` finds none that a thread of its parent holds.
fn key() -> Option<libc::pthread_key_t> {
    const NONE: u64 = u64::MAX;
    static KEY: AtomicU64 = AtomicU64::new(NONE);
    let known = KEY.load(Ordering::Acquire);
    if known != NONE {
        return libc::pthread_key_t::try_from(known).ok();
    }
    let mut key = 0;
    // SAFETY: the key lives across the call; `give_back` stays for ever.
    if unsafe { libc::pthread_key_create(&mut key, Some(give_back)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(NONE, key.into(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(key),
        Err(first) => {
            // SAFETY: no thread has this key.
            unsafe { libc::pthread_key_delete(key) };
            libc::pthread_key_t::try_from(first).ok()
        }
    }
}

unsafe extern "C" fn give_back(given: *mut c_void) {
    // SAFETY: `give` stored it for this thread, which calls this once.
    unsafe { Box::from_raw(given.cast::<GivenStack>()) }.take_back();
}

/// Names `pthread_create` of this file, so that the linker takes it. Not signal-safe.
pub fn keep() {
    std::hint::black_box(pthread_create as *const ());
}
