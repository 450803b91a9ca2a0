//! Captures while libraries come and go, and while the watched thread is where it holds locks.
#![cfg(target_os = "linux")]

use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::Thread;

/// Two libraries of different sizes with a function each that spins while told to.
fn libraries() -> Vec<CString> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    (0..2)
        .map(|number| {
            let source = folder.join(format!("comes-and-goes-{number}.c"));
            let library = folder.join(format!("libcomes-and-goes-{number}.so"));
            let room = 4096 * (number + 1);
            let text = format!(
                "static volatile char room[{room}];\n\
                 int spin_{number}(int n) {{ for (int i = 0; i < n; i++) room[i % {room}]++; return room[0]; }}\n\
                 int enter(int n) {{ return spin_{number}(n) + 1; }}\n"
            );
            std::fs::write(&source, text).unwrap();
            let done = Command::new("cc")
                .args(["-O1", "-shared", "-fPIC", "-Wl,--build-id", "-o"])
                .args([&library, &source])
                .status()
                .unwrap();
            assert!(done.success());
            CString::new(library.into_os_string().into_string().unwrap()).unwrap()
        })
        .collect()
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// What library is loaded now, as the thread that loads it says: 0 none, else number + 1.
static INSIDE: AtomicU64 = AtomicU64::new(0);

fn load_and_call(path: &CStr, number: u64) {
    // SAFETY: a library of ours, whose `enter` has this type; it is not used after dlclose.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null());
        let enter = libc::dlsym(library, c"enter".as_ptr());
        let enter: extern "C" fn(i32) -> i32 = std::mem::transmute(enter);
        INSIDE.store(number + 1, Ordering::SeqCst);
        std::hint::black_box(enter(20_000));
        INSIDE.store(0, Ordering::SeqCst);
        assert_eq!(libc::dlclose(library), 0);
    }
}

#[test]
fn libraries_come_and_go_under_capture() {
    let rounds: u64 = if std::env::var_os("WEDJAT_SOAK").is_some() {
        10_000
    } else {
        300
    };
    let libraries = libraries();
    ImageTable::refresh();
    let done = AtomicBool::new(false);
    let (attributed, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    let (tell, told) = std::sync::mpsc::channel();
    let mut grown = 0;
    std::thread::scope(|scope| {
        let (done, attributed, taken) = (&done, &attributed, &taken);
        let watched = scope.spawn(move || {
            tell.send(Thread::current()).unwrap();
            let mut settled = 0;
            for round in 0..rounds {
                let number = round % 2;
                load_and_call(&libraries[number as usize], number);
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
        let thread = told.recv().unwrap();
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
            let wrong = format!("comes-and-goes-{}", 2 - before.min(2));
            for frame in captured.frames {
                let Some(image) = images.images().get(frame.image as usize) else {
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
    assert!(taken.load(Ordering::Relaxed) > 10);
    assert!(grown < 16 << 20, "{grown} bytes more");
}

#[test]
fn a_thread_inside_malloc_the_loader_and_printf_is_captured() {
    let captures = if std::env::var_os("WEDJAT_SOAK").is_some() {
        10_000
    } else {
        500
    };
    ImageTable::refresh();
    let done = AtomicBool::new(false);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let done = &done;
        scope.spawn(move || {
            tell.send(Thread::current()).unwrap();
            // SAFETY: plain calls of libc with valid arguments; the stream is our own.
            unsafe {
                let stream = libc::fopen(c"/dev/null".as_ptr(), c"w".as_ptr());
                while !done.load(Ordering::Relaxed) {
                    for size in [8, 200, 5000, 200_000] {
                        let block = libc::malloc(size);
                        libc::free(block);
                    }
                    libc::fprintf(stream, c"%d %s %f\n".as_ptr(), 5, c"text".as_ptr(), 1.5);
                    let library = libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_LAZY);
                    libc::dlsym(library, c"cos".as_ptr());
                    libc::dlclose(library);
                    drop(std::hint::black_box(ImageTable::enter()));
                }
                libc::fclose(stream);
            }
        });
        let thread = told.recv().unwrap();
        let mut limits = CaptureLimits::default();
        limits.answer = 10_000_000_000;
        let mut capturer = Capturer::new(&limits).unwrap();
        let mut rooted = 0;
        for _ in 0..captures {
            let images = ImageTable::enter();
            let captured = capturer.capture(thread, &images).unwrap();
            rooted += u32::from(captured.end == wedjat::unwind::WalkEnd::Root);
        }
        done.store(true, Ordering::Relaxed);
        assert!(
            rooted * 100 >= captures * 95,
            "{rooted} of {captures} to the root"
        );
    });
}
