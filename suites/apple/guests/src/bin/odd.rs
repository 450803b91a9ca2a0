//! `odd FOLDER`: what the platform does where the system does not play along: calls that fail, a race
//! that is lost, an image that is gone while it is read, a library that leaves, ports that something
//! else takes. A call names the one that will go wrong to the machine.
use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wedjat::capture::{CaptureLimits, Captured, Capturer, ImageTable};
use wedjat::platform::Power;
use wedjat::platform::stop::StopError;
use wedjat::platform::{Semaphore, SystemError, Thread, fresh_id, images};
use wedjat::{Crash, Monitor};

#[path = "../later_handler.rs"]
mod later_handler;

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?} is not emulated");
    found
}

/// The next call of that function but `after` others returns this, or fails with that `errno`.
fn fail(name: &CStr, after: u64, result: u64, errno: u64) {
    type Fail = unsafe extern "C" fn(*const libc::c_char, u64, u64, u64);
    // SAFETY: the machine's function is of that type.
    unsafe {
        std::mem::transmute::<*mut c_void, Fail>(find(c"__emulator_fail"))(
            name.as_ptr(),
            after,
            result,
            errno,
        )
    };
}

fn state(name: &CStr, value: u64) {
    type Set = unsafe extern "C" fn(*const libc::c_char, u64);
    // SAFETY: as above.
    unsafe {
        std::mem::transmute::<*mut c_void, Set>(find(c"__emulator_set_state"))(name.as_ptr(), value)
    };
}

/// No entropy: ids are still no two the same, and `errno` is left alone.
fn ids() {
    fail(c"getentropy", 0, 0, 78);
    fail(c"getentropy", 0, 0, 78);
    // SAFETY: the calling thread's own.
    let errno = unsafe { libc::__error() };
    // SAFETY: as above.
    unsafe { *errno = 7 };
    let two = [fresh_id(), fresh_id()];
    // SAFETY: as above.
    println!(
        "ids without entropy differ: {}, errno {}",
        two[0] != two[1],
        unsafe { *errno }
    );
}

/// Two threads make the same semaphore's port at once: one of them loses, and both get their permit.
fn semaphores() {
    type Interrupt = unsafe extern "C" fn(*const libc::c_char, u64);
    let semaphore = Arc::new(Semaphore::default());
    // SAFETY: as above.
    let interrupt =
        unsafe { std::mem::transmute::<*mut c_void, Interrupt>(find(c"__emulator_interrupt")) };
    // SAFETY: as above.
    unsafe { interrupt(c"semaphore_create".as_ptr(), 0) };
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let semaphore = semaphore.clone();
            std::thread::spawn(move || semaphore.wait())
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(5));
    semaphore.post();
    semaphore.post();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    println!("both have waited");
    // A wait that is aborted is no wait for ever.
    fail(c"semaphore_timedwait", 0, 14, 0); // KERN_ABORTED
    println!("aborted: {}", semaphore.wait_timeout(1_000_000_000));
    let unused = Semaphore::new();
    unused.post();
    drop(unused);
}

/// A thread whose registers the kernel does not give, one that it does not stop, and one whose port's
/// name has come to stand for another.
fn stops() {
    let over = Arc::new(Semaphore::new());
    let other = over.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        sender.send(Thread::current()).unwrap();
        other.wait();
    });
    let waits = receiver.recv().unwrap();
    let mut capturer = Capturer::new(&CaptureLimits::default()).expect("memory for a capture");
    let images = ImageTable::enter();
    let mut capture = || {
        capturer
            .capture(waits, &images)
            .map(|captured| captured.frames.len() > 1)
    };
    for name in [c"thread_get_state", c"thread_suspend", c"thread_info"] {
        fail(name, 0, 4, 0); // KERN_INVALID_ARGUMENT
        println!(
            "{}: {}",
            name.to_string_lossy(),
            capture().map_or_else(|e| e.to_string(), |ok| ok.to_string())
        );
    }
    println!("then: {:?}", capture().is_ok());
    over.post();
    thread.join().unwrap();
    let system = StopError::System(SystemError::last("thread_suspend"));
    println!(
        "{} / {}",
        StopError::Unresponsive,
        !format!("{system} {system:?}").is_empty()
    );
}

#[inline(never)]
fn interrupted_innermost() -> u64 {
    let room = black_box([0u64; 300]);
    // SAFETY: its handler is ours.
    unsafe { libc::raise(libc::SIGUSR1) };
    black_box(room)[3]
}

#[inline(never)]
fn interrupted_caller() -> u64 {
    black_box(interrupted_innermost()) + 1
}

static INSIDE: AtomicBool = AtomicBool::new(false);
static LEAVE: AtomicBool = AtomicBool::new(false);

#[inline(never)]
extern "C" fn handler_spins(_: libc::c_int) {
    INSIDE.store(true, Ordering::SeqCst);
    while !LEAVE.load(Ordering::SeqCst) {
        // SAFETY: no arguments. Its code lies in another image.
        unsafe { libc::sched_yield() };
    }
}

/// Where a stack comes into each of these functions first, innermost first. They are short; what calls them may lie
/// right behind one of them.
fn known(captured: &Captured<'_>) -> Vec<&'static str> {
    let functions = [
        (handler_spins as *const () as u64, "handler_spins"),
        (
            interrupted_innermost as *const () as u64,
            "interrupted_innermost",
        ),
        (interrupted_caller as *const () as u64, "interrupted_caller"),
    ];
    let name = |pc: u64| {
        let found = functions
            .iter()
            .filter(|(start, _)| (*start..start + 1024).contains(&pc));
        found.max().map(|(_, name)| *name)
    };
    let mut known = Vec::new();
    for name in captured.frames.iter().filter_map(|frame| name(frame.pc)) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

/// A handler on an alternate stack: what it interrupted is seen, of a thread and of the main thread.
fn handlers() {
    let room = 64 << 10;
    let on_its_own = || {
        // SAFETY: a new mapping as the alternate stack, which stays; a handler that waits.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
            let memory = libc::mmap(std::ptr::null_mut(), room, 3, flags, -1, 0);
            let stack = libc::stack_t {
                ss_sp: memory,
                ss_flags: 0,
                ss_size: room,
            };
            assert_eq!(libc::sigaltstack(&stack, std::ptr::null_mut()), 0);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler_spins as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            assert_eq!(
                libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
                0
            );
        }
        black_box(interrupted_caller());
    };
    let look = |thread: Thread, which: &str| {
        while !INSIDE.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let mut capturer = Capturer::new(&CaptureLimits::default()).expect("memory for a capture");
        let images = ImageTable::enter();
        let captured = capturer.capture(thread, &images).unwrap();
        println!("{which}: {:?}, {:?}", known(&captured), captured.end);
        INSIDE.store(false, Ordering::SeqCst);
        LEAVE.store(true, Ordering::SeqCst);
    };
    let main = Thread::main();
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = scope.spawn(move || {
            sender.send(Thread::current()).unwrap();
            on_its_own();
        });
        look(receiver.recv().unwrap(), "a thread");
        thread.join().unwrap();
    });
    LEAVE.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let watches = scope.spawn(move || look(main, "the main thread"));
        on_its_own();
        watches.join().unwrap();
    });
}

/// An image that is gone, or another one, by the time that it is looked at; a library that goes.
fn loads() {
    let count = || images::list(&mut |_, _| false).images.len();
    let all = count();
    fail(c"_dyld_get_image_name", 0, 0, 0);
    let nameless = count();
    // Unloaded between the two: the pages of its name are gone.
    fail(c"_dyld_get_image_name", 0, 16, 0);
    let gone = count();
    // The first look at it finds one image, the second another.
    fail(c"_dyld_get_image_header", 0, 8, 0);
    println!(
        "images: {} less without a name, {} less when it is gone, {} less when the list has moved",
        all - nameless,
        all - gone,
        all - count()
    );
    let counts = images::loader_counts();
    let path = c"/usr/local/lib/libplain.dylib";
    // SAFETY: a C string.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    let found = images::list(&mut |_, _| false).images;
    let pages = found
        .iter()
        .find(|image| image.name.ends_with("libplain.dylib"))
        .expect("it is there");
    println!(
        "a library: {} functions listed, text {}",
        pages.function_starts.len(),
        pages.text.is_some()
    );
    drop(found);
    // SAFETY: opened above.
    unsafe { libc::dlclose(library) };
    let now = images::loader_counts();
    println!(
        "added {}, removed {}, images {}",
        now.0 - counts.0,
        now.1 - counts.1,
        count() as i64 - all as i64
    );
}

fn power() {
    let heat = c"com.apple.system.thermalpressurelevel";
    let levels: Vec<_> = (0..5)
        .map(|level| {
            state(heat, level);
            Power::read().thermal.unwrap_or("?")
        })
        .collect();
    let low = [0, 1].map(|on| {
        state(c"com.apple.system.lowpowermode", on);
        Power::read().low_power
    });
    println!("heat {levels:?}, low power {low:?}");
    fail(c"__emulator_notify_state", 0, 0, 0);
    println!("not known: {:?}", Power::read().thermal);
}

/// Another takes the exception ports after us, and keeps them when we go.
fn ports(folder: &str) {
    use mach2::mach_port::{mach_port_allocate, mach_port_insert_right};
    use mach2::task::{task_get_exception_ports, task_set_exception_ports};
    let task = unsafe { mach2::traps::mach_task_self() };
    // EXC_BREAKPOINT
    let kinds = 1 << 6;
    let held = || {
        let (mut mask, mut port, mut behavior, mut flavor, mut count) =
            ([0; 14], [0; 14], [0; 14], [0; 14], 14);
        // SAFETY: arrays of the size given.
        unsafe {
            let (masks, ports) = (mask.as_mut_ptr(), port.as_mut_ptr());
            task_get_exception_ports(
                task,
                kinds,
                masks,
                &mut count,
                ports,
                behavior.as_mut_ptr(),
                flavor.as_mut_ptr(),
            )
        };
        port[0]
    };
    let monitor = Monitor::builder("odd", "1.0")
        .directory(folder)
        .crash(Crash::default())
        .install();
    let monitor = monitor.expect("the monitor installs");
    let ours = held();
    let mut theirs = 0;
    // SAFETY: names only.
    unsafe {
        assert_eq!(mach_port_allocate(task, 1, &mut theirs), 0);
        assert_eq!(mach_port_insert_right(task, theirs, theirs, 20), 0);
        task_set_exception_ports(task, kinds, theirs, 0x8000_0001u32 as _, 5);
    }
    // A fault that is not reported.
    later_handler::begin();
    later_handler::write();
    let stays = held() == theirs;
    drop(monitor);
    println!(
        "ports: ours {}, theirs stays {stays}, {}",
        ours != 0 && ours != theirs,
        held() == theirs
    );
    // Our thread stays for what they pass on to us, and a second install leaves it so.
    let again = Monitor::builder("odd", "1.0")
        .directory(folder)
        .crash(Crash::default())
        .install();
    println!(
        "installed again: {}, theirs stays {}",
        again.is_ok(),
        held() == theirs
    );
    drop(again);
    // The kernel says nothing of who has the ports, and will not have ours set.
    for name in [c"task_get_exception_ports", c"mach_port_allocate"] {
        fail(name, 0, 5, 0);
    }
    let third = Monitor::builder("odd", "1.0")
        .directory(folder)
        .crash(Crash::default())
        .install();
    println!("without the kernel's word: {}", third.is_ok());
}

fn main() {
    let folder = std::env::args().nth(1).expect("a folder");
    ImageTable::refresh();
    ids();
    semaphores();
    stops();
    handlers();
    loads();
    power();
    ports(&folder);
    println!("done");
}
