//! The reports of a process that goes on: asked for by the app, or for a panic.

use std::time::Duration;

use std::io;
use std::sync::{Arc, Mutex, TryLockError};

use super::helper::Renewals;
use super::names::{self, Names};
use super::{COUNTERS, Facts, Recording, ReportBuffers, ThreadList};
use crate::capture::{CaptureLimits, Captured, Capturer, ImageTable};
use crate::platform::{Thread, file};
use crate::report::name::Name;
use crate::report::{CaptureView, EventKind, EventView, Omitted, RawFrame, ThreadView, WalkEnd};
use crate::trigger::panic::Panic;

/// What `Monitor::record`, `Monitor::stacks` and the panic hook write with.
#[derive(Debug)]
pub(crate) struct LiveRecorder {
    facts: Facts,
    folder: Arc<file::Folder>,
    limits: CaptureLimits,
    names: bool,
    /// How many threads a report has beside the first.
    most: usize,
    /// Made when it is first needed: an app that never asks pays nothing for it.
    work: Mutex<Option<Work>>,
}

#[derive(Debug)]
struct Work {
    buffers: ReportBuffers,
    capturer: Capturer,
    threads: ThreadList,
}

impl Work {
    fn new(limits: &CaptureLimits, most: usize) -> io::Result<Work> {
        Ok(Work {
            buffers: ReportBuffers::new(),
            capturer: Capturer::new(limits).map_err(io::Error::other)?,
            threads: ThreadList::new(most),
        })
    }
}

/// Which threads' stacks are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Threads {
    /// The thread that installed the monitor.
    Main,
    /// The calling thread.
    Current,
    /// Every thread of the process, the calling one first.
    All,
}

impl LiveRecorder {
    pub fn new(
        facts: Facts,
        folder: Arc<file::Folder>,
        limits: &CaptureLimits,
        names: bool,
        most: usize,
    ) -> LiveRecorder {
        LiveRecorder {
            facts,
            folder,
            limits: limits.clone(),
            names,
            most,
            work: Mutex::new(None),
        }
    }

    /// The stacks as text, a line a frame; of several threads each under a line of its own.
    #[inline(never)]
    pub fn stacks(&self, which: Threads, main: Thread) -> io::Result<String> {
        let mut work = self
            .work
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let work = made(&mut work, &self.limits, self.most)?;
        let here = Thread::current();
        let mut names = Names::default();
        let mut text = String::new();
        let mut images = ImageTable::enter();
        let mut renewals = Renewals::new();
        let wanted = match which {
            Threads::Main => vec![main],
            Threads::Current => vec![here],
            Threads::All => {
                let others = work.threads.all().iter().copied();
                let others: Vec<Thread> = others.filter(|thread| *thread != here).collect();
                [vec![here], others].concat()
            }
        };
        for thread in wanted {
            if which == Threads::All {
                let mut name = [0; 32];
                let length = thread.name(&mut name);
                let name = String::from_utf8_lossy(name.get(..length).unwrap_or_default());
                let gap = if text.is_empty() { "" } else { "\n" };
                text.push_str(&format!("{gap}thread {} {name}\n", thread.id()));
            }
            let mut own = 0;
            let blocked = match thread == here {
                true => None,
                false => work
                    .capturer
                    .capture_blocked(thread, &images)
                    .map(Stack::of),
            };
            let stack = if thread == here {
                // This function is not what the caller asked for.
                own = 1;
                Stack::of(work.capturer.capture_here(&images))
            } else if let Some(stack) = blocked {
                stack
            } else {
                let renew = || renewals.renew();
                match work.capturer.capture_renewing(thread, &mut images, renew) {
                    Ok(captured) => Stack::of(captured),
                    Err(error) => match work.capturer.capture_unanswered(thread, &images) {
                        Some(captured) => Stack::of(captured),
                        None => {
                            text.push_str(&format!(
                                "({error})
"
                            ));
                            continue;
                        }
                    },
                }
            };
            // The thread runs again by now.
            for (index, frame) in stack.frames.iter().enumerate().skip(own) {
                if let Some(gap) = stack.omitted.filter(|gap| gap.at == index as u64) {
                    text.push_str(&format!("({} frames are missing here)\n", gap.count));
                }
                text.push_str(&names::line(&mut names, frame, &images));
                text.push('\n');
            }
            if stack.end != WalkEnd::Root {
                let why = stack.end.as_str();
                text.push_str(&format!(
                    "(the stack goes on; the walk stopped here: {why})\n"
                ));
            }
        }
        Ok(text)
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
        self.write(made(&mut work, &self.limits, self.most)?, &event, true)
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
            location: Some(panic.location).filter(|location| !location.is_empty()),
            ..EventView::default()
        };
        let written = made(&mut work, &self.limits, self.most)
            .and_then(|work| self.write(work, &event, false));
        Some(written)
    }

    fn write(&self, work: &mut Work, event: &EventView<'_>, all: bool) -> io::Result<Name> {
        let Work {
            buffers,
            capturer,
            threads,
        } = work;
        let from = io::Error::from_raw_os_error;
        let mut recording = Recording::begin(&self.folder, &self.facts, event.kind, buffers)
            .map_err(from)?
            .with_names(self.names);
        recording.event(buffers, event);
        let mut images = ImageTable::enter();
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
            cpu: here.progress().map(|now| Duration::from_nanos(now.cpu)),
            ..ThreadView::default()
        };
        let mut cost = CaptureView {
            unwind: Some(Duration::from_nanos(captured.unwind)),
            ..CaptureView::default()
        };
        if captured.cut {
            cost.cut = Some("limit");
        }
        recording.thread(buffers, &images, &view, &captured);
        recording.main_image(buffers, &images);
        super::vitals_and_context(&mut recording, buffers);
        if all {
            let tally = {
                let mut renewals = Renewals::new();
                threads.write_others(
                    &mut recording,
                    buffers,
                    capturer,
                    &mut images,
                    &mut renewals,
                    &[here],
                )
            };
            cost.bytes = Some(tally.bytes);
            cost.unanswered = Some(tally.unanswered);
            if tally.left_out > 0 {
                cost.cut = Some("limit");
            }
        }
        recording.cost(buffers, &cost);
        super::loss(&mut recording, buffers);
        let bytes = recording.length();
        let name = recording.finish(&self.folder, buffers).map_err(from)?;
        COUNTERS.reported(bytes);
        Ok(name)
    }
}

/// What a capture found, apart from who found it.
struct Stack {
    frames: Vec<RawFrame>,
    omitted: Option<Omitted>,
    end: WalkEnd,
}

impl Stack {
    fn of(captured: Captured<'_>) -> Stack {
        Stack {
            frames: captured.frames.to_vec(),
            omitted: captured.omitted,
            end: captured.end,
        }
    }
}

fn made<'w>(
    work: &'w mut Option<Work>,
    limits: &CaptureLimits,
    most: usize,
) -> io::Result<&'w mut Work> {
    match work {
        Some(work) => Ok(work),
        None => Ok(work.insert(Work::new(limits, most)?)),
    }
}
