//! `hunt FOLDER ROUNDS`: the main thread does, in `hunted`, what takes locks or keeps the monitor's
//! own books: allocation, a mutex, a library loaded, words printed, heartbeats, context, a live
//! report, a panic that is caught. Another thread stops it without end and reports to the machine which one it
//! found on its stack. No stop may block: whoever is stopped may hold any of those locks.
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::Thread;
use wedjat::report::{Found, WalkEnd};
use wedjat::{Monitor, Stall};

static READY: AtomicBool = AtomicBool::new(false);
static OVER: AtomicBool = AtomicBool::new(false);
static CAPTURES: AtomicU64 = AtomicU64::new(0);
static LOCK: Mutex<u64> = Mutex::new(0);

type Judge = unsafe extern "C" fn(chain: *const [u64; 2], count: u64, root: u64) -> u64;

fn judge() -> Option<Judge> {
    // SAFETY: a C string; the machine has such a function, a real system none.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__emulator_judge".as_ptr()) };
    // SAFETY: of that type.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Judge>(found) })
}

fn watch(main: Thread) {
    let mut capturer = Capturer::new(&CaptureLimits::default()).expect("memory for a capture");
    let judge = judge();
    let mut chain = [[0u64; 2]; 512];
    READY.store(true, Ordering::SeqCst);
    while !OVER.load(Ordering::SeqCst) {
        let images = ImageTable::enter();
        let captured = capturer
            .capture(main, &images)
            .expect("the main thread can be stopped");
        let mut count = 0;
        for (slot, frame) in chain.iter_mut().zip(captured.frames.iter().skip(1)) {
            let certain = matches!(frame.found, Found::UnwindInfo | Found::Context);
            *slot = [frame.pc, u64::from(certain)];
            count += 1;
        }
        let root = captured.end == WalkEnd::Root;
        if let Some(judge) = judge {
            // SAFETY: `count` pairs lie there.
            unsafe { judge(chain.as_ptr(), count, u64::from(root)) };
        }
        CAPTURES.fetch_add(1, Ordering::SeqCst);
        std::thread::yield_now();
    }
}

#[inline(never)]
fn hunted(monitor: &Monitor, round: u64) -> u64 {
    let heart = monitor.heartbeat();
    heart.turn(|| {
        let context = monitor.context();
        context.set("round", round as f64);
        context.breadcrumb("a round begins");
        context.gauge("rounds", round as f64);
        let mark = context.mark("round");
        let kept: Vec<String> = (0..3).map(|k| black_box(format!("{round} {k}"))).collect();
        *LOCK.lock().unwrap() += kept.len() as u64;
        // SAFETY: C strings; a handle of our own.
        unsafe {
            libc::printf(c"".as_ptr());
            let name =
                c"/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation";
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
            if !handle.is_null() {
                libc::dlclose(handle);
            }
        }
        drop(mark);
        let thrown = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(kept.len())));
        black_box(thrown.is_err());
    });
    monitor.record("a round").expect("a live report");
    black_box(round)
}

/// No look follows: the machine holds the main thread no longer.
#[inline(never)]
fn hunt_is_over() {
    OVER.store(true, Ordering::SeqCst);
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, rounds] = &arguments[..] else {
        panic!("hunt FOLDER ROUNDS")
    };
    let monitor = Monitor::builder("hunt", "1.0")
        .directory(folder)
        .stall(Stall::default())
        .install();
    let monitor = monitor.expect("the monitor installs");
    let main = Thread::main();
    let watcher = std::thread::Builder::new()
        .name("watcher".into())
        .spawn(move || watch(main))
        .unwrap();
    while !READY.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    for round in 0..rounds.parse().expect("a number of rounds") {
        black_box(hunted(&monitor, round));
    }
    hunt_is_over();
    watcher.join().unwrap();
    drop(monitor);
    println!("captured: {}", CAPTURES.load(Ordering::SeqCst));
}
