//! The writer thread, which writes crash reports for the thread that dies: what it can do that the dying thread
//! cannot, and what is left where it does not get on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use wedjat::report::{Report, Value};

use crate::child::{Folder, calls, command, deadline, play, stack};
use crate::denied::OPEN;
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    let mut all = tests(&[
        ("a_thread_that_may_open_no_file_is_reported", may_not_open),
        ("a_writer_thread_that_is_held_is_not_waited_for", held),
        (
            "a_writer_thread_that_crashes_is_followed_by_the_next_crash",
            twice,
        ),
    ]);
    for (phase, name) in PHASES.into_iter().enumerate() {
        let name = format!(
            "a_writer_thread_that_stands_still_while_{}",
            name.replace(' ', "_")
        );
        all.push((name, Box::new(move || stands_still_in(phase))));
    }
    all
}

/// What the writer thread is at when it stands still.
const PHASES: [&str; 6] = [
    "opening the file",
    "writing the event",
    "unwinding the crashed thread",
    "reading vitals and context",
    "capturing the other threads",
    "closing the report",
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
        ["held"] => {
            let _monitor = install(folder);
            let ready = folder.join("ready");
            std::fs::write(&ready, "").unwrap();
            while ready.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            outer(Way::Null);
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
    let ended = play(&format!("stands_still-{phase}"));
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let mut readings = ended.readings();
    let reading = readings.remove(0);
    assert!(readings.is_empty(), "one death, one report");
    assert!(reading.damage.is_empty(), "{:?}", reading.damage);
    let report = reading.report;
    is_whole(&report);
    // The file, the helper's own thread and the writer thread's are there too.
    if phase < 5 {
        assert!(report.threads.len() > 1);
        let cut = report.capture.unwrap().cut;
        assert_eq!(
            cut,
            Some(Value::Text("the writer thread stood still".into()))
        );
    }
    let names = std::fs::read_dir(&ended.folder.0).unwrap();
    let names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
    let ours = |ending: &str| {
        let ends = |name: &&std::ffi::OsString| name.to_string_lossy().ends_with(ending);
        names.iter().filter(ends).count()
    };
    assert_eq!(
        (ours(".wedjat"), ours(".partial"), ours(".beside")),
        (1, 0, 0)
    );
}

/// A debugger holds the writer thread: it does not even begin.
fn held() {
    let folder = Folder::new("held");
    let mut child = command("held", &folder.0).spawn().unwrap();
    let ready = folder.0.join("ready");
    while !ready.exists() {
        std::thread::sleep(Duration::from_millis(5));
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
    }
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let is_writer_thread = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "wedjat-crash\n")
    };
    let mut tasks = tasks.map(|task| task.unwrap().path());
    let writer_thread = tasks.find(is_writer_thread).expect("a writer thread");
    let tid: i32 = writer_thread
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    // SAFETY: plain calls on a thread of our own child.
    unsafe {
        let none = std::ptr::null_mut::<libc::c_void>();
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, tid, none, none), 0);
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, tid, none, none), 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(tid, &mut status, libc::__WALL), tid);
    }
    std::fs::remove_file(ready).unwrap();
    // Killed with the rest of the process, it is ours to bury.
    // SAFETY: as above.
    unsafe {
        let mut status = 0;
        while libc::waitpid(tid, &mut status, libc::__WALL) == tid && !libc::WIFSIGNALED(status) {}
    }
    let status = deadline::end(child, deadline::PATIENCE).status;
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
    let reports = wedjat::store::reports(&folder.0).unwrap();
    assert_eq!(reports.len(), 1);
    let reading = reports[0].read().unwrap();
    assert!(reading.damage.is_empty(), "{:?}", reading.damage);
    assert_eq!(reading.report.end.as_ref().unwrap().closed_by, "writer");
    is_whole(&reading.report);
    assert_eq!(reading.report.capture.unwrap().cut, None);
}

fn twice() {
    let ended = play("twice");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let report = ended.report();
    is_whole(&report);
    assert_eq!(report.capture.unwrap().cut, None);
}
