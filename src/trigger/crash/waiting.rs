//! Other threads that crash meanwhile wait for the first one to die, so that the process dies of its signal.

use std::sync::atomic::Ordering;

use super::life::has_left;
use super::state::{self, CrashStage, HERE, SeenState};
use crate::platform::clock::{monotonic, thread_cpu};
use crate::platform::signals;

/// Time between two looks, nanoseconds.
const POLL: u64 = 10_000_000;
/// While the report is written, or the first thread is ready to run and has no CPU, at most so long, nanoseconds.
const AT_MOST: u64 = 60_000_000_000;
/// Behind its report, while it is blocked in a previous handler, at most so long: where that waits for one of these
/// others, it waits for ever.
const BLOCKED: u64 = 5_000_000_000;
/// While it is blocked elsewhere, since it has jumped out of that handler, and lives on.
const JUMPED: u64 = 200_000_000;
/// Behind its report, it runs for at most so long.
const RUNS: u64 = 1_000_000_000;

/// Outcome of a wait for the first thread's report.
pub(super) enum Waited {
    /// It is out of the way.
    Over,
    /// Its thread lives on.
    LivesOn(SeenState),
    TooLong,
}

/// Waits for the end of what was seen of another thread. Signal-safe.
pub(super) fn for_the_end_of(first: SeenState) -> Waited {
    let start = monotonic();
    let mut last = start;
    let mut blocked = 0u64;
    let mut cpu_then = None;
    let mut before = first;
    loop {
        let seen = state::now();
        let owner = match seen.state {
            CrashStage::Off | CrashStage::Idle | CrashStage::Answered(_) => return Waited::Over,
            CrashStage::Writing(owner) | CrashStage::Retracting(owner) => owner,
            CrashStage::Asking(owner) | CrashStage::Dying(owner) => owner,
        };
        let is_written = matches!(seen.state, CrashStage::Asking(_) | CrashStage::Dying(_));
        let thread = owner.thread();
        let is_asking = matches!(seen.state, CrashStage::Asking(_));
        if !thread.is_alive() {
            return match is_written {
                true => Waited::LivesOn(seen),
                false => Waited::TooLong,
            };
        }
        if seen != before {
            (before, blocked, cpu_then) = (seen, 0, None);
        }
        signals::pause(POLL as i64);
        let now = monotonic();
        if now.saturating_sub(start) >= AT_MOST {
            return Waited::TooLong;
        }
        let since = now.saturating_sub(std::mem::replace(&mut last, now));
        if !is_written {
            continue;
        }
        let cpu = thread_cpu(thread.tid());
        if cpu.saturating_sub(*cpu_then.get_or_insert(cpu)) >= RUNS {
            // It computes: more likely elsewhere than in a handler. One that may be on the stack on which the next
            // report is to be written is left alone.
            return match is_asking && !is_on_our_stack() {
                true => Waited::LivesOn(seen),
                false => Waited::TooLong,
            };
        }
        if thread.progress().is_some_and(|now| now.running) {
            continue;
        }
        blocked = blocked.saturating_add(since);
        if is_asking && blocked >= JUMPED && has_left(owner) == Some(true) {
            return Waited::LivesOn(seen);
        }
        if blocked >= BLOCKED {
            return Waited::TooLong;
        }
    }
}

/// Returns true if the owner called its previous handler on the stack on which reports are written.
fn is_on_our_stack() -> bool {
    HERE.load(Ordering::Acquire) & 1 == 1
}
