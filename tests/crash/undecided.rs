//! A fault that some handler was called for is a death only where the process ends of it.

use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use wedjat::report::EventKind;
use wedjat::store::{self, HowEnded};
use wedjat::{Crash, Monitor, Stall};

use crate::child::{Ended, calls, play, stack};
use crate::neighbours::{siglongjmp, sigsetjmp};
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        (
            "a_freeze_after_a_fault_that_was_survived_is_reported",
            freezes,
        ),
        (
            "a_crash_of_another_thread_after_a_fault_that_was_survived_is_the_report",
            dies,
        ),
        (
            "a_worker_that_survived_a_fault_and_ended_leaves_no_report",
            worker_ends,
        ),
        (
            "an_exit_after_a_fault_that_was_survived_leaves_no_report",
            exits,
        ),
        (
            "a_child_of_fork_survives_as_many_faults_as_without_us",
            forked,
        ),
        ("a_handler_that_ends_the_process_leaves_its_report", ends),
        (
            "a_process_that_lives_on_has_no_report_after_a_while",
            lives_on,
        ),
        (
            "a_signal_while_a_report_is_written_leaves_our_stack_alone",
            signalled,
        ),
        ("faults_survived_ever_deeper_are_no_ring", deeper),
        ("a_handler_that_jumps_out_leaves_its_own_mask", masked),
        ("a_handler_that_waits_for_long_keeps_its_report", waits_long),
        (
            "a_handler_that_gives_way_after_long_leaves_a_report",
            runs_long,
        ),
    ])
}

static JUMP: AtomicPtr<[u64; 64]> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn jumps(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let buffer = JUMP.swap(std::ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: async-signal-safe, or the function that set the buffer is still there.
    unsafe {
        if buffer.is_null() {
            libc::signal(signal, libc::SIG_DFL);
        } else {
            siglongjmp(buffer, 1);
        }
    }
}

/// Goes on elsewhere, as a language's runtime does that makes an exception of a fault.
extern "C" fn goes_on_elsewhere(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    extern "C" fn elsewhere() -> ! {
        // SAFETY: nothing of the process is used any more.
        unsafe { libc::_exit(2) }
    }
    // SAFETY: the kernel's context; the function never returns, and the stack is aligned for a call to it.
    unsafe {
        let machine = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        #[cfg(target_arch = "x86_64")]
        {
            let sp = &mut machine.gregs[libc::REG_RSP as usize];
            *sp = ((*sp - 256) & !15) - 8;
            machine.gregs[libc::REG_RIP as usize] = elsewhere as *const () as i64;
        }
        #[cfg(target_arch = "aarch64")]
        {
            machine.pc = elsewhere as *const () as u64;
        }
    }
}

pub type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

pub fn handle(signal: i32, handler: Handler) {
    handle_with(signal, handler, libc::SA_ONSTACK);
}

fn handle_with(signal: i32, handler: Handler, flags: i32) {
    // SAFETY: the action is zeroed, which is valid, and lives across the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// A fault that [`jumps`] jumps out of.
fn survived() {
    survived_with(1);
}

/// The same; the mask is put back by the jump if `saved` is not 0.
#[inline(never)]
fn survived_with(saved: i32) {
    let mut buffer = [0; 64];
    // SAFETY: nothing of this frame is looked at after the jump but `buffer`'s address.
    unsafe {
        JUMP.store(&mut buffer, Ordering::SeqCst);
        if sigsetjmp(&raw mut buffer, saved) == 0 {
            libc::raise(libc::SIGFPE);
        }
    }
    assert!(JUMP.load(Ordering::SeqCst).is_null());
}

/// At each level, on the thread's own stack.
#[inline(never)]
fn survived_at_each(level: u32) {
    let room = std::hint::black_box([level; 64]);
    let none = libc::stack_t {
        ss_sp: std::ptr::null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    };
    // SAFETY: the structure outlives the call; this thread is on no alternate stack.
    assert_eq!(unsafe { libc::sigaltstack(&none, std::ptr::null_mut()) }, 0);
    survived();
    if level > 1 {
        survived_at_each(level - 1);
    }
    std::hint::black_box(&room);
}

/// The calling thread's signal mask.
fn mask() -> Vec<bool> {
    // SAFETY: the set is zeroed, which is valid, and filled in by the call.
    unsafe {
        let mut now: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut now);
        let is_in = |signal| libc::sigismember(&now, signal) == 1;
        (1..=64).map(is_in).collect()
    }
}

extern "C" fn counts(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CHILD.fetch_add(1, Ordering::SeqCst);
}

fn runs_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

extern "C" fn waits_and_exits(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    std::thread::sleep(Duration::from_secs(11));
    runs_for(Duration::from_millis(500));
    // SAFETY: nothing of the process is used any more.
    unsafe { libc::_exit(2) };
}

extern "C" fn runs_and_gives_way(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    runs_for(Duration::from_millis(11_000));
    // SAFETY: async-signal-safe.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

static CHILD: AtomicI32 = AtomicI32::new(0);

/// In the middle of the writing, another process sends the crashing thread a signal.
fn sends(phase: &'static str) {
    if phase != "crashed while capturing the other threads" {
        return;
    }
    // SAFETY: the child only sends; async-signal-safe calls alone.
    unsafe {
        let process = libc::getpid();
        for _ in 0..2 {
            let child = libc::fork();
            if child == 0 {
                libc::syscall(libc::SYS_tgkill, process, process, libc::SIGABRT);
                libc::_exit(0);
            }
            CHILD.store(child, Ordering::Relaxed);
            libc::waitpid(child, std::ptr::null_mut(), 0);
            libc::usleep(50_000);
        }
    }
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "undecided_freezes" => {
            handle(libc::SIGFPE, jumps);
            let monitor = Monitor::builder("crash test", "1.0")
                .directory(folder)
                .crash(Crash::default())
                .stall(Stall::default())
                .install()
                .unwrap();
            let heart = monitor.heartbeat();
            heart.turn(survived);
            heart.turn(|| std::thread::sleep(Duration::from_secs(2)));
            heart.turn(|| ());
            let event = |report: &store::StoredReport| report.read().unwrap().report.event.unwrap();
            drop(monitor);
            let found = store::reports(folder).unwrap();
            let kinds: Vec<EventKind> = found.iter().map(|report| event(report).kind).collect();
            assert_eq!(kinds, [EventKind::Stall]);
        }
        "undecided_dies" => {
            handle(libc::SIGFPE, jumps);
            let _monitor = install(folder);
            survived();
            let dies = std::thread::spawn(|| outer(Way::Null));
            std::thread::sleep(Duration::from_secs(60));
            drop(dies);
        }
        "undecided_worker" => {
            handle(libc::SIGFPE, jumps);
            let monitor = install(folder);
            std::thread::spawn(survived).join().unwrap();
            drop(monitor);
        }
        "undecided_exits" => {
            handle(libc::SIGFPE, jumps);
            std::mem::forget(install(folder));
            std::thread::spawn(survived).join().unwrap();
            std::process::exit(3);
        }
        "undecided_forked" => {
            handle(libc::SIGFPE, jumps);
            let _monitor = install(folder);
            // SAFETY: the child does what a program may do that forks before it has threads of its own.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    (0..100).for_each(|_| survived());
                    libc::_exit(0);
                }
                let mut status = 0;
                libc::waitpid(child, &mut status, 0);
                assert_eq!(status, 0);
            }
        }
        "undecided_ends" => {
            handle(libc::SIGSEGV, goes_on_elsewhere);
            let _monitor = install(folder);
            outer(Way::Null);
        }
        "undecided_lives" => {
            handle(libc::SIGFPE, jumps);
            let monitor = install(folder);
            survived();
            is_taken_back(folder);
            std::hint::black_box(&monitor);
            // SAFETY: no arguments that could be wrong.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        "undecided_signalled" => {
            let _monitor = install(folder);
            wedjat::trigger::set_phase_hook(sends);
            outer(Way::Null);
        }
        "undecided_deeper" => {
            handle(libc::SIGFPE, jumps);
            let monitor = install(folder);
            let dives = || survived_at_each(64);
            std::thread::spawn(dives).join().unwrap();
            drop(monitor);
        }
        "undecided_masked" => {
            handle_with(libc::SIGFPE, jumps, libc::SA_NODEFER);
            handle(libc::SIGUSR1, counts);
            let _monitor = install(folder);
            let before = mask();
            survived_with(0);
            assert_eq!(mask(), before);
            // SAFETY: it has a handler.
            unsafe { libc::raise(libc::SIGUSR1) };
            assert_eq!(CHILD.load(Ordering::SeqCst), 1);
        }
        "undecided_waits" | "undecided_runs" => {
            let waits = role == "undecided_waits";
            handle(
                libc::SIGSEGV,
                if waits {
                    waits_and_exits
                } else {
                    runs_and_gives_way
                },
            );
            let _monitor = install(folder);
            outer(Way::Null);
        }
        _ => return false,
    }
    true
}

/// Waits until no report stands, as the process lives on.
pub fn is_taken_back(folder: &Path) {
    let start = Instant::now();
    let is_report = |name: std::ffi::OsString| name.to_string_lossy().ends_with(".wedjat");
    let stands = || {
        let mut files = std::fs::read_dir(folder).unwrap();
        files.any(|file| is_report(file.unwrap().file_name()))
    };
    while stands() {
        assert!(start.elapsed() < Duration::from_secs(20), "it stays");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn how(ended: &Ended) -> HowEnded {
    let launches = store::launches(&ended.folder.0).unwrap();
    assert_eq!(launches.len(), 1, "{launches:?}");
    launches[0].how
}

fn freezes() {
    let ended = play("undecided_freezes");
    assert!(ended.status.success(), "{}", ended.stderr);
}

fn dies() {
    let start = Instant::now();
    let ended = play("undecided_dies");
    assert!(start.elapsed() < Duration::from_secs(3), "late");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let report = ended.report();
    let stack = stack(&report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    assert_eq!(how(&ended), HowEnded::Crash);
}

fn worker_ends() {
    let ended = play("undecided_worker");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.readings().is_empty());
    assert_eq!(how(&ended), HowEnded::Exit);
}

fn exits() {
    let ended = play("undecided_exits");
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    assert!(ended.readings().is_empty());
    assert_eq!(how(&ended), HowEnded::Exit);
}

fn forked() {
    let ended = play("undecided_forked");
    assert!(ended.status.success(), "{}", ended.stderr);
}

fn ends() {
    let ended = play("undecided_ends");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    let stack = stack(&ended.report(), 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    assert_eq!(how(&ended), HowEnded::Crash);
}

fn lives_on() {
    let ended = play("undecided_lives");
    assert_eq!(ended.signal(), Some(libc::SIGKILL), "{}", ended.stderr);
    assert!(ended.readings().is_empty());
    assert_eq!(how(&ended), HowEnded::Abrupt);
}

fn signalled() {
    let ended = play("undecided_signalled");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let event = ended.report().event.unwrap();
    assert_eq!(event.signal.unwrap().name, "SIGSEGV");
}

fn deeper() {
    let ended = play("undecided_deeper");
    ended.succeeded();
    assert!(ended.readings().is_empty());
}

fn masked() {
    let ended = play("undecided_masked");
    ended.succeeded();
}

fn waits_long() {
    let ended = play("undecided_waits");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert_eq!(ended.readings().len(), 1);
    assert_eq!(how(&ended), HowEnded::Crash);
}

fn runs_long() {
    let ended = play("undecided_runs");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let stack = stack(&ended.report(), 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    assert_eq!(how(&ended), HowEnded::Crash);
}
