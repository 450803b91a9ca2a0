//! Installs the handlers and takes them back; and the memory that they look at.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::handler::handle;
use super::life;
use super::state::{self, CrashOwner, CrashStage, STATE};
use super::{Crash, CrashWriter};
use crate::platform::stacks::{self, CrashStack};
use crate::platform::{process_id, provide_stacks, signals};

/// The handler's own needs: unwinding, formatting and a section's making, in debug builds too.
const STACK: usize = 512 << 10;
/// For signals that come while a report is written.
const SALVAGE_STACK: usize = 128 << 10;
/// Size of the alternate stack that the installing thread is given if it has none or a smaller one.
const ALTERNATE_STACK: usize = 64 << 10;
/// Taking the handlers back waits so many steps at most for a report that is being written.
const WAIT_STEPS: u32 = 500;
/// Nanoseconds.
const WAIT_STEP: i64 = 10_000_000;

/// Installs the handlers. `writer` is called by the dying thread, once for the process.
pub(crate) fn install(
    crash: &Crash,
    writer: &'static CrashWriter,
) -> Result<(), (Option<i32>, std::io::Error)> {
    let ours = make(writer).map_err(|error| (None, error))?;
    stacks::ensure_alternate_stack(ALTERNATE_STACK, ALTERNATE_STACK)
        .map_err(|error| (None, error))?;
    provide_stacks();
    ours.leave_to_debugger
        .store(!crash.debugged, Ordering::Relaxed);
    STATE.install(process_id());
    signals::install(crash.signals(), handle).map_err(|(signal, error)| {
        let _ = STATE.uninstall(state::now());
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
    life::ends_in_order();
    let here = CrashOwner::current();
    for _ in 0..WAIT_STEPS {
        let seen = state::now();
        let is_busy = matches!(seen.stage, CrashStage::Writing | CrashStage::Retracting);
        if !is_busy || seen.owner == here {
            break;
        }
        signals::pause(WAIT_STEP);
    }
    #[cfg(target_vendor = "apple")]
    super::mach::uninstall();
    for &signal in crash.signals() {
        signals::restore_if_ours(signal, handle);
    }
    life::ends_in_order();
    STATE.uninstall(state::now()).is_some()
}

/// The reported signals whose handler is not ours any more.
pub(crate) fn replaced(crash: &Crash) -> Vec<i32> {
    let all = crash.signals().iter().copied();
    all.filter(|&signal| !signals::is_in_place(signal, handle))
        .collect()
}

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
    /// Handlers that are called within each other: the place of the last one on its stack, and in the lowest 8 bits how
    /// many there are. Threads that crash at once begin the count anew.
    chain: AtomicUsize,
}

static INSTALLED: AtomicPtr<Installed> = AtomicPtr::new(std::ptr::null_mut());

/// Gives what an install has made. Signal-safe.
pub(super) fn installed() -> Option<&'static Installed> {
    // SAFETY: null, or what `install` has stored, which lives for ever.
    unsafe { INSTALLED.load(Ordering::Acquire).as_ref() }
}

/// Makes it, where no install before has.
fn make(writer: &'static CrashWriter) -> std::io::Result<&'static Installed> {
    if let Some(before) = installed() {
        return Ok(before);
    }
    let made = Box::leak(Box::new(Installed {
        writer,
        salvage: CrashStack::new(SALVAGE_STACK)?,
        stack: CrashStack::new(STACK)?,
        leave_to_debugger: AtomicBool::new(false),
        chain: AtomicUsize::new(0),
    }));
    INSTALLED.store(made, Ordering::Release);
    Ok(made)
}

/// More than any chain of handlers has: they call each other in a ring.
const MOST_IN_CHAIN: usize = 32;
/// Bytes of stack that a handler of a chain takes at most.
const NEAR: usize = 64 << 10;

impl Installed {
    /// Returns true if handlers call each other without end: one that was there before, or came over ours, passes on to us.
    /// Signal-safe.
    pub fn is_ring(&self, here: usize) -> bool {
        let last = self.chain.load(Ordering::Relaxed);
        let is_within = (1..NEAR).contains(&(last >> 8).saturating_sub(here));
        let count = if is_within { (last & 0xff) + 1 } else { 1 };
        self.chain.store(here << 8 | count, Ordering::Relaxed);
        count > MOST_IN_CHAIN
    }

    /// The innermost handler returns. Signal-safe.
    pub fn leaves_chain(&self) {
        self.chain.store(0, Ordering::Relaxed);
    }
}
