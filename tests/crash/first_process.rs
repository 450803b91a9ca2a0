//! The first process of a container, for which the kernel drops what is sent to it and has no handler: it lives and
//! dies as it does without us.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::child::{Ended, calls, play_with, program, stack};
use crate::{Tests, Way, install, outer, tests};

const TRAPS: &str = "the_first_process_of_a_container_dies_of_a_trap";
const DROPPED: &str = "what_the_kernel_drops_for_the_first_process_is_no_death";
const ABORTS: &str = "an_abort_of_the_first_process_is_one_report";

pub fn trials() -> Tests {
    tests(&[(TRAPS, traps), (DROPPED, dropped), (ABORTS, aborts)])
}

/// Why a test here cannot run.
pub fn lacks(name: &str) -> Option<&'static str> {
    static MAY: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let mut command = Command::new("unshare");
        command.args(["-p", "-f", "--mount-proc", "true"]);
        command.output().is_ok_and(|output| output.status.success())
    });
    let is_one = [TRAPS, DROPPED, ABORTS].contains(&name);
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
        _ => return false,
    }
    true
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
