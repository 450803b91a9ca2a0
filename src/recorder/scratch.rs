//! Shared by the recorders: the memory that they work in, and how a report begins and ends.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{COUNTERS, ProcessInfo, Recording, ReportBuffers, StallEvent, ThreadList};
use crate::capture::{CaptureLimits, Captured, Capturer};
use crate::platform::{Thread, ThreadName, clock, folder};
use crate::report::{CaptureView, CutReason, EventView, ThreadView};
use crate::store::Name;
use crate::trigger::loss::LOSSES;
use crate::trigger::rate_limit::RateLimiter;

/// The memory of one thread that writes reports, reserved when it is made.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub buffers: ReportBuffers,
    pub capturer: Capturer,
    pub threads: ThreadList,
}

impl Scratch {
    /// Reports hold at most `threads` threads besides the first.
    pub fn new(limits: &CaptureLimits, threads: usize) -> io::Result<Self> {
        Ok(Self {
            buffers: ReportBuffers::new(),
            capturer: Capturer::new(limits).map_err(io::Error::other)?,
            threads: ThreadList::new(threads),
        })
    }
}

/// The parts that the recorders of the monitor's threads share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub facts: ProcessInfo,
    pub folder: Arc<folder::Folder>,
    /// Decides whether there may be a report.
    pub limiter: Arc<Mutex<RateLimiter>>,
    /// Called with the name of each whole report.
    pub done: Arc<dyn Fn(Name) + Send + Sync>,
    /// Called with each stall, before the app's callback: a log may block, and the thread that watches goes on.
    pub log: Arc<dyn Fn(&StallEvent<'_>) + Send + Sync>,
}

impl Shared {
    pub fn limiter(&self) -> MutexGuard<'_, RateLimiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if there may be a report of this stack or cause now; one that may not be is counted as lost.
    pub fn passes(&self, key: Option<u64>) -> bool {
        let passes = self.limiter().passes(clock::monotonic(), key);
        passes.map_err(|loss| LOSSES.count(loss)).is_ok()
    }

    /// Begins a report: `head` and `event`.
    pub fn begin(&self, work: &mut Scratch, event: &EventView<'_>) -> Result<Recording, i32> {
        Recording::begin(&self.folder, &self.facts, event, &mut work.buffers)
    }

    /// Ends a report, counts it, and hands its name on.
    pub(super) fn finish(&self, mut recording: Recording, work: &mut Scratch) -> Result<(), i32> {
        recording.loss(&mut work.buffers);
        let (name, bytes) = recording.finish(&self.folder, &mut work.buffers)?;
        self.limiter().count_written(bytes);
        COUNTERS.reported(bytes);
        (self.done)(name);
        Ok(())
    }
}

/// The section of a thread as far as it is known without stopping it. Signal-safe.
pub(super) fn view<'a>(thread: Thread, name: &'a ThreadName) -> ThreadView<'a> {
    ThreadView {
        id: thread.id(),
        name: name.as_str(),
        main: thread.is_main(),
        ..ThreadView::default()
    }
}

/// Cost of one capture. Signal-safe.
pub(super) fn cost(captured: &Captured<'_>) -> CaptureView {
    let stopped = Some(captured.stopped).filter(|stopped| *stopped > 0);
    CaptureView {
        stopped: stopped.map(Duration::from_nanos),
        unwind: Some(Duration::from_nanos(captured.unwind)),
        bytes: Some(captured.bytes).filter(|bytes| *bytes > 0),
        cut: captured.cut.then_some(CutReason::Limit),
        ..CaptureView::default()
    }
}

/// Returns an error where `bytes` cannot be allocated at this moment: what allocates after this would end the app.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`].
pub(super) fn memory_left(bytes: usize) -> io::Result<()> {
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(bytes)?;
    // An allocation that nothing looks at may be left out by the compiler.
    std::hint::black_box(room.as_ptr());
    Ok(())
}
