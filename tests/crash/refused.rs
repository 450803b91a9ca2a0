//! An install whose crash part fails: nothing of it stays, and the next install works.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wedjat::{Crash, InstallError, Monitor, Stall};

use crate::child::{calls, play, stack};
use crate::{Tests, Way, install, outer, seccomp, tests};

pub fn trials() -> Tests {
    tests(&[
        (
            "an_install_that_may_not_handle_the_last_signal_leaves_nothing",
            last_signal,
        ),
        (
            "an_install_that_may_not_handle_the_first_signal_leaves_nothing",
            first_signal,
        ),
        (
            "an_install_that_has_no_stack_for_handlers_leaves_nothing",
            no_stack,
        ),
    ])
}

/// Signals that are reported.
const SIGNALS: [i32; 8] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGTERM,
];

/// What an install changes in a process.
#[derive(Debug, PartialEq)]
struct Process {
    /// Of each signal: the function, the flags, and the signals that it blocks.
    handlers: Vec<(usize, i32, Vec<i32>)>,
    threads: BTreeSet<PathBuf>,
}

impl Process {
    fn now() -> Process {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        Process {
            handlers: SIGNALS.into_iter().map(handler).collect(),
            threads: threads.map(|thread| thread.unwrap().path()).collect(),
        }
    }

    /// The state as it is once all threads that are about to end have ended.
    fn settled(before: &Process) -> Process {
        let start = Instant::now();
        loop {
            let now = Process::now();
            if now == *before || start.elapsed() > Duration::from_secs(5) {
                return now;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn handler(signal: i32) -> (usize, i32, Vec<i32>) {
    // SAFETY: reads only, into a structure that outlives the call.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(signal, std::ptr::null(), &mut action), 0);
        action
    };
    // SAFETY: the set is a whole one.
    let blocks = |signal: &i32| unsafe { libc::sigismember(&action.sa_mask, *signal) == 1 };
    let blocked = (1..=libc::SIGRTMAX()).filter(blocks).collect();
    // glibc adds this one to what it puts in place.
    const SA_RESTORER: i32 = 0x0400_0000;
    (action.sa_sigaction, action.sa_flags & !SA_RESTORER, blocked)
}

/// Bytes of the calling thread's alternate stack.
fn alternate_stack() -> usize {
    // SAFETY: reads only, into a structure that outlives the call.
    unsafe {
        let mut now: libc::stack_t = std::mem::zeroed();
        assert_eq!(libc::sigaltstack(std::ptr::null(), &mut now), 0);
        let is_there = now.ss_flags & libc::SS_DISABLE == 0;
        if is_there { now.ss_size } else { 0 }
    }
}

/// Count of the records of launches.
fn launches(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).unwrap();
    let is_record = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "launch");
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(is_record).count()
}

/// A handler that was there before.
extern "C" fn earlier(_signal: i32) {}

fn handle(signal: i32) {
    // SAFETY: the action is zeroed, which is valid, and outlives the call; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = earlier as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaddset(&mut action.sa_mask, libc::SIGUSR1);
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// With all that may be installed before the crash part, or after it.
fn fails(folder: &Path) -> InstallError {
    let monitor = Monitor::builder("crash test", "1.0")
        .directory(folder)
        .stall(Stall::default())
        .crash(Crash::default().sigterm(true))
        .on_report(|_| ())
        .install();
    monitor.expect_err("the call was denied")
}

fn may_not_handle(denied: i32, folder: &Path) {
    let before = alternate_stack();
    seccomp::deny_where_first_is(libc::SYS_rt_sigaction, denied);
    let error = fails(folder);
    let is_named = matches!(error, InstallError::Signal { signal, .. } if signal == denied);
    assert!(is_named, "{error}");
    assert_eq!(alternate_stack(), before);
}

pub fn role(role: &str, folder: &Path) -> bool {
    let Some(what) = role.strip_prefix("refused_") else {
        return false;
    };
    // SAFETY: a plain call. What hangs dies of it.
    unsafe { libc::alarm(20) };
    handle(libc::SIGFPE);
    handle(libc::SIGTRAP);
    let before = Process::now();
    // The filter is the thread's, and that of threads that it starts.
    let refused = || match what {
        "first" => may_not_handle(SIGNALS[0], folder),
        "last" => may_not_handle(SIGNALS[SIGNALS.len() - 1], folder),
        _ => {
            seccomp::deny(&[libc::SYS_sigaltstack], 0);
            let error = fails(folder);
            assert!(matches!(error, InstallError::SignalStack { .. }), "{error}");
        }
    };
    let files = [0, 1].map(|time| {
        let ended = std::thread::scope(|scope| scope.spawn(refused).join());
        assert!(ended.is_ok(), "install {time}");
        assert_eq!(Process::settled(&before), before, "install {time}");
        assert_eq!(launches(folder), 0, "install {time}");
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    });
    // Some stay open for the next install, which uses them again.
    assert_eq!(files[0], files[1]);
    let monitor = install(folder);
    assert!(monitor.replaced_signals().is_empty());
    outer(Way::Null);
    true
}

fn leaves_nothing(role: &str) {
    let ended = play(role);
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let stack = stack(&ended.report(), 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}

fn last_signal() {
    leaves_nothing("refused_last");
}

fn first_signal() {
    leaves_nothing("refused_first");
}

fn no_stack() {
    leaves_nothing("refused_stack");
}
