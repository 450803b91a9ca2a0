//! Fatal signals: one thread is let in to write, the others wait, and then the process dies as it
//! would have died without us.
//!
//! Nothing here knows of reports. [`install`] takes a [`CrashWriter`], three functions; each crash is handed to it as one
//! [`Crashed`], through which the writer claims parts of a report and notes how far it has come. Two writers may be at
//! it: the writer thread (`writer_thread.rs`, Linux), and the dying thread for what that one leaves. A crash of a
//! writer itself comes back to [`CrashWriter::salvage`], and a signal that the process lives on after to
//! [`CrashWriter::retract`].

mod claims;
mod handler;
mod life;
#[cfg(target_vendor = "apple")]
mod mach;
mod previous;
mod state;
mod waiting;
mod witness;
#[cfg(target_os = "linux")]
mod writer_thread;
mod writing;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) use claims::{CrashPart, WriterRole};
pub(crate) use handler::{install, replaced, uninstall};
pub(crate) use life::{LifeWatch, ends_in_order};
pub(crate) use state::in_progress;
pub(crate) use witness::crashed_too;
#[cfg(target_os = "linux")]
pub(crate) use writer_thread::WriterThread;

use claims::Claims;

use crate::capture::Registers;
use crate::platform::signals::{FAULTS, SignalFacts};
use crate::platform::{Thread, ThreadName, clock, random};

/// The kinds of death that are reported.
///
/// ```
/// let crash = wedjat::Crash::default().sigterm(true).panics(false);
/// assert_ne!(crash, wedjat::Crash::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Crash {
    pub(crate) sigterm: bool,
    pub(crate) panics: bool,
    pub(crate) debugged: bool,
    pub(crate) near_memory: bool,
}

impl Default for Crash {
    fn default() -> Crash {
        Crash {
            sigterm: false,
            panics: true,
            debugged: true,
            near_memory: false,
        }
    }
}

impl Crash {
    /// Sets whether SIGTERM is reported (off by default): another process wants this one to end.
    #[must_use]
    pub fn sigterm(mut self, on: bool) -> Crash {
        self.sigterm = on;
        self
    }

    /// Sets whether Rust panics are reported (on by default).
    #[must_use]
    pub fn panics(mut self, on: bool) -> Crash {
        self.panics = on;
        self
    }

    /// Sets whether signals are reported while a debugger is attached (on by default). When off, they are left to
    /// the debugger, which has seen them already, and no report is written.
    #[must_use]
    pub fn debugged(mut self, on: bool) -> Crash {
        self.debugged = on;
        self
    }

    /// Sets whether memory near the crash is reported (off by default): bytes around the instruction and the fault
    /// address, the top of the stack, and the C strings that registers point at. It may hold whatever the app holds.
    #[must_use]
    pub fn near_memory(mut self, on: bool) -> Crash {
        self.near_memory = on;
        self
    }

    /// The signals that are reported.
    pub(crate) fn signals(&self) -> &'static [i32] {
        const ALL: [i32; 8] = {
            let [a, b, c, d, e, f, g] = FAULTS;
            [a, b, c, d, e, f, g, libc::SIGTERM]
        };
        match self.sigterm {
            true => &ALL,
            false => &FAULTS,
        }
    }
}

/// A crash, as the writer of its report sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crashed {
    /// The thread that crashed: the calling one, unless the writer thread or the taker of Mach exceptions
    /// writes for it.
    pub thread: Thread,
    /// The signal.
    pub signal: SignalFacts,
    /// The registers at the crash.
    pub registers: Registers,
    /// The Mach exception that it came by, where it came by one: the calling thread is another
    /// one then, and the one that crashed stands still.
    pub exception: Option<&'static str>,
    /// True if that thread is in the middle of a Rust panic.
    pub panicking: bool,
    /// The name of that thread, read by that thread itself where it writes no report: no other thread can
    /// read it where no file can be opened any more.
    pub name: ThreadName,
    /// The time and id by which its files are named.
    pub stamp: Stamp,
    /// This writer's claims on the parts of the report.
    claims: Claims,
}

/// The state in which a writer begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begin {
    /// True if this writer writes the event.
    pub event: bool,
    /// True if the other writer has begun a file of this report: this one's is the fallback file.
    pub fallback: bool,
    /// True if that writer is still in its part, rather than having crashed in it.
    pub writer_thread_is_stuck: bool,
}

impl Crashed {
    /// The role of this writer. Signal-safe.
    pub fn role(&self) -> WriterRole {
        self.claims.role
    }

    /// Returns true if any part is left for this writer. Signal-safe.
    pub fn is_any_left(&self) -> bool {
        self.claims.is_any_left()
    }

    /// Claims the beginning of the report; `None` where all of it is the other writer's. Signal-safe.
    pub fn begin(&self) -> Option<Begin> {
        let fallback = self.claims.is_touched(CrashPart::Begin);
        let event = self.claims.claim(CrashPart::Begin);
        if !event && self.role() == WriterRole::WriterThread {
            return None;
        }
        self.phase(Phase::Open);
        Some(Begin {
            event,
            fallback,
            writer_thread_is_stuck: fallback && !self.claims.writer_thread_died,
        })
    }

    /// Claims a part and notes that its writing begins: whether it is this writer's now. Signal-safe.
    pub fn claim(&self, part: CrashPart) -> bool {
        let claimed = self.claims.claim(part);
        if claimed {
            self.phase(match part {
                CrashPart::Begin => Phase::Event,
                CrashPart::Thread => Phase::Thread,
                CrashPart::Vitals => Phase::Vitals,
                CrashPart::Threads => Phase::Threads,
                CrashPart::Close => Phase::Close,
            });
        }
        claimed
    }

    /// A claimed part is written; `None` where the other writer has taken it over meanwhile, and this one's work
    /// counts for nothing. Signal-safe.
    #[must_use]
    pub fn done(&self, part: CrashPart) -> Option<()> {
        self.claims.done(part).then_some(())
    }

    /// Notes that the end is written: whether this writer is to do so. The dying thread closes its file in any case.
    /// Signal-safe.
    pub fn may_close(&self) -> bool {
        let may = self.claims.claim(CrashPart::Close) || self.role() == WriterRole::Dying;
        if may {
            self.phase(Phase::Close);
        }
        may
    }

    /// Notes how far the writer has come, for a crash of its own. Signal-safe.
    pub fn phase(&self, phase: Phase) {
        Phase::of(self.claims.role).store(phase as u32, Ordering::Relaxed);
        #[cfg(all(feature = "internals", target_os = "linux"))]
        hook::call(phase);
    }
}

#[cfg(all(feature = "internals", target_os = "linux"))]
pub use hook::set_phase_hook;

/// For tests alone: no app has it.
#[cfg(all(feature = "internals", target_os = "linux"))]
mod hook {
    use std::sync::atomic::{AtomicPtr, Ordering};

    use super::Phase;

    static HOOK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

    /// Has `hook` called, in the handler, at the beginning of each phase of the writing, with what the report
    /// has after a crash in that phase. A test crashes there, or kills the process.
    pub fn set_phase_hook(hook: fn(&'static str)) {
        HOOK.store(hook as *mut (), Ordering::Relaxed);
    }

    pub(super) fn call(phase: Phase) {
        let hook = HOOK.load(Ordering::Relaxed);
        if !hook.is_null() {
            // SAFETY: only `set_phase_hook` stores a pointer that is not null: such a function.
            let hook = unsafe { std::mem::transmute::<*mut (), fn(&'static str)>(hook) };
            hook(phase.as_str());
        }
    }
}

/// Progress of the writing of a crash report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    Open,
    Event,
    Thread,
    Vitals,
    Threads,
    Close,
}

/// The writer thread's, and that of the dying thread.
static PHASES: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

impl Phase {
    fn of(role: WriterRole) -> &'static AtomicU32 {
        let [writer_thread, dying] = &PHASES;
        match role {
            WriterRole::WriterThread => writer_thread,
            WriterRole::Dying => dying,
        }
    }

    /// The report's `cut`. Signal-safe.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Open => "crashed while opening the file",
            Phase::Event => "crashed while writing the event",
            Phase::Thread => "crashed while unwinding the crashed thread",
            Phase::Vitals => "crashed while reading vitals and context",
            Phase::Threads => "crashed while capturing the other threads",
            Phase::Close => "crashed while closing the report",
        }
    }

    fn now(role: WriterRole) -> Phase {
        match Phase::of(role).load(Ordering::Relaxed) {
            0 => Phase::Open,
            1 => Phase::Event,
            2 => Phase::Thread,
            3 => Phase::Vitals,
            4 => Phase::Threads,
            _ => Phase::Close,
        }
    }
}

/// The time and id that the files of one report share: when it was begun, and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Nanoseconds since the Unix epoch.
    pub time: u64,
    pub id: [u8; 16],
}

/// The last one: the time, and the id in two halves.
static STAMP: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

impl Stamp {
    /// A new one, which [`Stamp::last`] gives from now on. Only for the thread that owns the crash.
    /// Signal-safe.
    fn fresh() -> Stamp {
        let stamp = Stamp {
            time: clock::realtime(),
            id: random::id(),
        };
        let id = u128::from_be_bytes(stamp.id);
        let words = [stamp.time, (id >> 64) as u64, id as u64];
        for (place, word) in STAMP.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        stamp
    }

    /// The stamp of the last crash. Signal-safe.
    fn last() -> Stamp {
        let [time, high, low] = STAMP.each_ref().map(|word| word.load(Ordering::Relaxed));
        Stamp {
            time,
            id: (u128::from(high) << 64 | u128::from(low)).to_be_bytes(),
        }
    }
}

/// The functions that write the report, and keep what is there if writing crashes too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrashWriter {
    /// Writes those parts of the report that it can claim. Must be signal-safe.
    pub write: fn(&Crashed),
    /// Closes what this writer has written after a crash in `write`, which is not returned to. Must be
    /// signal-safe.
    pub salvage: fn(WriterRole, Phase),
    /// Removes the report of this stamp: a handler that was there before has dealt with the fault,
    /// and the process goes on. Must be signal-safe.
    pub retract: fn(Stamp),
}
