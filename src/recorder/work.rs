//! Shared by the recorders: facts that do not change while the app runs, the memory that they work in, and how a report
//! begins and ends.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{COUNTERS, Recording, ReportBuffers, ThreadList};
use crate::capture::{CaptureLimits, Captured, Capturer};
use crate::platform::{Thread, ThreadName, clock, folder, vitals};
use crate::report::{CaptureView, EventView, ThreadView};
use crate::store::Name;
use crate::trigger::loss::LOSSES;
use crate::trigger::rate_limit::RateLimiter;

/// Threads in one report besides the one in question, at most, unless the app sets another number; the rest are
/// counted.
pub(crate) const MAX_THREADS: usize = 1024;

/// The app, the machine and this launch.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub app_name: String,
    pub app_version: String,
    pub os_name: &'static str,
    pub os_version: String,
    pub os_build: Option<String>,
    pub device: Option<String>,
    pub arch: &'static str,
    pub pid: u32,
    pub launch: [u8; 16],
    /// True if reports have all images, rather than those that frames point into.
    pub all_images: bool,
    /// True if frames get names from the images' own symbol tables, except in the report of a crash.
    pub names: bool,
    /// Most threads of a report besides the first.
    pub threads: usize,
}

impl Facts {
    /// Reads what the system knows. Allocates.
    pub fn gather(app_name: &str, app_version: &str, launch: [u8; 16]) -> Facts {
        let system = vitals::describe();
        Facts {
            app_name: app_name.to_owned(),
            app_version: app_version.to_owned(),
            os_name: system.name,
            os_version: system.version,
            os_build: system.build,
            device: system.device,
            arch: arch_name(std::env::consts::ARCH),
            pid: std::process::id(),
            launch,
            all_images: false,
            names: false,
            threads: MAX_THREADS,
        }
    }
}

/// The field's name of an architecture: `arm64` where Rust has `aarch64`.
pub(crate) fn arch_name(arch: &'static str) -> &'static str {
    if arch == "aarch64" { "arm64" } else { arch }
}

/// The memory of one thread that writes reports, reserved when it is made.
#[derive(Debug)]
pub(super) struct Work {
    pub buffers: ReportBuffers,
    pub capturer: Capturer,
    pub threads: ThreadList,
}

impl Work {
    /// Reports hold at most `threads` threads besides the first.
    pub fn new(limits: &CaptureLimits, threads: usize) -> io::Result<Work> {
        Ok(Work {
            buffers: ReportBuffers::new(),
            capturer: Capturer::new(limits).map_err(io::Error::other)?,
            threads: ThreadList::new(threads),
        })
    }
}

/// The parts that the recorders of the monitor's threads share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub facts: Facts,
    pub folder: Arc<folder::Folder>,
    /// Decides whether there may be a report.
    pub limiter: Arc<Mutex<RateLimiter>>,
    /// Called with the name of each whole report.
    pub done: Arc<dyn Fn(Name) + Send + Sync>,
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
    pub(super) fn begin(&self, work: &mut Work, event: &EventView<'_>) -> Result<Recording, i32> {
        Recording::begin(&self.folder, &self.facts, event, &mut work.buffers)
    }

    /// Ends a report, counts it, and hands its name on.
    pub(super) fn finish(&self, mut recording: Recording, work: &mut Work) -> Result<(), i32> {
        recording.loss(&mut work.buffers);
        let (name, bytes) = recording.finish(&self.folder, &mut work.buffers)?;
        self.limiter().wrote(bytes);
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
pub(super) fn cost(captured: &Captured<'_>) -> CaptureView<'static> {
    let stopped = Some(captured.stopped).filter(|stopped| *stopped > 0);
    CaptureView {
        stopped: stopped.map(Duration::from_nanos),
        unwind: Some(Duration::from_nanos(captured.unwind)),
        bytes: Some(captured.bytes).filter(|bytes| *bytes > 0),
        cut: captured.cut.then_some("limit"),
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
