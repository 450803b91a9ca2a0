//! The captures' signals beside an app that resets, ignores or takes signals after the monitor was installed.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wedjat::Stats;

use super::child::{calls, play, stack};

/// Signals that came to the app's own handler.
static CAME: AtomicU32 = AtomicU32::new(0);

extern "C" fn app(_: libc::c_int) {
    CAME.fetch_add(1, Ordering::Relaxed);
}

/// Gives each real-time signal of `signals` this action.
fn set_all(signals: impl Iterator<Item = i32>, action: usize) {
    for signal in signals {
        // SAFETY: a handler that adds to a number, or an action of the system's.
        unsafe { libc::signal(signal, action) };
    }
}

fn real_time() -> std::ops::RangeInclusive<i32> {
    libc::SIGRTMIN()..=libc::SIGRTMAX()
}

/// The first two that the recorder may take: where it finds all free, its own.
fn own() -> [i32; 2] {
    [libc::SIGRTMIN() + 4, libc::SIGRTMIN() + 5]
}

fn lost(stats: &Stats) -> Option<u64> {
    stats.losses.get("unsent").copied()
}

/// What the app does to the signals, and what then holds of a freeze.
pub fn role(role: &str, folder: &Path) {
    let (monitor, receiver) = super::install(folder);
    let handler = app as *const () as usize;
    match role {
        "signals_reset" => set_all(real_time(), libc::SIG_DFL),
        "signals_ignored" => set_all(real_time(), libc::SIG_IGN),
        "signal_taken" => set_all(own()[0]..=own()[1] + 1, handler),
        "signals_taken" => set_all(real_time(), handler),
        _ => {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: the limit outlives the call.
            let set = unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &none) };
            assert_eq!(set, 0);
        }
    }
    let freeze = || super::outer(Duration::from_millis(600));
    monitor.heartbeat().turn(freeze);
    receiver.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(CAME.load(Ordering::Relaxed), 0);
    let stats = monitor.stats();
    let taken = match role {
        "signal_taken" | "signals_taken" => own().to_vec(),
        _ => Vec::new(),
    };
    assert_eq!(monitor.replaced_signals(), taken);
    if ["signals_taken", "signals_not_queued"].contains(&role) {
        let lost = lost(&stats);
        assert!(stats.captures == 0 && lost > Some(0), "{stats:?}");
    } else {
        let lost = lost(&stats);
        assert!(stats.captures > 0 && lost.is_none(), "{stats:?}");
    }
}

fn stalls(role: &str, with_frames: bool) {
    let ended = play(role);
    ended.succeeded();
    let report = ended.report();
    let stack = stack(&report, 0);
    if with_frames {
        assert!(calls(&stack, &["busy", "outer"]), "{stack:#?}");
    } else {
        assert!(stack.is_empty() && report.capture.unwrap().unanswered > Some(0));
        let mut lost = report.loss.unwrap().counts.into_iter();
        assert!(lost.any(|(reason, count)| reason == "unsent" && count > 0));
    }
}

/// A stall after all were given the default action, which would end the process.
pub fn reset() {
    stalls("signals_reset", true);
}

pub fn ignored() {
    stalls("signals_ignored", true);
}

/// Other free signals take the places of those that the app has taken.
pub fn one_taken() {
    stalls("signal_taken", true);
}

/// None is free: there are no stacks, and that is said.
pub fn all_taken() {
    stalls("signals_taken", false);
}

/// The user's queue of signals is full.
pub fn not_queued() {
    stalls("signals_not_queued", false);
}
