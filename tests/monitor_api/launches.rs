//! How the launch before ended, as the next one learns it without a report.

use std::thread::sleep;
use std::time::Duration;

use wedjat::store::{self, EndedLaunch, HowEnded};
use wedjat::{Crash, InstallError, Monitor, Stall};

use crate::support::stall::{is_child, start};
use crate::{MS, builder, folder};

/// What the next launch learns of one that did `what`.
fn ended(what: &str) -> (HowEnded, Option<i32>) {
    let test = "launches::how_the_launch_before_ended_is_known_without_a_report";
    let folder = folder(what);
    // SAFETY: this test's children are started one after another, by this thread.
    unsafe { std::env::set_var("WEDJAT_TEST_WHAT", what) };
    let mut child = start(test);
    if what.starts_with("killed") {
        while child.line() != "now" {}
        child.signal(libc::SIGKILL);
    }
    child.end();
    let seen = wedjat::store::launches(&folder).unwrap();
    let monitor = builder(&folder).install().unwrap();
    let previous = monitor.previous_launch().unwrap().clone();
    assert_eq!(seen, std::slice::from_ref(&previous));
    assert!(previous.app_version == "1.2" && previous.footprint.unwrap() > 0);
    assert!(previous.last_seen >= previous.started);
    assert_eq!(previous.foreground, what != "killed in the background");
    drop(monitor);
    // What was reported once is not reported again.
    let monitor = builder(&folder).install().unwrap();
    assert_eq!(monitor.previous_launches().len(), 1);
    assert_eq!(
        monitor.previous_launch().unwrap().how,
        HowEnded::Uninstalled
    );
    drop(monitor);
    std::fs::remove_dir_all(&folder).unwrap();
    (previous.how, previous.status)
}

#[test]
fn how_the_launch_before_ended_is_known_without_a_report() {
    if is_child() {
        let what = std::env::var("WEDJAT_TEST_WHAT").unwrap();
        let monitor = builder(&folder(&what))
            .stall(Stall::default())
            .crash(Crash::default())
            .install()
            .unwrap();
        println!("ready");
        monitor.heartbeat().turn(|| ());
        match &*what {
            "exits" => std::process::exit(7),
            "drops" => return drop(monitor),
            // SAFETY: no memory is involved.
            "crashes" => unsafe {
                libc::raise(libc::SIGSEGV);
            },
            "killed" => println!("now"),
            "killed in the background" => {
                monitor.set_foreground(false);
                // It is another thread that writes it to the disk.
                sleep(200 * MS);
                println!("now");
            }
            "killed in a stall" => {
                monitor.heartbeat().begin();
                while !monitor.stats().stalled {
                    sleep(10 * MS);
                }
                println!("now");
            }
            "forks" => {
                // SAFETY: the child only exits, by way of what `exit` calls.
                match unsafe { libc::fork() } {
                    0 => std::process::exit(3),
                    child => {
                        let mut status = 0;
                        // SAFETY: our own child.
                        unsafe { libc::waitpid(child, &mut status, 0) };
                        // SAFETY: nothing of the process is used any more.
                        unsafe { libc::_exit(0) };
                    }
                }
            }
            other => panic!("{other}"),
        }
        sleep(Duration::from_secs(60));
        return;
    }
    assert_eq!(ended("exits"), (HowEnded::Exit, Some(7)));
    assert_eq!(ended("drops"), (HowEnded::Exit, Some(0)));
    assert_eq!(ended("crashes"), (HowEnded::Crash, None));
    assert_eq!(ended("killed"), (HowEnded::Abrupt, None));
    assert_eq!(ended("killed in the background"), (HowEnded::Abrupt, None));
    assert_eq!(ended("killed in a stall"), (HowEnded::Stalled, None));
    assert_eq!(
        ended("forks"),
        (HowEnded::Abrupt, None),
        "the child's exit is its own"
    );
}

/// An install that fails, here for want of memory, takes nothing from the next one, and is no launch.
#[test]
fn an_install_that_fails_leaves_the_launch_before_to_the_next_one() {
    let test = "launches::an_install_that_fails_leaves_the_launch_before_to_the_next_one";
    let folder = folder(test);
    if !is_child() {
        let (good, lines) = start(test).outcome();
        assert!(good, "{lines:#?}");
        std::fs::remove_dir_all(&folder).unwrap();
        return;
    }
    println!("ready");
    // SAFETY: the child leaves without what `exit` calls.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let monitor = Monitor::builder("Api", "1.1").directory(&folder).install();
            libc::_exit(i32::from(monitor.is_err()));
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        assert_eq!(status, 0);
    }
    let limit = |bytes| {
        let limit = libc::rlimit {
            rlim_cur: bytes,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: the limit outlives the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    };
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = sizes.split(' ').next().unwrap().parse().unwrap();
    // Far less than the stack of a thread, or the room for captures, and enough for names and paths.
    limit(pages * 4096 + (1 << 19));
    let failed = builder(&folder).stall(Stall::default()).install();
    limit(libc::RLIM_INFINITY);
    assert!(matches!(failed, Err(InstallError::Resources { .. })));
    let before = ("1.1".to_owned(), HowEnded::Abrupt);
    let left = store::launches(&folder).unwrap();
    let told = |launch: &EndedLaunch| (launch.app_version.clone(), launch.how);
    let left: Vec<_> = left.iter().map(told).collect();
    assert_eq!(left, std::slice::from_ref(&before));
    // An install has only so much time, and begins with the newest.
    let mut next = Vec::new();
    for round in 0..10 {
        let monitor = builder(&folder).install().unwrap();
        next.extend(monitor.previous_launches().iter().map(told));
        assert!(round > 0 || next.iter().all(|(version, _)| version == "1.1"));
        if next.contains(&before) {
            break;
        }
    }
    assert!(next.contains(&before), "{next:?}");
}
