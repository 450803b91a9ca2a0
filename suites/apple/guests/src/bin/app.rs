//! An app with a monitor: `app FOLDER stall|live|SIGNAL|panic|overflow|..`. What it does happens in
//! functions with names, one of them inlined, so that the reports can be held against them.
use std::hint::black_box;
use std::path::{Path, PathBuf};

use wedjat::{Crash, Monitor, Stall};

#[path = "../foundation.rs"]
mod foundation;
#[path = "../later_handler.rs"]
mod later_handler;
#[path = "../old_server.rs"]
mod old_server;

#[inline(never)]
fn spin_until(end: std::time::Instant) -> u64 {
    let mut turns = 0u64;
    while std::time::Instant::now() < end {
        turns = black_box(turns + 1);
    }
    turns
}

#[inline(always)]
fn convert(length: u64) -> u64 {
    let end = std::time::Instant::now() + std::time::Duration::from_millis(length);
    black_box(spin_until(end) ^ 1)
}

#[inline(never)]
fn load_document(length: u64) -> u64 {
    black_box(convert(length) + 2)
}

#[inline(never)]
fn handle_click(length: u64) -> u64 {
    black_box(load_document(length) + 3)
}

#[inline(never)]
fn overflow(depth: u64) -> u64 {
    let room = black_box([depth; 64]);
    if depth == u64::MAX {
        0
    } else {
        black_box(overflow(depth + 1)) + room[(depth % 64) as usize]
    }
}

#[inline(never)]
fn misbehave(what: &str) -> u64 {
    // SAFETY: none: this is what the test is about.
    unsafe {
        match what {
            "SIGSEGV" | "old server gives up" => {
                _ = black_box(black_box(0x1238 as *const u64).read_volatile())
            }
            #[cfg(target_arch = "aarch64")]
            "SIGILL" => std::arch::asm!("udf #0"),
            #[cfg(target_arch = "x86_64")]
            "SIGILL" => std::arch::asm!("ud2"),
            #[cfg(target_arch = "aarch64")]
            "SIGTRAP" => std::arch::asm!("brk #1"),
            #[cfg(target_arch = "x86_64")]
            "SIGTRAP" => std::arch::asm!("int3"),
            "SIGBUS" => (misbehave as *const () as *mut u64).write_volatile(1),
            #[cfg(target_arch = "x86_64")]
            "SIGFPE" => {
                std::arch::asm!("div {0:e}", in(reg) 0, inout("eax") 1 => _, inout("edx") 0 => _)
            }
            #[cfg(target_arch = "aarch64")]
            "SIGFPE" => _ = libc::raise(libc::SIGFPE),
            "guard" => destroy_guarded(),
            "non-canonical" => {
                _ = black_box(black_box((1 << 63 | 0x1238_u64) as *const u64).read_volatile());
            }
            "old server deals" => println!("read {}", touch_its_page()),
            "other thread" => {
                let thread = std::thread::Builder::new().name("worker".into());
                let thread = thread.spawn(|| black_box(misbehave("SIGSEGV"))).unwrap();
                drop(black_box(thread.join()));
            }
            "NSException" => return foundation::raise(),
            "SIGABRT" | "left to a debugger" => libc_abort(),
            "panic" => panic!("the guest gives up"),
            "overflow" => return black_box(overflow(0)) + 1,
            _ => {}
        }
    }
    black_box(1)
}

unsafe fn libc_abort() {
    unsafe extern "C" {
        fn abort() -> !;
    }
    // SAFETY: it ends the process.
    unsafe { abort() }
}

/// A port that may not be taken away is.
#[inline(never)]
unsafe fn destroy_guarded() {
    use mach2::mach_port::{mach_port_allocate, mach_port_mod_refs};
    unsafe extern "C" {
        fn mach_port_guard(task: u32, name: u32, guard: u64, strict: i32) -> i32;
    }
    let mut port = 0;
    // SAFETY: names only.
    unsafe {
        let task = mach2::traps::mach_task_self();
        assert_eq!(mach_port_allocate(task, 1, &mut port), 0);
        assert_eq!(mach_port_guard(task, port, 0xabad, 1), 0);
        black_box(mach_port_mod_refs(task, port, 1, -1));
    }
}

/// The old server gives access to it.
#[inline(never)]
fn touch_its_page() -> u64 {
    // SAFETY: a new mapping; the old server makes it readable.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        let page = libc::mmap(std::ptr::null_mut(), 0x4000, 0, flags, -1, 0);
        old_server::PAGE.store(page as u64, std::sync::atomic::Ordering::SeqCst);
        page.cast::<u64>().read_volatile() + 1
    }
}

#[inline(never)]
fn handle_event(what: &str) -> u64 {
    black_box(misbehave(what) + 1)
}

/// Puts pipes, links and a sparse file there under names of the recorder's; a link leads to a letter beside the folder.
fn fill(folder: &Path) -> PathBuf {
    let letter = folder.with_extension("letter");
    std::fs::write(&letter, "Dear Ann").expect("a letter");
    let name = |number: u32, ending: &str| {
        folder.join(format!(
            "2001-02-03T04-05-06.789Z-stall-{number:08x}.{ending}"
        ))
    };
    let launch = |number: u32| folder.join(format!("1700000000000000000-{number:08x}.launch"));
    for path in [launch(1), name(1, "partial"), name(1, "wedjat")] {
        let path =
            std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).expect("a path");
        // SAFETY: a C string.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    }
    for path in [launch(2), name(2, "partial"), name(2, "wedjat")] {
        std::os::unix::fs::symlink(&letter, path).expect("a link");
    }
    std::os::unix::fs::symlink(name(3, "partial"), name(3, "partial")).expect("a link");
    let sparse = std::fs::File::create(name(4, "partial")).expect("a file");
    sparse.set_len(8 << 30).expect("a sparse file");
    letter
}

/// From now on, a debugger is attached.
fn attach_debugger() {
    type Trace = unsafe extern "C" fn(u64) -> u64;
    // SAFETY: a C string; the machine has this function, of that type.
    unsafe {
        let trace = libc::dlsym(libc::RTLD_DEFAULT, c"__emulator_trace".as_ptr());
        assert!(!trace.is_null(), "not emulated");
        std::mem::transmute::<*mut libc::c_void, Trace>(trace)(1);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, what] = &arguments[..] else {
        panic!("app FOLDER WHAT")
    };
    if what.starts_with("old server") {
        old_server::begin();
    }
    if what.starts_with("NSException") {
        foundation::begin();
    }
    let letter = (what == "hostile folder").then(|| fill(folder.as_ref()));
    let mut builder = Monitor::builder("app", "1.0").directory(PathBuf::from(folder));
    builder = match what.as_str() {
        "stall" => builder.stall(Stall::default()),
        "later handler deals" => builder.stall(Stall::default()).crash(Crash::default()),
        "left to a debugger" => builder.crash(Crash::default().leave_to_debugger(true)),
        _ => builder.crash(Crash::default()),
    };
    let monitor = builder.install().expect("the monitor installs");
    let heart = monitor.heartbeat();
    if what == "NSException, handler after" {
        foundation::set_handler_after();
        // Images are looked at anew, and so is Foundation.
        monitor.record("looks again").expect("a live report");
    }
    if what == "left to a debugger" {
        attach_debugger();
    }
    if what.starts_with("later handler") {
        later_handler::begin();
        later_handler::write();
    }
    match what.as_str() {
        "stall" | "later handler deals" => {
            for _ in 0..3 {
                heart.turn(|| ());
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            heart.turn(|| black_box(handle_click(400)));
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        "live" | "hostile folder" => {
            monitor.record("asked for").expect("a live report");
        }
        "NSException, handler after" => _ = black_box(handle_event("NSException")),
        "later handler passes on" => _ = black_box(handle_event("SIGBUS")),
        _ => _ = black_box(handle_event(what)),
    }
    drop(monitor);
    let requests = old_server::REQUESTS.load(std::sync::atomic::Ordering::SeqCst);
    if requests > 0 {
        let reports = wedjat::store::reports(folder).expect("the folder can be read");
        println!("old server: {requests} requests, reports {}", reports.len());
    }
    if let Some(letter) = letter {
        let left = wedjat::store::reports(folder).expect("the folder can be read");
        let text = std::fs::read_to_string(letter).expect("the letter");
        println!("of an earlier launch {}, the letter: {text}", left.len());
    }
    println!("done");
}
