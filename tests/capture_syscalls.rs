//! Which system calls a capture makes: a filter in the kernel ends the process at any other.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod deadline;

use std::sync::atomic::{AtomicBool, Ordering};

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::Thread;

/// Everything that the capturing thread and the watched thread's handler may ask of the kernel.
/// `clock_gettime` stands here for machines without a vDSO; `open`, `read` and `close` are for
/// `/proc/self/task/TID/status`, read where an answer is slow.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_tgkill,
    libc::SYS_futex,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_process_vm_readv,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_close,
    libc::SYS_rt_sigreturn,
    // Changes nothing: whether an image's file is as long as it was.
    libc::SYS_rt_sigprocmask,
    // How the test itself ends, and its watched thread yields.
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_write,
];

/// Kills the process at any other system call of the calling thread, from now on. The threads of the
/// test harness, which may be anywhere, are left alone.
fn filter() {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = vec![step(LOAD_NUMBER, 0, 0, 0)];
    for (index, number) in ALLOWED.iter().enumerate() {
        let to_allow = (ALLOWED.len() - index) as u8;
        program.push(step(JUMP_EQUAL, to_allow, 0, *number as u32));
    }
    program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
    program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.leak().as_mut_ptr(),
    };
    // SAFETY: a program that is never freed; the filter concerns this thread alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let done = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        );
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

static FILTERED: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);

#[test]
#[ignore = "ends its process: `captures_make_no_other_system_calls` runs it in one of its own"]
fn filtered() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        sender.send(Thread::current()).unwrap();
        filter();
        FILTERED.store(true, Ordering::Release);
        while !STOP.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    });
    let thread = receiver.recv().unwrap();
    ImageTable::refresh();
    let mut limits = CaptureLimits::default();
    limits.answer = 10_000_000_000;
    let mut capturer = Capturer::new(&limits).unwrap();
    let mut good = 0;
    while !FILTERED.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    filter();
    for _ in 0..500 {
        let images = ImageTable::enter();
        good += u32::from(capturer.capture(thread, &images).is_ok());
        good += u32::from(!capturer.capture_here(&images).frames.is_empty());
    }
    // SAFETY: ends the process, before any other call of the kernel.
    unsafe { libc::syscall(libc::SYS_exit_group, if good == 1000 { 42 } else { 43 }) };
}

#[test]
fn captures_make_no_other_system_calls() {
    let status = deadline::status(&mut deadline::one_test("filtered"));
    assert_eq!(status.code(), Some(42), "{status}");
}
