//! `runloop FOLDER KIND`: an app with a run loop and no word of heartbeats. A timer turns the loop a
//! hundred times, and then once does something that takes long: `busy`, `sleeping`, `lock`; or,
//! `nested`, runs a loop within the loop, which turns as well and is no stall.
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use wedjat::{Monitor, Stall};

#[link(name = "CoreFoundation", kind = "framework")]
unsafe extern "C" {
    static kCFRunLoopCommonModes: *const c_void;
    static kCFRunLoopDefaultMode: *const c_void;
    fn CFAbsoluteTimeGetCurrent() -> f64;
    fn CFRunLoopGetMain() -> *mut c_void;
    fn CFRunLoopRun();
    fn CFRunLoopRunInMode(mode: *const c_void, seconds: f64, once: u8) -> i32;
    fn CFRunLoopStop(run_loop: *mut c_void);
    fn CFRunLoopTimerCreate(
        allocator: *const c_void,
        at: f64,
        interval: f64,
        flags: usize,
        order: isize,
        call: extern "C" fn(*mut c_void, *mut c_void),
        context: *mut c_void,
    ) -> *mut c_void;
    fn CFRunLoopAddTimer(run_loop: *mut c_void, timer: *mut c_void, mode: *const c_void);
}

static TURNS: AtomicU32 = AtomicU32::new(0);
static LOCK: Mutex<u32> = Mutex::new(0);

#[inline(never)]
fn compute() -> u64 {
    let end = Instant::now() + Duration::from_millis(600);
    let mut turns = 0u64;
    while Instant::now() < end {
        turns = black_box(turns + 1);
    }
    turns
}

#[inline(never)]
fn wait_for_disk() -> u64 {
    std::thread::sleep(Duration::from_millis(600));
    black_box(1)
}

#[inline(never)]
fn wait_for_lock() -> u64 {
    let holder = std::thread::spawn(|| {
        let held = LOCK.lock();
        std::thread::sleep(Duration::from_millis(700));
        drop(held);
    });
    std::thread::sleep(Duration::from_millis(5));
    let value = u64::from(*LOCK.lock().unwrap());
    holder.join().unwrap();
    black_box(value)
}

/// A modal dialog: its loop turns for longer than a stall would take to be reported.
#[inline(never)]
fn modal() -> u64 {
    // SAFETY: as in CFRunLoop.h.
    unsafe { CFRunLoopRunInMode(kCFRunLoopDefaultMode, 1.0, 0) as u64 }
}

extern "C" fn tick(_timer: *mut c_void, _info: *mut c_void) {
    let turn = TURNS.fetch_add(1, Ordering::SeqCst);
    let kind = std::env::args().nth(2).unwrap_or_default();
    if turn == 100 {
        black_box(match kind.as_str() {
            "busy" => compute(),
            "sleeping" => wait_for_disk(),
            "lock" => wait_for_lock(),
            _ => modal(),
        });
    } else if turn == 200 {
        // SAFETY: as in CFRunLoop.h.
        unsafe { CFRunLoopStop(CFRunLoopGetMain()) };
    }
}

extern "C" fn other(_timer: *mut c_void, _info: *mut c_void) {}

fn main() {
    let folder = std::env::args().nth(1).expect("a folder");
    let monitor = Monitor::builder("Guest", "1.0")
        .directory(&folder)
        .stall(Stall::default())
        .install()
        .expect("the monitor installs");
    // SAFETY: as in CFRunLoop.h.
    unsafe {
        for (interval, call) in [(0.01, tick as extern "C" fn(_, _)), (0.015, other)] {
            let at = CFAbsoluteTimeGetCurrent() + interval;
            let none = std::ptr::null_mut();
            let timer = CFRunLoopTimerCreate(none, at, interval, 0, 0, call, none);
            CFRunLoopAddTimer(CFRunLoopGetMain(), timer, kCFRunLoopCommonModes);
        }
        CFRunLoopRun();
    }
    drop(monitor);
    let reports = wedjat::store::reports(&folder).expect("the folder can be read");
    println!("turns {}", TURNS.load(Ordering::SeqCst));
    println!("reports {}", reports.len());
}
