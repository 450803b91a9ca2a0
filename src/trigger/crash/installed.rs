//! Memory of the handlers, from the first install on; and the previous handlers that call them back.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use super::CrashWriter;
use crate::capture::Registers;
use crate::platform::stacks::CrashStack;
use crate::platform::{Thread, context, entry, memory};

/// The handler's own needs: unwinding, formatting and a section's making, in debug builds too.
const CRASH_STACK: usize = 512 << 10;
/// For signals that come while a report is written.
const SALVAGE_STACK: usize = 128 << 10;

/// Everything that the handlers look at, from the first install on for the rest of the process.
#[derive(Debug)]
pub(super) struct Installed {
    pub writer: &'static CrashWriter,
    /// The stack on which a report is written.
    pub stack: CrashStack,
    /// The one for signals that come meanwhile.
    pub salvage: CrashStack,
    /// True if nothing is reported while a debugger is attached.
    pub leave_to_debugger: AtomicBool,
    /// Handlers that are called within each other: 24 bits of the thread's id, 32 of the last one's place on its stack,
    /// and in the lowest 8 how many there are. Threads that crash at once begin the count anew.
    /// 0 once the innermost handler has returned.
    pub chain: AtomicU64,
    /// The kernel's frame of the last one.
    frame: AtomicPtr<c_void>,
}

static INSTALLED: AtomicPtr<Installed> = AtomicPtr::new(std::ptr::null_mut());

/// Gives what an install has made. Signal-safe.
pub(super) fn installed() -> Option<&'static Installed> {
    // SAFETY: null, or what `install` has stored, which lives for ever.
    unsafe { INSTALLED.load(Ordering::Acquire).as_ref() }
}

/// Makes it, where no install before has.
pub(super) fn install(writer: &'static CrashWriter) -> std::io::Result<&'static Installed> {
    if let Some(before) = installed() {
        return Ok(before);
    }
    let made = Box::leak(Box::new(Installed {
        writer,
        salvage: CrashStack::new(SALVAGE_STACK)?,
        stack: CrashStack::new(CRASH_STACK)?,
        leave_to_debugger: AtomicBool::new(false),
        chain: AtomicU64::new(0),
        frame: AtomicPtr::default(),
    }));
    INSTALLED.store(made, Ordering::Release);
    Ok(made)
}

/// More than any chain of handlers has: they call each other in a ring, or ours faults each time before it gets anywhere.
const MAX_CHAIN: u64 = 3;
/// Bytes of stack that a handler of a chain takes at most.
const MAX_HANDLER_STACK: u64 = 64 << 10;

impl Installed {
    /// Returns true if handlers are called within each other without end: one that was there before, or came over ours,
    /// passes on to us; or each faults, and the kernel starts it again at the top of the same stack. Signal-safe.
    ///
    /// # Safety
    /// - `frame` is what the kernel gave the handler, which stands at `here`.
    #[inline(never)]
    pub unsafe fn is_ring(&self, here: usize, frame: *mut c_void) -> bool {
        let place = |at: usize| Thread::current().id() << 40 | u64::from(at as u32) << 8;
        let last = self.chain.load(Ordering::Relaxed);
        // Of the same thread: stacks of two may lie side by side.
        let is_within = |at: u64| (1..MAX_HANDLER_STACK).contains(&(last.wrapping_sub(at) >> 8));
        // SAFETY: the caller vouches for the context.
        let (sp, alternate) = unsafe {
            let sp = Registers::from_context(frame).sp() as usize;
            (sp, context::alternate_stack(frame.cast()))
        };
        // A handler on an alternate stack that lies right above the thread's own did not call what ran there.
        let is_apart = alternate.contains(&(here as u64)) && !alternate.contains(&(sp as u64));
        // The last one that was called for a signal, if it was jumped out of, lies below what is interrupted next.
        let is_passed_on = self.frame.swap(frame, Ordering::Relaxed) == frame;
        let this = place(here);
        // One that overflows the alternate stack is started again at its top; what is below is no stack then.
        let below = alternate.start.wrapping_sub(MAX_HANDLER_STACK)..alternate.start;
        let is_at_end = below.contains(&(sp as u64)) && memory::read(sp as u64, &mut [0]) == 0;
        let goes_on = is_passed_on && is_within(this)
            || !is_apart && is_within(place(sp))
            || is_at_end && last >> 8 == this >> 8
            || last >> 40 == this >> 40 && entry::is_on_handler_stack(sp);
        let before = if goes_on { last & 0xff } else { 0 };
        let count = before.saturating_add(1);
        self.chain.store(this | count, Ordering::Relaxed);
        count > MAX_CHAIN
    }
}
