//! Several threads crash at once, each by a signal of its own: the process dies of the first, that of the report,
//! whatever the machine is busy with and however long whoever was there before takes.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::child::play;
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        (
            "the_first_of_two_is_died_of_though_the_second_crashes_while_the_first_dies",
            late,
        ),
        (
            "the_first_of_two_is_died_of_though_its_handler_of_before_takes_long",
            slow,
        ),
        (
            "the_first_is_died_of_though_another_handler_has_given_way_since",
            further,
        ),
        ("thirty_threads_that_crash_at_once_die_of_the_first", thirty),
    ])
}

const THIRTY: usize = 30;
const WAYS: [Way; 6] = [
    Way::Null,
    Way::Divide,
    Way::Illegal,
    Way::Trap,
    Way::Abort,
    Way::Bus,
];

/// Whether the first one's previous handler is called.
static CALLED: AtomicBool = AtomicBool::new(false);

/// Takes its time, as one that has a core dump written by another process, and gives way.
extern "C" fn takes_long(signal: i32) {
    CALLED.store(true, Ordering::SeqCst);
    let long = libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    // SAFETY: async-signal-safe calls; the structure outlives them.
    unsafe {
        libc::nanosleep(&long, std::ptr::null_mut());
        libc::signal(signal, libc::SIG_DFL);
    }
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "first_late" | "first_slow" => {
            // SAFETY: the handler calls what a handler may.
            unsafe { libc::signal(libc::SIGSEGV, takes_long as *const () as libc::sighandler_t) };
            let _monitor = install(folder);
            let late = role == "first_late";
            std::thread::scope(|scope| {
                scope.spawn(|| outer(Way::Null));
                scope.spawn(move || {
                    let mut watched = folder.read_dir().unwrap();
                    // Either once the report is there, or as soon as the first one has begun with it.
                    while late && !CALLED.load(Ordering::SeqCst)
                        || !late && !watched.any(|file| is_report(&file.unwrap().path()))
                    {
                        std::thread::sleep(Duration::from_millis(1));
                        watched = folder.read_dir().unwrap();
                    }
                    outer(Way::Divide);
                });
            });
        }
        // Two more threads crash while the first one's handler takes its time: that of the second one has put the default
        // action in place when the third one crashes. It is Rust's own.
        "first_further" => {
            // SAFETY: the handler calls what a handler may.
            unsafe { libc::signal(libc::SIGSEGV, takes_long as *const () as libc::sighandler_t) };
            let _monitor = install(folder);
            std::thread::scope(|scope| {
                scope.spawn(|| outer(Way::Null));
                for after in [0, 300] {
                    scope.spawn(move || {
                        while !CALLED.load(Ordering::SeqCst) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        std::thread::sleep(Duration::from_millis(after));
                        outer(Way::Bus);
                    });
                }
            });
        }
        "first_thirty" => {
            let _monitor = install(folder);
            let ready = Barrier::new(THIRTY);
            std::thread::scope(|scope| {
                for index in 0..THIRTY {
                    let ready = &ready;
                    scope.spawn(move || {
                        ready.wait();
                        outer(WAYS[index % WAYS.len()]);
                    });
                }
            });
        }
        _ => return false,
    }
    true
}

fn is_report(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    (ending == "partial" || ending == "wedjat") && path.to_string_lossy().contains("crash")
}

fn late() {
    let ended = play("first_late");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let signal = ended.report().event.unwrap().signal.unwrap();
    assert_eq!(signal.name, "SIGSEGV");
}

fn slow() {
    let ended = play("first_slow");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let signal = ended.report().event.unwrap().signal.unwrap();
    assert_eq!(signal.name, "SIGSEGV");
}

fn further() {
    let ended = play("first_further");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let signal = ended.report().event.unwrap().signal.unwrap();
    assert_eq!(signal.name, "SIGSEGV");
}

fn thirty() {
    for _ in 0..10 {
        let ended = play("first_thirty");
        let signal = ended.report().event.unwrap().signal.unwrap();
        let status = ended.signal().map(|signal| signal as u64);
        assert_eq!(status, Some(signal.number), "{}", ended.stderr);
    }
}
