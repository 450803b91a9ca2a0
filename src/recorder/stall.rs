//! The report of a stall: begun when the stall is sure, closed when the thread moves again.

use std::time::Duration;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::events::{self, OnStall, StallEvent};
use super::helper::{Helper, Renewals};
use super::lock::{Line, Waiting};
use super::sampler::Sampler;
use super::{COUNTERS, Facts, Recording, ReportBuffers, ThreadList};
use crate::capture::{CaptureLimits, ImageTable};
use crate::platform::{Thread, clock, file};
use crate::report::{EventKind, EventView, StallEndView, ThreadView, ThresholdsView, WalkEnd};
use crate::store::{Name, launch};
use crate::trigger::crash;
use crate::trigger::loss::{LOSSES, Loss};
use crate::trigger::rate_limit::RateLimiter;
use crate::trigger::stall::{Class, Reason, StallEndInfo, StallInfo};
use crate::trigger::watchdog::Watcher;
use crate::vitals::GAUGES;

/// What the watchdog's thread writes with.
pub(crate) struct StallRecorder {
    facts: Facts,
    folder: Arc<file::Folder>,
    buffers: ReportBuffers,
    sampler: Sampler,
    threads: ThreadList,
    open: Option<Recording>,
    shared: Shared,
    on_stall: Option<OnStall>,
    /// When the launch's record was last brought up to date, monotonic, nanoseconds.
    seen: u64,
}

/// What the recorders of the monitor's threads have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Whether there may be a report.
    pub limiter: Arc<Mutex<RateLimiter>>,
    /// Asks for a fresh image table, without waiting for it.
    pub refresh: fn(),
    /// Told of each whole report.
    pub done: Arc<dyn Fn(Name) + Send + Sync>,
    /// Whether frames get names from the images' own symbol tables.
    pub names: bool,
    /// How many threads a report has beside the first.
    pub threads: usize,
}

impl Shared {
    pub fn limiter(&self) -> MutexGuard<'_, RateLimiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A report is whole: counts it and tells of it.
    pub fn finished(&self, name: Name, bytes: u64) {
        self.limiter().wrote(bytes);
        COUNTERS.reported(bytes);
        (self.done)(name);
    }
}

/// The launch's record is brought up to date so often while the app is at work, nanoseconds.
const SEEN_PERIOD: u64 = 2_000_000_000;

impl StallRecorder {
    pub fn new(
        facts: Facts,
        folder: Arc<file::Folder>,
        watched: Thread,
        limits: &CaptureLimits,
        shared: Shared,
        on_stall: Option<OnStall>,
    ) -> std::io::Result<StallRecorder> {
        Ok(StallRecorder {
            facts,
            folder,
            buffers: ReportBuffers::new(),
            sampler: Sampler::new(watched, limits)?,
            threads: ThreadList::new(shared.threads),
            open: None,
            shared,
            on_stall,
            seen: 0,
        })
    }

    /// Takes a stack, if there may be one more this hour.
    fn take(&mut self, at: u64) {
        let may = self.shared.limiter().may_capture(clock::monotonic());
        if self.sampler.take(at, may) {
            self.shared.limiter().captured();
            COUNTERS.captures.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn tell(&mut self, event: &StallEvent<'_>) {
        events::trace(event);
        if let Some(told) = &mut self.on_stall {
            // One that panics has said so; what is watched goes on being watched.
            let _ = catch_unwind(AssertUnwindSafe(|| told(event)));
        }
    }

    /// Writes the samples that the open report lacks.
    fn write_samples(&mut self, all: bool) {
        let Some(recording) = &mut self.open else {
            return;
        };
        let images = ImageTable::enter();
        while let Some(section) = self.sampler.samples.next_section(all) {
            recording.sample(&mut self.buffers, &images, &section);
        }
    }

    fn begin(&mut self, info: &StallInfo) -> Result<Recording, i32> {
        let buffers = &mut self.buffers;
        let watched = self.sampler.watched().thread();
        let waiting = match info.class {
            Class::Busy | Class::Starved => None,
            _ => Waiting::of(watched, self.sampler.watched().gauge()),
        };
        let line = waiting.as_ref().map(|waiting| waiting.tell(watched));
        let never = info.never_beat.then_some("no heartbeat ever came");
        let mut recording = Recording::begin(&self.folder, &self.facts, EventKind::Stall, buffers)?
            .with_names(self.shared.names);
        recording.event(
            buffers,
            &EventView {
                kind: EventKind::Stall,
                reason: match &waiting {
                    // A lock whose holder is known says more.
                    Some(waiting) if !waiting.unknown() => line.as_ref().map(Line::as_str),
                    _ => never.or(line.as_ref().map(Line::as_str)),
                },
                class: Some(info.class.as_str()),
                thresholds: Some(ThresholdsView {
                    timeout: Duration::from_nanos(info.timeout),
                    strikes: u64::from(info.strikes),
                    ..ThresholdsView::default()
                }),
                ..EventView::default()
            },
        );
        let mut images = ImageTable::enter();
        let mut name = [0; 32];
        let length = watched.name(&mut name);
        let name = name
            .get(..length)
            .and_then(|name| std::str::from_utf8(name).ok());
        let view = ThreadView {
            id: watched.id(),
            name: name.filter(|name| !name.is_empty()),
            main: true,
            state: self.sampler.state,
            syscall: self.sampler.syscall,
            cpu: Some(Duration::from_nanos(self.sampler.watched().gauge().cpu())),
            ..ThreadView::default()
        };
        match self.sampler.stack() {
            Some(captured) => {
                recording.thread(buffers, &images, &view, &captured);
            }
            None => {
                let (state, end) = (Some("unresponsive"), Some(WalkEnd::Unreadable));
                let view = ThreadView { state, end, ..view };
                recording.write(buffers, |writer| writer.thread(&view));
            }
        }
        recording.main_image(buffers, &images);
        super::vitals_and_context(&mut recording, buffers);
        let mut cost = self.sampler.cost();
        if let Some(waiting) = &waiting {
            // Those who hold what it waits for; where that is unknown, all, as any of them may.
            let own = Thread::current();
            let wanted = |thread| {
                let holds = waiting.holders().any(|holder| holder == thread);
                (holds || waiting.unknown()) && thread != watched && thread != own
            };
            let capturer = self.sampler.capturer();
            let threads = &mut self.threads;
            let renewals = &mut Renewals::new();
            let tally = threads.write_some(
                &mut recording,
                buffers,
                capturer,
                &mut images,
                renewals,
                wanted,
            );
            let unanswered = tally.unanswered + cost.unanswered.unwrap_or(0);
            cost.unanswered = (unanswered > 0).then_some(unanswered);
        }
        recording.cost(buffers, &cost);
        while let Some(section) = self.sampler.samples.next_section(false) {
            recording.sample(buffers, &images, &section);
        }
        Ok(recording)
    }
}

impl Watcher for StallRecorder {
    fn first_miss(&mut self, at: u64) {
        // A library that was loaded since is known by the time the stall is sure.
        (self.shared.refresh)();
        self.take(at);
    }

    fn sample(&mut self, at: u64) {
        if crash::in_progress() {
            return;
        }
        self.take(at);
        self.write_samples(false);
    }

    fn forget(&mut self) {
        self.sampler.clear();
    }

    fn stalled(&mut self, info: &StallInfo) {
        if crash::in_progress() {
            return;
        }
        COUNTERS.begins();
        launch::stalled(true);
        self.take(info.lasted);
        if self.sampler.stack().is_none() {
            // On a machine under load it may not have had the CPU to answer.
            self.take(info.lasted);
        }
        let heaviest = self.sampler.samples.heaviest();
        let passes = self.shared.limiter().passes(clock::monotonic(), heaviest);
        match passes {
            // A folder that takes no report now may take the next one: nothing is kept.
            Ok(()) => self.open = self.begin(info).ok(),
            Err(loss) => LOSSES.count(loss),
        }
        self.tell(&StallEvent::Began(info));
    }

    fn ended(&mut self, end: &StallEndInfo) {
        COUNTERS.ends(end.info.lasted);
        launch::stalled(false);
        self.write_samples(true);
        self.sampler.clear();
        if let Some(mut recording) = self.open.take() {
            recording.write(&mut self.buffers, |writer| {
                writer.stall_end(&StallEndView {
                    duration: Duration::from_nanos(end.info.lasted),
                    how: end.how.as_str(),
                    ..StallEndView::default()
                })
            });
            super::loss(&mut recording, &mut self.buffers);
            let bytes = recording.length();
            if let Ok(name) = recording.finish(&self.folder, &mut self.buffers) {
                self.shared.finished(name, bytes);
            }
        }
        self.tell(&StallEvent::Ended(end));
    }

    fn dropped(&mut self, reason: Reason) {
        self.sampler.clear();
        LOSSES.count(Loss::NoStall(reason));
    }

    fn observed(&mut self, now: u64) {
        if now.saturating_sub(self.seen) >= SEEN_PERIOD {
            self.seen = now;
            launch::seen(&GAUGES.memory());
            Helper::count_often();
        } else {
            // The helper thread may be waiting for the loader.
            launch::write_changes();
        }
    }
}
