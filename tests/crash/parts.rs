//! A report whose parts are not all written at once: the dying thread may open no file, or a part stands still.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use wedjat::Monitor;
use wedjat::report::{Reading, Report};

use crate::child::{calls, play, stack};
use crate::denied::OPEN;
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    let mut all = tests(&[
        ("a_thread_that_may_open_no_file_is_reported", may_not_open),
        (
            "a_report_that_stands_still_on_a_thread_that_blocks_sigabrt_is_cut",
            stands_still_unwilling,
        ),
        (
            "a_report_that_stands_still_where_no_sigabrt_comes_to_us_is_cut",
            stands_still_deaf,
        ),
        (
            "a_report_that_stands_still_while_the_loader_is_held_is_cut",
            stands_still_in_loader,
        ),
        (
            "a_report_with_a_crash_in_it_is_followed_by_a_whole_one",
            twice,
        ),
    ]);
    for (phase, name) in PHASES.into_iter().enumerate() {
        let name = format!(
            "a_report_that_stands_still_while_{}",
            name.replace(' ', "_")
        );
        all.push((name, Box::new(move || stands_still_in(phase))));
    }
    all
}

/// What is written when it stands still.
const PHASES: [&str; 6] = [
    "opening the file",
    "writing the event",
    "unwinding the crashed thread",
    "reading vitals and context",
    "capturing the other threads",
    "closing the report",
];

/// Signals of faults of the thread's own.
const FAULTS: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];

static AT: AtomicUsize = AtomicUsize::new(usize::MAX);
static ONCE: AtomicBool = AtomicBool::new(false);

fn is_here(phase: &str) -> bool {
    let at = PHASES.get(AT.load(Ordering::Relaxed));
    at.is_some_and(|at| phase.ends_with(at)) && !ONCE.swap(true, Ordering::Relaxed)
}

fn stand_still(phase: &'static str) {
    if is_here(phase) {
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}

fn crash(phase: &'static str) {
    if is_here(phase) {
        crate::culprit(Way::Null);
    }
}

pub fn role(role: &str, folder: &Path) -> bool {
    let words: Vec<&str> = role.split('-').collect();
    match words[..] {
        ["may_not_open"] => {
            let _monitor = install(folder);
            // Of this thread alone.
            crate::seccomp::deny(&OPEN, 0);
            outer(Way::Null);
        }
        ["stands_still", at] => {
            AT.store(at.parse().unwrap(), Ordering::Relaxed);
            let _monitor = install(folder);
            wedjat::trigger::set_phase_hook(stand_still);
            outer(Way::Null);
        }
        ["stands_still_unwilling", keeps] => {
            AT.store(2, Ordering::Relaxed);
            let _monitor = install(folder);
            wedjat::trigger::set_phase_hook(stand_still);
            // SAFETY: the set lives across the calls.
            unsafe {
                let mut mask: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut mask);
                libc::sigaddset(&mut mask, libc::SIGABRT);
                if keeps == "faults" {
                    libc::sigfillset(&mut mask);
                    for fault in FAULTS {
                        libc::sigdelset(&mut mask, fault);
                    }
                }
                libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
            }
            outer(Way::Null);
        }
        ["stands_still_deaf", how] => {
            extern "C" fn ends(_signal: i32) {
                // SAFETY: a plain call.
                unsafe { libc::_exit(3) };
            }
            AT.store(2, Ordering::Relaxed);
            let put = |handler| {
                // SAFETY: a plain call.
                unsafe { libc::signal(libc::SIGABRT, handler) };
            };
            if how == "ignored" {
                put(libc::SIG_IGN);
            }
            let _monitor = install(folder);
            if how == "replaced" {
                put(ends as *const () as usize);
            }
            wedjat::trigger::set_phase_hook(stand_still);
            outer(Way::Null);
        }
        ["stands_still_in_loader", at] => {
            AT.store(at.parse().unwrap(), Ordering::Relaxed);
            let monitor = install(folder);
            wedjat::trigger::set_phase_hook(stand_still);
            holds_the_loader(&monitor);
        }
        ["twice"] => {
            // A previous handler deals with the first fault, so that the process goes on.
            extern "C" fn steps_over(_: i32, _: *mut libc::siginfo_t, frame: *mut libc::c_void) {
                if DEALT_WITH.swap(true, Ordering::Relaxed) {
                    // SAFETY: the default action, from now on.
                    unsafe { libc::signal(libc::SIGTRAP, libc::SIG_DFL) };
                }
                // The pc of a breakpoint lies behind it.
                let _ = frame;
            }
            static DEALT_WITH: AtomicBool = AtomicBool::new(false);
            // SAFETY: the handler touches an atomic and calls signal(2).
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = steps_over as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut());
            }
            AT.store(2, Ordering::Relaxed);
            let _monitor = install(folder);
            wedjat::trigger::set_phase_hook(crash);
            // SAFETY: its handler is the one above.
            unsafe { libc::raise(libc::SIGTRAP) };
            outer(Way::Null);
        }
        _ => return false,
    }
    true
}

/// Crashes while the loader lists the images for this thread, and for it alone: the helper wants its turn.
fn holds_the_loader(monitor: &Monitor) {
    type Turns<'a> = (&'a Sender<()>, &'a Receiver<()>);
    unsafe extern "C" fn crash(
        _: *mut libc::dl_phdr_info,
        _: usize,
        turns: *mut libc::c_void,
    ) -> i32 {
        // SAFETY: the pointer is that of the channels below.
        let (listed, asked) = unsafe { &*turns.cast::<Turns<'_>>() };
        listed.send(()).unwrap();
        asked.recv().unwrap();
        outer(Way::Null);
        1
    }
    let ((listed, is_listed), (asked, is_asked)) = (channel(), channel());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            is_listed.recv().unwrap();
            // Asks the helper for the images, in vain.
            monitor.record("beside the loader").unwrap();
            asked.send(()).unwrap();
        });
        let turns: Turns<'_> = (&listed, &is_asked);
        let turns = (&raw const turns).cast_mut().cast();
        // SAFETY: the channels outlive the call.
        unsafe { libc::dl_iterate_phdr(Some(crash), turns) };
    });
}

fn is_whole(report: &Report) {
    assert!(report.vitals.is_some());
    let crashed = report.threads.iter().filter(|thread| thread.crashed);
    assert_eq!(crashed.count(), 1);
    assert!(report.threads[0].crashed);
    let stack = stack(report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
    let event = report.event.as_ref().unwrap();
    assert_eq!(event.signal.as_ref().unwrap().name, "SIGSEGV");
}

fn may_not_open() {
    let ended = play("may_not_open");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let report = ended.report();
    is_whole(&report);
    assert_eq!(report.capture.unwrap().cut, None);
}

fn stands_still_in(phase: usize) {
    is_cut_where_it_stands(&format!("stands_still-{phase}"), phase);
}

fn stands_still_unwilling() {
    for keeps in ["all_but_abort", "faults"] {
        is_cut_where_it_stands(&format!("stands_still_unwilling-{keeps}"), 2);
    }
}

fn stands_still_deaf() {
    for how in ["ignored", "replaced"] {
        is_cut_where_it_stands(&format!("stands_still_deaf-{how}"), 2);
    }
}

fn stands_still_in_loader() {
    for phase in [0, 2, 3] {
        is_cut_where_it_stands(&format!("stands_still_in_loader-{phase}"), phase);
    }
}

fn is_cut_where_it_stands(role: &str, phase: usize) {
    let ended = play(role);
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let is_death =
        |reading: &Reading| (reading.report.event.as_ref()).is_some_and(|event| event.fatal);
    let mut readings = ended.readings();
    readings.retain(is_death);
    let reading = readings.remove(0);
    assert!(readings.is_empty(), "one death, one report");
    assert!(reading.damage.is_empty(), "{:?}", reading.damage);
    let report = reading.report;
    is_whole(&report);
    assert!(report.threads.len() > 1);
    let cut = report.capture.unwrap().cut;
    let stood_still = format!("stood still while {}", PHASES[phase]);
    assert_eq!(cut.unwrap().as_str(), stood_still);
    let names = std::fs::read_dir(&ended.folder.0).unwrap();
    let is_partial = |name: std::fs::DirEntry| name.path().extension() == Some("partial".as_ref());
    assert!(!names.map(|name| name.unwrap()).any(is_partial));
}

fn twice() {
    let ended = play("twice");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let report = ended.report();
    is_whole(&report);
    assert_eq!(report.capture.unwrap().cut, None);
}
