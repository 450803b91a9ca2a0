//! What the crash path calls the kernel for: a filter ends the process at any other system call.

use std::path::Path;

use crate::child::{calls, play, stack};
use crate::{Tests, Way, install, outer, seccomp, tests};

pub fn trials() -> Tests {
    tests(&[(
        "the_crash_path_makes_only_system_calls_that_handlers_may",
        allow_list,
    )])
}

/// All that a dying thread, and those that it captures, may ask: each is a call of signal-safety(7)
/// or nothing but a trap into the kernel. No memory is mapped, no thread made, nothing waited for
/// without a time-out.
const ALLOWED: &[libc::c_long] = &[
    // The report's file.
    libc::SYS_openat,
    libc::SYS_write,
    libc::SYS_flock,
    // The record of the launch.
    libc::SYS_pwrite64,
    // Whether it is still the one that was opened.
    libc::SYS_newfstatat,
    // Of debug builds: is the descriptor open that is about to be closed?
    libc::SYS_fcntl,
    libc::SYS_close,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    // What is read of /proc.
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_getdents64,
    libc::SYS_process_vm_readv,
    // Who, when, and an id for the report.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    // Other threads are stopped and let go.
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_rt_sigreturn,
    // Where a thread's own stack lies.
    libc::SYS_get_robust_list,
    libc::SYS_futex,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    // Masks, the previous handler (which has no alternate stack meanwhile), and the end.
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigaction,
    libc::SYS_tgkill,
];

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "filtered" | "filtered_small" => {
            let _monitor = install(folder);
            let (ready, go) = (std::sync::Barrier::new(5), std::sync::Barrier::new(2));
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| crate::asleep(&ready));
                }
                scope.spawn(|| {
                    // A thread that starts makes calls of its own.
                    ready.wait();
                    go.wait();
                    outer(Way::Null);
                });
                // One that runs, and so is stopped by a signal.
                scope.spawn(|| {
                    ready.wait();
                    loop {
                        std::hint::spin_loop();
                    }
                });
                ready.wait();
                std::thread::sleep(std::time::Duration::from_millis(50));
                seccomp::allow(ALLOWED, seccomp::ALL_THREADS);
                if role == "filtered" {
                    outer(Way::Null);
                }
                // On the alternate stack that Rust gives a thread, which has little room.
                go.wait();
            });
        }
        _ => return false,
    }
    true
}

fn allow_list() {
    ["filtered", "filtered_small"].into_iter().for_each(allowed);
}

fn allowed(role: &str) {
    let ended = play(role);
    // At a forbidden call it would be SIGSYS.
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let report = ended.report();
    let stack = stack(&report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    assert!(report.threads.len() >= 5);
}
