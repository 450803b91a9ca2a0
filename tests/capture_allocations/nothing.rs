//! A capture allocates nothing: not while the thread is stopped, nor before, nor after.

use crate::{counting, deadline};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::{Thread, threads};
use wedjat::unwind::WalkEnd;

static STOP: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn nested(levels: u32) -> u32 {
    if levels == 0 {
        while !STOP.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        return 0;
    }
    black_box(nested(levels - 1)) + 1
}

#[test]
fn a_capture_allocates_nothing() {
    // What the tests beside it allocate would be counted too.
    let status = deadline::status(&mut deadline::one_test("nothing::counted"));
    assert!(status.success(), "{status}");
}

#[test]
#[ignore = "counts all that its process allocates: `a_capture_allocates_nothing` runs it in one of its own"]
fn counted() {
    // The test runner's own thread is not counted.
    std::thread::spawn(count).join().unwrap();
}

fn count() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let watched = std::thread::spawn(move || {
        sender.send(Thread::current()).unwrap();
        nested(60)
    });
    let thread = receiver.recv().unwrap();
    ImageTable::refresh();
    let mut capturer = {
        // Patient: the machine that runs the tests may be busy.
        let mut limits = CaptureLimits::default();
        limits.answer = 10_000_000_000;
        Capturer::new(&limits).unwrap()
    };
    // The counter counts: Rust's allocations, and those that libc makes for itself.
    counting::arm();
    drop(black_box(Box::new(1)));
    assert!(counting::disarm() >= 2);
    counting::arm();
    // SAFETY: a valid path; the stream is closed at once.
    unsafe { libc::fclose(libc::fopen(c"/dev/null".as_ptr(), c"r".as_ptr())) };
    assert!(counting::disarm() >= 2);

    let mut deepest = 0;
    counting::arm();
    for round in 0..300 {
        let images = ImageTable::enter();
        let captured = capturer.capture(thread, &images);
        let Ok(captured) = captured else { continue };
        deepest = deepest.max(captured.frames.len());
        if round > 10 {
            black_box((
                captured.end == WalkEnd::Root,
                captured.registers.named().count(),
            ));
        }
        black_box(capturer.capture_here(&images).frames.len());
        let mut all = [Thread::current(); 16];
        black_box(threads::list(&mut all));
        black_box((thread.progress(), thread.name(&mut [0; 32])));
    }
    let count = counting::disarm();
    STOP.store(true, Ordering::Relaxed);
    assert_eq!(watched.join().unwrap(), 60);
    assert_eq!(count, 0, "allocations or frees");
    assert!(deepest > 60);
}
