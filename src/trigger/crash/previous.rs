//! The handler of a signal before us is called once its report is written: it may deal with the fault, or jump
//! away, and then the process lives on.

use std::ffi::c_void;

use super::installed::installed;
use super::state::{self, CrashOwner, CrashStage, STATE, SeenState};
use crate::platform::signals::{self, Handler, Previous};
use crate::platform::stacks;

/// A previous handler is called on our own stack where the alternate one has less room than this:
/// it may raise a signal itself, whose frame is up to 11 KiB (AT_MINSIGSTKSZ with AMX).
pub(super) const ROOM_FOR_ANOTHER: usize = 24 << 10;

/// A signal, as the kernel gave it to the handler.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub signal: i32,
    pub info: *mut libc::siginfo_t,
    pub frame: *mut c_void,
    /// Address of the handler's frame on its stack.
    pub here: usize,
    /// The handler itself.
    pub handler: Handler,
}

impl Arrived {
    /// Has the previous handler decide what becomes of the signal.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    pub(super) unsafe fn decide(&self) {
        let before = own();
        let nested = before.is_some_and(|seen| seen.stage == CrashStage::Asking);
        match signals::previous(self.signal) {
            // SAFETY: the caller vouches for info.
            Previous::Default if !unsafe { signals::is_dropped(self.signal, self.info) } => {
                signals::set_default(self.signal);
            }
            // SAFETY: as above.
            Previous::Ignored if unsafe { signals::comes_again(self.signal, self.info) } => {
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
                if before.is_some() && own().is_none() {
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
            let _ = signals::take_again(self.signal, self.handler);
            return answered(nested);
        }
        if let Some(seen) = own() {
            let _ = STATE.dies(seen, seen.owner);
        }
        // SAFETY: the caller vouches for what arrived.
        unsafe { signals::deliver_again(self.signal, self.info, self.frame) };
    }

    /// Calls the previous handler: whether it dealt with the signal.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    unsafe fn call(&self) -> bool {
        // SAFETY: the caller vouches for the context.
        let scarce = unsafe { signals::room_left(self.frame) } < ROOM_FOR_ANOTHER;
        let asks = own().is_some_and(|seen| {
            let handler = self.here & !1 | usize::from(scarce);
            STATE.asks(seen, handler as u64).is_some()
        });
        match installed() {
            Some(ours) if scarce && asks => {
                let mut call = (*self, false);
                // SAFETY: the report is done, and no other thread writes one before this one has left the handler;
                // a handler that unwinds out of `call_on_stack` would not have been met by its catcher either way.
                unsafe {
                    ours.stack
                        .run(call_on_stack, std::ptr::from_mut(&mut call).cast())
                };
                call.1
            }
            // SAFETY: the caller vouches for what arrived.
            _ => unsafe { signals::call_previous(self.signal, self.info, self.frame) },
        }
    }
}

/// The state, where the calling thread is the owner of a report that stands.
fn own() -> Option<SeenState> {
    let stands = [CrashStage::Writing, CrashStage::Asking, CrashStage::Dying];
    let seen = state::now();
    (stands.contains(&seen.stage) && seen.owner == CrashOwner::current()).then_some(seen)
}

/// The process goes on after what the calling thread has reported, as far as is known now. A handler that is nested in
/// another one leaves that to it.
fn answered(nested: bool) {
    if let Some(seen) = own().filter(|_| !nested) {
        let _ = STATE.answers(seen);
    }
}

extern "C" fn call_on_stack(argument: *mut c_void) {
    // SAFETY: `Arrived::call` passes a pointer to such a pair that outlives this run.
    let call = unsafe { &mut *argument.cast::<(Arrived, bool)>() };
    let Arrived {
        signal,
        info,
        frame,
        ..
    } = call.0;
    // The alternate stack is left alone meanwhile: our handler's frame lies where that of a signal which the
    // previous handler raises itself would. The kernel puts it back where our handler returns.
    stacks::with_stack_for_signals(None, || {
        // SAFETY: what the kernel gave for this signal.
        call.1 = unsafe { signals::call_previous(signal, info, frame) };
    });
}
