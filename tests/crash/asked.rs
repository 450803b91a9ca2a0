//! Threads that run out of stack while they are asked for it: an overflow is reported, and what was none is no crash.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::Thread;

use crate::child::play;
use crate::support::small_stack::{SIZE, map, on_stack, protect, use_alternate_stack};
use crate::{Tests, Way, install, outer, tests};

/// Each way is tried so often: where a capture changes the handler of SIGSEGV, some leave no report.
const TRIES: u32 = 12;

pub fn trials() -> Tests {
    tests(&[
        (
            "an_overflow_beside_captures_of_new_threads_is_reported",
            || is_reported("asked_later"),
        ),
        ("an_overflow_right_after_install_is_reported", || {
            is_reported("asked_at_once")
        }),
        (
            "an_overflow_beside_captures_is_reported_after_a_handler_without_the_alternate_stack",
            || is_reported("asked_foreign"),
        ),
        (
            "a_thread_without_room_for_a_frame_goes_on_without_an_answer",
            no_room,
        ),
    ])
}

/// Captures threads that are new each time, without pause.
fn ask() {
    let limits = CaptureLimits::default();
    let mut capturer = Capturer::new(&limits).unwrap();
    loop {
        let (sender, receiver) = std::sync::mpsc::channel();
        for _ in 0..16 {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let _ = sender.send(Thread::current());
                std::thread::sleep(Duration::from_millis(20));
            });
        }
        for thread in receiver.iter().take(16) {
            let _ = capturer.capture(thread, &ImageTable::enter());
        }
    }
}

extern "C" fn gives_way(signal: i32) {
    // SAFETY: a plain call.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

pub fn role(role: &str, folder: &Path) -> bool {
    let Some(role) = role.strip_prefix("asked_") else {
        return false;
    };
    if role == "foreign" {
        // SAFETY: a plain call: a handler without any flags.
        unsafe { libc::signal(libc::SIGSEGV, gives_way as *const () as usize) };
    }
    let monitor = install(folder);
    std::thread::scope(|scope| {
        if role == "no_room" {
            scope.spawn(compute_without_room);
            while !IS_THERE.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            for _ in 0..3 {
                monitor.record("beside a full stack").unwrap();
            }
            IS_OVER.store(true, Ordering::Release);
            return;
        }
        scope.spawn(ask);
        if role != "at_once" {
            let time = 100 + std::process::id() % 97;
            std::thread::sleep(Duration::from_millis(time.into()));
        }
        outer(Way::Overflow);
    });
    true
}

fn is_reported(role: &str) {
    for time in 0..TRIES {
        let ended = play(role);
        assert!(ended.signal().is_some(), "{time}: {}", ended.stderr);
        let report = ended.report();
        let event = report.event.as_ref().unwrap();
        assert!(event.fatal, "{time}");
        assert_eq!(event.signal.as_ref().unwrap().name, "SIGSEGV", "{time}");
        let deep = report.threads[0].frames.len();
        assert!(deep > 100, "{time}: {deep} frames");
    }
}

static IS_THERE: AtomicBool = AtomicBool::new(false);
static IS_OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn computes() {
    IS_THERE.store(true, Ordering::Release);
    while !IS_OVER.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

/// Runs where no frame of the kernel has room: above a page that nobody may touch.
fn compute_without_room() {
    use_alternate_stack();
    let memory = map(SIZE);
    protect(memory, SIZE / 2);
    let top = memory.wrapping_add(SIZE / 2 + 1024);
    on_stack(top, computes);
}

fn no_room() {
    let ended = play("asked_no_room");
    ended.succeeded();
    assert_eq!(ended.readings().len(), 3);
}
