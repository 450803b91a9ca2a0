//! A capture of a thread in a library that was loaded since the images were listed.

use crate::library;
use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::Thread;
use wedjat::unwind::WalkEnd;

/// A library with a function that calls another, which takes its time and needs no frame pointer.
fn spinning(name: &str) -> CString {
    let text = "static volatile int count;\n\
        __attribute__((noinline)) static int spin(int n) { while (n-- > 0) count++; return count; }\n\
        int enter(int n) { return spin(n) + 1; }\n";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = library::made(folder, name, text, &["-O1", "-Wl,--build-id"]);
    CString::new(library.into_os_string().into_string().unwrap()).unwrap()
}

/// The images are read once the thread runs again, and its copy is unwound by those.
#[test]
fn a_library_that_was_loaded_a_moment_ago_is_known() {
    let library = &spinning("a-moment-ago");
    let (sender, receiver) = std::sync::mpsc::channel();
    let (load, loads) = std::sync::mpsc::channel::<()>();
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            sender.send(Thread::current()).unwrap();
            while loads.recv().is_ok() {
                // SAFETY: a library of ours, whose `enter` has this type; it is not used after dlclose.
                unsafe {
                    let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
                    let enter = libc::dlsym(handle, c"enter".as_ptr());
                    let enter: extern "C" fn(i32) -> i32 = std::mem::transmute(enter);
                    while !done.load(Ordering::Relaxed) {
                        std::hint::black_box(enter(10_000));
                    }
                    assert_eq!(libc::dlclose(handle), 0);
                }
                done.store(false, Ordering::Relaxed);
                sender.send(Thread::current()).unwrap();
            }
        });
        let thread = receiver.recv().unwrap();
        let mut limits = CaptureLimits::default();
        limits.answer = 10_000_000_000;
        let mut capturer = Capturer::new(&limits).unwrap();
        for _ in 0..20 {
            ImageTable::refresh();
            let mut images = ImageTable::enter();
            let is_new = |image: &str| image.contains("a-moment-ago");
            assert!(!images.images().iter().any(|image| is_new(&image.name)));
            load.send(()).unwrap();
            let mut renewed = false;
            while !renewed {
                let renew = || {
                    ImageTable::refresh();
                    renewed = true;
                    true
                };
                let captured = capturer
                    .capture_renewing(thread, &mut images, renew)
                    .unwrap();
                if renewed {
                    assert_eq!(captured.end, WalkEnd::Root, "{captured:#x?}");
                    let names = captured.frames.iter().map(|frame| {
                        let image = images.image_of(frame);
                        &*image.expect("an image for each frame").name
                    });
                    assert!(names.clone().any(is_new), "{:?}", names.collect::<Vec<_>>());
                }
            }
            drop(images);
            done.store(true, Ordering::Relaxed);
            receiver.recv().unwrap();
        }
        drop(load);
    });
}
