//! Whoever handled a signal before us is asked once its report is written: it may deal with the fault, or jump
//! away, and then nobody died.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::Stamp;
use super::state::{
    ASKING, Arrived, DEALT_WITH, DONE, FOLLOWED, OWNER, PASSING, STACK, WRITER, inside,
};
use crate::platform::Thread;
use crate::platform::signals::{self, Before};
use crate::platform::stacks;

/// A handler of before is asked on our own stack where the alternate one has less room than this:
/// it may raise a signal itself, whose frame is up to 11 KiB (AT_MINSIGSTKSZ with AMX).
pub(super) const ROOM_FOR_ANOTHER: usize = 24 << 10;
/// A handler of ours so near below another on the stack was called while that one ran.
const NEAR: usize = 64 << 10;

impl Arrived {
    /// Has whoever was there before us decide: whether the signal is to be delivered again.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    pub(super) unsafe fn decide(&self) -> bool {
        let owner = OWNER.load(Ordering::Acquire) == Thread::current().id();
        let goes_on = match signals::before(self.signal) {
            Before::Default => false,
            // SAFETY: the caller vouches for info.
            Before::Ignored => unsafe { !signals::comes_again(self.signal, self.info) },
            Before::Handler => {
                PASSING.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the caller vouches for what arrived.
                let goes_on = unsafe { self.ask() };
                PASSING.fetch_sub(1, Ordering::Relaxed);
                // One that gives way and returns waits for a fault to come again (as Rust's own
                // for SIGSEGV and SIGBUS); these do not, and the process would go on without us.
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

    /// Calls the handler of before: whether it dealt with the signal.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    unsafe fn ask(&self) -> bool {
        let owner = OWNER.load(Ordering::Acquire) == Thread::current().id();
        let before = ASKING.load(Ordering::Acquire);
        if owner {
            ASKING.store(self.here, Ordering::Release);
        }
        // SAFETY: the caller vouches for the context.
        let scarce = unsafe { signals::room_left(self.frame) } < ROOM_FOR_ANOTHER;
        // SAFETY: only `install` stores here, references that live for ever.
        let stack = unsafe { STACK.load(Ordering::Acquire).as_ref() };
        let goes_on = match stack {
            Some(stack) if scarce && owner && before == 0 => {
                let mut asked = (*self, false);
                // SAFETY: OWNER lets one thread come here, and its report is done; a handler that
                // unwinds out of `ask` would not have been met by its catcher either way.
                unsafe { stack.run(ask, std::ptr::from_mut(&mut asked).cast()) };
                asked.1
            }
            // SAFETY: the caller vouches for what arrived.
            _ => unsafe { signals::ask_before(self.signal, self.info, self.frame) },
        };
        if owner {
            ASKING.store(before, Ordering::Release);
        }
        goes_on
    }
}

extern "C" fn ask(argument: *mut c_void) {
    // SAFETY: `Arrived::ask` passes a pointer to such a pair that outlives this run.
    let asked = unsafe { &mut *argument.cast::<(Arrived, bool)>() };
    let Arrived {
        signal,
        info,
        frame,
        ..
    } = asked.0;
    // The alternate stack is left alone meanwhile: our handler's frame lies where that of a signal which the
    // handler of before raises itself would. The kernel puts it back where our handler returns.
    stacks::without_alternate_stack(|| {
        // SAFETY: what the kernel gave for this signal.
        asked.1 = unsafe { signals::ask_before(signal, info, frame) };
    });
}

/// Whether the handler of before has jumped away while it was asked by the calling thread, which
/// stands at `here` on its stack now.
pub(super) fn jumped_out(here: usize) -> bool {
    let asking = ASKING.load(Ordering::Acquire);
    let below = (1..NEAR).contains(&asking.saturating_sub(here));
    // SAFETY: only `install` stores here, references that live for ever.
    let stack = unsafe { STACK.load(Ordering::Acquire).as_ref() };
    asking != 0 && !below && !stack.is_some_and(|stack| stack.contains(here))
}

/// Nobody died of `signal` (0 for any): the report is taken back, and the next one may come. Only
/// for OWNER.
pub(super) fn went_on(signal: i32) {
    let retract = || {
        // SAFETY: only `install` stores here, references that live for ever.
        if let Some(writer) = unsafe { WRITER.load(Ordering::Acquire).as_ref() } {
            (writer.retract)(Stamp::last());
        }
    };
    // One who was asked to end, and had a handler for that, will; and abort(3) ends the process
    // whatever a handler does. Where it is uninstalled meanwhile, the report stays too.
    if ![libc::SIGTERM, libc::SIGABRT].contains(&signal) {
        inside(retract);
    }
    DEALT_WITH.fetch_add(1, Ordering::Relaxed);
    FOLLOWED.store(0, Ordering::Relaxed);
    ASKING.store(0, Ordering::Relaxed);
    DONE.store(false, Ordering::Relaxed);
    OWNER.store(0, Ordering::Release);
    #[cfg(target_vendor = "apple")]
    crate::platform::exceptions::install_again();
}
