//! Crashes that come as Mach exceptions: the thread that faulted stands still, and another writes.

use std::sync::atomic::Ordering;

use super::installed::installed;
use super::state::{self, CrashOwner, CrashStage, FAULTS_HANDLED, STATE};
use super::survival;
use super::writing::write;
use crate::capture::Registers;
use crate::platform::exceptions::{self, MachException, Server};
use crate::platform::is_debugged;
use crate::platform::signals::{self, Previous};

/// Takes the exception ports, beside the handler of signals.
pub(super) fn install() {
    exceptions::install(Server { report, survived });
}

/// Gives them back.
pub(super) fn uninstall() {
    exceptions::uninstall();
}

/// Writes the report of the thread, which stands still, on the calling one. `false` where it is left to the signal that
/// follows.
fn report(exception: &MachException) -> bool {
    let Some(registers) = exception.registers() else {
        return false;
    };
    let (thread, signal) = (exception.thread, exception.signal());
    let seen = state::now();
    if seen.stage == CrashStage::Answered {
        survival::retract_survived(seen);
    }
    let seen = state::now();
    // A handler that was set after ours has the signal first: what it does not deal with, it passes on to ours.
    let handled = signals::is_replaced(signal.number)
        || signals::previous(signal.number) == Previous::Handler
            && seen.survived() >= FAULTS_HANDLED;
    let leaves = installed().is_none_or(|ours| ours.leave_to_debugger.load(Ordering::Relaxed));
    if handled || leaves && is_debugged() {
        return false;
    }
    let Some(writing) = STATE.claim(seen, CrashOwner::current(), signal.number) else {
        return false;
    };
    let registers = Registers::native(registers);
    // SAFETY: claimed just now.
    unsafe { write(thread, signal, registers, Some(exception.name())) };
    STATE.mark_dying(writing, CrashOwner::of(thread)).is_some()
}

fn survived(exception: &MachException) {
    let seen = state::now();
    if seen.stage == CrashStage::Dying && seen.owner == CrashOwner::of(exception.thread) {
        survival::retract_survived(seen);
    }
}
