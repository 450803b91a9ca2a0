//! All threads stand in the report of a crash, and two that crash at once leave one report.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::child::{calls, play, stack};
use crate::{Tests, Way, asleep, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        ("all_threads_are_in_the_report", all_threads),
        (
            "two_threads_that_crash_at_once_leave_one_report",
            two_at_once,
        ),
        (
            "forty_threads_that_crash_on_stacks_side_by_side_leave_one_report",
            side_by_side,
        ),
    ])
}

/// More than a handler may be called within itself.
const MANY: usize = 40;
/// Size of an alternate stack.
const SIZE: usize = 32 << 10;
/// The thread that crashes next.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Crashes behind the thread before, on the alternate stack that ends where that one's begins.
fn crash_in_turn(place: usize, stacks: usize, ready: &Barrier) {
    let stack = libc::stack_t {
        ss_sp: (stacks + (MANY - 1 - place) * SIZE) as *mut libc::c_void,
        ss_flags: 0,
        ss_size: SIZE,
    };
    // SAFETY: a part of a mapping that stays, which no other thread uses.
    assert_eq!(0, unsafe {
        libc::sigaltstack(&stack, std::ptr::null_mut())
    });
    ready.wait();
    while NEXT.load(Ordering::SeqCst) != place {
        std::thread::sleep(Duration::from_micros(200));
    }
    // The one before is in the handler by now.
    std::thread::sleep(Duration::from_micros(500));
    NEXT.store(place + 1, Ordering::SeqCst);
    outer(Way::Null);
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "all_threads" => {
            let _monitor = install(folder);
            let ready = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| asleep(&ready));
                }
                ready.wait();
                outer(Way::Null);
            });
        }
        "two_at_once" => {
            let _monitor = install(folder);
            let ready = std::sync::Barrier::new(8);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        ready.wait();
                        outer(Way::Null);
                    });
                }
            });
        }
        "side_by_side" => {
            let _monitor = install(folder);
            let stacks = Box::leak(vec![0u8; MANY * SIZE].into_boxed_slice());
            let stacks = stacks.as_mut_ptr() as usize;
            let ready = &Barrier::new(MANY);
            std::thread::scope(|scope| {
                for place in 0..MANY {
                    scope.spawn(move || crash_in_turn(place, stacks, ready));
                }
            });
        }
        _ => return false,
    }
    true
}

fn all_threads() {
    let ended = play("all_threads");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV));
    let report = ended.report();
    assert!(report.threads[0].crashed);
    let asleep = (1..report.threads.len())
        .filter(|&index| {
            let stack = stack(&report, index);
            stack
                .iter()
                .any(|(function, file, _)| function.ends_with("asleep") && file == "main.rs")
        })
        .count();
    assert_eq!(asleep, 3, "{:#x?}", report.threads);
    let helper = report
        .threads
        .iter()
        .find(|thread| thread.name.as_deref() == Some("wedjat-helper"));
    assert!(helper.is_some());
}

fn two_at_once() {
    for _ in 0..5 {
        let ended = play("two_at_once");
        assert_eq!(ended.signal(), Some(libc::SIGSEGV));
        let report = ended.report();
        let stack = stack(&report, 0);
        assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    }
}

fn side_by_side() {
    let ended = play("side_by_side");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV));
    let report = ended.report();
    assert!(report.threads.len() > MANY, "{}", report.threads.len());
    let stack = stack(&report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}
