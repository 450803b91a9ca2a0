//! All threads of the process, one after another: list, capture, write.

use std::time::Duration;

use super::MAX_THREADS;
use super::helper::Renewals;
use super::scratch::{Scratch, view};
use super::{Recording, ReportBuffers};
use crate::capture::{Capturer, ImagesGuard};
use crate::platform::stop::StopError;
use crate::platform::{self, Thread, ThreadName, clock, threads::ThreadProgress};
use crate::report::{CaptureView, CutReason, ThreadState, ThreadView};
use crate::trigger::crash;

/// Threads that do not answer cost at most so much together, nanoseconds.
const MAX_UNANSWERED_TIME: u64 = 50_000_000;
/// Threads that would answer, but do not get the CPU for it, cost at most so much together.
const MAX_STARVED_TIME: u64 = 1_000_000_000;

/// Room for a list of threads, reserved at install.
#[derive(Debug)]
pub(crate) struct ThreadList {
    list: Box<[Thread]>,
    /// Most threads that are written.
    most: usize,
}

/// Counts from capturing the other threads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadTally {
    /// Threads that did not let themselves be captured.
    pub unanswered: u64,
    /// Threads that there was no room for.
    pub left_out: u64,
    /// Bytes of stack copied.
    pub bytes: u64,
}

impl ThreadTally {
    /// Adds it to what the report's captures have cost. Signal-safe.
    pub fn add_to(&self, cost: &mut CaptureView) {
        let sum = |before: Option<u64>, more| Some(before.unwrap_or(0).saturating_add(more));
        cost.bytes = sum(cost.bytes, self.bytes);
        cost.unanswered = sum(cost.unanswered, self.unanswered);
        cost.cut = cost.cut.or((self.left_out > 0).then_some(CutReason::Limit));
    }
}

impl ThreadList {
    #[inline(never)]
    pub fn new(most: usize) -> ThreadList {
        ThreadList {
            list: vec![Thread::current(); most.clamp(MAX_THREADS, 1 << 16)].into_boxed_slice(),
            most,
        }
    }

    /// The threads that there are now, the main one first, and how many more there was no room for.
    /// Signal-safe.
    pub fn refresh(&mut self) -> (&[Thread], usize) {
        let count = platform::threads::list(&mut self.list);
        let room = self.list.len();
        let listed = self.list.get_mut(..count.min(room)).unwrap_or_default();
        if let Some(main) = listed.iter().position(|thread| thread.is_main()) {
            listed.swap(0, main);
        }
        (listed, count.saturating_sub(room))
    }
}

impl Scratch {
    /// Writes every thread that is wanted: the main thread first, then in the order of the system, and
    /// last those that did not answer. Signal-safe, if `wanted` is.
    pub fn write_threads(
        &mut self,
        recording: &mut Recording,
        images: &mut ImagesGuard,
        renewals: Renewals,
        wanted: impl Fn(Thread) -> bool,
    ) -> ThreadTally {
        use ThreadState::{Blocked, Running};
        let buffers = &mut self.buffers;
        let most = self.threads.most;
        let (listed, left_out) = self.threads.refresh();
        let mut tally = ThreadTally {
            left_out: left_out as u64,
            ..ThreadTally::default()
        };
        let mut patience = ThreadCapture {
            capturer: &mut self.capturer,
            waited: 0,
            starved: 0,
            renewals,
        };
        let mut written = 0usize;
        for &thread in listed.iter().filter(|thread| wanted(**thread)) {
            if written >= most {
                tally.left_out = tally.left_out.saturating_add(1);
                continue;
            }
            written = written.saturating_add(1);
            let now = thread.progress();
            let name = ThreadName::of(thread);
            let facts = ThreadView {
                state: now.map(|now| if now.running { Running } else { Blocked }),
                cpu: now.map(|now| Duration::from_nanos(now.cpu)),
                ..view(thread, &name)
            };
            if thread.is_main() && !thread.is_alive() {
                let state = Some(ThreadState::Ended);
                let ended = ThreadView { state, ..facts };
                recording.unasked(buffers, &ended);
                continue;
            }
            match patience.record(recording, buffers, images, (thread, now), &facts) {
                Ok(bytes) => tally.bytes = tally.bytes.saturating_add(bytes),
                Err(is_blocked) => {
                    tally.unanswered = tally.unanswered.saturating_add(1);
                    match patience.capturer.capture_unanswered(thread) {
                        Some(captured) => recording.thread(buffers, images, &facts, &captured),
                        None => recording.unanswered(buffers, &facts, is_blocked),
                    }
                }
            }
        }
        tally
    }
}

/// Captures threads one by one, within the budgets (nanoseconds) for those that do not answer.
#[derive(Debug)]
struct ThreadCapture<'c> {
    capturer: &'c mut Capturer,
    waited: u64,
    starved: u64,
    renewals: Renewals,
}

impl ThreadCapture<'_> {
    /// Captures a thread, of which this progress was read before, and writes it; returns the bytes of stack that were copied. A
    /// thread that does not answer is not written: returns true if it runs and blocks the signal that would stop it.
    /// Signal-safe.
    fn record(
        &mut self,
        recording: &mut Recording,
        buffers: &mut ReportBuffers,
        images: &mut ImagesGuard,
        (thread, mut progress): (Thread, Option<ThreadProgress>),
        facts: &ThreadView<'_>,
    ) -> Result<u64, bool> {
        let capturer = &mut *self.capturer;
        let mut refused = false;
        loop {
            // It waits in our own handler, where it cannot answer; nor need it. Looked up each time
            // anew: one that did not answer may have crashed since.
            if let Some(registers) = crash::crashed_too(thread) {
                let captured = capturer.capture_context(&registers, images);
                let state = Some(ThreadState::CrashedToo);
                recording.thread(buffers, images, &ThreadView { state, ..*facts }, &captured);
                return Ok(0);
            }
            // One that is blocked is read as it lies: the signal of a stop might interrupt its call.
            if let Some(captured) = capturer.capture_blocked(thread, progress, images) {
                recording.thread(buffers, images, facts, &captured);
                return Ok(0);
            }
            if refused || self.waited >= MAX_UNANSWERED_TIME || self.starved >= MAX_STARVED_TIME {
                return Err(false);
            }
            let start = clock::monotonic();
            let renew = || self.renewals.renew();
            let is_blocked = match capturer.capture_renewing(thread, images, renew) {
                Ok(captured) => {
                    recording.thread(buffers, images, facts, &captured);
                    return Ok(captured.bytes);
                }
                Err(error) => matches!(error, StopError::Blocked),
            };
            let took = clock::monotonic().saturating_sub(start);
            if is_blocked {
                self.waited = took.saturating_add(self.waited);
                // To ask once more would change nothing.
                return Err(true);
            }
            // One that is ready to run and has not had the CPU would have answered.
            progress = thread.progress();
            if progress.is_some_and(|now| now.running) {
                self.starved = took.max(1_000_000).saturating_add(self.starved);
            } else {
                self.waited = took.saturating_add(self.waited);
                refused = true;
            }
        }
    }
}
