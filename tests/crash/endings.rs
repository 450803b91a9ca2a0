//! The end of each launch is what it was, reported to the next one.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wedjat::load::CpuLoad;
use wedjat::report::EventKind;
use wedjat::store::{self, HowEnded};
use wedjat::{Crash, Monitor, Stall};

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
        ("a_quick_exit_is_an_exit", quick),
        (
            "a_process_ends_with_the_apps_last_thread_and_cleanly",
            last_thread,
        ),
        (
            "a_destructor_that_crashes_behind_the_exit_is_a_crash",
            destructor,
        ),
        ("an_exit_waits_for_the_crash_of_another_thread", beside),
        (
            "an_exit_waits_for_an_earlier_handler_of_another_threads_crash",
            beside_a_handler,
        ),
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
    if way == "last_thread" {
        leaves_the_rest_to_a_thread(folder);
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
        // SAFETY: nothing of the process is used any more.
        "quick_exit" => unsafe { quick_exit(6) },
        // SAFETY: the child only exits.
        "quick_exit_of_child" => unsafe {
            let child = libc::fork();
            if child == 0 {
                quick_exit(0);
            }
            libc::waitpid(child, std::ptr::null_mut(), 0);
            libc::kill(libc::getpid(), libc::SIGKILL);
        },
        other => panic!("no ending {other}"),
    }
    true
}

unsafe extern "C-unwind" {
    fn quick_exit(status: i32) -> !;
    fn pthread_exit(result: *mut libc::c_void) -> !;
}

/// Ends the main thread by `pthread_exit`, as a C program does, while another one works and leaves a stall; the callback for
/// that and the helper thread are busy when the last thread of the app ends.
fn leaves_the_rest_to_a_thread(folder: &Path) -> ! {
    static HANDED_ON: AtomicU32 = AtomicU32::new(0);
    extern "C" fn behind() {
        let status = if HANDED_ON.load(Ordering::SeqCst) == 1 {
            0
        } else {
            1
        };
        if status != 0 {
            // SAFETY: nothing of the process is used any more but what this hides.
            unsafe { libc::_exit(status) };
        }
    }
    extern "C-unwind" fn leaves() {
        // SAFETY: this stack has no frames with destructors.
        unsafe { pthread_exit(std::ptr::null_mut()) };
    }
    // SAFETY: a function without arguments, there to the end.
    unsafe { libc::atexit(behind) };
    for file in 0..2000 {
        std::fs::write(folder.join(format!("{file}.wedjat")), "no report").unwrap();
    }
    let monitor = Monitor::builder("crash test", "1.0")
        .directory(folder)
        .crash(Crash::default())
        .stall(Stall::default())
        .cpu(CpuLoad::default())
        .on_report(|_| {
            std::thread::sleep(Duration::from_millis(700));
            HANDED_ON.fetch_add(1, Ordering::SeqCst);
        })
        .install()
        .unwrap();
    monitor.heartbeat().turn(|| ());
    std::mem::forget(monitor);
    std::thread::spawn(|| {
        let watch = wedjat::watch_thread("worker", Stall::default()).unwrap();
        watch.heartbeat().turn(|| ());
        let work = || std::thread::sleep(Duration::from_millis(1500));
        watch.heartbeat().turn(work);
    });
    // On a stack of its own: Rust's frames below `main` would stop the unwinding.
    let mut room = vec![0u8; 64 << 10];
    // SAFETY: the context is filled in, and its stack outlives it; nothing here is dropped any more.
    unsafe {
        let mut context = std::mem::zeroed::<libc::ucontext_t>();
        libc::getcontext(&mut context);
        context.uc_stack.ss_sp = room.as_mut_ptr().cast();
        context.uc_stack.ss_size = room.len();
        let leaves = std::mem::transmute::<extern "C-unwind" fn(), extern "C" fn()>(leaves);
        libc::makecontext(&mut context, leaves, 0);
        libc::setcontext(&context);
    }
    unreachable!("the thread has ended");
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

fn quick() {
    let ended = play("ending_quick_exit");
    assert_eq!(ended.status.code(), Some(6), "{}", ended.stderr);
    assert_eq!(how(&ended), (HowEnded::Exit, None));
    let ended = play("ending_quick_exit_of_child");
    assert_eq!(ended.signal(), Some(libc::SIGKILL), "{}", ended.stderr);
    assert_eq!(how(&ended).0, HowEnded::Abrupt);
}

fn last_thread() {
    let ended = play("ending_last_thread");
    ended.succeeded();
    assert_eq!(how(&ended), (HowEnded::Exit, Some(0)));
    let reports = store::reports(&ended.folder.0).unwrap();
    let reports = reports.iter().filter_map(|report| report.read().ok());
    let stalls: Vec<_> = reports
        .filter_map(|reading| reading.report.stall_end)
        .collect();
    assert_eq!(stalls.len(), 1);
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

fn beside_a_handler() {
    for role in ["slow_exit_resets", "slow_exit_computes"] {
        let ended = play(role);
        assert_eq!(
            ended.signal(),
            Some(libc::SIGSEGV),
            "{role}: {}",
            ended.stderr
        );
        assert_eq!(how(&ended), (HowEnded::Crash, None), "{role}");
        let [reading] = &ended.readings()[..] else {
            panic!("{role}: not one report");
        };
        assert!(reading.report.event.as_ref().unwrap().fatal, "{role}");
    }
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
