//! The reports of a process that goes on: of a call by the app, or of a panic.

use std::fmt::Write;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::helper::Renewals;
use super::names::{self, Names};
use super::scratch::{self, Scratch, view};
use super::{COUNTERS, ProcessInfo, Recording};
use crate::capture::{CaptureLimits, ImageTable, ImagesGuard};
use crate::platform::forked::lock_within;
use crate::platform::guarded::Uncancelled;
use crate::platform::{Thread, ThreadName, folder};
use crate::report::name::Name;
use crate::report::{CaptureView, EventKind, EventView, ThreadState, ThreadView, WalkEnd};
use crate::trigger::crash;
use crate::trigger::loss::{LOSSES, LossReason};
use crate::trigger::panic::Panic;

/// The recorder of `Monitor::record`, `Monitor::stacks` and the panic hook.
#[derive(Debug)]
pub(crate) struct LiveRecorder {
    facts: ProcessInfo,
    folder: Arc<folder::Folder>,
    limits: CaptureLimits,
    /// Made when it is first needed: an app that never calls pays nothing for it.
    work: Mutex<Option<Scratch>>,
}

/// The first report allocates less than this besides the room for stacks, and a later one less than the other, bytes.
const FIRST_BYTES: usize = 1 << 20;
const LATER_BYTES: usize = 64 << 10;

/// Times that a panic checks if another report is written, a millisecond apart.
const MAX_POLLS: u32 = 1000;

/// The threads whose stacks [`Monitor::stacks`](crate::Monitor::stacks) returns.
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
    pub fn new(facts: ProcessInfo, folder: Arc<folder::Folder>, limits: &CaptureLimits) -> Self {
        LiveRecorder {
            facts,
            folder,
            limits: limits.clone(),
            work: Mutex::new(None),
        }
    }

    fn lock_scratch(&self) -> (MutexGuard<'_, Option<Scratch>>, Uncancelled) {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        (work, Uncancelled::begin())
    }

    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] where there is less than this takes: what allocates below would end the app.
    fn made<'w>(&self, work: &'w mut Option<Scratch>) -> io::Result<&'w mut Scratch> {
        scratch::memory_left(work.as_ref().map_or(FIRST_BYTES, |_| LATER_BYTES))?;
        let made = match work.take() {
            Some(made) => made,
            None => Scratch::new(&self.limits, self.facts.threads)?,
        };
        Ok(work.insert(made))
    }

    /// The stacks as text, a line a frame; of several threads each under a line of its own.
    #[inline(never)]
    pub fn stacks(&self, which: Threads, main: Thread) -> io::Result<String> {
        let (mut work, _whole) = self.lock_scratch();
        let Scratch {
            capturer, threads, ..
        } = self.made(&mut work)?;
        let here = Thread::current();
        let mut names = Names::default();
        let mut text = String::new();
        let mut images = ImageTable::enter();
        let mut renewals = Renewals::new();
        let mut left_out = 0;
        let wanted = match which {
            Threads::Main => vec![main],
            Threads::Current => vec![here],
            Threads::All => {
                let (listed, more) = threads.refresh();
                left_out = more;
                let others = listed.iter().copied().filter(|thread| *thread != here);
                [here].into_iter().chain(others).collect()
            }
        };
        for thread in wanted {
            if which == Threads::All {
                let name = ThreadName::of(thread);
                let name = name.as_str().unwrap_or_default();
                let gap = if text.is_empty() { "" } else { "\n" };
                let _ = writeln!(text, "{gap}thread {} {name}", thread.id());
            }
            let progress = thread.progress();
            let captured = if thread == here {
                Ok(capturer.capture_here(&images))
            } else if let Some(captured) = capturer.capture_blocked(thread, progress, &images) {
                Ok(captured)
            } else {
                let renew = || renewals.renew();
                match capturer.capture_renewing(thread, &mut images, renew) {
                    Err(error) => capturer.capture_unanswered(thread).ok_or(error),
                    answered => answered,
                }
            };
            // The thread runs again by now.
            let captured = match captured {
                Ok(captured) => captured,
                Err(error) => {
                    let _ = writeln!(text, "({error})");
                    continue;
                }
            };
            // This function is not what the caller wants to see.
            let own = usize::from(thread == here);
            for (index, frame) in captured.frames.iter().enumerate().skip(own) {
                if let Some(gap) = captured.omitted.filter(|gap| gap.at == index as u64) {
                    let _ = writeln!(text, "({} frames are missing here)", gap.count);
                }
                let _ = writeln!(text, "{}", names::line(&mut names, frame, &images));
            }
            if captured.end != WalkEnd::Root {
                let why = captured.end.as_str();
                let _ = writeln!(text, "(callers are missing: {why})");
            }
        }
        if left_out > 0 {
            let _ = writeln!(text, "\n({left_out} more threads)");
        }
        Ok(text)
    }

    /// A report of all threads, the calling one first.
    pub fn record(&self, reason: &str) -> io::Result<Name> {
        self.record_about(None, reason)
    }

    /// A report of all threads, the one with this id first: the report is about that one.
    ///
    /// `None` without such a thread in this process.
    pub fn record_thread(&self, id: u64, reason: &str) -> Option<io::Result<Name>> {
        let thread = Thread::from_id(id);
        (id != 0 && thread.is_alive()).then(|| self.record_about(Some(thread), reason))
    }

    fn record_about(&self, thread: Option<Thread>, reason: &str) -> io::Result<Name> {
        let event = EventView {
            kind: EventKind::Live,
            reason: Some(reason),
            thread: thread.map(|thread| thread.id()),
            ..EventView::default()
        };
        let first = thread.unwrap_or_else(Thread::current);
        self.write(&mut self.lock_scratch().0, &event, first, true)
    }

    /// A report of a panic: the calling thread alone. `None` where another report takes longer than a second, or is
    /// this very thread's.
    pub fn panicked(&self, panic: &Panic<'_>) -> Option<io::Result<Name>> {
        let _whole = Uncancelled::begin();
        let free = lock_within(&self.work, MAX_POLLS);
        if free.is_none() {
            LOSSES.count(LossReason::Unwritten);
        }
        let mut work = free?;
        let name = ThreadName::of(Thread::current());
        let event = EventView {
            kind: EventKind::Panic,
            name: name.as_str(),
            message: Some(panic.message),
            location: Some(panic.location).filter(|location| !location.is_empty()),
            ..EventView::default()
        };
        Some(self.write(&mut work, &event, Thread::current(), false))
    }

    /// Writes a report, once it is known that the process survives a crash that another thread is in.
    fn write(
        &self,
        work: &mut Option<Scratch>,
        event: &EventView<'_>,
        first: Thread,
        all: bool,
    ) -> io::Result<Name> {
        if !crash::lives_on() {
            LOSSES.count(LossReason::Unwritten);
            return Err(io::Error::other("the process dies of a crash"));
        }
        let work = self.made(work)?;
        let from = io::Error::from_raw_os_error;
        let (folder, facts) = (&self.folder, &self.facts);
        let mut recording =
            Recording::begin(folder, facts, event, &mut work.buffers).map_err(from)?;
        let mut images = ImageTable::enter();
        let here = Thread::current();
        let mut cost = CaptureView::default();
        if first != here {
            let only = |thread| thread == first;
            let tally = work.write_threads(&mut recording, &mut images, Renewals::new(), only);
            tally.add_to(&mut cost);
        } else {
            cost = Self::write_here(work, &mut recording, &images);
        }
        recording.surroundings(&mut work.buffers, &images);
        if first != here {
            Self::write_here(work, &mut recording, &images);
        }
        if all {
            let others = |thread| thread != here && thread != first;
            let tally = work.write_threads(&mut recording, &mut images, Renewals::new(), others);
            tally.add_to(&mut cost);
        }
        recording.write_cost(&mut work.buffers, &cost);
        recording.loss(&mut work.buffers);
        let (name, bytes) = recording.finish(folder, &mut work.buffers).map_err(from)?;
        COUNTERS.reported(bytes);
        Ok(name)
    }

    /// Writes the calling thread, and returns what that cost.
    #[inline(always)]
    fn write_here(
        work: &mut Scratch,
        recording: &mut Recording,
        images: &ImagesGuard,
    ) -> CaptureView {
        let here = Thread::current();
        let captured = work.capturer.capture_here(images);
        let name = ThreadName::of(here);
        let thread = ThreadView {
            state: Some(ThreadState::Running),
            cpu: here.progress().map(|now| Duration::from_nanos(now.cpu)),
            ..view(here, &name)
        };
        recording.thread(&mut work.buffers, images, &thread, &captured);
        scratch::cost(&captured)
    }
}
