//! Takes the stacks of the watched thread, and leaves it alone while it cannot have moved.

use crate::capture::{CaptureLimits, Captured, Capturer, ImageTable, Registers};
use crate::platform::context::REGISTERS;
use crate::platform::threads::Progress;
use crate::platform::{Thread, ThreadGauge, calls};
use crate::report::{CaptureView, Omitted, RawFrame, WalkEnd};
use crate::trigger::sampling::Samples;

use super::workbench::MAX_FRAMES;

/// A thread that ran for less than this after it answered our signal only went back to where it
/// was, nanoseconds.
const WAY_BACK: u64 = 200_000;

/// The watched thread's stacks.
///
/// The signal that stops a thread makes some blocked calls return EINTR. So a thread that has
/// answered once is not asked again while the kernel says that it has not run since: its stack
/// cannot have changed, and only the count grows.
#[derive(Debug)]
pub(super) struct Sampler {
    watched: Thread,
    pub gauge: ThreadGauge,
    capturer: Capturer,
    pub samples: Samples,
    /// What was seen before the last stack was taken.
    pub state: Option<&'static str>,
    pub syscall: Option<&'static str>,
    /// The last stack, whole.
    last: Last,
    /// CPU time and delay at the last look: the one that grew more says whether it runs.
    cpu: u64,
    delay: u64,
    stopped: u64,
    unwind: u64,
    bytes: u64,
    cut: bool,
    unanswered: u64,
}

#[derive(Debug)]
struct Last {
    /// `None` while there is none.
    end: Option<WalkEnd>,
    registers: Registers,
    frames: Box<[RawFrame]>,
    len: usize,
    omitted: Option<Omitted>,
    /// How far the thread had come, just after it answered or at a later look.
    progress: Option<Progress>,
    /// Whether `progress` was read while the thread was on its way back from our signal.
    fresh: bool,
}

impl Sampler {
    /// Reserves all that is needed later.
    pub fn new(watched: Thread, limits: &CaptureLimits) -> std::io::Result<Sampler> {
        let frame = RawFrame {
            pc: u64::MAX,
            ..RawFrame::default()
        };
        Ok(Sampler {
            watched,
            gauge: ThreadGauge::open(watched.tid()),
            capturer: Capturer::new(limits).map_err(std::io::Error::other)?,
            samples: Samples::new(),
            state: None,
            syscall: None,
            last: Last {
                end: None,
                registers: Registers::native([0; REGISTERS]),
                frames: vec![frame; MAX_FRAMES].into_boxed_slice(),
                len: 0,
                omitted: None,
                progress: None,
                fresh: false,
            },
            cpu: 0,
            delay: 0,
            stopped: 0,
            unwind: 0,
            bytes: 0,
            cut: false,
            unanswered: 0,
        })
    }

    /// Forgets the stall before.
    pub fn clear(&mut self) {
        self.samples.clear();
        self.last.end = None;
        self.last.progress = None;
        (self.stopped, self.unwind, self.bytes) = (0, 0, 0);
        (self.cut, self.unanswered) = (false, 0);
    }

    /// Takes one sample, `at` nanoseconds after the stall's start.
    pub fn take(&mut self, at: u64) {
        self.look();
        let now = self.watched.progress();
        if self.last.end.is_some() && self.last.stands_still(now) && self.samples.repeat(at) {
            return;
        }
        let images = ImageTable::enter();
        match self.capturer.capture(self.watched, &images) {
            Ok(captured) => {
                self.samples.add(at, self.state, captured.frames);
                // Of several stops the longest, as that is what the app may have felt.
                self.stopped = self.stopped.max(captured.stopped);
                self.unwind = self.unwind.max(captured.unwind);
                self.bytes = self.bytes.saturating_add(captured.bytes);
                self.cut |= captured.cut;
                self.last.set(&captured);
                self.last.progress = self.watched.progress();
                self.last.fresh = true;
            }
            Err(_) => {
                self.unanswered = self.unanswered.saturating_add(1);
                self.last.end = None;
            }
        }
    }

    /// What takes the stacks; for other threads too.
    pub fn capturer(&mut self) -> &mut Capturer {
        &mut self.capturer
    }

    /// The last stack; `None` if the thread did not answer.
    pub fn stack(&self) -> Option<Captured<'_>> {
        Some(Captured {
            registers: &self.last.registers,
            frames: self.last.frames.get(..self.last.len).unwrap_or_default(),
            omitted: self.last.omitted,
            end: self.last.end?,
            stopped: self.stopped,
            unwind: self.unwind,
            bytes: self.bytes,
            cut: self.cut,
        })
    }

    /// What all of it has cost so far.
    pub fn cost(&self) -> CaptureView<'static> {
        let answered = self.stopped > 0;
        CaptureView {
            stopped: answered.then_some(self.stopped),
            unwind: answered.then_some(self.unwind),
            bytes: answered.then_some(self.bytes),
            samples: Some(self.samples.taken()),
            cut: self.cut.then_some("limit"),
            unanswered: (self.unanswered > 0).then_some(self.unanswered),
        }
    }

    /// What the thread is at, before anybody touches it.
    fn look(&mut self) {
        let (cpu, delay) = (self.gauge.cpu(), self.gauge.delay());
        let ran = cpu.saturating_sub(self.cpu);
        let waited = delay.saturating_sub(self.delay);
        (self.cpu, self.delay) = (cpu, delay);
        self.state = self.gauge.state().map(|letter| match letter {
            b'R' if waited > ran => "runnable",
            b'R' => "running",
            b'D' => "uninterruptible",
            b'T' | b't' => "stopped",
            _ => "blocked",
        });
        self.syscall = match self.state {
            Some("running" | "runnable") => None,
            _ => self.gauge.syscall().and_then(calls::name),
        };
    }
}

impl Last {
    /// Whether the thread has not run since the last stack was taken.
    fn stands_still(&mut self, now: Option<Progress>) -> bool {
        let (Some(now), Some(then)) = (now, self.progress) else {
            return false;
        };
        let same = now.slices == then.slices
            && if self.fresh {
                now.cpu.saturating_sub(then.cpu) < WAY_BACK
            } else {
                now.cpu == then.cpu
            };
        if now.running || !same {
            return false;
        }
        (self.progress, self.fresh) = (Some(now), false);
        true
    }

    fn set(&mut self, captured: &Captured<'_>) {
        self.end = Some(captured.end);
        self.registers = *captured.registers;
        self.omitted = captured.omitted;
        self.len = captured.frames.len().min(self.frames.len());
        let frames = self.frames.iter_mut().zip(captured.frames);
        frames.for_each(|(to, from)| *to = *from);
    }
}
