//! `runloop FOLDER KIND`: an app with a run loop and no word of heartbeats. A timer turns the loop a
//! hundred times, and then once does something that takes long: `busy`, `sleeping`, `lock`; or,
//! `nested`, runs a loop within the loop, which turns as well and is no stall. `queue` does it in a
//! block of the main queue, with the ping on; `dispatch` has no run loop, but `dispatch_main` and the
//! ping: the system ends the main thread then, and works the queue off on threads of its own.
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

unsafe extern "C" {
    static _dispatch_main_q: c_void;
    fn dispatch_async_f(
        queue: *const c_void,
        context: *mut c_void,
        work: extern "C" fn(*mut c_void),
    );
    fn dispatch_main() -> !;
}

fn post(work: extern "C" fn(*mut c_void)) {
    // SAFETY: the main queue lives as long as the process.
    unsafe { dispatch_async_f(&raw const _dispatch_main_q, std::ptr::null_mut(), work) };
}

extern "C" fn block(_context: *mut c_void) {
    black_box(compute());
}

/// No run loop: pings, a block that freezes the queue, and the end, in its order.
fn dispatch(monitor: Monitor, folder: String) -> ! {
    static OVER: Mutex<Option<(Monitor, String)>> = Mutex::new(None);
    extern "C" fn end(_context: *mut c_void) {
        let (monitor, folder) = OVER.lock().unwrap().take().expect("it is there");
        drop(monitor);
        let reports = wedjat::store::reports(&folder).expect("the folder can be read");
        println!("reports {}", reports.len());
        std::process::exit(0);
    }
    *OVER.lock().unwrap() = Some((monitor, folder));
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(500));
        post(block);
        std::thread::sleep(Duration::from_millis(1000));
        post(end);
    });
    // SAFETY: on the main thread.
    unsafe { dispatch_main() }
}

extern "C" fn tick(_timer: *mut c_void, _info: *mut c_void) {
    let turn = TURNS.fetch_add(1, Ordering::SeqCst);
    let kind = std::env::args().nth(2).unwrap_or_default();
    if turn == 100 {
        black_box(match kind.as_str() {
            "busy" => compute(),
            "sleeping" => wait_for_disk(),
            "lock" => wait_for_lock(),
            "queue" => {
                post(block);
                0
            }
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
    let kind = std::env::args().nth(2).unwrap_or_default();
    if matches!(&*kind, "queue" | "dispatch") {
        monitor.watch_main_queue().expect("the ping begins");
    }
    if kind == "dispatch" {
        dispatch(monitor, folder);
    }
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
