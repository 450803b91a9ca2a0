//! Crashes that come as Mach exceptions: the thread that faulted stands still, and another writes.

use super::state::{self, CrashOwner, CrashStage};
use super::{life, writing};
use crate::capture::Registers;
use crate::platform::exceptions::{self, MachException, Server};

/// Takes the exception ports.
pub(super) fn install() {
    exceptions::install(Server { report, went_on });
}

/// Gives them back.
pub(super) fn uninstall() {
    exceptions::uninstall();
}

fn report(exception: &MachException) -> bool {
    let Some(registers) = exception.registers() else {
        return false;
    };
    let (thread, signal) = (exception.thread, exception.signal());
    let registers = Registers::native(registers);
    writing::write_for(thread, signal, registers, exception.name())
}

fn went_on(exception: &MachException) {
    let seen = state::now();
    if seen.state == CrashStage::Dying(CrashOwner::of(exception.thread)) {
        life::goes_on(seen);
    }
}
