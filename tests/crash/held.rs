//! Crashes at bad moments: with a lock held (malloc's, our own), while a stall is being written, with
//! hundreds of threads about, in code that may not be read.

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use wedjat::report::{CutReason, EventKind, Found, Report, ThreadState};
use wedjat::store::HowEnded;
use wedjat::{Crash, Monitor, Stall};

use crate::child::{Ended, calls, functions, in_order, play, stack};
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        (
            "a_crash_while_a_report_is_asked_for_is_one_whole_report",
            recording,
        ),
        ("a_crash_in_the_apps_own_callback_is_reported", in_callback),
        (
            "a_crash_while_a_stall_is_written_leaves_both_reports",
            while_stalled,
        ),
        ("five_hundred_threads_are_all_in_the_report", crowd),
        ("no_more_threads_than_are_wanted_are_in_the_report", few),
        (
            "threads_that_block_the_signal_cost_fifty_milliseconds_in_all",
            unwilling,
        ),
        (
            "a_stall_of_a_thread_that_blocks_every_signal_has_its_stack",
            stalls_unwilling,
        ),
        (
            "a_fault_on_a_thread_that_blocks_every_signal_is_an_end_without_a_report",
            faults_unwilling,
        ),
    ])
}

const CROWD: usize = 500;
const FEW: usize = 7;
const UNWILLING: usize = 40;

extern "C" fn strikes(_: i32) {
    outer(Way::Null);
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "recording" => {
            let monitor = install(folder);
            let soon = libc::itimerval {
                it_interval: libc::timeval {
                    tv_sec: 0,
                    tv_usec: 0,
                },
                it_value: libc::timeval {
                    tv_sec: 0,
                    tv_usec: 30_000,
                },
            };
            // SAFETY: the handler dies; the structure lives across the call.
            unsafe {
                libc::signal(libc::SIGALRM, strikes as *const () as libc::sighandler_t);
                libc::setitimer(libc::ITIMER_REAL, &soon, std::ptr::null_mut());
            }
            loop {
                // The folder keeps what the crash leaves alone.
                let path = monitor.record("again").unwrap();
                std::fs::remove_file(path).unwrap();
            }
        }
        "in_callback" => {
            let _monitor = Monitor::builder("crash test", "1.0")
                .directory(folder)
                .crash(Crash::default())
                .on_report(|_| outer(Way::Null))
                .install()
                .unwrap();
            assert!(std::panic::catch_unwind(|| panic!("reported")).is_err());
            std::thread::sleep(Duration::from_secs(20));
        }
        "while_stalled" => {
            let monitor = Monitor::builder("crash test", "1.0")
                .directory(folder)
                .crash(Crash::default())
                .stall(Stall::default())
                .install()
                .unwrap();
            let heart = monitor.heartbeat();
            heart.begin();
            let is_open = || {
                let files = std::fs::read_dir(folder).unwrap();
                let mut names = files.map(|file| file.unwrap().file_name());
                names.any(|name| name.to_string_lossy().ends_with(".partial"))
            };
            // On this thread, which is stalled then: the watchdog has begun and goes on.
            while !is_open() {
                std::hint::spin_loop();
            }
            outer(Way::Null);
        }
        "crowd" | "few" => {
            let builder = Monitor::builder("crash test", "1.0").directory(folder);
            let builder = builder.crash(Crash::default());
            let builder = match role {
                "few" => builder.max_other_threads(FEW),
                _ => builder,
            };
            let _monitor = builder.install().unwrap();
            let ready = Barrier::new(CROWD + 1);
            std::thread::scope(|scope| {
                for _ in 0..CROWD {
                    let small = std::thread::Builder::new().stack_size(64 << 10);
                    small.spawn_scoped(scope, || crate::asleep(&ready)).unwrap();
                }
                ready.wait();
                outer(Way::Null);
            });
        }
        "unwilling" => {
            let _monitor = install(folder);
            let ready = Barrier::new(UNWILLING + 2);
            std::thread::scope(|scope| {
                for _ in 0..UNWILLING {
                    scope.spawn(|| {
                        block_all();
                        crate::asleep(&ready);
                    });
                }
                scope.spawn(|| crate::asleep(&ready));
                ready.wait();
                outer(Way::Null);
            });
        }
        "stalls_unwilling" => {
            let builder = Monitor::builder("crash test", "1.0").directory(folder);
            let monitor = builder.stall(Stall::default()).install().unwrap();
            block_all();
            monitor.heartbeat().turn(naps);
        }
        "faults_unwilling" => {
            let _monitor = install(folder);
            block_all();
            outer(Way::Null);
        }
        _ => return false,
    }
    true
}

fn block_all() {
    // SAFETY: the set is filled in before it is read.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

#[inline(never)]
fn naps() {
    std::thread::sleep(Duration::from_millis(1200));
    // Else an optimized build jumps there.
    std::hint::black_box(());
}

fn culprit_is_first(report: &Report) {
    let stack = stack(report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}

/// The crash among the reports that are there, which is whole.
fn crash(ended: &Ended) -> (Report, Vec<Report>) {
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let mut reports = Vec::new();
    for reading in ended.readings() {
        assert!(reading.damage.is_empty(), "{:?}", reading.damage);
        reports.push(reading.report);
    }
    let kind = |report: &Report| report.event.as_ref().map(|event| event.kind);
    let at = reports
        .iter()
        .position(|report| kind(report) == Some(EventKind::Crash));
    let crash = reports.remove(at.unwrap());
    assert_eq!(crash.end.as_ref().unwrap().closed_by, "writer");
    assert!(reports.iter().all(|report| kind(report) != kind(&crash)));
    (crash, reports)
}

fn recording() {
    for _ in 0..5 {
        let ended = play("recording");
        let (report, others) = crash(&ended);
        culprit_is_first(&report);
        // The report that was under way, and one that was not removed yet.
        assert!(others.len() <= 2);
    }
}

fn in_callback() {
    let ended = play("in_callback");
    let (report, others) = crash(&ended);
    culprit_is_first(&report);
    assert_eq!(others.len(), 1);
    assert!(!others[0].event.as_ref().unwrap().fatal);
}

fn while_stalled() {
    let ended = play("while_stalled");
    let (report, others) = crash(&ended);
    culprit_is_first(&report);
    for stall in &others {
        assert_eq!(stall.event.as_ref().unwrap().kind, EventKind::Stall);
        assert!(stall.stall_end.is_none(), "it never ended");
        assert_eq!(stall.end.as_ref().unwrap().closed_by, "next_launch");
    }
    assert!(others.len() <= 1);
}

fn crowd() {
    // On a machine under load hundreds of threads may have no CPU to answer with: once more then.
    let most = (0..5).any(|_| {
        let report = play("crowd").report();
        culprit_is_first(&report);
        assert!(report.threads.len() > CROWD, "{}", report.threads.len());
        // All sleep in the same place, whose name is looked up once.
        let mut places = std::collections::HashMap::new();
        for (index, thread) in report.threads.iter().enumerate().skip(1) {
            let pcs: Vec<u64> = thread.frames.iter().map(|frame| frame.pc).collect();
            places.entry(pcs).or_insert((index, 0)).1 += 1;
        }
        let asleep = |index: usize| {
            let functions = functions(&report, index);
            functions.iter().any(|name| name.contains("asleep"))
        };
        let counts = places.values().filter(|(index, _)| asleep(*index));
        let seen: usize = counts.map(|(_, count)| count).sum();
        let capture = report.capture.as_ref().unwrap();
        let unanswered = capture.unanswered.unwrap_or(0) as usize;
        assert!(seen + unanswered >= CROWD, "{seen} of {CROWD}, {capture:?}");
        if seen < CROWD {
            eprintln!("{seen} of {CROWD} threads answered");
        }
        seen > CROWD * 9 / 10
    });
    assert!(most, "hardly any of them has a stack");
}

fn few() {
    let report = play("few").report();
    culprit_is_first(&report);
    assert_eq!(report.threads.len(), 1 + FEW);
    let cut = report.capture.unwrap().cut;
    assert_eq!(cut, Some(CutReason::Limit));
}

fn unwilling() {
    let ended = play("unwilling");
    let report = ended.report();
    culprit_is_first(&report);
    let capture = report.capture.as_ref().unwrap();
    // Blocked threads are read without the signal where code can be followed.
    let unanswered = capture.unanswered.unwrap_or(0) >= UNWILLING as u64;
    assert_eq!(unanswered, cfg!(not(target_arch = "x86_64")), "{capture:?}");
    let asleep = (1..report.threads.len()).filter(|&index| {
        functions(&report, index)
            .iter()
            .any(|name| name.contains("asleep"))
    });
    let asleep = asleep.count();
    assert!(asleep > UNWILLING, "{asleep}");
    assert!(report.threads.len() > UNWILLING + 2);
}

fn stalls_unwilling() {
    let report = play("stalls_unwilling").report();
    assert_eq!(report.event.as_ref().unwrap().kind, EventKind::Stall);
    let stack = functions(&report, 0);
    assert!(in_order(&stack, &["naps"]), "{stack:#?}");
    let thread = &report.threads[0];
    assert_eq!(thread.state, Some(ThreadState::Blocked));
    assert_eq!(thread.syscall.as_deref(), Some("clock_nanosleep"));
    // What the instructions of functions lead to, none of which moves its stack but by numbers, is certain.
    let is_certain = |found| [Found::Context, Found::UnwindInfo].contains(&found);
    assert!(thread.frames.iter().all(|frame| is_certain(frame.found)));
    let unanswered = report.capture.unwrap().unanswered.is_some();
    assert_eq!(unanswered, cfg!(not(target_arch = "x86_64")));
}

fn faults_unwilling() {
    let ended = play("faults_unwilling");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let launches = wedjat::store::launches(&ended.folder.0).unwrap();
    assert_eq!(launches.len(), 1);
    assert_eq!(launches[0].how, HowEnded::Abrupt);
    assert!(ended.readings().is_empty());
}
