//! The report of a stall: begun when the stall is certain, closed when the thread moves again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::cause::MainCause;
use super::events::{OnStall, StallEvent};
use super::helper::{Helper, Renewals};
use super::lock::{LineBuffer, Waiting};
use super::sampler::{Attempt, Sampler};
use super::work::{Work, view};
use super::{COUNTERS, Recording, Shared};
use crate::capture::{CaptureLimits, ImageTable};
use crate::platform::own_thread::with_mask_of_app;
use crate::platform::{Thread, ThreadName, clock};
use crate::report::time::nanos;
use crate::report::{EventKind, EventView, StallEndView, ThreadView, ThresholdsView};
use crate::store::launch;
use crate::trigger::loss::{LOSSES, LossReason};
use crate::trigger::stall::{Class, Reason, StallEndInfo, StallInfo};
use crate::trigger::watchdog::Watcher;
use crate::trigger::{crash, is_left};
use crate::vitals::GAUGES;

/// The recorder of the watchdog's thread.
pub(crate) struct StallRecorder {
    shared: Shared,
    work: Work,
    sampler: Sampler,
    open: Option<Recording>,
    /// The lock that the open stall waits for most of its time.
    cause: MainCause,
    on_stall: Option<OnStall>,
    /// Time at which the launch's record was last brought up to date, monotonic, nanoseconds.
    seen: u64,
}

/// The launch's record is brought up to date so often while the app is at work, nanoseconds.
const SEEN_PERIOD: u64 = 2_000_000_000;

impl StallRecorder {
    pub fn new(
        watched: Thread,
        limits: &CaptureLimits,
        shared: Shared,
        on_stall: Option<OnStall>,
    ) -> std::io::Result<StallRecorder> {
        Ok(StallRecorder {
            work: Work::new(limits, shared.facts.threads)?,
            sampler: Sampler::new(watched),
            open: None,
            cause: MainCause::new(),
            shared,
            on_stall,
            seen: 0,
        })
    }

    /// Takes a stack, if there may be one more this hour.
    fn take(&mut self, at: u64) {
        let may = self.shared.limiter().may_capture(clock::monotonic());
        let taken = self.sampler.take(&mut self.work.capturer, at, may);
        if taken != Attempt::Nothing {
            self.shared.limiter().captured();
        }
        match taken {
            Attempt::Nothing => {}
            Attempt::Stack => drop(COUNTERS.captures.fetch_add(1, Ordering::Relaxed)),
            Attempt::Lost(reason) => LOSSES.count(reason),
        }
    }

    fn report_event(&mut self, event: &StallEvent<'_>) {
        (self.shared.log)(event);
        if let Some(on_stall) = self.on_stall.as_mut().filter(|_| !is_left()) {
            // The panic hook has reported one that panics; what is watched goes on being watched.
            let call = || catch_unwind(AssertUnwindSafe(|| on_stall(event)));
            let _ = with_mask_of_app(call);
        }
    }

    /// Writes the samples that the open report lacks.
    fn write_samples(&mut self, all: bool) {
        if let Some(recording) = &mut self.open {
            let images = ImageTable::enter();
            recording.samples(
                &mut self.work.buffers,
                &images,
                &mut self.sampler.samples,
                all,
            );
        }
    }

    /// Looks up the lock that the thread waits for now, `at` nanoseconds after the stall's start.
    fn vote(&mut self, at: u64) -> Option<Waiting> {
        let watched = self.sampler.watched();
        let waiting = Waiting::of(watched.thread(), watched.gauge());
        let line = waiting
            .as_ref()
            .map(|waiting| waiting.line(watched.thread()));
        self.cause.vote(at, line);
        waiting
    }

    fn begin(&mut self, info: &StallInfo, waiting: Option<Waiting>) -> Result<Recording, i32> {
        let work = &mut self.work;
        let watched = self.sampler.watched().thread();
        let waiting = match info.class {
            Class::Busy | Class::Starved => None,
            _ => waiting,
        };
        let line = waiting.as_ref().map(|waiting| waiting.line(watched));
        let line = line.as_ref().map(LineBuffer::as_str);
        let event = EventView {
            kind: EventKind::Stall,
            reason: match &waiting {
                // A lock whose holder is known explains more.
                Some(waiting) if !waiting.unknown() => line,
                _ => never_beat(info).or(line),
            },
            class: Some(info.class.as_str()),
            thresholds: Some(ThresholdsView {
                timeout: info.timeout,
                strikes: u64::from(info.strikes),
            }),
            ..EventView::default()
        };
        let mut recording = self.shared.begin(work, &event)?;
        let mut images = ImageTable::enter();
        let name = ThreadName::of(watched);
        let thread = ThreadView {
            main: true,
            state: self.sampler.state,
            syscall: self.sampler.syscall,
            cpu: Some(Duration::from_nanos(self.sampler.watched().gauge().cpu())),
            ..view(watched, &name)
        };
        let mut cost = self.sampler.cost();
        match self.sampler.stack() {
            Some(captured) => recording.thread(&mut work.buffers, &images, &thread, &captured),
            None if cost.cut == Some("quota") => {
                recording.unasked(&mut work.buffers, &thread);
            }
            None => recording.unresponsive(&mut work.buffers, &thread),
        }
        recording.surroundings(&mut work.buffers, &images);
        if let Some(waiting) = &waiting {
            // The holders of what it waits for; where that is unknown, all, as any of them may.
            let own = Thread::current();
            let wanted = |thread| {
                let holds = waiting.holders().any(|holder| holder == thread);
                (holds || waiting.unknown()) && thread != watched && thread != own
            };
            let tally = work.write_threads(&mut recording, &mut images, Renewals::new(), wanted);
            tally.add_to(&mut cost);
        }
        recording.cost(&mut work.buffers, &cost);
        recording.samples(&mut work.buffers, &images, &mut self.sampler.samples, false);
        Ok(recording)
    }
}

fn never_beat(info: &StallInfo) -> Option<&'static str> {
    info.never_beat.then_some("no heartbeat ever came")
}

impl Watcher for StallRecorder {
    fn first_miss(&mut self, at: u64) {
        // A library that was loaded since is known by the time the stall is certain.
        Helper::refresh_soon();
        self.take(at);
    }

    fn sample(&mut self, at: u64) {
        if crash::in_progress() {
            return;
        }
        self.take(at);
        if COUNTERS.stalled_now.load(Ordering::Relaxed) != 0 {
            self.vote(at);
        }
        self.write_samples(false);
    }

    fn forget(&mut self) {
        self.sampler.clear();
    }

    fn stalled(&mut self, info: &StallInfo) {
        if crash::in_progress() {
            return;
        }
        launch::stalled(true);
        COUNTERS.begins();
        self.take(nanos(info.lasted));
        if self.sampler.stack().is_none() {
            // On a machine under load it may not have had the CPU to answer.
            self.take(nanos(info.lasted));
        }
        self.cause = MainCause::new();
        let waiting = self.vote(nanos(info.lasted));
        if self.shared.passes(self.sampler.samples.heaviest()) {
            // A folder that takes no report now may take the next one: nothing is kept.
            self.open = self.begin(info, waiting).ok();
        }
        self.report_event(&StallEvent::Began(info));
    }

    fn ended(&mut self, end: &StallEndInfo) {
        COUNTERS.ends(nanos(end.info.lasted));
        launch::stalled(false);
        self.write_samples(true);
        self.sampler.clear();
        if let Some(mut recording) = self.open.take() {
            let cause = match end.info.class {
                Class::Busy | Class::Starved => None,
                _ => self.cause.line(),
            };
            let view = StallEndView {
                duration: end.info.lasted,
                how: end.how.as_str(),
                class: Some(end.info.class.as_str()),
                reason: cause.or(never_beat(&end.info)),
            };
            recording.stall_end(&mut self.work.buffers, &view);
            // If this fails, the next launch closes the file.
            let _ = self.shared.finish(recording, &mut self.work);
        }
        self.report_event(&StallEvent::Ended(end));
    }

    fn dropped(&mut self, reason: Reason) {
        self.sampler.clear();
        LOSSES.count(LossReason::NoStall(reason));
    }

    fn observed(&mut self, now: u64) {
        if now.saturating_sub(self.seen) >= SEEN_PERIOD {
            self.seen = now;
            GAUGES.mark();
            launch::seen(&GAUGES.memory());
            Helper::count_often();
        } else {
            // The helper thread may be waiting for the loader.
            launch::write_changes();
        }
    }
}
