//! All threads stand in the report of a crash, and two that crash at once leave one report.

use std::path::Path;

use crate::child::{calls, play, stack};
use crate::{Tests, Way, asleep, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        ("all_threads_are_in_the_report", all_threads),
        (
            "two_threads_that_crash_at_once_leave_one_report",
            two_at_once,
        ),
    ])
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
                .any(|(function, file, _)| function.ends_with("asleep") && file == "crash.rs")
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
