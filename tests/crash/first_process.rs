//! The first process of a container, for which the kernel drops what is sent to it and has no handler: it lives and
//! dies as it does without us.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use wedjat::report::{EventKind, Report};
use wedjat::{Monitor, MonitorError, store};

use crate::child::{Ended, calls, play_with, program, stack};
use crate::{Tests, Way, install, outer, tests};

const TRAPS: &str = "the_first_process_of_a_container_dies_of_a_trap";
const DROPPED: &str = "what_the_kernel_drops_for_the_first_process_is_no_death";
const ABORTS: &str = "an_abort_of_the_first_process_is_one_report";
const INSTALLS: &str =
    "the_first_process_of_a_namespace_in_a_container_may_have_a_monitor_of_its_own";
const LEAVES: &str =
    "the_first_process_of_a_namespace_in_a_container_leaves_its_parents_monitor_alone";

pub fn trials() -> Tests {
    tests(&[
        (TRAPS, traps),
        (DROPPED, dropped),
        (ABORTS, aborts),
        (INSTALLS, installs),
        (LEAVES, leaves),
    ])
}

/// Why a test here cannot run.
pub fn lacks(name: &str) -> Option<&'static str> {
    static MAY: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let mut command = Command::new("unshare");
        command.args(["-p", "-f", "--mount-proc", "true"]);
        command.output().is_ok_and(|output| output.status.success())
    });
    let is_one = [TRAPS, DROPPED, ABORTS, INSTALLS, LEAVES].contains(&name);
    (is_one && !*MAY).then_some("unshare -p is not permitted")
}

pub fn role(role: &str, folder: &Path) -> bool {
    let is_first = std::process::id() == 1;
    match role {
        "first_plain_trap" => outer(Way::Trap),
        "first_plain_syscall" => outer(Way::Syscall),
        "first_plain_abort" => outer(Way::Abort),
        "first_dropped" => {
            assert!(is_first);
            let monitor = install(folder);
            for signal in [libc::SIGFPE, libc::SIGSEGV, libc::SIGTERM] {
                // SAFETY: the kernel ignores it.
                unsafe { libc::raise(signal) };
            }
            assert!(monitor.replaced_signals().is_empty());
            outer(Way::Null);
        }
        "first_installs" => parent_of_first(folder, |monitor| {
            let refused = monitor.record("by the child");
            assert!(matches!(refused, Err(MonitorError::Forked)), "{refused:?}");
            let own = install(&folder.join("child"));
            own.record("its own").unwrap();
            assert!(own.replaced_signals().is_empty());
            Some(own)
        }),
        "first_leaves" => parent_of_first(folder, |_| None),
        _ => return false,
    }
    true
}

/// The first process of a container with a monitor, and a child that is the first process of a namespace of its own, as
/// a runtime of containers makes it: both have the id 1. The child does its work and crashes, and then the parent does.
fn parent_of_first(folder: &Path, child: impl FnOnce(&Monitor) -> Option<Monitor>) {
    assert_eq!(std::process::id(), 1);
    let monitor = install(folder);
    // SAFETY: plain calls; the child is the only thread of its process, and dies.
    let first = unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWPID), 0);
        libc::fork()
    };
    if first == 0 {
        assert_eq!(std::process::id(), 1);
        let _own = child(&monitor);
        outer(Way::Null);
    }
    let status = end_of(first);
    assert!(libc::WIFSIGNALED(status), "{status:x}");
    assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
    assert!(monitor.replaced_signals().is_empty());
    outer(Way::Null);
}

/// Waits for the end of a child. The kernel drops an alarm of a first process: its parent ends what hangs.
fn end_of(child: i32) -> i32 {
    let start = Instant::now();
    let mut status = 0;
    // SAFETY: the status outlives the call.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if start.elapsed() > Duration::from_secs(20) {
            // SAFETY: a plain call.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    status
}

/// Plays a role as the first process of a namespace; unshare(1) ends as it does.
fn play_first(role: &str) -> Ended {
    play_with(role, |command| {
        let mut first = Command::new("unshare");
        first.args(["-p", "-f", "--mount-proc"]).arg(program());
        for (name, value) in command.get_envs() {
            first.env(name, value.unwrap_or_default());
        }
        *command = first;
        command
    })
}

fn traps() {
    for (role, plain, signal) in [
        ("trap", "first_plain_trap", libc::SIGTRAP),
        ("syscall", "first_plain_syscall", libc::SIGSYS),
    ] {
        let ended = play_first(role);
        let printed = &ended.stderr;
        assert_eq!(ended.status, play_first(plain).status, "{role}: {printed}");
        assert_eq!(ended.signal(), Some(signal), "{role}: {printed}");
        let event = ended.report().event.unwrap();
        assert_eq!(event.signal.unwrap().number, signal as u64, "{role}");
    }
}

fn dropped() {
    let start = Instant::now();
    let ended = play_first("first_dropped");
    assert!(start.elapsed() < Duration::from_secs(4), "late");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let stack = stack(&ended.report(), 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}

fn aborts() {
    let ended = play_first("abort");
    let plain = play_first("first_plain_abort");
    assert_eq!(ended.status, plain.status, "{}", ended.stderr);
    let stack = stack(&ended.report(), 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}

fn installs() {
    let ended = play_first("first_installs");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let is_outer = |report: &Report| calls(&stack(report, 0), &["culprit", "middle", "outer"]);
    assert!(is_outer(&ended.report()));
    let found = store::reports(ended.folder.0.join("child")).unwrap();
    let readings: Vec<_> = found.iter().map(|file| file.read().unwrap()).collect();
    let kinds: Vec<EventKind> = readings
        .iter()
        .map(|reading| reading.report.event.as_ref().unwrap().kind)
        .collect();
    assert_eq!(kinds, [EventKind::Live, EventKind::Crash]);
    let crash = &readings[1];
    assert!(crash.damage.is_empty(), "{:?}", crash.damage);
    assert!(is_outer(&crash.report));
}

/// It has no monitor: its death is its parent's as little as that of another child.
fn leaves() {
    let ended = play_first("first_leaves");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{}", ended.stderr);
    let stack = stack(&ended.report(), 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}
