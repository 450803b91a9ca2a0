//! Threads that block the captures' own signals: asked by SIGPROF, if that was claimed and the host does not use it. Each test
//! plays in a process of its own, since it is about the process' handlers.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::deadline;
use crate::thread::{Flags, StopOnDrop, assert_chain, capturer, inner, middle, outer};
use wedjat::capture::ImageTable;
use wedjat::platform::Thread;
use wedjat::platform::stop::{StopError, claim_profiling, release_profiling};

const CHILD: &str = "WEDJAT_TEST_MASKED";

/// Signals that the threads of libdispatch leave open: `_dispatch_worker_thread` in its src/queue.c.
const LIBDISPATCH: [i32; 8] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGPIPE,
    libc::SIGSYS,
    libc::SIGPROF,
];

/// Plays in a child; how that ended.
fn alone(test: &str, play: fn()) -> Option<ExitStatus> {
    if std::env::var_os(CHILD).is_some() {
        play();
        return None;
    }
    let name = if test.contains("::") {
        test.to_owned()
    } else {
        format!("masked::{test}")
    };
    let mut child = deadline::one_test(&name);
    Some(deadline::status(child.env(CHILD, "1")))
}

pub fn passes(test: &str, play: fn()) {
    let ended = alone(test, play);
    assert!(ended.is_none_or(|status| status.success()), "{ended:?}");
}

/// Blocks all signals of the calling thread but those that are `open`.
fn block_all_but(open: &[i32]) {
    // SAFETY: a set of this thread alone, which lives across the calls.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        for &signal in open {
            libc::sigdelset(&mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, null_mut());
    }
}

/// A thread computes with this mask while `work` runs.
fn with_masked(open: &[i32], work: impl FnOnce(Thread)) {
    let flags = Flags::default();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let flags = &flags;
        let _stop = StopOnDrop(flags);
        scope.spawn(move || {
            block_all_but(open);
            sender.send(Thread::current()).unwrap();
            outer(flags);
        });
        let thread = receiver.recv().unwrap();
        while !flags.inside.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        work(thread);
    });
}

/// Captures it so often, whole each time.
fn capture(thread: Thread, times: u32) {
    let mut capturer = capturer();
    for _ in 0..times {
        let images = ImageTable::enter();
        let captured = capturer.capture(thread, &images).unwrap();
        let chain = [inner as *const (), middle as *const (), outer as *const ()];
        assert_chain(&captured, &images, &chain);
    }
}

/// Captures it for so long. It may block everything for as long as it is in the host's handler.
fn capture_for(thread: Thread, time: Duration) {
    let start = Instant::now();
    let (mut capturer, mut answered) = (capturer(), 0);
    while start.elapsed() < time {
        let images = ImageTable::enter();
        match capturer.capture(thread, &images) {
            Ok(_) => answered += 1,
            Err(error) => assert!(matches!(error, StopError::Blocked), "{error:?}"),
        }
    }
    assert!(answered > 10, "{answered}");
}

/// Such a thread has no stack, and gets no signal.
fn is_blocked(thread: Thread) {
    let mut capturer = capturer();
    let images = ImageTable::enter();
    for _ in 0..10 {
        let result = capturer.capture(thread, &images).map(|_| ());
        assert!(matches!(result, Err(StopError::Blocked)), "{result:?}");
    }
    assert_eq!(pending(thread), 0);
}

fn action_of(signal: i32) -> libc::sigaction {
    // SAFETY: a query, which fills in a plain struct.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(signal, null(), &mut now), 0);
        now
    }
}

fn set_handler(signal: i32, handler: usize) {
    // SAFETY: a handler that keeps to the rules, or SIG_IGN.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaddset(&mut action.sa_mask, libc::SIGUSR2);
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

/// Signals that came to the host's handler: all, those queued with a value, and those with another mask than it asked for.
static CAME: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

fn came() -> [u64; 3] {
    CAME.each_ref().map(|count| count.load(Ordering::Relaxed))
}

extern "C" fn count(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; the calls are async-signal-safe.
    let (code, is_masked) = unsafe {
        let mut now: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, null(), &mut now);
        let has = |signal| libc::sigismember(&now, signal) == 1;
        let mask = has(signal) && has(libc::SIGUSR2);
        ((*info).si_code, mask)
    };
    CAME[0].fetch_add(1, Ordering::Relaxed);
    CAME[1].fetch_add(u64::from(code == libc::SI_QUEUE), Ordering::Relaxed);
    CAME[2].fetch_add(u64::from(!is_masked), Ordering::Relaxed);
}

fn profile_every(microseconds: i64) {
    let time = libc::timeval {
        tv_sec: 0,
        tv_usec: microseconds,
    };
    let timer = libc::itimerval {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: the struct lives across the call.
    let result = unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, null_mut()) };
    assert_eq!(result, 0);
}

/// The signals pending for a thread alone.
fn pending(thread: Thread) -> u64 {
    let path = format!("/proc/self/task/{}/status", thread.tid());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("SigPnd"))
        .unwrap();
    u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
}

#[test]
fn a_thread_with_libdispatchs_mask_is_in_exactly_the_functions_it_called() {
    passes(
        "a_thread_with_libdispatchs_mask_is_in_exactly_the_functions_it_called",
        || {
            claim_profiling();
            with_masked(&LIBDISPATCH, |thread| {
                capture(thread, 40);
                assert_eq!(pending(thread), 0);
            });
            release_profiling();
            assert_eq!(action_of(libc::SIGPROF).sa_sigaction, libc::SIG_DFL);
        },
    );
}

/// A live report while a stall is sampled.
#[test]
fn two_that_capture_the_same_thread_at_once_do_not_end_the_process() {
    passes(
        "two_that_capture_the_same_thread_at_once_do_not_end_the_process",
        || {
            claim_profiling();
            with_masked(&LIBDISPATCH, |thread| {
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| capture_for(thread, Duration::from_secs(3)));
                    }
                });
            });
        },
    );
}

#[test]
fn a_signal_that_was_not_claimed_stays_as_it_is() {
    passes("a_signal_that_was_not_claimed_stays_as_it_is", || {
        for open in [
            libc::SIGURG,
            libc::SIGPROF,
            libc::SIGRTMAX(),
            libc::SIGRTMIN() + 9,
        ] {
            with_masked(&[open], is_blocked);
            assert_eq!(action_of(open).sa_sigaction, libc::SIG_DFL, "{open}");
        }
    });
}

#[test]
fn a_thread_that_answered_and_then_blocks_the_signal_is_asked_by_another_one() {
    passes(
        "a_thread_that_answered_and_then_blocks_the_signal_is_asked_by_another_one",
        || {
            claim_profiling();
            let (sender, receiver) = mpsc::channel();
            let (go, gone_on) = mpsc::channel::<()>();
            let flags = Flags::default();
            std::thread::scope(|scope| {
                let flags = &flags;
                let _stop = StopOnDrop(flags);
                scope.spawn(move || {
                    sender.send(Thread::current()).unwrap();
                    gone_on.recv().unwrap();
                    block_all_but(&LIBDISPATCH);
                    outer(flags);
                });
                let thread = receiver.recv().unwrap();
                let mut capturer = capturer();
                let images = ImageTable::enter();
                capturer.capture(thread, &images).unwrap();
                go.send(()).unwrap();
                while !flags.inside.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                capture(thread, 40);
                assert_eq!(pending(thread), 0);
            });
        },
    );
}

/// In turn it leaves the captures' own signal open, and one of the others alone.
#[test]
fn a_thread_that_changes_its_mask_is_asked_by_what_it_leaves_open() {
    passes(
        "a_thread_that_changes_its_mask_is_asked_by_what_it_leaves_open",
        || {
            claim_profiling();
            let real_time: Vec<i32> = (libc::SIGRTMIN()..=libc::SIGRTMAX()).collect();
            let masks = [
                &real_time[..],
                &LIBDISPATCH,
                &real_time[..],
                &[libc::SIGPROF],
            ];
            let phases = masks.map(|mask| (mask, Flags::default()));
            std::thread::scope(|scope| {
                let (sender, receiver) = mpsc::channel();
                let _stops = phases.each_ref().map(|(_, flags)| StopOnDrop(flags));
                let phases = &phases;
                scope.spawn(move || {
                    sender.send(Thread::current()).unwrap();
                    for (open, flags) in phases {
                        block_all_but(open);
                        outer(flags);
                    }
                });
                let thread = receiver.recv().unwrap();
                for (_, flags) in phases {
                    while !flags.inside.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    capture(thread, 10);
                    flags.stop.store(true, Ordering::Relaxed);
                }
            });
        },
    );
}

#[test]
fn a_handler_before_keeps_its_signals_and_gets_none_of_ours() {
    passes(
        "a_handler_before_keeps_its_signals_and_gets_none_of_ours",
        || {
            const RAISED: u64 = 20_000;
            set_handler(libc::SIGPROF, count as *const () as usize);
            claim_profiling();
            with_masked(&LIBDISPATCH, |thread| {
                std::thread::scope(|scope| {
                    let raiser = scope.spawn(|| {
                        for _ in 0..RAISED {
                            // SAFETY: has a handler.
                            unsafe { libc::raise(libc::SIGPROF) };
                        }
                    });
                    while !raiser.is_finished() {
                        is_blocked(thread);
                    }
                });
            });
            release_profiling();
            assert_eq!(came(), [RAISED, 0, 0]);
            let now = action_of(libc::SIGPROF);
            assert_eq!(now.sa_sigaction, count as *const () as usize);
            // SAFETY: a whole set.
            assert_eq!(unsafe { libc::sigismember(&now.sa_mask, libc::SIGUSR2) }, 1);
        },
    );
}

#[test]
fn a_profiler_that_starts_later_keeps_its_signals() {
    passes("a_profiler_that_starts_later_keeps_its_signals", || {
        claim_profiling();
        with_masked(&LIBDISPATCH, |thread| {
            capture(thread, 10);
            set_handler(libc::SIGPROF, count as *const () as usize);
            profile_every(1_000);
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(1) {
                is_blocked(thread);
            }
            profile_every(0);
            let [all, queued, otherwise] = came();
            assert!(all > 3, "{all}");
            assert_eq!((queued, otherwise), (0, 0));
            release_profiling();
            let now = action_of(libc::SIGPROF);
            assert_eq!(now.sa_sigaction, count as *const () as usize);
            set_handler(libc::SIGPROF, libc::SIG_IGN);
            is_blocked(thread);
        });
    });
}

/// A profiler that calls the handler before its own: it has dealt with its signals.
#[test]
fn a_handler_that_passes_signals_on_to_ours_keeps_the_process() {
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
        let before = BEFORE.load(Ordering::Relaxed) as usize;
        count(signal, info, context);
        // SAFETY: the address of the handler before.
        unsafe { std::mem::transmute::<usize, Handler>(before)(signal, info, context) };
    }
    passes(
        "a_handler_that_passes_signals_on_to_ours_keeps_the_process",
        || {
            claim_profiling();
            let before = action_of(libc::SIGPROF).sa_sigaction as u64;
            BEFORE.store(before, Ordering::Relaxed);
            set_handler(libc::SIGPROF, pass_on as *const () as usize);
            // SAFETY: has a handler.
            unsafe { libc::raise(libc::SIGPROF) };
            assert_eq!(came()[0], 1);
        },
    );
}

#[test]
fn an_ignored_signal_stays_ignored() {
    passes("an_ignored_signal_stays_ignored", || {
        set_handler(libc::SIGPROF, libc::SIG_IGN);
        profile_every(1_000);
        claim_profiling();
        with_masked(&LIBDISPATCH, is_blocked);
        release_profiling();
        assert_eq!(action_of(libc::SIGPROF).sa_sigaction, libc::SIG_IGN);
    });
}

#[test]
fn a_timer_without_a_handler_ends_the_process_as_without_us() {
    let ended = alone(
        "a_timer_without_a_handler_ends_the_process_as_without_us",
        || {
            claim_profiling();
            with_masked(&LIBDISPATCH, |thread| {
                profile_every(100_000);
                capture_for(thread, Duration::from_secs(60));
            });
        },
    );
    if let Some(status) = ended {
        assert_eq!(status.signal(), Some(libc::SIGPROF), "{status:?}");
    }
}

#[test]
fn a_thread_that_blocks_everything_gets_no_signals() {
    passes("a_thread_that_blocks_everything_gets_no_signals", || {
        claim_profiling();
        with_masked(&[], is_blocked);
    });
}

/// The capturer would wait ten seconds for an answer.
#[test]
fn a_thread_that_answered_and_then_blocks_everything_is_not_waited_for() {
    passes(
        "a_thread_that_answered_and_then_blocks_everything_is_not_waited_for",
        || {
            claim_profiling();
            let none_blocked: Vec<i32> = (1..=64).collect();
            for first in [&LIBDISPATCH[..], &none_blocked] {
                let is_blocked = AtomicU64::new(0);
                let flags = Flags::default();
                std::thread::scope(|scope| {
                    let (sender, receiver) = mpsc::channel();
                    let (is_blocked, flags) = (&is_blocked, &flags);
                    let _stop = StopOnDrop(flags);
                    scope.spawn(move || {
                        block_all_but(first);
                        sender.send(Thread::current()).unwrap();
                        while is_blocked.load(Ordering::Acquire) == 0 {
                            std::hint::spin_loop();
                        }
                        block_all_but(&[]);
                        outer(flags);
                    });
                    let thread = receiver.recv().unwrap();
                    let mut capturer = capturer();
                    let images = ImageTable::enter();
                    capturer.capture(thread, &images).unwrap();
                    is_blocked.store(1, Ordering::Release);
                    while !flags.inside.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    let start = Instant::now();
                    for _ in 0..3 {
                        let result = capturer.capture(thread, &images).map(|_| ());
                        assert!(matches!(result, Err(StopError::Blocked)), "{result:?}");
                    }
                    assert!(start.elapsed() < Duration::from_secs(5));
                });
            }
        },
    );
}

/// A parent of vfork(2) sleeps without looking at signals until its child has ended.
#[test]
fn a_thread_that_answers_too_late_does_not_end_the_process() {
    passes(
        "a_thread_that_answers_too_late_does_not_end_the_process",
        || {
            claim_profiling();
            let (sender, receiver) = mpsc::channel();
            let (begin, begun) = mpsc::channel::<()>();
            let forks = std::thread::spawn(move || {
                block_all_but(&LIBDISPATCH);
                sender.send(Thread::current()).unwrap();
                begun.recv().unwrap();
                let flags = (libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD) as usize;
                let mut stack = vec![0u8; 64 << 10];
                // SAFETY: the child has a stack of its own, and makes two system calls.
                let child = unsafe {
                    let top = stack.as_mut_ptr().add(stack.len()).cast();
                    libc::clone(sleeps, top, flags as i32, null_mut())
                };
                assert!(child > 0);
                // SAFETY: our own child.
                assert_eq!(unsafe { libc::waitpid(child, null_mut(), 0) }, child);
                begun.recv().unwrap();
            });
            let thread = receiver.recv().unwrap();
            let mut limits = wedjat::capture::CaptureLimits::default();
            limits.answer = 5_000_000;
            let mut capturer = wedjat::capture::Capturer::new(&limits).unwrap();
            let images = ImageTable::enter();
            begin.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            let late = capturer.capture(thread, &images).map(|_| ());
            assert!(matches!(late, Err(StopError::Unresponsive)), "{late:?}");
            assert_eq!(pending(thread), 1 << (libc::SIGPROF - 1));
            while pending(thread) != 0 {
                std::thread::sleep(Duration::from_millis(10));
            }
            capturer.capture(thread, &images).unwrap();
            begin.send(()).unwrap();
            forks.join().unwrap();
        },
    );
}

extern "C" fn sleeps(_: *mut libc::c_void) -> i32 {
    // SAFETY: plain system calls.
    unsafe {
        libc::usleep(400_000);
        libc::_exit(0)
    }
}
