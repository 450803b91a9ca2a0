//! Other threads that crash meanwhile wait for the first one to die, so that the process dies of its signal.

use std::sync::atomic::Ordering;

use super::previous::jumped_out;
use super::state::{DONE, OWNER};
use crate::platform::clock::{monotonic, thread_cpu};
use crate::platform::gauge::Blocked;
use crate::platform::{Thread, signals};

/// How often they look, nanoseconds.
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

/// Returns where the process lives on after what happened to `owner` after all, where that thread has ended, or where
/// it takes too long. Signal-safe.
pub(super) fn for_the_death_of(owner: u64) {
    let first = Thread::from_id(owner);
    let start = monotonic();
    let mut last = start;
    let mut blocked = 0u64;
    let mut cpu_then = None;
    while OWNER.load(Ordering::Acquire) == owner && first.is_alive() {
        signals::pause(POLL as i64);
        let now = monotonic();
        if now.saturating_sub(start) >= AT_MOST {
            return;
        }
        let since = now.saturating_sub(std::mem::replace(&mut last, now));
        if !DONE.load(Ordering::Acquire) {
            continue;
        }
        let cpu = thread_cpu(first.tid());
        if cpu.saturating_sub(*cpu_then.get_or_insert(cpu)) >= RUNS {
            return;
        }
        if first.progress().is_some_and(|now| now.running) {
            continue;
        }
        blocked = blocked.saturating_add(since);
        let jumped = Blocked::of(first).is_some_and(|at| jumped_out(at.sp as usize));
        if blocked >= if jumped { JUMPED } else { BLOCKED } {
            return;
        }
    }
}
