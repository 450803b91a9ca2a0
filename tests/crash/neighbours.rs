//! Handlers of others: those that recover from a fault, that jump out of it, or that came later.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use wedjat::report::{EventKind, ThreadState};
use wedjat::store;

use crate::child::{calls, play, stack};
use crate::support::small_stack;
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        ("a_program_that_is_executed_begins_anew", executed),
        (
            "a_fault_that_another_handler_recovers_from_is_no_report_and_leaves_us_installed",
            recovers,
        ),
        (
            "a_fault_that_another_handler_jumps_out_of_is_no_report_and_leaves_us_installed",
            jumps_out,
        ),
        (
            "threads_whose_handler_jumps_off_a_small_alternate_stack_live_on_and_are_reported",
            jumps_at_once,
        ),
        (
            "a_handler_that_recovers_often_is_asked_first",
            recovers_often,
        ),
        ("an_ignored_signal_is_no_death", ignored),
        ("a_debugger_is_left_alone_by_choice", debugged),
        (
            "an_abort_whose_handler_returns_is_reported_all_the_same",
            abort_returns,
        ),
        ("a_breakpoint_that_another_handles_is_no_death", breakpoint),
        (
            "threads_that_crash_at_once_are_all_in_the_report_where_they_were",
            all_at_once,
        ),
        (
            "a_child_of_fork_does_not_keep_its_parents_report_open",
            fork_keeps_nothing,
        ),
        (
            "a_child_of_fork_may_have_a_monitor_of_its_own",
            fork_installs,
        ),
        (
            "a_signal_that_all_threads_of_the_app_block_waits_for_them",
            waited_for,
        ),
    ])
}

/// Where a fault is mended: a page that the handler makes writable.
static PAGE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static MENDED: AtomicU32 = AtomicU32::new(0);

fn page() -> *mut u8 {
    // SAFETY: a new mapping without access.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0).cast()
    }
}

/// Makes the page writable, as a garbage collector's barrier does; gives way for anything else.
extern "C" fn mends(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let page = PAGE.load(Ordering::SeqCst);
    // SAFETY: async-signal-safe calls; the info is the kernel's.
    unsafe {
        if (*info).si_addr().cast() == page {
            MENDED.fetch_add(1, Ordering::SeqCst);
            libc::mprotect(page.cast(), 4096, libc::PROT_READ | libc::PROT_WRITE);
        } else {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

fn handle(handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void), flags: i32) {
    // SAFETY: the action is zeroed, which is valid, and lives across the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
    }
}

/// A fault that [`mends`] mends.
fn mended() {
    let page = page();
    PAGE.store(page, Ordering::SeqCst);
    let before = MENDED.load(Ordering::SeqCst);
    // SAFETY: the handler makes it writable.
    unsafe {
        page.write_volatile(1);
        libc::munmap(page.cast(), 4096);
    }
    assert_eq!(MENDED.load(Ordering::SeqCst), before + 1);
}

/// `jmp_buf` is 200 bytes in glibc on x86-64, 312 on aarch64.
static JUMP: AtomicPtr<[u64; 64]> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" {
    #[link_name = "__sigsetjmp"]
    pub fn sigsetjmp(buffer: *mut [u64; 64], mask: i32) -> i32;
    pub fn siglongjmp(buffer: *mut [u64; 64], value: i32) -> !;
}

extern "C" fn jumps(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let buffer = JUMP.swap(std::ptr::null_mut(), Ordering::SeqCst);
    if buffer.is_null() {
        // SAFETY: async-signal-safe.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        return;
    }
    // SAFETY: the function that set it is still there.
    unsafe { siglongjmp(buffer, 1) };
}

thread_local! {
    /// As [`JUMP`], for each thread.
    static JUMPS: Cell<*mut [u64; 64]> = const { Cell::new(std::ptr::null_mut()) };
}

extern "C" fn jumps_in_thread(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let buffer = JUMPS.replace(std::ptr::null_mut());
    if buffer.is_null() {
        // SAFETY: async-signal-safe.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        return;
    }
    // SAFETY: the function that set it is still there.
    unsafe { siglongjmp(buffer, 1) };
}

/// Faults many times on a thread whose alternate stack has 8 KiB, with a handler that jumps out each time.
fn jumps_off_small_stack(rounds: u32) {
    const SMALL: usize = 8 << 10;
    let memory = small_stack::map(2 * SMALL);
    small_stack::protect(memory, SMALL);
    jumps_off(memory.wrapping_add(SMALL), SMALL, rounds);
}

/// The alternate stack lies right above the stack that the thread is on: no handler on it has called what runs there.
extern "C" fn jumps_off_stack_above() {
    jumps_off(ABOVE.load(Ordering::SeqCst), small_stack::SIZE, 10);
}

static ABOVE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

fn jumps_off(stack: *mut u8, size: usize, rounds: u32) {
    let mut buffer = [0; 64];
    for _ in 0..rounds {
        // One that was jumped off is not the thread's any more.
        small_stack::set_alternate_stack(stack, size);
        // SAFETY: nothing of this frame is looked at after the jump but `buffer`'s address.
        unsafe {
            JUMPS.set(&raw mut buffer);
            if sigsetjmp(&raw mut buffer, 1) == 0 {
                std::hint::black_box(0x20 as *mut u8).write_volatile(1);
            }
        }
        JUMPED.fetch_add(1, Ordering::SeqCst);
    }
}

static JUMPED: AtomicU32 = AtomicU32::new(0);

/// A fault that [`jumps`] jumps out of.
#[inline(never)]
fn jumped() {
    let mut buffer = [0; 64];
    // SAFETY: nothing of this frame is looked at after the jump but `buffer`'s address.
    unsafe {
        JUMP.store(&mut buffer, Ordering::SeqCst);
        if sigsetjmp(&raw mut buffer, 1) == 0 {
            std::hint::black_box(0x20 as *mut u8).write_volatile(1);
        }
    }
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "executes" => {
            use std::os::unix::process::CommandExt;
            let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
            let before = open();
            let monitor = install(folder);
            monitor.record("before").unwrap();
            // In the middle of it, with everything installed: the memory goes, and with it all of ours.
            let error = std::process::Command::new(crate::child::program())
                .env(crate::child::ROLE, "executed")
                .env("WEDJAT_TEST_OPEN", before.to_string())
                .exec();
            panic!("{error}");
        }
        "executed" => {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
            let before = std::env::var("WEDJAT_TEST_OPEN").unwrap();
            assert_eq!(open.to_string(), before, "descriptors were left open");
            // SAFETY: reads only.
            let handled = unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                libc::sigaction(libc::SIGILL, std::ptr::null(), &mut now);
                now.sa_sigaction
            };
            assert_eq!(handled, libc::SIG_DFL);
            let _monitor = install(folder);
            outer(Way::Null);
        }
        "recovers" | "recovers_small" => {
            let small = role == "recovers_small";
            handle(mends, libc::SA_ONSTACK);
            let monitor = install(folder);
            let dies = || {
                (0..3).for_each(|_| mended());
                assert!(monitor.replaced_signals().is_empty());
                assert!(store::reports(folder).unwrap().is_empty());
                outer(Way::Null);
            };
            if small {
                // A thread with the small alternate stack that Rust gives it.
                std::thread::scope(|scope| drop(scope.spawn(dies).join()));
            } else {
                dies();
            }
        }
        "recovers_often" => {
            handle(mends, libc::SA_ONSTACK);
            let monitor = install(folder);
            (0..200).for_each(|_| mended());
            assert!(monitor.replaced_signals().is_empty());
            outer(Way::Null);
        }
        "jumps_out" => {
            handle(jumps, libc::SA_ONSTACK);
            let monitor = install(folder);
            (0..3).for_each(|_| jumped());
            assert!(monitor.replaced_signals().is_empty());
            outer(Way::Null);
        }
        "jumps_at_once" => {
            handle(jumps_in_thread, libc::SA_ONSTACK);
            let monitor = install(folder);
            // More than there are stacks for handlers, 16 at a time.
            for _ in 0..6 {
                std::thread::scope(|scope| {
                    for _ in 0..16 {
                        scope.spawn(|| jumps_off_small_stack(50));
                    }
                });
            }
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let memory = small_stack::map(2 * small_stack::SIZE);
                    let above = memory.wrapping_add(small_stack::SIZE);
                    ABOVE.store(above, Ordering::SeqCst);
                    small_stack::on_stack(above, jumps_off_stack_above);
                });
            });
            assert_eq!(JUMPED.load(Ordering::SeqCst), 6 * 16 * 50 + 10);
            assert!(monitor.replaced_signals().is_empty());
            outer(Way::Null);
        }
        "ignored" => {
            // SAFETY: as it says.
            unsafe { libc::signal(libc::SIGTRAP, libc::SIG_IGN) };
            let monitor = install(folder);
            // SAFETY: as it says.
            unsafe { libc::raise(libc::SIGTRAP) };
            assert!(monitor.replaced_signals().is_empty());
            outer(Way::Null);
        }
        "abort_returns" => {
            extern "C" fn returns(_: i32) {}
            // SAFETY: the handler does nothing.
            unsafe { libc::signal(libc::SIGABRT, returns as *const () as libc::sighandler_t) };
            let _monitor = install(folder);
            outer(Way::Abort);
        }
        "breakpoint" => {
            extern "C" fn once(signal: i32) {
                // SAFETY: async-signal-safe.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            // SAFETY: as above.
            unsafe { libc::signal(libc::SIGTRAP, once as *const () as libc::sighandler_t) };
            let _monitor = install(folder);
            outer(Way::Trap);
        }
        "debugged" | "debugged_all_the_same" => {
            // SAFETY: the child is traced by its parent, which hands each signal on to it.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                    let crash = wedjat::Crash::default().leave_to_debugger(role == "debugged");
                    let _monitor = wedjat::Monitor::builder("crash test", "1.0")
                        .directory(folder)
                        .crash(crash)
                        .install()
                        .unwrap();
                    outer(Way::Null);
                }
                let mut status = 0;
                while libc::waitpid(child, &mut status, 0) == child && libc::WIFSTOPPED(status) {
                    libc::ptrace(libc::PTRACE_CONT, child, 0, libc::WSTOPSIG(status));
                }
                assert!(libc::WIFSIGNALED(status));
                assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
            }
        }
        "fork_keeps_nothing" => {
            let _monitor = install(folder);
            wedjat::trigger::set_phase_hook(forks);
            outer(Way::Null);
        }
        "fork_installs" => {
            let monitor = install(folder);
            // SAFETY: the child does what a program may do that forks before it has threads of its
            // own, and dies; the parent waits for it.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    drop(monitor);
                    let _own = install(folder);
                    outer(Way::Abort);
                }
                let mut status = 0;
                libc::waitpid(child, &mut status, 0);
                assert_eq!(libc::WTERMSIG(status), libc::SIGABRT);
            }
            outer(Way::Null);
        }
        "waited_for" => {
            let _monitor = install(folder);
            // The recorder's threads are at their work.
            std::thread::sleep(Duration::from_millis(50));
            // SAFETY: the sets are initialised before they are read, and live across the calls.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, libc::SIGFPE);
                libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
                libc::kill(libc::getpid(), libc::SIGFPE);
                std::thread::sleep(Duration::from_millis(50));
                let mut info: libc::siginfo_t = std::mem::zeroed();
                assert_eq!(libc::sigwaitinfo(&set, &mut info), libc::SIGFPE);
                assert_eq!(info.si_pid(), libc::getpid());
            }
        }
        _ => return false,
    }
    true
}

/// Leaves a child that lives on for a while, in the middle of the writing, and is killed.
fn forks(phase: &'static str) {
    if phase == "crashed while capturing the other threads" {
        // SAFETY: the child only waits; async-signal-safe calls alone.
        unsafe {
            if libc::fork() == 0 {
                // Until the test that reads its standard error is done, and has removed the folder; no
                // alarm would end it, as all signals are blocked in a handler of a crash.
                libc::close(2);
                let folder = libc::getenv(c"WEDJAT_TEST_DIR".as_ptr());
                for _ in 0..600 {
                    if libc::access(folder, libc::F_OK) != 0 {
                        break;
                    }
                    libc::poll(std::ptr::null_mut(), 0, 100);
                }
                libc::_exit(0);
            }
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
    }
}

fn recovers() {
    for role in ["recovers", "recovers_small"] {
        let ended = play(role);
        let printed = &ended.stderr;
        assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{printed}");
        let stack = stack(&ended.report(), 0);
        assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    }
}

fn recovers_often() {
    let ended = play("recovers_often");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let stack = stack(&ended.report(), 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}

fn jumps_out() {
    let ended = play("jumps_out");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let stack = stack(&ended.report(), 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}

fn jumps_at_once() {
    let ended = play("jumps_at_once");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let stack = stack(&ended.report(), 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}

fn ignored() {
    let ended = play("ignored");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let event = ended.report().event.unwrap();
    assert_eq!(event.signal.unwrap().name, "SIGSEGV");
}

fn all_at_once() {
    let ended = play("two_at_once");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV));
    let report = ended.report();
    let crashed = report.threads.iter().filter(|thread| thread.crashed);
    assert_eq!(crashed.count(), 1, "the one that is reported");
    // Some of the eight may not have come as far as to crash, none is without a stack for it.
    for (index, thread) in report.threads.iter().enumerate() {
        let state = thread.state;
        assert_ne!(state, Some(ThreadState::Unresponsive), "{thread:#?}");
        if state == Some(ThreadState::CrashedToo) {
            let stack = stack(&report, index);
            assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
        }
    }
}

fn abort_returns() {
    let ended = play("abort_returns");
    assert_eq!(ended.signal(), Some(libc::SIGABRT), "{}", ended.stderr);
    let event = ended.report().event.unwrap();
    assert_eq!(event.signal.unwrap().name, "SIGABRT");
}

fn breakpoint() {
    let ended = play("breakpoint");
    assert!(ended.status.success(), "{:?}", ended.status);
    assert!(ended.readings().is_empty());
}

fn debugged() {
    for (role, reports) in [("debugged", 0), ("debugged_all_the_same", 1)] {
        let ended = play(role);
        assert!(ended.status.success(), "{}", ended.stderr);
        assert_eq!(ended.readings().len(), reports, "{role}");
    }
}

fn fork_keeps_nothing() {
    let ended = play("fork_keeps_nothing");
    assert_eq!(ended.signal(), Some(libc::SIGKILL), "{}", ended.stderr);
    let readings = ended.readings();
    assert_eq!(readings.len(), 1, "closed, though the child lives");
    let end = readings[0].report.end.as_ref().unwrap();
    assert_eq!(end.closed_by, "next_launch");
}

fn fork_installs() {
    let ended = play("fork_installs");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let readings = ended.readings();
    let mut signals: Vec<String> = Vec::new();
    for reading in &readings {
        assert!(reading.damage.is_empty());
        let event = reading.report.event.clone().unwrap();
        signals.push(event.signal.unwrap().name);
    }
    signals.sort();
    assert_eq!(signals, ["SIGABRT", "SIGSEGV"]);
}

/// As without the recorder, whose own threads have faults open.
fn waited_for() {
    let ended = play("waited_for");
    ended.succeeded();
    assert_eq!(ended.readings().len(), 0);
}

/// `exec` takes everything with it: the new program has a monitor of its own, in the same process and the
/// same folder.
fn executed() {
    let ended = play("executes");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let readings = ended.readings();
    assert_eq!(readings.len(), 2);
    let kinds: Vec<EventKind> = readings
        .iter()
        .map(|reading| {
            assert!(reading.damage.is_empty(), "{:?}", reading.damage);
            let report = &reading.report;
            assert_eq!(report.end.as_ref().unwrap().closed_by, "writer");
            report.event.as_ref().unwrap().kind
        })
        .collect();
    assert_eq!(kinds, [EventKind::Live, EventKind::Crash]);
    let launch = |index: usize| readings[index].report.head.launch;
    assert_ne!(launch(0), launch(1));
}
