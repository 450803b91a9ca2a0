//! The handler of fatal signals: which thread writes, which wait, and what becomes of the process.
//!
//! One thread claims the report ([`STATE`]) and writes it; others that crash meanwhile wait. Then the handler of the
//! signal before us is called. If that handler deals with the fault (it returns and leaves the handler in place, or
//! jumps out of it), the report is undecided, and we stay installed for the next one. Else the process dies as it
//! would have without us.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::installed::{self, installed};
use super::previous::DeliveredSignal;
use super::state::{self, CrashOwner, CrashStage, FAULTS_HANDLED, STATE, SeenState};
use super::survival;
use super::waiting;
use super::watch;
use super::writing::{self, write};
use super::{Crash, CrashWriter};
use crate::capture::Registers;
use crate::platform::signals::{self, Previous, SignalInfo};
use crate::platform::{
    ScarceStack, Thread, context, is_debugged, keeping_errno, own_thread, process_id,
    process_token, stacks,
};

/// Installs the handlers. `writer` is called by the dying thread, once for the process.
pub(crate) fn install(
    crash: &Crash,
    writer: &'static CrashWriter,
) -> Result<(), (Option<i32>, std::io::Error)> {
    let ours = installed::install(writer).map_err(|error| (None, error))?;
    let given = stacks::ensure_alternate_stack(stacks::ALTERNATE).map_err(|error| (None, error))?;
    ours.leave_to_debugger
        .store(crash.leave_to_debugger, Ordering::Relaxed);
    STATE.install(process_token());
    signals::install(crash.signals(), handle).map_err(|(signal, error)| {
        let _ = STATE.uninstall(state::now());
        given.take_back();
        (Some(signal), error)
    })?;
    // Without the ports, crashes still come as signals.
    #[cfg(target_vendor = "apple")]
    super::mach::install();
    Ok(())
}

/// Takes the handlers back; one that was replaced since stays so, and passes on to
/// what was there before us. Where another thread is writing a report just now, waits for it.
///
/// `true` when no handler can look any more at what the writer needs.
pub(crate) fn uninstall(crash: &Crash) -> bool {
    survival::ends_in_order();
    #[cfg(target_vendor = "apple")]
    super::mach::uninstall();
    signals::restore_if_ours(crash.signals());
    survival::ends_in_order();
    STATE.uninstall(state::now()).is_some()
}

/// The next step for a signal after the report.
enum Next {
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
// `scripts/signal-safe` knows it by its name.
#[inline(never)]
pub(super) fn handle(
    signal: i32,
    info: *mut libc::siginfo_t,
    frame: *mut c_void,
    scarce: Option<ScarceStack>,
) {
    // SAFETY: info and context are what the kernel gave for this signal.
    unsafe {
        // It belongs to who traps calls, and a call of ours may be trapped too.
        if signals::is_trapped_call(signal, info)
            && signals::call_previous_sigsys(signal, info, frame, scarce)
        {
            return;
        }
    }
    if signals::lacks_siginfo(signal) {
        // SAFETY: as above.
        return unsafe { come_with_siginfo(signal, frame) };
    }
    let arrived = DeliveredSignal {
        signal,
        info,
        frame,
        here: scarce.map_or(&raw const signal as usize, ScarceStack::sp),
        scarce,
    };
    let ours = installed();
    // SAFETY: as above.
    unsafe {
        let then = if ours.is_some_and(|ours| ours.is_ring(arrived.here, frame)) {
            Next::Default
        } else {
            scarce.inspect(|scarce| scarce.leave_to_signals());
            arrived.report()
        };
        match then {
            Next::Nothing => {}
            Next::Previous => arrived.decide(),
            Next::Decided => arrived.die_or_go_on(false),
            Next::Default => {
                signals::set_kernel_default(signal);
                arrived.die_or_go_on(false);
            }
        }
    }
    ours.inspect(|ours| ours.chain.store(0, Ordering::Relaxed));
}

/// Has a signal come again, whose facts the kernel has not given since signal(2) has put back our handler by its address.
///
/// # Safety
/// - `frame` is what the kernel gave the handler for the signal.
unsafe fn come_with_siginfo(signal: i32, frame: *mut c_void) {
    let _ = signals::reinstall(signal);
    // SAFETY: the caller vouches for the context.
    if unsafe { is_sent_without_siginfo(signal, frame) } {
        // It comes once this handler has returned.
        signals::change_mask(libc::SIG_BLOCK, [signal]);
        signals::send_to_self(signal);
    }
}

/// Returns true unless the signal is a fault, which comes again by itself. One that was sent to a thread which computes is lost.
///
/// # Safety
/// - `frame` is what the kernel gave the handler for the signal.
unsafe fn is_sent_without_siginfo(signal: i32, frame: *mut c_void) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: the caller vouches for the context.
    let is_sent = unsafe { context::is_at_call(frame.cast()) };
    #[cfg(not(target_os = "linux"))]
    let is_sent = {
        let _ = frame;
        false
    };
    is_sent || !signals::REFAULTING.contains(&signal)
}

impl DeliveredSignal {
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    unsafe fn report(&self) -> Next {
        // SAFETY: the caller vouches for what arrived.
        if unsafe { own_thread::pass_on(self.signal, self.info, self.frame) } {
            return Next::Nothing;
        }
        if state::now().stage == CrashStage::Off {
            return Next::Previous;
        }
        let thread = Thread::current();
        // SAFETY: the caller vouches for info.
        let facts = unsafe { signals::read_siginfo(self.signal, self.info) };
        // Whatever the app makes of the signal: these are ours.
        if watch::is_recall(&facts, thread) {
            #[cfg(target_os = "linux")]
            // SAFETY: the caller vouches for the context.
            keeping_errno(|| unsafe { self.look_until_written() });
            return Next::Nothing;
        }
        let is_cut_off = watch::is_cut_off(&facts, thread);
        // SAFETY: the caller vouches for what arrived.
        if !is_cut_off && unsafe { self.is_no_death(&facts) } {
            return Next::Nothing;
        }
        let leaves = installed().is_some_and(|ours| ours.leave_to_debugger.load(Ordering::Relaxed));
        if leaves && keeping_errno(is_debugged) {
            return Next::Previous;
        }
        // SAFETY: the caller vouches for what arrived.
        unsafe { self.report_death(&facts, thread, is_cut_off) }
    }

    /// Returns true if the process does not die of the signal, whoever handles it.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    unsafe fn is_no_death(&self, facts: &SignalInfo) -> bool {
        match signals::previous(self.signal) {
            Previous::Ignored => facts.sender.is_some(),
            Previous::Default => {
                // abort(3) ends the process even so.
                let aborts = self.signal == libc::SIGABRT && facts.sender == Some(process_id());
                // SAFETY: the caller vouches for info.
                !aborts && unsafe { signals::is_dropped(self.signal, self.info) }
            }
            Previous::Handler => false,
        }
    }

    /// Writes the report of a signal that may be the process' death, once no other thread is at one.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    unsafe fn report_death(&self, facts: &SignalInfo, thread: Thread, is_cut_off: bool) -> Next {
        let here = CrashOwner::of(thread);
        let before = signals::previous(self.signal);
        let mut then = Next::Previous;
        // SAFETY: the caller vouches for the context.
        let sp = unsafe { Registers::from_context(self.frame) }.sp() as usize;
        // A few rounds: a report that is waited for may turn out to be about no death.
        for _ in 0..8 {
            let seen = state::now();
            let is_mine = seen.owner == here;
            match seen.stage {
                CrashStage::Writing if is_mine => {
                    // SAFETY: the caller vouches for what arrived, and this thread is writing.
                    return unsafe { self.crashed_while_writing(facts, is_cut_off) };
                }
                // It has come too late.
                _ if is_cut_off => return Next::Nothing,
                CrashStage::Off => return Next::Previous,
                // A handler that deals with faults, or that another thread is in: that one may wait for this thread to
                // come to it.
                CrashStage::Idle | CrashStage::Asking
                    if before == Previous::Handler
                        && matches!(then, Next::Previous)
                        && !is_mine
                        && (seen.stage == CrashStage::Asking
                            || seen.survived() >= FAULTS_HANDLED) =>
                {
                    // SAFETY: the caller vouches for what arrived.
                    if unsafe { self.call_previous() } {
                        return Next::Nothing;
                    }
                    // It has decided: what it has put in place is what the signal goes to. That is not the default action
                    // yet, of which the next thread would die before the first one does of its own signal.
                    let dies = signals::is_default(self.signal);
                    then = if dies && STATE.signal() != self.signal {
                        let _ = signals::reinstall(self.signal);
                        Next::Default
                    } else {
                        Next::Decided
                    };
                }
                CrashStage::Idle => {
                    // SAFETY: the caller vouches for what arrived.
                    if unsafe { self.write(seen) } {
                        return then;
                    }
                }
                CrashStage::Retracting if is_mine => return Next::Default,
                // One death, one report: this one follows of it (Rust aborts after a stack overflow).
                CrashStage::Dying if is_mine => return Next::Previous,
                CrashStage::Asking if is_mine && survival::is_in_handler(sp) => {
                    // SAFETY: the caller vouches for info.
                    let kills = unsafe { signals::refaults_on_return(self.signal, self.info) }
                        && signals::is_masked_by_previous(STATE.signal(), self.signal);
                    return if kills { Next::Default } else { Next::Previous };
                }
                // The first process of a container dies of what abort(3) does after its signal.
                CrashStage::Answered if is_mine && self.follows_an_abort() => {
                    return Next::Previous;
                }
                CrashStage::Answered => survival::retract_survived(seen),
                CrashStage::Asking if is_mine => survival::retract_survived(seen),
                _ => {
                    // Another thread is at it, and the process will die of that: wait for it.
                    // SAFETY: the caller vouches for what arrived.
                    unsafe { self.note(thread) };
                    let asks = before == Previous::Handler && matches!(then, Next::Previous);
                    let is_over = keeping_errno(|| waiting::wait_for_end_of(seen, asks));
                    waiting::leave(thread);
                    if !is_over {
                        return then;
                    }
                }
            }
        }
        Next::Previous
    }

    /// Writes the report; `false` where the state is not as it was seen any more, or is not idle.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    #[inline(never)]
    pub(super) unsafe fn write(&self, seen: SeenState) -> bool {
        let thread = Thread::current();
        let claimed = STATE.claim(seen, CrashOwner::of(thread), self.signal);
        if claimed.is_some() {
            // SAFETY: the caller vouches for info and context, and this thread is writing.
            unsafe {
                let facts = signals::read_siginfo(self.signal, self.info);
                write(thread, facts, Registers::from_context(self.frame), None);
            }
        }
        claimed.is_some()
    }

    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal.
    #[inline(never)]
    unsafe fn note(&self, thread: Thread) {
        // SAFETY: the caller vouches for the context.
        waiting::note(thread, &unsafe { context::registers(self.frame.cast()) });
    }

    /// Looks whether the report gets on that another thread writes, which may capture this one meanwhile.
    ///
    /// # Safety
    /// - `frame` is what the kernel gave the handler.
    #[cfg(target_os = "linux")]
    #[inline(never)]
    unsafe fn look_until_written(&self) {
        // SAFETY: the caller vouches for the context.
        unsafe { signals::set_interrupted_mask(self.frame) };
        watch::until_written();
    }

    fn follows_an_abort(&self) -> bool {
        let first = STATE.signal();
        first == libc::SIGABRT && self.signal != first && signals::is_first_process()
    }

    /// A signal while the report is written: a fault of ours costs the part that it comes in.
    ///
    /// # Safety
    /// - All fields are what the kernel gave the handler for the signal, and this thread is writing.
    unsafe fn crashed_while_writing(&self, facts: &SignalInfo, is_cut_off: bool) -> Next {
        // Darwin gives a general protection fault the code of what is sent, and no sender.
        let is_unknown = |sender: u32| cfg!(target_vendor = "apple") && sender == 0;
        let is_other = |sender| sender != process_id() && !is_unknown(sender);
        // By kill(2) (SI_USER): to any thread of the process.
        let is_for_all = cfg!(target_os = "linux") && facts.code == 0;
        if facts
            .sender
            .is_some_and(|sender| is_other(sender) || is_for_all)
        {
            // A signal from elsewhere is no crash of ours: the report goes on.
            return Next::Nothing;
        }
        // SAFETY: the caller vouches for the context.
        if unsafe { writing::cut_off(self.frame, is_cut_off) } {
            Next::Nothing
        } else {
            Next::Default
        }
    }
}
