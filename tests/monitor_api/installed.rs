//! What a monitor takes of the process while it is installed, and what it leaves behind.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use wedjat::{Crash, Stall};

use crate::support::stall::is_child;
use crate::{MS, builder, folder, reports};

/// Whether this signal has a handler.
fn is_handled(signal: i32) -> bool {
    // SAFETY: an all-zero `sigaction` is a valid value of that plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: reads only; `action` lives across the call.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    assert_eq!(known, 0);
    action.sa_sigaction != libc::SIG_DFL
}

#[test]
fn the_signal_of_captures_is_the_one_that_was_set() {
    let test = "installed::the_signal_of_captures_is_the_one_that_was_set";
    if is_child() {
        println!("ready");
        let (free, wanted) = (libc::SIGRTMIN() + 4, libc::SIGRTMIN() + 9);
        let install = |signal| builder(&folder(test)).capture_signal(signal).install();
        let refused = |signal| match install(signal) {
            Err(wedjat::InstallError::Signal {
                signal: told,
                source,
            }) => {
                assert_eq!(told, signal);
                source.to_string()
            }
            other => panic!("{other:?}"),
        };
        assert!(refused(libc::SIGUSR1).contains("not a real-time signal"));
        // SAFETY: an ignored signal calls nothing.
        unsafe { libc::signal(wanted + 1, libc::SIG_IGN) };
        assert!(refused(wanted + 1).contains("has a handler"));
        let monitor = install(wanted).unwrap();
        std::thread::scope(|scope| {
            let done = std::sync::atomic::AtomicBool::new(false);
            let done = Arc::new(done);
            let theirs = done.clone();
            let relaxed = std::sync::atomic::Ordering::Relaxed;
            scope.spawn(move || while !theirs.load(relaxed) {});
            monitor.record("by that signal").unwrap();
            done.store(true, relaxed);
        });
        assert!(is_handled(wanted) && !is_handled(free));
        drop(monitor);
        assert!(refused(free).contains(&wanted.to_string()));
        drop(install(wanted).unwrap());
        return;
    }
    let threads = &reports(test)[0].threads;
    assert!(threads.iter().all(|thread| !thread.frames.is_empty()));
}

/// An app that installs and drops monitors all day long keeps no threads, descriptors or stacks of them.
#[test]
fn a_monitor_that_is_dropped_leaves_next_to_nothing() {
    let test = "installed::a_monitor_that_is_dropped_leaves_next_to_nothing";
    if is_child() {
        println!("ready");
        let count = |what: &str| {
            std::fs::read_dir(format!("/proc/self/{what}"))
                .unwrap()
                .count()
        };
        // Private memory that can be written to, bytes.
        let writable = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let own = maps.lines().filter(|line| line.contains(" rw-p "));
            let size = |line: &str| {
                let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
                let number = |text| u64::from_str_radix(text, 16).unwrap();
                number(end) - number(start)
            };
            own.map(size).sum::<u64>()
        };
        let mut before = None;
        for _ in 0..2 {
            for _ in 0..20 {
                let monitor = builder(&folder(test))
                    .stall(Stall::default())
                    .crash(Crash::default());
                drop(monitor.install().unwrap());
            }
            let now = (count("task"), count("fd"), writable());
            let (tasks, fds, bytes) = *before.get_or_insert(now);
            // The system takes threads off its list a moment after they were joined.
            let deadline = Instant::now() + Duration::from_secs(20);
            while count("task") > tasks && Instant::now() < deadline {
                sleep(MS);
            }
            assert!(count("task") <= tasks && now.1 <= fds, "{now:?} {before:?}");
            assert!(now.2 < bytes + (1 << 20), "{now:?} {before:?}");
        }
        return;
    }
    reports(test);
}
