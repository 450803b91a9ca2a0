//! Which system calls a capture makes: a filter in the kernel ends the process at any other.

use crate::deadline;
use crate::seccomp;
use std::sync::atomic::{AtomicBool, Ordering};

use wedjat::capture::{CaptureLimits, Capturer, ImageTable};
use wedjat::platform::Thread;

/// Everything that the capturing thread and the watched thread's handler may ask of the kernel.
/// `clock_gettime` stands here for machines without a vDSO; `open`, `read` and `close` are for
/// files of `/proc/self/task/TID`.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_tgkill,
    libc::SYS_futex,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_process_vm_readv,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_close,
    // Whether our handler is still installed, and whether the app has others: none is changed.
    libc::SYS_rt_sigaction,
    // Where a thread's own stack lies.
    libc::SYS_get_robust_list,
    libc::SYS_rt_sigreturn,
    // Changes nothing: whether an image's file is as long as it was.
    libc::SYS_rt_sigprocmask,
    // How the test itself ends, and its watched thread yields.
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_write,
];

/// The threads of the test harness, which may be anywhere, are left alone.
fn filter() {
    seccomp::kill_where_second_is_given(libc::SYS_rt_sigaction);
    seccomp::allow(ALLOWED, 0);
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
    let status = deadline::status(&mut deadline::one_test("syscalls::filtered"));
    assert_eq!(status.code(), Some(42), "{status}");
}
