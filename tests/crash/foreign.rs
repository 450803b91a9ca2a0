//! Stacks, signals, masks and files of the app's that our handlers meet: the app lives on, and ends, as without them.

use std::ffi::c_void;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use wedjat::store;
use wedjat::{Crash, Monitor};

use crate::child::{Ended, calls, play, stack};
use crate::disk::limit;
use crate::{Tests, Way, install, outer, seccomp, tests};

pub fn trials() -> Tests {
    tests(&[
        (
            "a_capture_of_a_thread_whose_alternate_stack_is_gone_harms_nobody",
            stack_is_gone,
        ),
        (
            "a_capture_of_a_thread_without_a_thread_pointer_harms_nobody",
            no_thread_pointer,
        ),
        (
            "a_crash_without_a_thread_pointer_ends_the_process",
            dies_without_thread_pointer,
        ),
        (
            "a_system_call_that_is_trapped_is_emulated_by_who_traps_it",
            trapped,
        ),
        (
            "a_handler_that_waits_for_all_threads_has_them_at_once",
            all_threads_arrive,
        ),
        (
            "a_program_that_a_callback_starts_has_the_mask_of_the_app",
            callback_starts,
        ),
        (
            "a_handler_that_signal_has_put_back_reports_all_facts",
            put_back,
        ),
        // On arm64 the kernel passes no context then.
        #[cfg(target_arch = "x86_64")]
        (
            "a_signal_that_was_sent_is_not_lost_where_signal_has_put_our_handler_back",
            put_back_sent,
        ),
        (
            "a_call_is_made_again_where_the_previous_handler_wants_that",
            made_again,
        ),
        ("reports_are_taken_where_there_is_no_flock", no_flock),
        (
            "a_crash_is_reported_where_no_memory_can_be_had_after_install",
            no_memory,
        ),
        (
            "a_thread_that_is_to_be_cancelled_is_reported",
            to_be_cancelled,
        ),
        (
            "a_record_is_written_by_a_thread_that_is_to_be_cancelled",
            records_to_be_cancelled,
        ),
        ("an_app_with_a_low_limit_for_files_installs", limited_files),
        (
            "a_handler_that_leaves_its_alternate_stack_dies_and_is_reported",
            handler_overflows,
        ),
        (
            "a_child_of_fork_installs_beside_a_monitor_that_is_never_dropped",
            child_installs,
        ),
    ])
}

pub fn role(role: &str, folder: &Path) -> bool {
    let Some(role) = role.strip_prefix("foreign_") else {
        return false;
    };
    match role {
        "stack_is_gone" => records_itself(folder, || {
            use_stack_that_is_gone();
            spin(Duration::from_millis(500));
        }),
        "no_thread_pointer" => records_itself(folder, || without_thread_pointer(|| ())),
        "dies_without_thread_pointer" => {
            let _monitor = install(folder);
            without_thread_pointer(|| {
                // SAFETY: none: it is meant to go wrong.
                unsafe { std::arch::asm!("mov {at}, 8", "mov [{at}], {at}", at = out(reg) _) }
            });
        }
        "trapped" => emulates(folder),
        "all_threads_arrive" => collects(folder),
        "callback_starts" => starts(folder),
        "put_back" => puts_back(folder, Way::Null),
        "put_back_sent" => {
            // Rust's own handler would swallow it.
            // SAFETY: a plain call.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            puts_back(folder, Way::RaiseSegv);
        }
        "made_again" => reads(folder),
        "no_flock" => {
            seccomp::deny(&[libc::SYS_flock], seccomp::ALL_THREADS);
            let monitor = install(folder);
            monitor.record("without flock").unwrap();
            drop(monitor);
            let found = store::reports(folder).unwrap();
            let read = found.iter().filter(|report| report.read().is_ok()).count();
            let mut sent = 0;
            let answer = store::send(folder, |_| {
                sent += 1;
                store::Answer::Accepted
            });
            answer.unwrap();
            assert_eq!((read, sent), (1, 1));
        }
        "no_memory" => {
            // Alone on a CPU, a thread that `install` starts runs later than what follows here.
            // SAFETY: plain memory, of which zeros are a value; concerns this process alone.
            unsafe {
                let mut one: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0);
            }
            let _monitor = install(folder);
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: the structure lives across the call.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &none) }, 0);
            outer(Way::Null);
        }
        "child_installs" => forks(folder),
        "to_be_cancelled" => {
            let _monitor = install(folder);
            in_thread_to_be_cancelled(|| outer(Way::Null));
        }
        "records_to_be_cancelled" => {
            let monitor = install(folder);
            in_thread_to_be_cancelled(|| {
                let is_written = monitor.record("to be cancelled").is_ok();
                let has_stacks = monitor.stacks(wedjat::Threads::Current).is_ok();
                // SAFETY: ends the process.
                unsafe { libc::_exit(i32::from(!(is_written && has_stacks))) };
            });
        }
        "limited_files" => {
            // SAFETY: a plain call: std has it ignored.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
            limit(libc::RLIMIT_FSIZE, 100_000);
            let _monitor = install(folder);
            outer(Way::Null);
        }
        "handler_overflows" => {
            #[expect(unconditional_recursion, reason = "its stack is to overflow")]
            extern "C" fn recurses(signal: i32) {
                let room = std::hint::black_box([signal; 1 << 10]);
                recurses(std::hint::black_box(room[1]));
                std::hint::black_box(room);
            }
            put_handler(
                libc::SIGSEGV,
                recurses as *const () as usize,
                libc::SA_ONSTACK,
            );
            let _monitor = install(folder);
            outer(Way::Null);
        }
        other => panic!("no role foreign_{other}"),
    }
    true
}

/// Watches the main thread, which does `work` while another thread reports its stack.
fn records_itself(folder: &Path, work: impl FnOnce()) {
    let monitor = Monitor::builder("foreign", "1")
        .directory(folder)
        .crash(Crash::default())
        .install()
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            for _ in 0..3 {
                monitor.record("from elsewhere").unwrap();
            }
        });
        work();
    });
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn use_stack_that_is_gone() {
    const SIZE: usize = 64 << 10;
    // SAFETY: a new mapping becomes the alternate stack, and goes; no handler starts on it, as without us.
    unsafe {
        let (rights, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let start = libc::mmap(std::ptr::null_mut(), SIZE, rights, flags, -1, 0);
        let stack = libc::stack_t {
            ss_sp: start,
            ss_flags: 0,
            ss_size: SIZE,
        };
        assert_eq!(libc::sigaltstack(&stack, std::ptr::null_mut()), 0);
        libc::munmap(start, SIZE);
    }
}

/// Computes for a while and then does `last` with a thread pointer of 0, as an emulator does; nothing here may touch what
/// is local to the thread.
#[cfg(target_arch = "x86_64")]
fn without_thread_pointer(last: impl FnOnce()) {
    const ARCH_SET_FS: u64 = 0x1002;
    let set = |pointer: u64| {
        // SAFETY: the thread has its own pointer back before anything needs it.
        unsafe {
            std::arch::asm!(
                "syscall",
                inlateout("rax") libc::SYS_arch_prctl => _,
                in("rdi") ARCH_SET_FS,
                in("rsi") pointer,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
    };
    let own: u64;
    // SAFETY: reads the thread's own pointer.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) own) };
    set(0);
    let mut count = 0u64;
    while count < 1_500_000_000 {
        // SAFETY: changes a register alone.
        unsafe { std::arch::asm!("inc {}", inout(reg) count) };
    }
    last();
    set(own);
}

/// Only x86-64 has the call.
#[cfg(not(target_arch = "x86_64"))]
fn without_thread_pointer(last: impl FnOnce()) {
    last();
}

fn stack_is_gone() {
    let ended = play("foreign_stack_is_gone");
    ended.succeeded();
    assert_eq!(ended.readings().len(), 3);
}

fn no_thread_pointer() {
    let ended = play("foreign_no_thread_pointer");
    ended.succeeded();
    let readings = ended.readings();
    assert_eq!(readings.len(), 3);
    assert!(!readings[0].report.threads[0].frames.is_empty());
}

fn dies_without_thread_pointer() {
    let ended = play("foreign_dies_without_thread_pointer");
    // libc opens no file without it: there may be no report.
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
}

fn put_handler(signal: i32, handler: usize, flags: i32) {
    // SAFETY: the structure is zeroed, which is valid for it, and outlives the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Calls that were emulated.
static EMULATED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn emulate(_signal: i32, _info: *mut libc::siginfo_t, context: *mut c_void) {
    EMULATED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: what the kernel gave; the call returns what stands there.
    unsafe {
        let machine = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        #[cfg(target_arch = "x86_64")]
        {
            machine.gregs[libc::REG_RAX as usize] = -i64::from(libc::EACCES);
        }
        #[cfg(target_arch = "aarch64")]
        {
            machine.regs[0] = -i64::from(libc::EACCES) as u64;
        }
    }
}

fn emulates(folder: &Path) {
    let flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
    put_handler(libc::SIGSYS, emulate as *const () as usize, flags);
    let monitor = install(folder);
    // What the recorder itself asks for in its handlers.
    seccomp::trap(&[libc::SYS_sigaltstack]);
    for _ in 0..20 {
        // SAFETY: the filter lets the kernel see nothing of it.
        let result = unsafe { libc::syscall(libc::SYS_sigaltstack, 1, 1) };
        assert_eq!(result, -1);
        assert_eq!(
            std::io::Error::last_os_error().raw_os_error(),
            Some(libc::EACCES)
        );
    }
    assert!(EMULATED.load(Ordering::Relaxed) >= 20);
    monitor.record("behind a filter").unwrap();
    assert!(monitor.replaced_signals().is_empty());
}

fn trapped() {
    let ended = play("foreign_trapped");
    ended.succeeded();
    assert!(
        ended
            .readings()
            .iter()
            .all(|reading| !reading.report.event.as_ref().unwrap().fatal)
    );
}

const THREADS: i32 = 4;
static PAGE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static ARRIVED: AtomicI32 = AtomicI32::new(0);
static IS_OPEN: AtomicBool = AtomicBool::new(true);
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Keeps each thread that reads the page until it is open again.
extern "C" fn keep(_signal: i32) {
    ARRIVED.fetch_add(1, Ordering::SeqCst);
    while !IS_OPEN.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_micros(100));
    }
    ARRIVED.fetch_sub(1, Ordering::SeqCst);
}

fn collects(folder: &Path) {
    // SAFETY: a new mapping.
    let page = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags, -1, 0)
    };
    PAGE.store(page.cast(), Ordering::SeqCst);
    put_handler(libc::SIGSEGV, keep as *const () as usize, libc::SA_ONSTACK);
    let _monitor = install(folder);
    let allow = |rights| {
        // SAFETY: the mapping's own length.
        assert_eq!(unsafe { libc::mprotect(page, 4096, rights) }, 0);
    };
    let until = |count: i32| {
        let start = Instant::now();
        while ARRIVED.load(Ordering::SeqCst) != count {
            assert!(
                start.elapsed() < Duration::from_secs(4),
                "a thread is held up"
            );
            std::thread::sleep(Duration::from_micros(200));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !IS_OVER.load(Ordering::Relaxed) {
                    // SAFETY: a fault leads to the handler, which returns once the page is open.
                    unsafe { PAGE.load(Ordering::Relaxed).read_volatile() };
                }
            });
        }
        for _ in 0..12 {
            IS_OPEN.store(false, Ordering::SeqCst);
            allow(libc::PROT_NONE);
            until(THREADS);
            allow(libc::PROT_READ);
            IS_OPEN.store(true, Ordering::SeqCst);
            until(0);
        }
        IS_OVER.store(true, Ordering::Relaxed);
    });
}

fn all_threads_arrive() {
    let ended = play("foreign_all_threads_arrive");
    ended.succeeded();
    assert!(ended.readings().is_empty(), "it lived on");
}

fn starts(folder: &Path) {
    let file = folder.join("mask");
    let command = format!("grep SigBlk /proc/self/status > '{}'", file.display());
    let monitor = Monitor::builder("foreign", "1")
        .directory(folder)
        .crash(Crash::default())
        .on_report(move |_| {
            let command = std::ffi::CString::new(command.as_str()).unwrap();
            // SAFETY: a C string. (`Command` would open all signals itself.)
            unsafe { libc::system(command.as_ptr()) };
        })
        .install()
        .unwrap();
    let caught = std::panic::catch_unwind(|| panic!("for the callback"));
    assert!(caught.is_err());
    drop(monitor);
    let mask = std::fs::read_to_string(file).unwrap();
    assert_eq!(mask.trim(), "SigBlk:\t0000000000000000");
}

fn callback_starts() {
    play("foreign_callback_starts").succeeded();
}

fn puts_back(folder: &Path, way: Way) {
    let monitor = install(folder);
    // SAFETY: plain calls, by which an app that knows nothing of the handler saves it.
    unsafe {
        let saved = libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        libc::signal(libc::SIGSEGV, saved);
    }
    assert_eq!(monitor.replaced_signals(), [libc::SIGSEGV]);
    outer(way);
}

#[cfg(target_arch = "x86_64")]
fn put_back_sent() {
    let ended = play("foreign_put_back_sent");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{:?}", ended.status);
    let report = ended.report();
    let stack = stack(&report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}

fn put_back() {
    let ended = play("foreign_put_back");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let signal = ended.report().event.unwrap().signal.unwrap();
    assert_eq!(
        (signal.name.as_str(), signal.address),
        ("SIGSEGV", Some(0x10))
    );
}

fn reads(folder: &Path) {
    static HANDLED: AtomicBool = AtomicBool::new(false);
    extern "C" fn ends_nothing(_signal: i32) {
        HANDLED.store(true, Ordering::Relaxed);
    }
    let handler = ends_nothing as *const () as usize;
    put_handler(libc::SIGTERM, handler, libc::SA_RESTART);
    let _monitor = install(folder);
    let mut pipe = [0; 2];
    // SAFETY: room for both ends.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    let reader = std::thread::spawn(move || {
        let mut byte = 0u8;
        // SAFETY: room for a byte.
        let result = unsafe { libc::read(pipe[0], (&raw mut byte).cast(), 1) };
        assert_eq!(result, 1, "{}", std::io::Error::last_os_error());
    });
    use std::os::unix::thread::JoinHandleExt as _;
    std::thread::sleep(Duration::from_millis(100));
    // SAFETY: the thread lives, and the byte too.
    unsafe {
        libc::pthread_kill(reader.as_pthread_t(), libc::SIGTERM);
        while !HANDLED.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        libc::write(pipe[1], c"x".as_ptr().cast(), 1);
    }
    reader.join().unwrap();
}

fn made_again() {
    play("foreign_made_again").succeeded();
}

fn no_flock() {
    play("foreign_no_flock").succeeded();
}

fn no_memory() {
    for _ in 0..5 {
        let ended = dies_in_culprit("foreign_no_memory");
        assert!(!ended.stderr.contains("memory"), "{}", ended.stderr);
        assert!(ended.report().threads[0].crashed);
    }
}

/// Runs `work` in a thread that pthread_cancel(3) ends at the next call which may wait.
fn in_thread_to_be_cancelled(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // SAFETY: the thread does not get to a call that may wait, but by ours.
            assert_eq!(0, unsafe { libc::pthread_cancel(libc::pthread_self()) });
            work();
        });
    });
}

/// Dies of a bad address, with a report that has the stack.
fn dies_in_culprit(role: &str) -> Ended {
    let ended = play(role);
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let stack = stack(&ended.report(), 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    ended
}

fn to_be_cancelled() {
    dies_in_culprit("foreign_to_be_cancelled");
}

fn records_to_be_cancelled() {
    let ended = play("foreign_records_to_be_cancelled");
    ended.succeeded();
    assert_eq!(
        ended.report().event.unwrap().kind,
        wedjat::report::EventKind::Live
    );
}

fn limited_files() {
    dies_in_culprit("foreign_limited_files");
}

fn handler_overflows() {
    let ended = play("foreign_handler_overflows");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    ended.report();
}

fn forks(folder: &Path) {
    static MONITOR: std::sync::OnceLock<Monitor> = std::sync::OnceLock::new();
    MONITOR.get_or_init(|| install(folder));
    // SAFETY: the child installs a monitor of its own, and dies.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(20);
            let _own = install(&folder.join("child"));
            outer(Way::Null);
            libc::_exit(1);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV);
    }
    let found = store::reports(folder.join("child")).unwrap();
    assert_eq!(found.len(), 1);
}

fn child_installs() {
    play("foreign_child_installs").succeeded();
}
