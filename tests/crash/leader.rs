//! The main thread has ended and the others go on: what reads of the process' memory, maps and status then
//! goes by a thread that is still there.

use std::path::Path;
use std::time::Duration;

use wedjat::report::{EventKind, Report, StallOutcome, ThreadState, WalkEnd};
use wedjat::{Crash, Monitor, Stall, Threads};

use crate::child::{Ended, deadline, functions, in_order, leave_disturbed, play};
use crate::{Tests, Way, asleep, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        ("a_crash_behind_the_main_threads_end_has_its_stack", crash),
        (
            "live_reports_behind_the_main_threads_end_have_all_stacks",
            live,
        ),
        ("a_monitor_is_installed_behind_the_main_threads_end", late),
        ("a_stall_is_over_with_its_thread", stall),
    ])
}

pub fn role(role: &str, folder: &Path) -> bool {
    let install = || {
        let builder = Monitor::builder("leader", "1").directory(folder);
        let builder = builder.crash(Crash::default()).stall(Stall::default());
        builder.install().unwrap()
    };
    let monitor = match role {
        "leader_crash" | "leader_live" | "leader_stall" => Some(install()),
        "leader_late" => None,
        _ => return false,
    };
    if let Some(monitor) = &monitor {
        // The turn in which the main thread ends stays open.
        monitor.heartbeat().begin();
    }
    let ready: &'static std::sync::Barrier = Box::leak(Box::new(std::sync::Barrier::new(2)));
    std::thread::spawn(|| asleep(ready));
    let role_stalls = role == "leader_stall";
    let role = role.to_owned();
    let directory = folder.to_owned();
    std::thread::spawn(move || {
        ready.wait();
        let main = format!("/proc/self/task/{}/stat", std::process::id());
        while !std::fs::read_to_string(&main).unwrap().contains(") Z ") {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Twice as long as any stall takes to be sure.
        std::thread::sleep(Duration::from_millis(600));
        survivor(&role, &directory, monitor);
    });
    if role_stalls {
        std::thread::sleep(Duration::from_millis(900));
    }
    // SAFETY: ends this thread alone, as pthread_exit(3) does once the destructors are through.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    true
}

#[inline(never)]
fn survivor(role: &str, folder: &Path, monitor: Option<Monitor>) {
    let monitor = monitor.unwrap_or_else(|| {
        let builder = Monitor::builder("leader", "1").directory(folder);
        builder.crash(Crash::default()).install().unwrap()
    });
    if role != "leader_crash" {
        monitor.record("look").unwrap();
        let text = monitor.stacks(Threads::All).unwrap();
        std::fs::write(folder.join("stacks.txt"), text).unwrap();
    }
    leave_disturbed(folder, deadline::starved());
    outer(Way::Null);
    drop(monitor);
}

fn of_kind(ended: &Ended, kind: EventKind) -> Report {
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let readings = ended.readings();
    let kinds: Vec<EventKind> = readings
        .iter()
        .map(|reading| reading.report.event.as_ref().unwrap().kind)
        .collect();
    let stalls = kinds.contains(&EventKind::Stall);
    assert_eq!(stalls, kind == EventKind::Stall, "{kinds:?}");
    let at = kinds.iter().position(|found| *found == kind);
    let reading = &readings[at.unwrap_or_else(|| panic!("{kinds:?}"))];
    assert!(reading.damage.is_empty(), "{:?}", reading.damage);
    reading.report.clone()
}

/// The thread that goes on and the one that sleeps have their stacks, and the process its memory.
fn is_whole(report: &Report) {
    let stack = functions(report, 0);
    assert!(in_order(&stack, &["survivor"]), "{stack:#?}");
    assert_eq!(report.threads[0].end, Some(WalkEnd::Root));
    let sleeper = (1..report.threads.len())
        .find(|&index| in_order(&functions(report, index), &["asleep"]))
        .unwrap_or_else(|| panic!("no sleeper: {:#?}", report.threads));
    assert_eq!(report.threads[sleeper].end, Some(WalkEnd::Root));
    let main = report.threads.iter().find(|thread| thread.main).unwrap();
    assert!(main.frames.is_empty());
    assert_eq!(main.state, Some(ThreadState::Ended));
    let memory = report.vitals.as_ref().unwrap().memory.as_ref().unwrap();
    assert!(memory.resident > Some(1 << 20), "{memory:?}");
    assert!(memory.footprint > Some(1 << 16), "{memory:?}");
    let path = std::env::current_exe().unwrap();
    let path = path.canonicalize().unwrap();
    let is_main = |image: &wedjat::report::Image| Path::new(&image.name) == path;
    assert!(report.images.iter().any(is_main), "{:#?}", report.images);
}

fn crash() {
    let ended = play("leader_crash");
    let report = of_kind(&ended, EventKind::Crash);
    is_whole(&report);
    let stack = functions(&report, 0);
    assert!(
        in_order(&stack, &["culprit", "middle", "outer", "survivor"]),
        "{stack:#?}"
    );
}

fn live() {
    let ended = play("leader_live");
    let report = of_kind(&ended, EventKind::Live);
    is_whole(&report);
    let text = std::fs::read_to_string(ended.folder.0.join("stacks.txt")).unwrap();
    assert!(
        text.contains("survivor") && text.contains("asleep"),
        "{text}"
    );
}

fn stall() {
    let played = || {
        let ended = play("leader_stall");
        let disturbed = ended.disturbed();
        (ended, disturbed)
    };
    // A watchdog without a core sees its end alone.
    deadline::undisturbed(deadline::DISTURBED / 2, played, |ended| {
        let report = of_kind(&ended, EventKind::Stall);
        let end = report.stall_end.unwrap();
        assert!(end.duration >= Duration::from_millis(850), "{end:?}");
        assert_eq!(end.how, StallOutcome::ThreadEnded);
        assert_eq!(report.end.unwrap().closed_by, "writer");
    });
}

fn late() {
    let ended = play("leader_late");
    is_whole(&of_kind(&ended, EventKind::Live));
    is_whole(&of_kind(&ended, EventKind::Crash));
}
