//! Signs that a process lives on after a crash that was reported: then the report is taken back.

use std::ops::Range;

use super::installed::installed;
use super::shared::HandlerWatch;
use super::state::{self, CrashOwner, CrashStage, STATE, SeenState};
#[cfg(target_os = "linux")]
use super::watch::PartWatch;
use crate::platform::gauge::Blocked;
use crate::platform::{entry, keeping_errno, signals};

/// Code so near below a handler of ours on the stack was called while that one ran.
const NEAR: u64 = 64 << 10;
/// Period of the looks of [`LifeWatch`], nanoseconds.
const POLL: u64 = 100_000_000;
/// A process has survived a fault so long after the handler of that was left, nanoseconds.
const LIVES_ON: u64 = 2_000_000_000;
/// A fault whose thread has run for so long, perhaps in that handler, counts as survived, nanoseconds.
const RUNS_ON: u64 = 10_000_000_000;

/// The end of the process, or of the monitor, waits so many steps at most for a report that is being written.
const WAIT_STEPS: u32 = 500;
/// Nanoseconds.
const WAIT_STEP: i64 = 10_000_000;

/// Returns the part of a stack on which the calls of a handler at `here` lie. An `alternate` stack may lie right above the
/// thread's own, where the code lies that it has jumped to. Signal-safe.
pub(super) fn calls_of(here: u64, alternate: &Range<u64>) -> Range<u64> {
    let lowest = here.saturating_sub(NEAR - 1);
    let is_alternate = alternate.contains(&here);
    let bottom = if is_alternate { alternate.start } else { 0 };
    lowest.max(bottom)..here
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

/// The process lives on after what was reported. Signal-safe.
pub(super) fn goes_on(seen: SeenState) {
    let retract = || {
        // A process that is to end, and has a handler for that, will.
        if let Some(ours) = installed()
            && STATE.signal() != libc::SIGTERM
        {
            (ours.writer.retract)();
        }
    };
    let _survives = keeping_errno(|| STATE.survives(seen, CrashOwner::current(), retract));
    #[cfg(target_vendor = "apple")]
    if _survives.is_some() {
        crate::platform::exceptions::install_again();
    }
}

/// Waits for another thread that takes a report back just now. Signal-safe.
pub(super) fn until_taken_back() {
    for _ in 0..WAIT_STEPS {
        if state::now().stage != CrashStage::Retracting {
            return;
        }
        signals::pause(WAIT_STEP);
    }
}

/// The app ends in order, or takes us out: what it was asked about before was no death. A crash that another thread is
/// reporting just now is one: waits for it. Signal-safe.
pub(crate) fn ends_in_order() {
    let marker = 0u8;
    let here = CrashOwner::current();
    let mut seen = state::now();
    for _ in 0..WAIT_STEPS {
        let is_busy = matches!(
            seen.stage,
            CrashStage::Writing | CrashStage::Retracting | CrashStage::Dying
        );
        if !is_busy || seen.owner == here {
            break;
        }
        signals::pause(WAIT_STEP);
        seen = state::now();
    }
    let is_over = match seen.stage {
        CrashStage::Answered => true,
        // A handler may exit.
        CrashStage::Asking if seen.owner == here => !is_in_handler(&raw const marker as usize),
        CrashStage::Asking => has_left(seen.owner) != Some(false),
        _ => false,
    };
    if is_over {
        goes_on(seen);
    }
}

/// Observations of the helper thread on a report that is written, or undecided.
#[derive(Debug, Default)]
pub(crate) struct LifeWatch {
    handlers: HandlerWatch,
    since: Option<(SeenState, u64)>,
    #[cfg(target_os = "linux")]
    part: PartWatch,
}

impl LifeWatch {
    /// Takes the report back once the process has lived on for a while. Gives the nanoseconds to the next look; `None`
    /// where there is no crash.
    pub fn look(&mut self, now: u64) -> Option<u64> {
        let seen = state::now();
        let left = match seen.stage {
            CrashStage::Off | CrashStage::Idle => {
                self.since = None;
                return match seen.stage {
                    CrashStage::Off => None,
                    _ => self.handlers.look(now),
                };
            }
            CrashStage::Answered => Some(true),
            CrashStage::Asking => has_left(seen.owner),
            #[cfg(target_os = "linux")]
            CrashStage::Writing => {
                self.part.look(seen.owner.thread(), now);
                return Some(POLL);
            }
            _ => return Some(POLL),
        };
        let (before, since) = self.since.unwrap_or((seen, now));
        let stays = before == seen && left != Some(false);
        let since = if stays { since } else { now };
        self.since = Some((seen, since));
        let enough = match left {
            Some(true) => LIVES_ON,
            None => RUNS_ON,
            Some(false) => u64::MAX,
        };
        if now.saturating_sub(since) >= enough {
            goes_on(seen);
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
