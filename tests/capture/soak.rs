//! Captures while libraries come and go, and while the watched thread is where it holds locks.

use crate::deadline;
use crate::library;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::Thread;
use wedjat::unwind::WalkEnd;

/// Two libraries of different sizes with a function each that spins while a flag is set.
fn libraries(name: &str) -> Vec<CString> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    (0..2)
        .map(|number| {
            let room = 4096 * (number + 1);
            let text = format!(
                "static volatile char room[{room}];\n\
                 int spin_{number}(int n) {{ for (int i = 0; i < n; i++) room[i % {room}]++; return room[0]; }}\n\
                 int enter(int n) {{ return spin_{number}(n) + 1; }}\n"
            );
            let name = format!("{name}-{number}");
            let library = library::made(folder, &name, &text, &["-O1", "-Wl,--build-id"]);
            CString::new(library.into_os_string().into_string().unwrap()).unwrap()
        })
        .collect()
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// What the thread that loads them is inside of: 0 none, else twice the round, and which library.
static INSIDE: AtomicU64 = AtomicU64::new(0);

fn load_and_call(path: &CStr, inside: u64) {
    // SAFETY: a library of ours, whose `enter` has this type; it is not used after dlclose.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null());
        let enter = libc::dlsym(library, c"enter".as_ptr());
        let enter: extern "C" fn(i32) -> i32 = std::mem::transmute(enter);
        INSIDE.store(inside, Ordering::SeqCst);
        std::hint::black_box(enter(100_000));
        INSIDE.store(0, Ordering::SeqCst);
        assert_eq!(libc::dlclose(library), 0);
    }
}

#[test]
fn libraries_come_and_go_under_capture() {
    let status = deadline::status(&mut deadline::one_test("soak::come_and_go"));
    assert!(status.success(), "{status}");
}

#[test]
#[ignore = "counts its process' memory: `libraries_come_and_go_under_capture` runs it in one of its own"]
fn come_and_go() {
    let rounds: u64 = if std::env::var_os("WEDJAT_SOAK").is_some() {
        10_000
    } else {
        300
    };
    let libraries = libraries("comes-and-goes");
    ImageTable::refresh();
    let done = AtomicBool::new(false);
    let (attributed, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut grown = 0;
    std::thread::scope(|scope| {
        let (done, attributed, taken) = (&done, &attributed, &taken);
        let watched = scope.spawn(move || {
            sender.send(Thread::current()).unwrap();
            let mut settled = 0;
            for round in 0..rounds {
                let number = round % 2;
                load_and_call(&libraries[number as usize], 2 * (round + 1) + number);
                if round == rounds / 3 {
                    settled = resident();
                }
            }
            done.store(true, Ordering::SeqCst);
            resident().saturating_sub(settled)
        });
        // The helper that a recorder has: it alone takes the loader's lock.
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                ImageTable::refresh();
            }
        });
        let thread = receiver.recv().unwrap();
        let mut limits = CaptureLimits::default();
        limits.answer = 10_000_000_000;
        let mut capturer = Capturer::new(&limits).unwrap();
        while !done.load(Ordering::SeqCst) {
            let before = INSIDE.load(Ordering::SeqCst);
            let images = ImageTable::enter();
            let Ok(captured) = capturer.capture(thread, &images) else {
                continue;
            };
            taken.fetch_add(1, Ordering::Relaxed);
            let same = before != 0 && INSIDE.load(Ordering::SeqCst) == before;
            let wrong = format!("comes-and-goes-{}", 1 - before % 2);
            for frame in captured.frames {
                let Some(image) = images.image_of(frame) else {
                    continue;
                };
                if same && image.name.contains("comes-and-goes") {
                    assert!(!image.name.contains(&wrong), "{frame:x?} in {}", image.name);
                    attributed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        grown = watched.join().unwrap();
    });
    let (taken, attributed) = (taken.into_inner(), attributed.into_inner());
    println!(
        "{rounds} loads and unloads, {taken} captures, {attributed} frames in what was loaded"
    );
    assert!(taken > 10);
    // A busy machine may keep a short run from any.
    assert!(rounds < 10_000 || attributed > 0);
    assert!(grown < 16 << 20, "{grown} bytes more");
}

/// How many captures each state gets.
fn captures() -> u64 {
    if std::env::var_os("WEDJAT_SOAK").is_some() {
        10_000
    } else {
        200
    }
}

/// How often the watched thread has come into the state and out of it: odd while it is in it.
struct Within(AtomicU64);

impl Within {
    fn during(&self, work: impl FnOnce()) {
        self.0.fetch_add(1, Ordering::SeqCst);
        work();
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

static WITHIN: Within = Within(AtomicU64::new(0));

fn spin() {
    for turn in 0..20_000u32 {
        std::hint::black_box(turn);
    }
}

struct SetAtTheEnd<'a>(&'a AtomicBool);

impl Drop for SetAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Captures a thread that does nothing but `turn`, again and again, while `WITHIN` is set: a
/// capture that wanted a lock which that thread holds would never end.
fn captured_while(ends: &[WalkEnd], mut turn: impl FnMut() + Send) {
    ImageTable::refresh();
    let done = AtomicBool::new(false);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let is_over = &done;
        scope.spawn(move || {
            sender.send(Thread::current()).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                turn();
            }
        });
        // A failed assertion ends the thread too.
        let _end = SetAtTheEnd(&done);
        let thread = receiver.recv().unwrap();
        let mut limits = CaptureLimits::default();
        limits.answer = 10_000_000_000;
        let mut capturer = Capturer::new(&limits).unwrap();
        let (mut taken, mut ended) = (0, 0);
        while taken < captures() {
            let before = WITHIN.0.load(Ordering::SeqCst);
            let images = ImageTable::enter();
            let captured = capturer.capture(thread, &images).unwrap();
            let after = WITHIN.0.load(Ordering::SeqCst);
            if before % 2 == 1 && after % 2 == 1 {
                let is_right = ends.contains(&captured.end) && captured.frames.len() > 3;
                // One that may have been taken between two stays says nothing against the capture.
                taken += u64::from(is_right || after == before);
                ended += u64::from(is_right);
            }
        }
        assert!(
            ended * 100 >= taken * 95,
            "{ended} of {taken} end at {ends:?}"
        );
    });
}

fn inside_malloc() {
    captured_while(&[WalkEnd::Root], || {
        WITHIN.during(|| {
            for size in [8, 200, 5000, 200_000, 64, 1 << 20] {
                // SAFETY: a block that is freed at once.
                unsafe { libc::free(std::hint::black_box(libc::malloc(size))) };
            }
        });
    });
}

fn inside_printf() {
    // SAFETY: a stream of our own, with arguments of the types that the format names.
    unsafe {
        let stream = libc::fopen(c"/dev/null".as_ptr(), c"w".as_ptr()) as usize;
        captured_while(&[WalkEnd::Root], || {
            WITHIN.during(|| {
                let (text, number) = (c"text".as_ptr(), 1.5f64);
                libc::fprintf(stream as *mut _, c"%d %s %f\n".as_ptr(), 5, text, number);
            });
        });
        libc::fclose(stream as *mut _);
    }
}

fn inside_dlopen() {
    let libraries = libraries("opened");
    captured_while(&[WalkEnd::Root], || {
        for library in &libraries {
            // SAFETY: a library of ours, closed at once.
            WITHIN.during(|| unsafe {
                libc::dlclose(libc::dlopen(library.as_ptr(), libc::RTLD_NOW));
            });
        }
    });
}

fn holding_the_loaders_lock() {
    extern "C" fn each(_: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> libc::c_int {
        WITHIN.during(spin);
        1
    }
    captured_while(&[WalkEnd::Root], || {
        // SAFETY: the callback ends the walk at its first image.
        unsafe { libc::dl_iterate_phdr(Some(each), std::ptr::null_mut()) };
    });
}

fn inside_record() {
    let folder = std::env::temp_dir().join(format!("wedjat-soak-{}", std::process::id()));
    let monitor = wedjat::Monitor::builder("soak", "1.0")
        .directory(&folder)
        .install()
        .unwrap();
    captured_while(&[WalkEnd::Root], || {
        WITHIN.during(|| drop(monitor.record("soak")))
    });
    drop(monitor);
    std::fs::remove_dir_all(folder).unwrap();
}

fn inside_a_handler() {
    extern "C" fn handler(_: libc::c_int) {
        WITHIN.during(spin);
    }
    // SAFETY: a plain struct; the handler only counts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    // Room for the handler and for the capture's signal on top of it: what Rust gives its threads
    // is enough for one signal.
    let mut stack = vec![0u8; 256 << 10];
    let mut given = false;
    // SAFETY: a stack that outlives the thread; a signal that has a handler, to that thread.
    // What was interrupted lies on the thread's own stack, which is copied too.
    captured_while(&[WalkEnd::Root], move || unsafe {
        if !std::mem::replace(&mut given, true) {
            let stack = libc::stack_t {
                ss_sp: stack.as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: stack.len(),
            };
            assert_eq!(libc::sigaltstack(&stack, std::ptr::null_mut()), 0);
        }
        libc::raise(libc::SIGUSR1);
    });
}

/// One after another: the monitor's recorder and the flag are the process's.
#[test]
fn a_thread_is_captured_wherever_it_holds_locks() {
    for (state, run) in [
        ("inside malloc", inside_malloc as fn()),
        ("inside printf", inside_printf),
        ("inside dlopen", inside_dlopen),
        ("holding the loader's lock", holding_the_loaders_lock),
        ("inside our own record", inside_record),
        ("inside a handler", inside_a_handler),
    ] {
        run();
        println!("{} captures {state}: none hung", captures());
    }
}
