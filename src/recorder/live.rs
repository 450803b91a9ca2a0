//! The reports of a process that goes on: asked for by the app, or for a panic.

use std::io;
use std::sync::{Arc, Mutex, TryLockError};

use super::{Facts, Recording, Threads, Workbench};
use crate::capture::{CaptureLimits, Capturer, ImageTable};
use crate::platform::{Thread, file};
use crate::report::name::Name;
use crate::report::{CaptureView, EventKind, EventView, ThreadView};
use crate::trigger::panic::Panic;

/// What `Monitor::record` and the panic hook write with.
#[derive(Debug)]
pub(crate) struct LiveDesk {
    facts: Facts,
    folder: Arc<file::Folder>,
    work: Mutex<Work>,
}

#[derive(Debug)]
struct Work {
    bench: Workbench,
    capturer: Capturer,
    threads: Threads,
}

impl LiveDesk {
    pub fn new(
        facts: Facts,
        folder: Arc<file::Folder>,
        limits: &CaptureLimits,
    ) -> io::Result<LiveDesk> {
        let work = Work {
            bench: Workbench::new(),
            capturer: Capturer::new(limits).map_err(std::io::Error::other)?,
            threads: Threads::new(),
        };
        Ok(LiveDesk {
            facts,
            folder,
            work: Mutex::new(work),
        })
    }

    /// A report of all threads, the calling one first.
    pub fn record(&self, reason: &str) -> io::Result<Name> {
        let mut work = self
            .work
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let event = EventView {
            kind: EventKind::Live,
            reason: Some(reason),
            ..EventView::default()
        };
        self.write(&mut work, &event, true)
    }

    /// A report of a panic: the calling thread alone. `None` where a report is being written
    /// already, perhaps by this very thread.
    pub fn panicked(&self, panic: &Panic<'_>) -> Option<io::Result<Name>> {
        let mut work = match self.work.try_lock() {
            Ok(work) => work,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let event = EventView {
            kind: EventKind::Panic,
            message: Some(panic.message),
            location: Some(panic.location),
            ..EventView::default()
        };
        Some(self.write(&mut work, &event, false))
    }

    fn write(&self, work: &mut Work, event: &EventView<'_>, all: bool) -> io::Result<Name> {
        let Work {
            bench,
            capturer,
            threads,
        } = work;
        let from = io::Error::from_raw_os_error;
        let mut recording =
            Recording::begin(&self.folder, &self.facts, event.kind, bench).map_err(from)?;
        recording.event(bench, event);
        let images = ImageTable::enter();
        let here = Thread::current();
        let mut name = [0; 32];
        let length = here.name(&mut name);
        let name = name
            .get(..length)
            .and_then(|name| std::str::from_utf8(name).ok());
        let captured = capturer.capture_here(&images);
        let view = ThreadView {
            id: here.id(),
            name: name.filter(|name| !name.is_empty()),
            main: here.is_main(),
            state: Some("running"),
            cpu: here.progress().map(|now| now.cpu),
            ..ThreadView::default()
        };
        let mut cost = CaptureView {
            unwind: Some(captured.unwind),
            ..CaptureView::default()
        };
        if captured.cut {
            cost.cut = Some("limit");
        }
        recording.thread(bench, &images, &view, &captured);
        recording.main_image(bench, &images);
        super::vitals_and_context(&mut recording, bench);
        if all {
            let tally = threads.write_others(&mut recording, bench, capturer, &images, &[here]);
            cost.bytes = Some(tally.bytes);
            cost.unanswered = Some(tally.unanswered);
            if tally.left_out > 0 {
                cost.cut = Some("limit");
            }
        }
        recording.cost(bench, &cost);
        super::loss(&mut recording, bench);
        recording.finish(&self.folder, bench).map_err(from)
    }
}
