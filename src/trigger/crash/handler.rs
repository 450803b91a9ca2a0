//! The handler of fatal signals: which thread writes, which wait, and what becomes of the process.
//!
//! One thread claims the report ([`OWNER`]) and writes it; others that crash meanwhile wait. Then
//! the handler of the signal before us is called. If that handler deals with the fault (it returns
//! and leaves the handler in place, or jumps out of it), the process lives on: the report is taken back,
//! and we stay installed for the next one. Else the process dies as it would have without us.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(target_os = "linux")]
use super::WriterRole;
use super::previous::{ROOM_FOR_ANOTHER, jumped_out, went_on};
use super::state::{
    Arrived, DEALS_WITH_IT, DEALT_WITH, DONE, FIRST_SIGNAL, FOLLOWED, INSIDE, LEAVE_TO_DEBUGGER,
    OWNER, PASSING, PROCESS, STACK, WRITER, WRITES_FOR_IT, in_progress, inside,
};
#[cfg(target_os = "linux")]
use super::writer_thread;
#[cfg(target_os = "linux")]
use super::writing::closes;
use super::writing::{salvage, write};
use super::{Crash, CrashWriter, waiting, witness};
use crate::capture::Registers;
use crate::platform::signals::{self, Previous, SignalFacts};
use crate::platform::stacks::{self, CrashStack};
use crate::platform::{Thread, context, errno, is_debugged, process_id, provide_stacks, set_errno};

/// A stack of its own for [`CrashWriter::salvage`]: what is left of the alternate one may be little.
static SALVAGE_STACK: AtomicPtr<CrashStack> = AtomicPtr::new(std::ptr::null_mut());

/// The handler's own needs: unwinding, formatting and a section's making, in debug builds too.
const CRASH_STACK: usize = 512 << 10;
const SALVAGE_STACK_SIZE: usize = 64 << 10;
/// What the installing thread is given, if it has no alternate stack or a smaller one.
const ALTERNATE_STACK: usize = 64 << 10;
/// Taking the handlers back waits so many steps at most for a report that is being written.
const WAIT_STEPS: u32 = 500;
/// Nanoseconds.
const WAIT_STEP: i64 = 10_000_000;
/// More passes at a time than any chain of handlers has: they call each other in a ring.
const MOST_PASSES: u32 = 32;
/// A death is followed by one more signal (a previous handler that aborts), or two.
const MOST_FOLLOWING: u32 = 3;

/// Installs the handlers. `writer` is called by the dying thread, once for the process.
pub(crate) fn install(
    crash: &Crash,
    writer: &'static CrashWriter,
) -> Result<(), (Option<i32>, std::io::Error)> {
    for (place, size) in [(&STACK, CRASH_STACK), (&SALVAGE_STACK, SALVAGE_STACK_SIZE)] {
        if place.load(Ordering::Acquire).is_null() {
            let stack = CrashStack::new(size).map_err(|error| (None, error))?;
            place.store(Box::into_raw(Box::new(stack)), Ordering::Release);
        }
    }
    stacks::ensure_alternate_stack(ALTERNATE_STACK, ALTERNATE_STACK)
        .map_err(|error| (None, error))?;
    provide_stacks();
    LEAVE_TO_DEBUGGER.store(!crash.debugged, Ordering::Relaxed);
    WRITER.store(std::ptr::from_ref(writer).cast_mut(), Ordering::Release);
    PROCESS.store(process_id(), Ordering::SeqCst);
    signals::install(crash.signals(), handle).map_err(|(signal, error)| {
        PROCESS.store(0, Ordering::SeqCst);
        (Some(signal), error)
    })?;
    // Where the system does not let us, signals come all the same.
    #[cfg(target_vendor = "apple")]
    super::mach::install();
    Ok(())
}

/// Takes the handlers back; one that was replaced since stays so, and passes on to
/// what was there before us. Where another thread is writing a report just now, waits for it.
///
/// `true` when no handler can look any more at what the writer needs.
pub(crate) fn uninstall(crash: &Crash) -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    if owner == Thread::current().id() {
        let marker = 0u8;
        if jumped_out(&raw const marker as usize) {
            went_on(0);
        }
    } else if owner != 0 {
        wait_for_the_report();
    }
    #[cfg(target_vendor = "apple")]
    super::mach::uninstall();
    for &signal in crash.signals() {
        signals::restore_if_ours(signal, handle);
    }
    PROCESS.store(0, Ordering::SeqCst);
    // A handler that comes later finds PROCESS changed; one that came before is counted.
    INSIDE.load(Ordering::SeqCst) == 0 && !in_progress() && is_writer_thread_idle()
}

/// Whether the writer thread is in no report, perhaps one that its thread has not waited for.
fn is_writer_thread_idle() -> bool {
    #[cfg(target_os = "linux")]
    return writer_thread::is_idle();
    #[cfg(not(target_os = "linux"))]
    true
}

/// The reported signals whose handler is not ours any more.
pub(crate) fn replaced(crash: &Crash) -> Vec<i32> {
    let all = crash.signals().iter().copied();
    all.filter(|&signal| !signals::is_in_place(signal, handle))
        .collect()
}

fn wait_for_the_report() {
    for _ in 0..WAIT_STEPS {
        if DONE.load(Ordering::Acquire) || !in_progress() {
            break;
        }
        signals::pause(WAIT_STEP);
    }
}

/// What becomes of a signal once we are through with it.
enum Then {
    /// The previous handler decides.
    Previous,
    /// It has decided already.
    Decided,
    /// The process dies of it.
    Default,
    /// Nothing more.
    Nothing,
}

/// The handler. Signal-safe: everything here and below it.
pub(super) extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, frame: *mut c_void) {
    let marker = 0u8;
    let errno = errno();
    let arrived = Arrived {
        signal,
        info,
        frame,
        here: &raw const marker as usize,
    };
    // SAFETY: info and context are what the kernel gave for this signal.
    unsafe {
        let then = inside(|| arrived.report()).unwrap_or_else(pass_on);
        let again = match then {
            Then::Nothing => false,
            Then::Decided => true,
            Then::Default => {
                signals::set_default(signal);
                true
            }
            Then::Previous => arrived.decide(),
        };
        if again {
            signals::deliver_again(signal, info);
        }
    }
    set_errno(errno);
}

/// A signal that is not reported goes to the previous handler; a handler over ours may be among
/// those, and pass it on to us again without end.
fn pass_on() -> Then {
    if PASSING.load(Ordering::Relaxed) < MOST_PASSES {
        Then::Previous
    } else {
        Then::Default
    }
}

impl Arrived {
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    unsafe fn report(&self) -> Then {
        let thread = Thread::current();
        // SAFETY: the caller vouches for info.
        let facts = unsafe { signals::facts(self.signal, self.info) };
        let before = signals::previous(self.signal);
        if facts.sender.is_some() && before == Previous::Ignored {
            // The process does not die of it.
            return Then::Nothing;
        }
        if LEAVE_TO_DEBUGGER.load(Ordering::Relaxed) && is_debugged() {
            return pass_on();
        }
        if WRITES_FOR_IT.load(Ordering::Acquire) == thread.id() {
            return self.crashed_while_writing(&facts);
        }
        #[cfg(target_os = "linux")]
        if writer_thread::is_writing(thread) {
            return self.writer_thread_crashed(&facts);
        }
        let mut then = Then::Previous;
        if before == Previous::Handler
            && DEALT_WITH.load(Ordering::Relaxed) >= DEALS_WITH_IT
            && OWNER.load(Ordering::Acquire) == 0
            // SAFETY: the caller vouches for the context.
            && unsafe { signals::room_left(self.frame) } >= ROOM_FOR_ANOTHER
        {
            // SAFETY: the caller vouches for what arrived.
            if unsafe { signals::call_previous(self.signal, self.info, self.frame) } {
                return Then::Nothing;
            }
            // It has decided: what it has put in place is what the signal goes to.
            then = Then::Decided;
        }
        // A few rounds: a report that is waited for may turn out to be about no death.
        for _ in 0..8 {
            let claimed =
                OWNER.compare_exchange(0, thread.id(), Ordering::AcqRel, Ordering::Acquire);
            match claimed {
                Ok(_) => {
                    // SAFETY: the caller vouches for what arrived, and OWNER is this thread now.
                    unsafe { self.write(thread, facts) };
                    return then;
                }
                Err(owner) if owner == thread.id() => {
                    if !DONE.load(Ordering::Acquire) {
                        return self.crashed_while_writing(&facts);
                    }
                    if self.was_jumped_out_of() {
                        went_on(0);
                        continue;
                    }
                    // One death, one report: this one follows of it (Rust aborts after a stack
                    // overflow). A previous handler that calls us again makes a ring.
                    return if FOLLOWED.fetch_add(1, Ordering::Relaxed) < MOST_FOLLOWING {
                        Then::Previous
                    } else {
                        Then::Default
                    };
                }
                Err(owner) => {
                    // Another thread is at it, and the process will die of that: wait for it.
                    // SAFETY: the caller vouches for the context.
                    let registers = unsafe { context::registers(self.frame.cast()) };
                    witness::note(thread, Registers::native(registers));
                    waiting::for_the_death_of(owner);
                    let still = OWNER.load(Ordering::Acquire) == owner;
                    if still && Thread::from_id(owner).is_alive() {
                        return pass_on();
                    }
                    witness::leave(thread);
                    if still {
                        // It has jumped out of its handler and ended since.
                        let _ = OWNER.compare_exchange(
                            owner,
                            thread.id(),
                            Ordering::AcqRel,
                            Ordering::Acquire,
                        );
                        if OWNER.load(Ordering::Acquire) == thread.id() {
                            went_on(0);
                        }
                    }
                }
            }
        }
        pass_on()
    }

    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal, and OWNER is this thread.
    unsafe fn write(&self, thread: Thread, facts: SignalFacts) {
        // SAFETY: the caller vouches for the context.
        let registers = unsafe { context::registers(self.frame.cast()) };
        // SAFETY: the caller vouches for OWNER.
        unsafe { write(thread, facts, Registers::native(registers), None) };
    }

    fn crashed_while_writing(&self, facts: &SignalFacts) -> Then {
        // Darwin gives a general protection fault the code of what is sent, and no sender.
        let is_unknown = |sender: u32| cfg!(target_vendor = "apple") && sender == 0;
        let is_other = |sender| sender != process_id() && !is_unknown(sender);
        if facts.sender.is_some_and(is_other) {
            // A signal from outside is no crash of ours: the report goes on.
            return Then::Nothing;
        }
        #[cfg(target_os = "linux")]
        if facts.sender.is_some() && writer_thread::is_waited_for_by(Thread::current()) {
            return Then::Nothing;
        }
        DONE.store(true, Ordering::Release);
        // A fault in our own writing: keep what there is, then die of the first signal, as the
        // process would have.
        // SAFETY: only `install` stores here, references that live for ever.
        if let Some(stack) = unsafe { SALVAGE_STACK.load(Ordering::Acquire).as_ref() } {
            // SAFETY: DONE lets one thread come here, once; `salvage` cannot unwind.
            unsafe { stack.run(salvage, std::ptr::null_mut()) };
        }
        let first = FIRST_SIGNAL.load(Ordering::Acquire) as i32;
        signals::restore_all();
        signals::raise_here(first);
        // The previous handler expected that the first one would come again.
        signals::set_default(first);
        signals::raise_here(first);
        Then::Default
    }

    /// A fault in the writer thread's writing: what it has written is kept, and the dying thread goes on.
    #[cfg(target_os = "linux")]
    fn writer_thread_crashed(&self, facts: &SignalFacts) -> Then {
        if facts.sender.is_some_and(|sender| sender != process_id()) {
            return Then::Nothing;
        }
        if writer_thread::first_crash() {
            // Its alternate stack has room for that.
            closes(WriterRole::WriterThread);
        }
        writer_thread::has_died()
    }

    /// Whether the previous handler has jumped away, instead of returning, before this
    /// signal came to the same thread.
    fn was_jumped_out_of(&self) -> bool {
        jumped_out(self.here)
    }
}
