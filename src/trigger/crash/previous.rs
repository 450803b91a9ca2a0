//! The handler of a signal before us is called once its report is written: it may deal with the fault, or jump
//! away, and then the process lives on.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::Stamp;
use super::state::{
    Arrived, DEALT_WITH, DONE, FOLLOWED, IN_PREVIOUS, OWNER, PASSING, STACK, WRITER, inside,
};
use crate::platform::Thread;
use crate::platform::signals::{self, Previous};
use crate::platform::stacks;

/// A previous handler is called on our own stack where the alternate one has less room than this:
/// it may raise a signal itself, whose frame is up to 11 KiB (AT_MINSIGSTKSZ with AMX).
pub(super) const ROOM_FOR_ANOTHER: usize = 24 << 10;
/// A handler of ours so near below another on the stack was called while that one ran.
const NEAR: usize = 64 << 10;

impl Arrived {
    /// Has the previous handler decide: whether the signal is to be delivered again.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    pub(super) unsafe fn decide(&self) -> bool {
        let owner = OWNER.load(Ordering::Acquire) == Thread::current().id();
        let goes_on = match signals::previous(self.signal) {
            Previous::Default => false,
            // SAFETY: the caller vouches for info.
            Previous::Ignored => unsafe { !signals::comes_again(self.signal, self.info) },
            Previous::Handler => {
                PASSING.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the caller vouches for what arrived.
                let goes_on = unsafe { self.call() };
                PASSING.fetch_sub(1, Ordering::Relaxed);
                // A handler that gives way to a fault (as Rust's own for SIGSEGV and SIGBUS) relies on it coming again.
                // The signals in `once` do not come again: the process would go on.
                let once = [libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT, libc::SIGTERM];
                if !goes_on && !once.contains(&self.signal) {
                    return true;
                }
                true
            }
        };
        if !goes_on {
            signals::set_default(self.signal);
        } else if owner {
            went_on(self.signal);
        }
        !goes_on
    }

    /// Calls the previous handler: whether it dealt with the signal.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    unsafe fn call(&self) -> bool {
        let owner = OWNER.load(Ordering::Acquire) == Thread::current().id();
        let before = IN_PREVIOUS.load(Ordering::Acquire);
        if owner {
            IN_PREVIOUS.store(self.here, Ordering::Release);
        }
        // SAFETY: the caller vouches for the context.
        let scarce = unsafe { signals::room_left(self.frame) } < ROOM_FOR_ANOTHER;
        // SAFETY: only `install` stores here, references that live for ever.
        let stack = unsafe { STACK.load(Ordering::Acquire).as_ref() };
        let goes_on = match stack {
            Some(stack) if scarce && owner && before == 0 => {
                let mut call = (*self, false);
                // SAFETY: OWNER lets one thread come here, and its report is done; a handler that
                // unwinds out of `call_on_stack` would not have been met by its catcher either way.
                unsafe { stack.run(call_on_stack, std::ptr::from_mut(&mut call).cast()) };
                call.1
            }
            // SAFETY: the caller vouches for what arrived.
            _ => unsafe { signals::call_previous(self.signal, self.info, self.frame) },
        };
        if owner {
            IN_PREVIOUS.store(before, Ordering::Release);
        }
        goes_on
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
    stacks::without_alternate_stack(|| {
        // SAFETY: what the kernel gave for this signal.
        call.1 = unsafe { signals::call_previous(signal, info, frame) };
    });
}

/// Whether the previous handler has jumped away while the calling thread was in it, which
/// stands at `here` on its stack now.
pub(super) fn jumped_out(here: usize) -> bool {
    let in_previous = IN_PREVIOUS.load(Ordering::Acquire);
    let below = (1..NEAR).contains(&in_previous.saturating_sub(here));
    // SAFETY: only `install` stores here, references that live for ever.
    let stack = unsafe { STACK.load(Ordering::Acquire).as_ref() };
    in_previous != 0 && !below && !stack.is_some_and(|stack| stack.contains(here))
}

/// The process lives on after `signal` (0 for any): the report is taken back, and the next one may come. Only
/// for OWNER.
pub(super) fn went_on(signal: i32) {
    let retract = || {
        // SAFETY: only `install` stores here, references that live for ever.
        if let Some(writer) = unsafe { WRITER.load(Ordering::Acquire).as_ref() } {
            (writer.retract)(Stamp::last());
        }
    };
    // A process that is to end, and has a handler for that, will; and abort(3) ends the process
    // whatever a handler does. Where it is uninstalled meanwhile, the report stays too.
    if ![libc::SIGTERM, libc::SIGABRT].contains(&signal) {
        inside(retract);
    }
    DEALT_WITH.fetch_add(1, Ordering::Relaxed);
    FOLLOWED.store(0, Ordering::Relaxed);
    IN_PREVIOUS.store(0, Ordering::Relaxed);
    DONE.store(false, Ordering::Relaxed);
    OWNER.store(0, Ordering::Release);
    #[cfg(target_vendor = "apple")]
    crate::platform::exceptions::install_again();
}
