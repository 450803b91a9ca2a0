//! Counts allocations: Rust's by a global allocator, libc's own by functions that stand in for
//! `malloc` and its kin (the dynamic linker prefers the program's).

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ARMED: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Counts on every thread but the test runner's own, which keeps its books while a test runs.
fn count() {
    // SAFETY: neither takes arguments, neither can fail.
    if ARMED.load(Ordering::Relaxed) && unsafe { libc::gettid() != libc::getpid() } {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut libc::c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut libc::c_void;
    fn __libc_realloc(pointer: *mut libc::c_void, size: usize) -> *mut libc::c_void;
    fn __libc_free(pointer: *mut libc::c_void);
}

/// # Safety
/// As of malloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut libc::c_void {
    count();
    // SAFETY: glibc's own, under its other name.
    unsafe { __libc_malloc(size) }
}

/// # Safety
/// As of calloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(number: usize, size: usize) -> *mut libc::c_void {
    count();
    // SAFETY: glibc's own, under its other name.
    unsafe { __libc_calloc(number, size) }
}

/// # Safety
/// As of realloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(pointer: *mut libc::c_void, size: usize) -> *mut libc::c_void {
    count();
    // SAFETY: glibc's own, under its other name; the caller vouches for the pointer.
    unsafe { __libc_realloc(pointer, size) }
}

/// # Safety
/// As of free(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(pointer: *mut libc::c_void) {
    if !pointer.is_null() {
        count();
    }
    // SAFETY: glibc's own, under its other name; the caller vouches for the pointer.
    unsafe { __libc_free(pointer) }
}

/// Begins to count what all threads allocate and free.
pub fn arm() {
    COUNT.store(0, Ordering::SeqCst);
    ARMED.store(true, Ordering::SeqCst);
}

/// Stops counting; how often memory was allocated or freed since.
pub fn disarm() -> u64 {
    ARMED.store(false, Ordering::SeqCst);
    COUNT.load(Ordering::SeqCst)
}
