//! The choice of the stack on which a thread's handler runs.
//!
//! On an alternate stack that was unmapped (some runtimes do so as a thread ends) the kernel cannot put the handler's frame,
//! and ends the process. No other thread can see where that stack lies. On the stack that the thread is on the frame has
//! room, unless that is the small stack of a goroutine or fiber: there the frame would be written over what lies below.
//! Therefore:
//!
//! 1. If the app handles a signal of everyday use on alternate stacks, so do we: its code may be on small stacks, as Go's,
//!    and its alternate stacks are there, since it uses them itself.
//! 2. Of a thread that is blocked the kernel reports the stack pointer. The handler runs there if that is the thread's own
//!    stack, with room.
//! 3. Of a thread that runs it reports none. The handler runs where the thread is, as the handlers of most programs do.
//!
//! Nothing is kept about a thread: what it has answered once holds no more after it has changed its alternate stack, or
//! after its id was given to another one. If a frame does not fit on the stack of a thread that runs, the kernel raises
//! SIGSEGV, whose handler has the alternate stack, and the thread goes on without an answer (`handler::refuse`). A fiber
//! that runs, on a stack of less than the frame's 3 to 11 KiB and without a guard page, in a program without such a handler,
//! would lose what lies below its stack.

use std::ops::Range;

use crate::platform::Thread;
use crate::platform::gauge::Blocked;
use crate::platform::linux::entry::MIN_FREE;
use crate::platform::linux::system_call::system_call;
use crate::platform::linux::{kernel_action, memory};

/// Signals that come while a program works, and that handlers return from.
const EVERYDAY: [i32; 9] = [
    libc::SIGALRM,
    libc::SIGCHLD,
    libc::SIGIO,
    libc::SIGPROF,
    libc::SIGURG,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGVTALRM,
    libc::SIGWINCH,
];

/// Size that a thread's own stack may have if only its top is known.
pub(super) const OWN_STACK: u64 = 64 << 20;

/// Returns true if a handler of `thread` must run on its alternate stack. `known` is where the thread's own stack lies, if
/// that is known. Signal-safe.
pub(super) fn must_be_alternate(thread: Thread, known: &Range<u64>) -> bool {
    let is_alternate = |signal| {
        kernel_action(signal).is_some_and(|(handler, flags)| {
            !matches!(handler, libc::SIG_DFL | libc::SIG_IGN) && flags & libc::SA_ONSTACK != 0
        })
    };
    if EVERYDAY.into_iter().any(is_alternate) {
        return true;
    }
    let Some(sp) = Blocked::of(thread).map(|at| at.sp) else {
        return false;
    };
    let lowest = sp.saturating_sub(MIN_FREE as u64);
    if thread.is_main() && !known.is_empty() {
        return !known.contains(&lowest) || !known.contains(&sp);
    }
    let above = control_block(thread).map(|top| top.wrapping_sub(sp));
    let is_elsewhere = above.is_some_and(|above| above > OWN_STACK);
    is_elsewhere || !(lowest..sp).step_by(4096).all(memory::is_there)
}

/// An address in the control block of `thread`, which lies at the top of its own stack; `None` if libc has told the kernel
/// of none. Signal-safe.
///
/// Source: get_robust_list(2). glibc has each thread's list in its control block (nptl/pthread_create.c); musl has none
/// until a robust mutex is locked.
fn control_block(thread: Thread) -> Option<u64> {
    let (mut head, mut length) = (0u64, 0usize);
    let [to_head, to_length] = [&raw mut head as usize, &raw mut length as usize];
    let arguments = [thread.tid() as usize, to_head, to_length, 0, 0, 0];
    // SAFETY: the kernel fills in both, which live across the call.
    let result = unsafe { system_call(libc::SYS_get_robust_list, arguments) };
    (result == 0 && head != 0).then_some(head)
}
