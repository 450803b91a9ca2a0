//! What the platform says of itself, held against what the emulator has: `facts FOLDER`.
use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::memory::FileMap;
use wedjat::platform::{Semaphore, Thread, clock};
use wedjat::{Monitor, Stall, platform};

type Ask = unsafe extern "C" fn(u64) -> u64;

/// A question to the machine itself.
fn ask(name: &CStr, argument: u64) -> u64 {
    // SAFETY: a C string; the machine has such a function.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        assert!(!found.is_null(), "{name:?} is not emulated");
        std::mem::transmute::<*mut c_void, Ask>(found)(argument)
    }
}

fn held() -> [u64; 3] {
    [0, 1, 2].map(|what| ask(c"__emulator_count", what))
}

static SPINS: AtomicBool = AtomicBool::new(false);
static OVER: AtomicBool = AtomicBool::new(false);

#[inline(never)]
extern "C" fn spin() {
    while !OVER.load(Ordering::SeqCst) {
        SPINS.store(true, Ordering::SeqCst);
        std::thread::yield_now();
    }
}

// Calls `spin` from a frame whose return address is signed as arm64e signs them: above bit 46.
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".p2align 2",
    "_call_signed:",
    ".cfi_startproc",
    "orr x30, x30, #0x007f800000000000",
    "stp x29, x30, [sp, #-16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset w30, -8",
    ".cfi_offset w29, -16",
    "mov x29, sp",
    ".cfi_def_cfa w29, 16",
    "blr x0",
    "ldp x29, x30, [sp], #16",
    "and x30, x30, #0x00007fffffffffff",
    "ret",
    ".cfi_endproc",
);

#[cfg(target_arch = "aarch64")]
unsafe extern "C" {
    fn call_signed(function: extern "C" fn());
}

#[cfg(not(target_arch = "aarch64"))]
unsafe fn call_signed(function: extern "C" fn()) {
    function();
}

#[inline(never)]
fn signed() -> u64 {
    // SAFETY: it calls what it is given and returns.
    unsafe { call_signed(spin) };
    black_box(1)
}

/// What is small: files that are mapped, semaphores, threads by their ids.
fn small() {
    let program = std::ffi::CString::new(std::env::args().next().expect("a program")).unwrap();
    let map = FileMap::open(&program).expect("the program's own file");
    println!("mapped: {:x?}", &map.as_ref()[..4]);
    drop(map);
    println!(
        "no file, a folder: {} {}",
        FileMap::open(c"/no/such").is_err(),
        FileMap::open(c"/").is_err()
    );

    let semaphore = std::sync::Arc::new(Semaphore::new());
    println!("in time: {}", semaphore.wait_timeout(1_000_000));
    let other = semaphore.clone();
    let poster = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        other.post();
        Thread::from_id(Thread::current().id()) == Thread::current() && !Thread::current().is_main()
    });
    semaphore.wait();
    println!("found by its id: {}", poster.join().unwrap());
    drop(semaphore);
    println!("of none: {}", Thread::from_id(1).is_alive());
    let mut capturer = Capturer::new(&CaptureLimits::default()).expect("memory for a capture");
    let images = ImageTable::enter();
    let own = capturer
        .capture(Thread::current(), &images)
        .map(|captured| captured.frames.len());
    println!(
        "itself: {}",
        own.expect_err("no thread can wait for itself")
    );
    let mut gone = Thread::current();
    std::thread::scope(|scope| {
        gone = scope.spawn(Thread::current).join().unwrap();
    });
    let gone = capturer
        .capture(gone, &images)
        .map(|captured| captured.frames.len());
    println!("gone: {}", gone.expect_err("it has ended"));
    let progress = Thread::current().progress();
    println!("runs: {}", progress.is_some_and(|facts| facts.running));
}

fn main() {
    // The first to ask for the main thread is another one.
    let main = std::thread::spawn(Thread::main).join().unwrap();
    println!("main: {}", main == Thread::current());
    small();
    let folder = std::env::args().nth(1).expect("a folder");
    let start = [clock::monotonic(), clock::boottime()];
    ask(c"__emulator_sleep", 3_600_000_000_000);
    let passed = [clock::monotonic() - start[0], clock::boottime() - start[1]];
    println!(
        "clocks after an hour asleep: {:?} s",
        passed.map(|time| time / 1_000_000_000)
    );
    println!("debugged: {}", platform::is_debugged());
    ask(c"__emulator_trace", 1);
    println!("debugged: {}", platform::is_debugged());
    ask(c"__emulator_trace", 0);

    let monitor = Monitor::builder("facts", "1.0")
        .directory(&folder)
        .stall(Stall::default())
        .install();
    let monitor = monitor.expect("the monitor installs");
    let spinning = std::thread::Builder::new().name("signed".into()).spawn(|| {
        let thread = Thread::current();
        black_box(signed());
        thread
    });
    while !SPINS.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let mut all = [Thread::current(); 16];
    let count = platform::threads::list(&mut all);
    let find = |name: &[u8]| {
        all.iter().take(count).copied().find(|thread| {
            let mut buffer = [0; 32];
            let length = thread.name(&mut buffer);
            &buffer[..length] == name
        })
    };
    let signed = find(b"signed").expect("the thread is listed by its name");
    println!(
        "running: {}",
        signed.progress().expect("it is there").running
    );
    let mut capturer = Capturer::new(&CaptureLimits::default()).expect("memory for a capture");
    let images = ImageTable::enter();
    let captured = capturer
        .capture(signed, &images)
        .expect("it can be stopped");
    let walked = captured
        .frames
        .iter()
        .all(|frame| images.image_of(frame).is_some());
    println!(
        "signed: {} {} {walked}",
        captured.end.as_str(),
        captured.frames.len() > 5
    );
    drop(images);

    monitor.record("warm").expect("a live report");
    let before = held();
    for _ in 0..1000 {
        let images = ImageTable::enter();
        black_box(
            capturer
                .capture(signed, &images)
                .expect("it can be stopped")
                .frames
                .len(),
        );
    }
    println!(
        "names, references, bytes after 1000 captures: {:?}",
        change(before)
    );
    let before = held();
    for _ in 0..50 {
        std::fs::remove_file(monitor.record("again").expect("a live report")).expect("its file");
    }
    println!(
        "names, references after 50 reports: {:?}",
        &change(before)[..2]
    );
    OVER.store(true, Ordering::SeqCst);
    println!("alive: {}", signed.is_alive());
    spinning.unwrap().join().unwrap();
    println!("alive: {}", signed.is_alive());
    drop(monitor);
}

fn change(before: [u64; 3]) -> [i64; 3] {
    let now = held();
    std::array::from_fn(|k| now[k] as i64 - before[k] as i64)
}
