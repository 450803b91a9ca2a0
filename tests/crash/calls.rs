//! What the crash path calls the kernel for: a filter ends the process at any other system call.

use std::path::Path;

use crate::child::{calls, play, stack};
use crate::{Tests, Way, install, outer, tests};

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
    libc::SYS_futex,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    // Masks, the handler of before (which has no alternate stack meanwhile), and the end.
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigaction,
    libc::SYS_tgkill,
];

/// Kills the process at any other system call of any of its threads, from now on.
fn filter() {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let returns = libc::BPF_RET | libc::BPF_K;
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (index, number) in ALLOWED.iter().enumerate() {
        let to_allow = (ALLOWED.len() - index) as u8;
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        program.push(step(equal, to_allow, 0, *number as u32));
    }
    program.push(step(returns, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
    program.push(step(returns, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.leak().as_mut_ptr(),
    };
    // SAFETY: a program that is never freed; the filter concerns this process alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let done = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        );
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "filtered" | "filtered_small" => {
            let _monitor = install(folder);
            let (ready, go) = (std::sync::Barrier::new(4), std::sync::Barrier::new(2));
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| crate::asleep(&ready));
                }
                let go = &go;
                scope.spawn(move || {
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
                filter();
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
