//! Takes the stacks of the watched thread, without a stop while it cannot have run.

use std::time::Duration;

use crate::capture::{Captured, Capturer, ImageTable, Registers};
use crate::platform::ThreadGauge;
use crate::platform::context::REGISTERS;
use crate::platform::gauge::Blocked;
use crate::platform::stop::StopError;
use crate::platform::threads::ThreadProgress;
use crate::report::{CaptureView, CutReason, Omitted, RawFrame, ThreadState, WalkEnd};
use crate::trigger::chains::KeptChains;
use crate::trigger::loss::LossReason;
use crate::trigger::sampling::Samples;
use crate::trigger::watched_thread::WatchedThread;

use super::buffers::MAX_FRAMES;
use super::helper::Renewals;

/// A thread that is blocked at the same place again, and ran for less than this since our signal, has only returned
/// to its wait, nanoseconds.
const MAX_RETURN: u64 = 2_000_000;

/// The watched thread's stacks.
///
/// The signal that stops a thread makes some blocked calls return EINTR. So the stack of a blocked thread is first
/// read without a signal. The thread is stopped only if that walk does not reach its root, and only once: while the
/// kernel reports that it has not run since, its stack cannot have changed, and only the count grows.
#[derive(Debug)]
pub(super) struct Sampler {
    watched: WatchedThread,
    pub samples: Samples,
    /// How often the images may still be listed anew for it.
    renewals: Renewals,
    /// State and system call of the thread, read before the last stack was taken.
    pub state: Option<ThreadState>,
    pub syscall: Option<&'static str>,
    /// Its stack pointer and program counter if it was blocked then.
    place: Option<(u64, u64)>,
    /// The last stack, whole.
    last: LastStack,
    /// CPU time and delay at the last observation. If the delay grew more than the CPU time, the thread is runnable
    /// and not running.
    cpu: u64,
    delay: u64,
    cost: Cost,
    /// True if the last stop that failed did so because the thread blocked the signal of captures.
    pub blocks_signal: bool,
}

/// Cost of a stall's stacks so far.
#[derive(Debug, Default)]
struct Cost {
    taken: u64,
    longest_stop: u64,
    longest_unwind: u64,
    bytes: u64,
    /// The reason for which stacks are short or were not taken.
    cut: Option<CutReason>,
    unanswered: u64,
}

#[derive(Debug)]
struct LastStack {
    /// `None` while there is no last stack.
    end: Option<WalkEnd>,
    registers: Registers,
    frames: Box<[RawFrame]>,
    len: usize,
    tasks: KeptChains,
    omitted: Option<Omitted>,
    /// The thread's counters. While they do not change, this is its stack; `None` if the thread was running.
    progress: Option<ThreadProgress>,
    /// The place where it was blocked when our signal stopped it, if it may still have been on its way back there when
    /// `progress` was read.
    returning_to: Option<(u64, u64)>,
}

impl Sampler {
    /// Reserves all that is needed later.
    pub fn new(watched: WatchedThread) -> Sampler {
        Sampler {
            watched,
            renewals: Renewals::new(),
            samples: Samples::new(),
            state: None,
            syscall: None,
            place: None,
            last: LastStack {
                end: None,
                registers: Registers::native([0; REGISTERS]),
                frames: RawFrame::room(MAX_FRAMES),
                len: 0,
                tasks: KeptChains::new(MAX_FRAMES),
                omitted: None,
                progress: None,
                returning_to: None,
            },
            cpu: 0,
            delay: 0,
            cost: Cost::default(),
            blocks_signal: false,
        }
    }

    /// Discards the last stall. The next one may be of another thread.
    pub fn clear(&mut self, other: Option<WatchedThread>) {
        if let Some(watched) = other {
            (self.watched, self.cpu, self.delay) = (watched, 0, 0);
        }
        self.samples.clear();
        self.renewals = Renewals::new();
        (self.last.end, self.last.progress) = (None, None);
        self.cost = Cost::default();
    }

    /// Takes one sample, `at` nanoseconds after the stall's start. Takes a new stack only if `may_capture`. Returns false where
    /// no stack was needed, or the hour's quota is used up and was counted before.
    ///
    /// # Errors
    /// The reason why there is no stack.
    pub fn take(
        &mut self,
        capturer: &mut Capturer,
        at: u64,
        may_capture: bool,
    ) -> Result<bool, LossReason> {
        if self.watched.follow() {
            // The last stack is another thread's.
            self.last.end = None;
        }
        self.observe();
        let watched = self.watched.thread();
        let now = watched.progress();
        let is_unchanged = self.last.end.is_some() && self.last.has_not_run(now, self.place);
        if is_unchanged && self.samples.repeat(at) {
            return Ok(false);
        }
        if !may_capture {
            // Counted once a stall.
            return match self.cost.cut.replace(CutReason::Quota) {
                Some(CutReason::Quota) => Ok(false),
                _ => Err(LossReason::Quota),
            };
        }
        let mut images = ImageTable::enter();
        if let Some(captured) = capturer.capture_blocked(watched, now, &images) {
            self.cost.add(&captured);
            self.add_sample(at, &captured, now, None);
            return Ok(true);
        }
        let renew = || self.renewals.renew();
        match capturer.capture_renewing(watched, &mut images, renew) {
            Ok(captured) => {
                self.cost.add(&captured);
                let (progress, returning_to) = match self.place {
                    // A thread that was stopped elsewhere may have blocked since: this need not be its stack any
                    // more.
                    Some(place) if is_at(captured.registers, place) => {
                        (watched.progress(), Some(place))
                    }
                    Some(_) => (None, None),
                    None => (now.filter(|progress| !progress.running), None),
                };
                self.add_sample(at, &captured, progress, returning_to);
            }
            Err(error) => {
                self.blocks_signal = matches!(error, StopError::Blocked);
                self.cost.unanswered = self.cost.unanswered.saturating_add(1);
                match capturer.capture_unanswered(watched) {
                    Some(captured) => self.add_sample(at, &captured, now, None),
                    None => {
                        self.last.end = None;
                        return Err(match error {
                            StopError::System(_) => LossReason::Unsent,
                            _ => LossReason::Unanswered,
                        });
                    }
                }
            }
        }
        Ok(true)
    }

    /// Adds a stack to the samples, as the last one.
    fn add_sample(
        &mut self,
        at: u64,
        captured: &Captured<'_>,
        progress: Option<ThreadProgress>,
        returning_to: Option<(u64, u64)>,
    ) {
        self.samples.add(at, self.state, captured);
        self.last.set(captured);
        self.last.progress = progress;
        self.last.returning_to = returning_to;
    }

    /// Returns the thread whose stacks are taken.
    pub fn watched(&self) -> &WatchedThread {
        &self.watched
    }

    /// The last stack; `None` if the thread did not answer.
    pub fn stack(&self) -> Option<Captured<'_>> {
        Some(Captured {
            registers: &self.last.registers,
            frames: self.last.frames.get(..self.last.len).unwrap_or_default(),
            tasks: self.last.tasks.chains(),
            omitted: self.last.omitted,
            end: self.last.end?,
            stopped: self.cost.longest_stop,
            unwind: self.cost.longest_unwind,
            bytes: self.cost.bytes,
            cut: self.cost.cut.is_some(),
        })
    }

    /// Cost of all stacks so far.
    pub fn cost(&self) -> CaptureView {
        let cost = &self.cost;
        let known = cost.taken > 0;
        CaptureView {
            stopped: known.then_some(Duration::from_nanos(cost.longest_stop)),
            unwind: known.then_some(Duration::from_nanos(cost.longest_unwind)),
            bytes: known.then_some(cost.bytes),
            samples: Some(self.samples.taken()),
            cut: cost.cut,
            unanswered: (cost.unanswered > 0).then_some(cost.unanswered),
        }
    }

    /// Reads the thread's state and system call, before it is touched.
    fn observe(&mut self) {
        let (cpu, delay) = (self.watched.cpu(), self.watched.gauge().run_delay());
        let ran = cpu.saturating_sub(self.cpu);
        let waited = delay.saturating_sub(self.delay);
        self.cpu = cpu;
        self.delay = delay;
        self.state = match state(self.watched.gauge()) {
            Some(ThreadState::Running) if waited > ran => Some(ThreadState::Runnable),
            state => state,
        };
        let blocked = match self.state {
            Some(ThreadState::Running | ThreadState::Runnable) => None,
            _ => self.watched.gauge().blocked(),
        };
        self.syscall = blocked.and_then(|at| at.call_name());
        self.place = blocked.map(|at: Blocked| (at.sp, at.pc));
    }
}

/// Returns true if a thread with these registers was stopped in the call in which it was blocked, at this stack
/// pointer and program counter. A signal's handler sees the program counter after the call, or at the call if the
/// kernel will restart it.
fn is_at(registers: &Registers, (sp, pc): (u64, u64)) -> bool {
    /// Longest instruction that makes a system call: `svc`; `syscall` has 2 bytes.
    const MAX_CALL_BYTES: u64 = 4;
    registers.sp() == sp && pc.wrapping_sub(registers.pc()) <= MAX_CALL_BYTES
}

impl Cost {
    /// Adds a capture. Of several stops the longest counts, as that is what the app may have felt.
    fn add(&mut self, captured: &Captured<'_>) {
        self.taken = self.taken.saturating_add(1);
        self.longest_stop = self.longest_stop.max(captured.stopped);
        self.longest_unwind = self.longest_unwind.max(captured.unwind);
        self.bytes = self.bytes.saturating_add(captured.bytes);
        self.cut = self.cut.or(captured.cut.then_some(CutReason::Limit));
    }
}

impl LastStack {
    /// Returns true if the thread has not run since the last stack was taken, except to return from our signal. Under
    /// load the return may take several time slices.
    fn has_not_run(&mut self, now: Option<ThreadProgress>, place: Option<(u64, u64)>) -> bool {
        let (Some(now), Some(then)) = (now, self.progress) else {
            return false;
        };
        let is_unchanged = match self.returning_to {
            Some(before) => place == Some(before) && now.cpu.saturating_sub(then.cpu) < MAX_RETURN,
            None => now.slices == then.slices && now.cpu == then.cpu,
        };
        if now.running || !is_unchanged {
            return false;
        }
        self.progress = Some(now);
        self.returning_to = None;
        true
    }

    fn set(&mut self, captured: &Captured<'_>) {
        self.end = Some(captured.end);
        self.registers = *captured.registers;
        self.omitted = captured.omitted;
        self.tasks.set(captured.tasks);
        self.len = captured.frames.len().min(self.frames.len());
        let frames = self.frames.iter_mut().zip(captured.frames);
        frames.for_each(|(to, from)| *to = *from);
    }
}

/// Returns a thread's state, by the kernel's letter.
pub(super) fn state(gauge: &ThreadGauge) -> Option<ThreadState> {
    gauge.state().map(|letter| match letter {
        b'R' => ThreadState::Running,
        b'D' => ThreadState::Uninterruptible,
        b'T' | b't' => ThreadState::Stopped,
        _ => ThreadState::Blocked,
    })
}
