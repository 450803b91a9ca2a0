//! Crashes and kills in the middle of writing a report: what stands is kept, says so, and the
//! process dies of what it died of first.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use wedjat::report::Report;

use crate::child::play;
use crate::{Tests, Way, install, outer, tests};

/// What `capture.cut` says after a crash in each phase.
const PHASES: [&str; 6] = [
    "crashed while opening the file",
    "crashed while writing the event",
    "crashed while unwinding the crashed thread",
    "crashed while reading vitals and context",
    "crashed while capturing the other threads",
    "crashed while closing the report",
];
/// Sections that must stand when a phase begins: event, thread, image, vitals.
const STANDING: [[bool; 4]; 6] = [
    [false; 4],
    [false; 4],
    [true, false, false, false],
    [true, true, true, false],
    [true, true, true, true],
    [true, true, true, true],
];
const CAUSES: [(&str, i32); 10] = [
    ("null", libc::SIGSEGV),
    ("abort", libc::SIGABRT),
    ("divide", libc::SIGFPE),
    ("illegal", libc::SIGILL),
    ("bus", libc::SIGBUS),
    ("trap", libc::SIGTRAP),
    ("syscall", libc::SIGSYS),
    ("wild", libc::SIGSEGV),
    ("readonly", libc::SIGSEGV),
    // Rust's own handler, which is still called, aborts after a stack overflow.
    ("overflow", libc::SIGABRT),
];

pub fn trials() -> Tests {
    let mut all = tests(&[
        ("an_outsiders_signal_does_not_cut_the_report", outsider),
        ("a_child_of_fork_writes_no_report", fork),
        ("a_child_of_fork_may_drop_the_monitor", fork_drops),
        ("a_child_of_vfork_leaves_its_parents_handlers", vfork),
        (
            "a_monitor_may_be_installed_a_hundred_times",
            again_and_again,
        ),
        (
            "leaving_main_waits_for_a_report_that_is_written",
            leaving_main,
        ),
    ]);
    // Every phase with one cause, and every ordered pair of causes in one phase.
    for (phase, cut) in PHASES.into_iter().enumerate() {
        let name = format!("{cut} keeps what stands").replace(' ', "_");
        all.push((name, Box::new(move || crash_in(phase, 0, 1))));
        let name = format!("killed when it would have {cut}").replace(' ', "_");
        all.push((name, Box::new(move || killed_in(phase))));
    }
    for (first, (cause, _)) in CAUSES.into_iter().enumerate() {
        let name = format!("crashes_within_a_crash_by_{cause}");
        all.push((
            name,
            Box::new(move || (0..CAUSES.len()).for_each(|then| crash_in(2, first, then))),
        ));
    }
    all
}

static AT: AtomicUsize = AtomicUsize::new(usize::MAX);
static THEN: AtomicUsize = AtomicUsize::new(0);
static CHILD: AtomicI32 = AtomicI32::new(0);

fn hook(phase: &'static str) {
    if PHASES.get(AT.load(Ordering::Relaxed)) != Some(&phase) {
        return;
    }
    match CAUSES.get(THEN.load(Ordering::Relaxed)) {
        Some((cause, _)) => crate::culprit(Way::from(*cause)),
        // SAFETY: no arguments that could be wrong.
        None => unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        },
    }
}

static SLOW: AtomicBool = AtomicBool::new(false);

fn slow(phase: &'static str) {
    if phase == PHASES[4] {
        SLOW.store(true, Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
}

fn sent_from_outside(phase: &'static str) {
    if phase == PHASES[4] {
        // SAFETY: the child only sends a signal; async-signal-safe calls alone.
        unsafe {
            let process = libc::getpid();
            let child = libc::fork();
            if child == 0 {
                libc::kill(process, libc::SIGABRT);
                libc::_exit(0);
            }
            CHILD.store(child, Ordering::Relaxed);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}

pub fn role(role: &str, folder: &Path) -> bool {
    let words: Vec<&str> = role.split('-').collect();
    match words[..] {
        ["within", first, at, then] => {
            AT.store(at.parse().unwrap(), Ordering::Relaxed);
            THEN.store(then.parse().unwrap(), Ordering::Relaxed);
            let _monitor = install(folder);
            while !helper_is_there() {
                std::thread::yield_now();
            }
            wedjat::trigger::set_phase_hook(hook);
            outer(Way::from(first));
        }
        ["outsider"] => {
            let _monitor = install(folder);
            wedjat::trigger::set_phase_hook(sent_from_outside);
            outer(Way::Null);
        }
        ["fork"] => {
            let _monitor = install(folder);
            // SAFETY: the child only dies.
            match unsafe { libc::fork() } {
                0 => outer(Way::Null),
                child => {
                    let mut status = 0;
                    // SAFETY: waits for the child just made.
                    unsafe { libc::waitpid(child, &mut status, 0) };
                    std::process::exit(128 + libc::WTERMSIG(status));
                }
            }
        }
        ["fork_drops"] => {
            let monitor = install(folder);
            // SAFETY: the child calls in vain, drops what it has and leaves.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    let refused = monitor.record("in the child").is_err()
                        && monitor.stacks(wedjat::Threads::Current).is_err();
                    drop(monitor);
                    libc::_exit(if refused { 7 } else { 8 });
                }
                let mut status = 0;
                libc::alarm(20);
                libc::waitpid(child, &mut status, 0);
                assert_eq!(libc::WEXITSTATUS(status), 7);
            }
            outer(Way::Null);
        }
        ["vfork"] => {
            let _monitor = install(folder);
            child_in_our_memory_dies(Way::Null, libc::SIGSEGV);
            outer(Way::Null);
        }
        ["again_and_again"] => {
            let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
            drop(install(folder));
            let before = open();
            (0..100).for_each(|_| drop(install(folder)));
            assert!(open() <= before, "{before} descriptors became {}", open());
            let _monitor = install(folder);
            outer(Way::Null);
        }
        ["leaving_main"] => {
            let monitor = install(folder);
            wedjat::trigger::set_phase_hook(slow);
            std::thread::spawn(|| outer(Way::Null));
            while !SLOW.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            drop(monitor);
            std::thread::sleep(std::time::Duration::from_secs(5));
        }
        _ => return false,
    }
    true
}

/// A child of vfork(2) dies.
fn child_in_our_memory_dies(way: Way, signal: i32) {
    extern "C" fn dies(way: *mut libc::c_void) -> i32 {
        // SAFETY: the pointer is that of the argument below.
        crate::culprit(unsafe { *way.cast::<Way>() });
        0
    }
    let mut stack = vec![0u8; 256 << 10];
    let mut status = 0;
    // SAFETY: as vfork(2) wants it, the child calls nothing but one function that does not return; its memory is the
    // parent's, which is the point.
    unsafe {
        let top = stack.as_mut_ptr().add(stack.len() & !15).cast();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let child = libc::clone(dies, top, flags, (&raw const way).cast_mut().cast());
        libc::waitpid(child, &mut status, 0);
    }
    assert_eq!(libc::WTERMSIG(status), signal);
}

/// Returns true if there is another thread that a report has: on a busy machine it begins late, with all signals blocked.
fn helper_is_there() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let words =
        threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")));
    let mut words = words.map(|words| words.unwrap_or_default());
    words.any(|words| {
        let blocked = words
            .lines()
            .find_map(|line| line.strip_prefix("SigBlk:\t"));
        let blocked = blocked.and_then(|blocked| u64::from_str_radix(blocked, 16).ok());
        let is_open = blocked.is_some_and(|blocked| blocked >> (libc::SIGSEGV - 1) & 1 == 0);
        is_open && words.starts_with("Name:\twedjat-helper\n")
    })
}

/// What stands of event, crashed thread, images and vitals.
fn stands(report: &Report) -> [bool; 4] {
    [
        report.event.is_some(),
        report.threads.iter().any(|thread| thread.crashed),
        !report.images.is_empty(),
        report.vitals.is_some(),
    ]
}

fn crash_in(phase: usize, first: usize, then: usize) {
    let (cause, signal) = CAUSES[first];
    let ended = play(&format!("within-{cause}-{phase}-{then}"));
    assert_eq!(ended.signal(), Some(signal), "{:?}", ended.status);
    if phase == 0 {
        assert!(ended.readings().is_empty(), "nothing was begun");
        return;
    }
    let report = ended.report();
    // What came before the crash is kept, and what comes behind is written all the same.
    assert_eq!(
        stands(&report),
        [phase != 1, phase != 2, true, phase != 3],
        "{report:#?}"
    );
    assert!(phase == 4 || !report.threads.is_empty());
    let cut = report.capture.as_ref().unwrap().cut.unwrap();
    assert_eq!(cut.as_str(), PHASES[phase]);
    if let Some(event) = &report.event {
        let died_of = match cause {
            "overflow" => libc::SIGSEGV,
            _ => signal,
        };
        assert_eq!(event.signal.as_ref().unwrap().number, died_of as u64);
    }
}

fn killed_in(phase: usize) {
    let ended = play(&format!("within-null-{phase}-99"));
    assert_eq!(ended.signal(), Some(libc::SIGKILL));
    let mut readings = ended.readings();
    if phase == 0 {
        assert!(readings.is_empty(), "nothing was begun");
        return;
    }
    let reading = readings.remove(0);
    assert!(readings.is_empty() && reading.damage.is_empty());
    assert_eq!(stands(&reading.report), STANDING[phase]);
    assert_eq!(reading.report.end.unwrap().closed_by, "next_launch");
}

fn dies_whole(role: &str) -> Report {
    let ended = play(role);
    let printed = &ended.stderr;
    assert_eq!(
        ended.signal(),
        Some(libc::SIGSEGV),
        "{:?} {printed}",
        ended.status
    );
    ended.report()
}

fn outsider() {
    let report = dies_whole("outsider");
    assert_eq!(report.capture.unwrap().cut, None);
}

fn fork() {
    let ended = play("fork");
    assert_eq!(
        ended.status.code(),
        Some(128 + libc::SIGSEGV),
        "{}",
        ended.stderr
    );
    assert!(ended.readings().is_empty());
}

fn fork_drops() {
    dies_whole("fork_drops");
}

fn vfork() {
    dies_whole("vfork");
}

fn again_and_again() {
    dies_whole("again_and_again");
}

fn leaving_main() {
    dies_whole("leaving_main");
}
