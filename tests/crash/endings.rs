//! The end of each launch is what it was, reported to the next one.

use std::path::Path;

use wedjat::report::EventKind;
use wedjat::store::{self, HowEnded};

use crate::child::{Ended, functions, in_order, play};
use crate::panics::until_begun;
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        ("a_return_of_main_is_an_exit", returns),
        ("an_exit_has_its_status", exits),
        ("a_panic_out_of_main_is_one_with_its_report", panics),
        ("a_panic_that_is_caught_is_no_end", caught),
        (
            "a_panic_that_our_hook_does_not_see_is_reported_by_the_drop",
            unseen,
        ),
        ("what_leaves_no_word_is_abrupt", abrupt),
        (
            "a_destructor_that_crashes_behind_the_exit_is_a_crash",
            destructor,
        ),
        ("an_exit_waits_for_the_crash_of_another_thread", beside),
    ])
}

pub fn role(role: &str, folder: &Path) -> bool {
    let Some(way) = role.strip_prefix("ending_") else {
        return false;
    };
    if way == "caught" {
        let caught = std::panic::catch_unwind(|| {
            let _monitor = install(folder);
            panic!("caught above the monitor");
        });
        return caught.is_err();
    }
    if way == "destructor" {
        extern "C" fn crashes() {
            outer(Way::Null);
        }
        // SAFETY: a function without arguments, there to the end.
        unsafe { libc::atexit(crashes) };
    }
    let monitor = install(folder);
    match way {
        "return" => return true,
        "return_for_ever" => {
            // As one in a static is.
            std::mem::forget(monitor);
            return true;
        }
        "destructor" => {
            // Behind ours, since it was there before.
            std::mem::forget(monitor);
            std::process::exit(0);
        }
        "panic" => panic!("out of main"),
        "panic_for_ever" => {
            std::mem::forget(monitor);
            panic!("out of main");
        }
        "panic_unseen" => {
            // As `color_eyre::install` does.
            std::panic::set_hook(Box::new(|_| ()));
            panic!("out of main");
        }
        "panic_aborts" => outer(Way::PanicThatAborts),
        "exit" => std::process::exit(7),
        "drop_exit" => {
            drop(monitor);
            std::process::exit(8);
        }
        "exit_elsewhere" => {
            let _ = std::thread::spawn(|| std::process::exit(9)).join();
        }
        "exit_beside_a_crash" => {
            std::mem::forget(monitor);
            until_begun(folder, || drop(std::thread::spawn(|| outer(Way::Null))));
            std::process::exit(0);
        }
        // SAFETY: nothing of the process is used any more.
        "_exit" => unsafe { libc::_exit(7) },
        // SAFETY: as above.
        "kill" => unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        },
        "drop_exit_at_once" => {
            drop(monitor);
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        other => panic!("no ending {other}"),
    }
    true
}

/// How the launch ended, and its status.
fn how(ended: &Ended) -> (HowEnded, Option<i32>) {
    let launches = store::launches(&ended.folder.0).unwrap();
    assert_eq!(launches.len(), 1, "{launches:?}");
    (launches[0].how, launches[0].status)
}

fn returns() {
    for role in ["ending_return", "ending_return_for_ever"] {
        let ended = play(role);
        assert!(ended.status.success(), "{}", ended.stderr);
        assert_eq!(how(&ended), (HowEnded::Exit, Some(0)), "{role}");
        assert!(ended.readings().is_empty());
    }
}

fn exits() {
    for (role, status) in [
        ("ending_exit", 7),
        ("ending_drop_exit", 8),
        ("ending_exit_elsewhere", 9),
    ] {
        let ended = play(role);
        assert_eq!(ended.status.code(), Some(status), "{}", ended.stderr);
        assert_eq!(how(&ended), (HowEnded::Exit, Some(status)), "{role}");
    }
}

fn panics() {
    for role in ["ending_panic", "ending_panic_for_ever"] {
        let ended = play(role);
        assert_eq!(ended.status.code(), Some(101), "{}", ended.stderr);
        assert_eq!(how(&ended), (HowEnded::Panic, Some(101)), "{role}");
        assert!(!HowEnded::Panic.is_clean());
        let event = ended.report().event.unwrap();
        assert_eq!((event.kind, event.fatal), (EventKind::Panic, true));
        assert_eq!(event.message.as_deref(), Some("out of main"));
    }
    let ended = play("ending_panic_aborts");
    assert_eq!(ended.signal(), Some(libc::SIGABRT), "{}", ended.stderr);
    assert_eq!(how(&ended), (HowEnded::Panic, None));
}

fn caught() {
    let ended = play("ending_caught");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(how(&ended), (HowEnded::Exit, Some(0)));
    assert!(!ended.report().event.unwrap().fatal);
}

fn unseen() {
    let ended = play("ending_panic_unseen");
    assert_eq!(ended.status.code(), Some(101), "{}", ended.stderr);
    assert_eq!(how(&ended), (HowEnded::Panic, Some(101)));
    let report = ended.report();
    let stack = functions(&report, 0);
    // Who dropped the monitor; the frames that panicked are gone by then.
    assert!(in_order(&stack, &["roles", "main"]), "{stack:#?}");
    let event = report.event.unwrap();
    assert_eq!((event.kind, event.fatal), (EventKind::Panic, true));
    assert!(event.message.unwrap().contains("hook"));
    assert_eq!(event.location, None);
}

fn destructor() {
    let ended = play("ending_destructor");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    assert_eq!(how(&ended), (HowEnded::Crash, None));
    assert!(ended.report().event.unwrap().fatal);
}

fn beside() {
    let ended = play("ending_exit_beside_a_crash");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    assert_eq!(how(&ended), (HowEnded::Crash, None));
    let reading = &ended.readings()[0];
    assert!(reading.report.event.as_ref().unwrap().fatal && reading.damage.is_empty());
    assert_eq!(reading.report.end.as_ref().unwrap().closed_by, "writer");
}

fn abrupt() {
    for role in ["ending__exit", "ending_kill"] {
        let ended = play(role);
        assert_eq!(how(&ended), (HowEnded::Abrupt, None), "{role}");
        assert!(!HowEnded::Abrupt.is_clean());
    }
    // Nothing watched any more.
    let ended = play("ending_drop_exit_at_once");
    assert_eq!(how(&ended), (HowEnded::Uninstalled, None));
}
