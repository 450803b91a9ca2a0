//! Signs that a process lives on after a crash that was reported: then the report is taken back.

use std::ops::Range;

use super::installed::installed;
use super::state::{self, CrashOwner, CrashStage, STATE, SeenState};
#[cfg(target_os = "linux")]
use super::watch::PartWatch;
use crate::platform::gauge::Blocked;
use crate::platform::{entry, keeping_errno, signals};
use crate::trigger::heartbeat::HEARTBEAT;

/// Code so near below a handler of ours on the stack was called while that one ran.
const MAX_HANDLER_STACK: u64 = 64 << 10;
/// Period of the looks of [`LifeWatch`], nanoseconds.
const POLL: u64 = 100_000_000;
/// A process has survived a fault so long after the handler of that was left, nanoseconds.
const SURVIVED_AFTER: u64 = 2_000_000_000;
/// A fault whose thread has run for so long, perhaps in that handler, counts as survived, nanoseconds.
const SURVIVED_RUNNING: u64 = 10_000_000_000;

/// The end of the process, or of the monitor, waits so many steps at most for a report that is being written.
const MAX_WAIT_STEPS: u32 = 500;
/// Nanoseconds.
const WAIT_STEP: i64 = 10_000_000;

/// Returns the part of a stack on which the calls of a handler at `here` lie. An `alternate` stack may lie right above the
/// thread's own, where the code lies that it has jumped to. Signal-safe.
pub(super) fn calls_of(here: u64, alternate: &Range<u64>) -> Range<u64> {
    let lowest = here.saturating_sub(MAX_HANDLER_STACK - 1);
    let bottom = Some(alternate.start).filter(|_| alternate.contains(&here));
    lowest.max(bottom.unwrap_or(0))..here
}

/// Returns true if the owner's code that stands at `sp` on its stack runs within the handler that it has called.
/// Signal-safe.
pub(super) fn is_in_handler(sp: usize) -> bool {
    STATE.calls().contains(&(sp as u64)) || entry::is_on_handler_stack(sp)
}

/// Returns true if the owner has left the handler that it has called; `None` where it runs, or cannot be looked at.
/// Signal-safe.
pub(super) fn has_left(owner: CrashOwner) -> Option<bool> {
    let thread = owner.thread();
    if !thread.is_alive() {
        return Some(true);
    }
    Blocked::of(thread).map(|at| !is_in_handler(at.sp as usize))
}

/// The process lives on after what was reported, if a report stands. Signal-safe.
#[inline(never)]
pub(super) fn retract_survived(seen: SeenState) {
    let retract = || {
        // A process that is to end, and has a handler for that, will.
        if let Some(ours) = installed().filter(|_| STATE.signal() != libc::SIGTERM) {
            (ours.writer.retract)();
        }
    };
    if keeping_errno(|| STATE.survives(seen, CrashOwner::current(), retract)).is_some() {
        // The reports that were held back may begin.
        HEARTBEAT.wake();
        #[cfg(target_vendor = "apple")]
        crate::platform::exceptions::install_again();
    }
}

/// Waits while `is_open` is true of the state, 5 s at most, and returns the last state. Signal-safe.
pub(super) fn wait_while(mut is_open: impl FnMut(SeenState) -> bool) -> SeenState {
    let mut seen = state::now();
    for _ in 0..MAX_WAIT_STEPS {
        if !is_open(seen) {
            break;
        }
        signals::pause(WAIT_STEP);
        seen = state::now();
    }
    seen
}

/// Returns true if the process has survived what was seen, as far as its owner shows; `None` where the owner cannot be looked
/// at. Signal-safe.
fn is_survived(seen: SeenState) -> Option<bool> {
    let marker = 0u8;
    match seen.stage {
        CrashStage::Off | CrashStage::Idle | CrashStage::Answered => Some(true),
        CrashStage::Writing | CrashStage::Dying | CrashStage::Retracting => Some(false),
        // A handler may exit.
        CrashStage::Asking if seen.owner == CrashOwner::current() => {
            Some(!is_in_handler(&raw const marker as usize))
        }
        CrashStage::Asking => has_left(seen.owner),
    }
}

/// Waits until it is known whether the process survives the crash of another thread, 5 s at most, and for so many looks at most
/// that find that thread running. Returns the last state. Signal-safe.
fn wait_until_decided(most_running: u32) -> SeenState {
    let (here, mut running) = (CrashOwner::current(), 0u32);
    wait_while(|seen| {
        let survived = is_survived(seen);
        running = running.saturating_add(survived.is_none().into());
        seen.owner != here && survived != Some(true) && running < most_running
    })
}

/// Waits for the decision on a crash. Returns false if a report is not to be written, since the process seems to die, and at once
/// in a handler that is called for a crash. Signal-safe.
pub(crate) fn lives_on() -> bool {
    is_survived(wait_until_decided(u32::MAX)) != Some(false)
}

/// The app ends in order, or takes us out: what it was asked about before was no death. A crash of another thread that is
/// being reported, or about which an earlier handler is asked, may be one: waits for it, but a second at most while that thread
/// runs, since it may have jumped out of that handler. Signal-safe.
pub(crate) fn ends_in_order() {
    let seen = wait_until_decided(MAX_WAIT_STEPS / 5);
    if is_survived(seen) != Some(false) {
        retract_survived(seen);
    }
}

/// Observations of the helper thread on a report that is written, or undecided.
#[derive(Debug, Default)]
pub(crate) struct LifeWatch {
    since: Option<(SeenState, u64)>,
    #[cfg(target_os = "linux")]
    part: PartWatch,
}

impl LifeWatch {
    /// Takes the report back once the process has lived on for a while. Gives the nanoseconds to the next look; `None`
    /// where there is no crash.
    pub fn check_survival(&mut self, now: u64) -> Option<u64> {
        let seen = state::now();
        let left = match seen.stage {
            CrashStage::Off | CrashStage::Idle => return None,
            CrashStage::Asking | CrashStage::Answered => is_survived(seen),
            #[cfg(target_os = "linux")]
            CrashStage::Writing => {
                self.part.cut_off_stalled(seen.owner.thread(), now);
                return Some(POLL);
            }
            _ => return Some(POLL),
        };
        let (before, since) = self.since.unwrap_or((seen, now));
        let stays = before == seen && left != Some(false);
        let since = if stays { since } else { now };
        self.since = Some((seen, since));
        let enough = match left {
            Some(true) => SURVIVED_AFTER,
            None => SURVIVED_RUNNING,
            Some(false) => u64::MAX,
        };
        if now.saturating_sub(since) >= enough {
            retract_survived(seen);
        }
        Some(POLL)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_handler_on_an_alternate_stack_lie_on_that_stack() {
        let alternate = 0x10_0000..0x10_4000;
        assert_eq!(calls_of(0x10_3000, &alternate), 0x10_0000..0x10_3000);
        assert_eq!(calls_of(0x20_0000, &alternate).end, 0x20_0000);
        assert!(calls_of(0x20_0000, &alternate).contains(&0x1f_f000));
        assert!(!calls_of(0x20_0000, &(0..0)).contains(&0x1f_0000));
    }
}
