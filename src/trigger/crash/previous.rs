//! The handler of a signal before us is called once its report is written: it may deal with the fault, or jump
//! away, and then the process lives on.

use std::ffi::c_void;

use super::state::{self, CrashOwner, CrashStage, STATE, SeenState};
use super::survival;
use crate::platform::signals::{self, Previous};
use crate::platform::{ScarceStack, context};

/// A signal, as the kernel gave it to the handler.
#[derive(Clone, Copy)]
pub(super) struct DeliveredSignal {
    pub signal: i32,
    pub info: *mut libc::siginfo_t,
    pub frame: *mut c_void,
    /// Address on the stack on which the handler was started; what it calls there lies below.
    pub here: usize,
    /// The scarce stack that the kernel has chosen, if it is one.
    pub scarce: Option<ScarceStack>,
}

impl DeliveredSignal {
    /// Has the previous handler decide what becomes of the signal.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    pub(super) unsafe fn decide(&self) {
        let before = own_report();
        let nested = before.is_some_and(|seen| seen.stage == CrashStage::Asking);
        match signals::previous(self.signal) {
            // SAFETY: the caller vouches for info.
            Previous::Default if !unsafe { signals::is_dropped(self.signal, self.info) } => {
                signals::set_default(self.signal);
            }
            // SAFETY: as above.
            Previous::Ignored if unsafe { signals::refaults_on_return(self.signal, self.info) } => {
                signals::set_default(self.signal);
            }
            Previous::Default | Previous::Ignored => return answered(nested),
            Previous::Handler => {
                // SAFETY: the caller vouches for what arrived.
                if unsafe { self.call() } {
                    return answered(nested);
                }
                // A handler that gives way to a fault (as Rust's own for SIGSEGV and SIGBUS) relies on it coming
                // again. These do not come again: the process would go on.
                let once = [libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT, libc::SIGTERM];
                if once.contains(&self.signal) {
                    return answered(nested);
                }
                // It took so long that the report was taken back.
                if before.is_some() && own_report().is_none() {
                    survival::wait_while(|seen| seen.stage == CrashStage::Retracting);
                    // SAFETY: the caller vouches for what arrived.
                    unsafe { self.write(state::now()) };
                }
            }
        }
        // SAFETY: the caller vouches for what arrived.
        unsafe { self.die_or_go_on(nested) };
    }

    /// Has the process die of the signal, where its default action is in place by now, as if we had never been in
    /// the way. To be called last. `nested`: within a handler from before us.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    pub(super) unsafe fn die_or_go_on(&self, nested: bool) {
        // SAFETY: the caller vouches for info.
        let is_dropped = unsafe { signals::is_dropped(self.signal, self.info) };
        if !signals::is_default(self.signal) {
            return answered(nested);
        }
        if is_dropped {
            // It has no effect: the next one is to be reported.
            let _ = signals::reinstall(self.signal);
            return answered(nested);
        }
        if let Some(seen) = own_report() {
            let _ = STATE.mark_dying(seen, seen.owner);
        }
        // SAFETY: the caller vouches for what arrived.
        unsafe { signals::deliver_again(self.signal, self.info, self.frame) };
    }

    /// Notes that the previous handler is asked, and calls it; returns true if it dealt with the signal.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    unsafe fn call(&self) -> bool {
        // SAFETY: the caller vouches for the context.
        let alternate = unsafe { context::alternate_stack(self.frame.cast()) };
        let calls = survival::calls_of(self.here as u64, &alternate);
        let _ = own_report().and_then(|seen| STATE.ask_previous(seen, calls));
        // SAFETY: the caller vouches for what arrived.
        unsafe { self.call_previous() }
    }

    /// Calls the previous handler; returns true if it dealt with the signal.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    pub(super) unsafe fn call_previous(&self) -> bool {
        // SAFETY: the caller vouches for what arrived.
        unsafe { signals::call_previous(self.signal, self.info, self.frame, self.scarce) }
    }
}

/// The state, where the calling thread is the owner of a report that stands.
fn own_report() -> Option<SeenState> {
    let stands = [CrashStage::Writing, CrashStage::Asking, CrashStage::Dying];
    let seen = state::now();
    (stands.contains(&seen.stage) && seen.owner == CrashOwner::current()).then_some(seen)
}

/// The process goes on after what the calling thread has reported, as far as is known now. A handler that is nested in
/// another one leaves that to it.
fn answered(nested: bool) {
    if let Some(seen) = own_report()
        && !nested
    {
        let _ = STATE.answers(seen);
    }
}
