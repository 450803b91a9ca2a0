//! Panics: which are fatal, and how many are reported.

use std::path::Path;

use std::time::{Duration, Instant};

use wedjat::report::{EventKind, Report};
use wedjat::{Crash, Monitor, Stall};

use crate::child::{calls, play, stack};
use crate::{Tests, install, tests};

pub fn trials() -> Tests {
    tests(&[
        (
            "a_panic_that_cannot_unwind_is_one_report",
            panic_that_aborts,
        ),
        ("a_caught_panic_is_reported_as_not_fatal", caught_panic),
        ("a_panic_that_escapes_from_main_is_fatal", escapes),
        ("a_panic_whose_hook_exits_is_fatal", hook_exits),
        ("a_panic_of_a_thread_is_not_fatal", of_a_thread),
        ("caught_panics_are_under_a_quota", quota),
        (
            "a_panic_that_ends_the_process_is_reported_over_the_quota",
            over_the_quota,
        ),
        ("a_panic_waits_for_the_report_of_another_thread", beside),
        ("a_child_of_fork_reports_no_panic", forked),
        ("a_crash_while_unwinding_is_a_crash", while_unwinding),
        ("a_panic_in_a_drop_during_a_panic_is_one_report", in_a_drop),
        (
            "the_time_that_the_report_of_a_panic_takes_is_no_stall",
            takes_long,
        ),
        (
            "panics_that_are_caught_one_in_the_other_are_two_reports",
            caught_in_a_drop,
        ),
    ])
}

fn fifty_caught() {
    for round in 0..50 {
        assert!(std::panic::catch_unwind(|| panic!("round {round}")).is_err());
    }
}

/// Returns in the middle of the report that `reports` makes another thread write: there are so many threads that it takes
/// long.
pub fn until_begun(folder: &Path, reports: impl FnOnce()) {
    for _ in 0..80 {
        std::thread::spawn(std::thread::park);
    }
    reports();
    let begun = || {
        let mut files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
        files.any(|file| file.path().extension() == Some("partial".as_ref()))
    };
    while !begun() {
        std::thread::yield_now();
    }
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "caught_panic" => {
            let monitor = install(folder);
            let caught = std::panic::catch_unwind(|| panic!("the basket is {}", "empty"));
            assert!(caught.is_err());
            drop(monitor);
        }
        "escapes" => {
            let _monitor = install(folder);
            panic!("nothing catches this");
        }
        "hook_exits" => {
            std::panic::set_hook(Box::new(|_| std::process::exit(3)));
            let _monitor = install(folder);
            let _ = std::thread::spawn(|| panic!("no way on")).join();
        }
        "of_a_thread" => {
            let _monitor = install(folder);
            let ended = std::thread::spawn(|| panic!("the worker gave up")).join();
            assert!(ended.is_err());
        }
        "quota" => {
            let monitor = install(folder);
            fifty_caught();
            monitor.record("look").unwrap();
        }
        "over_the_quota" | "over_the_quota_of_a_leaked_monitor" => {
            let monitor = install(folder);
            fifty_caught();
            if role == "over_the_quota" {
                let _monitor = monitor;
                panic!("the last one");
            }
            std::mem::forget(monitor);
            panic!("the last one");
        }
        "beside" => {
            let monitor = install(folder);
            std::thread::scope(|scope| {
                until_begun(folder, || {
                    scope.spawn(|| monitor.record("all threads").unwrap());
                });
                assert!(std::panic::catch_unwind(|| panic!("beside it")).is_err());
            });
        }
        "forked" => {
            let _monitor = install(folder);
            // SAFETY: the child panics, catches that, and leaves.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    let caught = std::panic::catch_unwind(|| panic!("in the child"));
                    libc::_exit(i32::from(caught.is_ok()));
                }
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
        "while_unwinding" => {
            struct Breaks;
            impl Drop for Breaks {
                fn drop(&mut self) {
                    crate::outer(crate::Way::Null);
                }
            }
            let _monitor = install(folder);
            let _breaks = Breaks;
            panic!("this came first");
        }
        "in_a_drop" => {
            struct Breaks;
            impl Drop for Breaks {
                fn drop(&mut self) {
                    panic!("the lid broke");
                }
            }
            let _monitor = install(folder);
            let _breaks = Breaks;
            panic!("the box fell");
        }
        "takes_long" => {
            std::panic::set_hook(Box::new(|_| ()));
            let builder = Monitor::builder("crash test", "1.0").directory(folder);
            // The names of a program with much debug information take long, and here their memory.
            let builder = builder.resolve_names(true).crash(Crash::default());
            let monitor = builder.stall(Stall::default()).install().unwrap();
            let heart = monitor.heartbeat();
            heart.turn(|| ());
            let begin = Instant::now();
            heart.turn(|| {
                crate::malloc::counting::slow_down(400);
                // So many are reported.
                for _ in 0..10 {
                    assert!(std::panic::catch_unwind(|| panic!("held up")).is_err());
                    if begin.elapsed() > Duration::from_secs(1) {
                        break;
                    }
                }
            });
            let took = begin.elapsed().as_millis().to_string();
            std::fs::write(folder.join("took"), took).unwrap();
        }
        "caught_in_a_drop" => {
            struct Mends;
            impl Drop for Mends {
                fn drop(&mut self) {
                    assert!(std::panic::catch_unwind(|| panic!("the lid broke")).is_err());
                }
            }
            let _monitor = install(folder);
            let fell = std::panic::catch_unwind(|| {
                let _mends = Mends;
                panic!("the box fell");
            });
            assert!(fell.is_err());
        }
        _ => return false,
    }
    true
}

fn only(ended: &crate::child::Ended) -> Report {
    let report = ended.report();
    assert_eq!(report.event.as_ref().unwrap().kind, EventKind::Panic);
    report
}

fn panic_that_aborts() {
    let ended = play("panic_that_aborts");
    assert_eq!(ended.signal(), Some(libc::SIGABRT));
    assert!(
        ended.stderr.contains("the cart has 3 wheels"),
        "the hook before ours still speaks"
    );
    let report = ended.report();
    let event = report.event.as_ref().unwrap();
    assert_eq!((event.kind, event.fatal), (EventKind::Panic, true));
    assert_eq!(event.message.as_deref(), Some("the cart has 3 wheels"));
    assert!(
        event.name.is_some() && event.name == report.threads[0].name,
        "{event:?}"
    );
    assert!(
        event
            .location
            .as_deref()
            .unwrap()
            .contains("tests/crash/main.rs:"),
        "{event:?}"
    );
    assert_eq!(event.signal.as_ref().unwrap().name, "SIGABRT");
    let stack = stack(&report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    assert!(
        stack
            .iter()
            .any(|(function, ..)| function.ends_with("no_unwinding")),
        "{stack:#?}"
    );
}

fn caught_panic() {
    let ended = play("caught_panic");
    assert!(ended.status.success(), "{}", ended.stderr);
    let report = ended.report();
    let event = report.event.as_ref().unwrap();
    assert_eq!((event.kind, event.fatal), (EventKind::Panic, false));
    assert_eq!(event.message.as_deref(), Some("the basket is empty"));
    assert!(
        event.name.is_some() && event.name == report.threads[0].name,
        "{event:?}"
    );
    assert_eq!(event.signal, None);
    let stack = stack(&report, 0);
    assert!(
        stack
            .iter()
            .any(|(function, ..)| function.contains("roles")),
        "{stack:#?}"
    );
}

fn escapes() {
    let ended = play("escapes");
    assert_eq!(ended.status.code(), Some(101), "{}", ended.stderr);
    let event = only(&ended).event.unwrap();
    assert!(event.fatal);
    assert_eq!(event.message.as_deref(), Some("nothing catches this"));
    let line = include_str!("panics.rs")
        .lines()
        .position(|line| line.contains("nothing catches this"));
    let location = event.location.unwrap();
    let wanted = format!("tests/crash/panics.rs:{}:13", line.unwrap() + 1);
    assert_eq!(location, wanted);
}

fn hook_exits() {
    let ended = play("hook_exits");
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    let event = only(&ended).event.unwrap();
    assert!(event.fatal);
    assert_eq!(event.message.as_deref(), Some("no way on"));
}

fn of_a_thread() {
    let ended = play("of_a_thread");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(!only(&ended).event.unwrap().fatal);
}

fn quota() {
    let ended = play("quota");
    assert!(ended.status.success(), "{}", ended.stderr);
    let readings = ended.readings();
    let panics = readings
        .iter()
        .filter(|reading| reading.report.event.as_ref().unwrap().kind == EventKind::Panic);
    assert_eq!(panics.count(), 10);
    let live = &readings[10].report;
    let loss = live.loss.as_ref().unwrap();
    assert_eq!(loss.counts, [("quota".to_owned(), 40)]);
}

fn over_the_quota() {
    for role in ["over_the_quota", "over_the_quota_of_a_leaked_monitor"] {
        let ended = play(role);
        assert_eq!(ended.status.code(), Some(101), "{}", ended.stderr);
        let events = ended.readings().into_iter();
        let mut events = events.map(|reading| reading.report.event.unwrap());
        let last = events.next_back().unwrap();
        assert!(last.fatal, "{role}: {last:?}");
        assert_eq!(last.message.as_deref(), Some("the last one"));
        assert_eq!(events.filter(|event| !event.fatal).count(), 10);
    }
}

fn beside() {
    let ended = play("beside");
    assert!(ended.status.success(), "{}", ended.stderr);
    let events = ended.readings().into_iter();
    let mut messages = events.filter_map(|reading| reading.report.event.unwrap().message);
    assert_eq!(messages.next().as_deref(), Some("beside it"));
}

fn forked() {
    let ended = play("forked");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.readings().is_empty());
}

fn while_unwinding() {
    let ended = play("while_unwinding");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let report = ended.report();
    let event = report.event.unwrap();
    assert_eq!((event.kind, event.fatal), (EventKind::Crash, true));
    assert_eq!(event.message.as_deref(), Some("this came first"));
    assert_eq!(event.signal.unwrap().name, "SIGSEGV");
}

fn in_a_drop() {
    let ended = play("in_a_drop");
    assert_eq!(ended.signal(), Some(libc::SIGABRT), "{}", ended.stderr);
    let event = only(&ended).event.unwrap();
    assert!(event.fatal);
    assert_eq!(event.signal.unwrap().name, "SIGABRT");
    // The one that ended the process, and the one in whose course it came.
    let message = event.message.unwrap();
    assert!(
        message.starts_with("the lid broke\nwhile unwinding from: the box fell, "),
        "{message}"
    );
    assert!(message.contains("tests/crash/panics.rs:"), "{message}");
}

fn caught_in_a_drop() {
    let ended = play("caught_in_a_drop");
    assert!(ended.status.success(), "{}", ended.stderr);
    let events = ended
        .readings()
        .into_iter()
        .map(|reading| reading.report.event.unwrap());
    let events: Vec<(bool, String)> = events
        .map(|event| (event.fatal, event.message.unwrap()))
        .collect();
    let expected = [
        (false, "the box fell".to_owned()),
        (false, "the lid broke".to_owned()),
    ];
    assert_eq!(events, expected);
}

fn takes_long() {
    let ended = play("takes_long");
    assert!(ended.status.success(), "{}", ended.stderr);
    let took = std::fs::read_to_string(ended.folder.0.join("took")).unwrap();
    // Longer than a stall takes to be sure.
    assert!(took.parse::<u64>().unwrap() >= 300, "{took}");
    let readings = ended.readings();
    assert!(!readings.is_empty());
    for reading in readings {
        let event = reading.report.event.unwrap();
        assert_eq!(
            (event.kind, event.fatal),
            (EventKind::Panic, false),
            "{event:?}"
        );
    }
}
