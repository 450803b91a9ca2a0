//! Handlers with faults, for `scripts/signal-safe --self-test`: each function but `clean` must be found.
#![allow(static_mut_refs)]
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);
static LOCK: Mutex<u32> = Mutex::new(0);
static mut LIST: Vec<u32> = Vec::new();

unsafe extern "C" {
    fn getenv(name: *const u8) -> *mut u8;
}

#[unsafe(no_mangle)]
pub extern "C" fn clean(signal: i32) {
    COUNT.fetch_add(signal as u32, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn formats(signal: i32) {
    COUNT.fetch_add(format!("{signal}").len() as u32, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn pushes(signal: i32) {
    // SAFETY: never run.
    unsafe { LIST.push(signal as u32) };
}

#[unsafe(no_mangle)]
pub extern "C" fn locks(signal: i32) {
    if let Ok(mut count) = LOCK.lock() {
        *count += signal as u32;
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn unwraps(signal: i32) {
    COUNT.fetch_add(u32::try_from(signal).unwrap(), Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn calls_libc(_signal: i32) {
    // SAFETY: never run.
    unsafe { getenv(c"HOME".as_ptr().cast()) };
}

#[unsafe(no_mangle)]
pub extern "C" fn calls_a_pointer(function: extern "C" fn(u32) -> u32) {
    COUNT.fetch_add(function(1), Ordering::Relaxed);
}
