//! The report of a stall: begun when the stall is certain, closed when the thread moves again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::events::{OnStall, StallEvent};
use super::helper::{Helper, Renewals};
use super::lock::{LineBuffer, Waiting};
use super::scratch::{Scratch, view};
use super::stall_slots::{StallSlot, StallSlots};
use super::{COUNTERS, Recording, Shared};
use crate::capture::{CaptureLimits, ImageTable};
use crate::platform::own_thread::with_mask_of_app;
use crate::platform::{Thread, ThreadName, clock};
use crate::report::time::nanos;
use crate::report::{
    CutReason, EventKind, EventView, StallEndView, ThreadView, ThresholdsView, WatchedView,
};
use crate::store::launch;
use crate::trigger::loss::{LOSSES, LossReason};
use crate::trigger::stall::{Reason, StallClass, StallEndInfo, StallInfo};
use crate::trigger::watchdog::{WatchTarget, Watcher};
use crate::trigger::{crash, is_left};
use crate::vitals::VITALS;

/// The recorder of the watchdog's thread.
pub(crate) struct StallRecorder {
    work: Scratch,
    cases: StallSlots,
    log: Arc<dyn Fn(&StallEvent<'_>) + Send + Sync>,
    on_stall: Option<OnStall>,
    /// Count of the essential threads in a stall.
    essential: u32,
    /// Time at which the launch's record was last brought up to date, monotonic, nanoseconds.
    seen: u64,
}

/// Time between two updates of the launch's record while the app is at work, nanoseconds.
const SEEN_PERIOD: u64 = 2_000_000_000;

impl StallRecorder {
    /// Creates a recorder for stalls of other threads, and of the calling thread if it `is_watched`.
    pub fn new(
        is_watched: bool,
        limits: &CaptureLimits,
        shared: Shared,
        on_stall: Option<OnStall>,
    ) -> std::io::Result<StallRecorder> {
        Ok(StallRecorder {
            work: Scratch::new(limits, shared.facts.threads)?,
            log: Arc::clone(&shared.log),
            cases: StallSlots::new(Thread::current(), is_watched, shared),
            on_stall,
            essential: 0,
            seen: 0,
        })
    }

    fn report_event(&mut self, event: &StallEvent<'_>) {
        (self.log)(event);
        if let Some(on_stall) = self.on_stall.as_mut()
            && !is_left()
        {
            // The panic hook has reported a callback that panics. Threads stay watched.
            let call = || catch_unwind(AssertUnwindSafe(|| on_stall(event)));
            let _ = with_mask_of_app(call);
        }
    }

    /// Begins the report of the present thread's stall, which has a place; frees it where no report may begin.
    fn record(&mut self, info: &StallInfo) {
        let (at, work) = (nanos(info.lasted), &mut self.work);
        let Some(case) = self.cases.present() else {
            return;
        };
        case.take(work, at);
        if case.sampler.stack().is_none() {
            // Under load the thread may not have got the CPU to answer.
            case.take(work, at);
        }
        let waiting = case.count_lock(at);
        if case.shared.passes(case.sampler.samples.heaviest()) {
            case.held = Some((*info, waiting));
            case.write_held(work);
        }
        if case.open.is_none() && case.held.is_none() {
            case.close(0);
        }
    }

    /// Counts a stall that begins or ends, if it is of an essential thread.
    fn note_essential(&mut self, change: i32) {
        if self.cases.subject.essential {
            self.essential = self.essential.saturating_add_signed(change);
            launch::stalled(self.essential > 0);
        }
    }
}

impl StallSlot {
    /// Takes a stack, if the hour's quota allows one.
    fn take(&mut self, work: &mut Scratch, at: u64) {
        let may_capture = self.shared.limiter().may_capture(clock::monotonic());
        let taken = self.sampler.take(&mut work.capturer, at, may_capture);
        match taken {
            Ok(false) => return,
            Ok(true) => _ = COUNTERS.captures.fetch_add(1, Ordering::Relaxed),
            Err(reason) => LOSSES.count(reason),
        }
        self.shared.limiter().captured();
    }

    /// Writes the samples that the open report lacks.
    fn write_samples(&mut self, work: &mut Scratch, all: bool) {
        if let Some(recording) = &mut self.open {
            let images = ImageTable::enter();
            recording.samples(&mut work.buffers, &images, &mut self.sampler.samples, all);
        }
    }

    /// Looks up the lock that the thread waits for now, `at` nanoseconds after the stall's start, and counts it as a
    /// cause of the stall.
    fn count_lock(&mut self, at: u64) -> Option<Waiting> {
        let watched = self.sampler.watched();
        let waiting = Waiting::of(watched.thread(), watched.gauge());
        let line = waiting
            .as_ref()
            .map(|waiting| waiting.line(watched.thread()));
        self.cause.count_cause(at, line);
        waiting
    }

    /// Writes the beginning and the end that the report lacks, unless the process may die of a crash: then later.
    fn write_held(&mut self, work: &mut Scratch) {
        self.write(work, StallSlot::write_what_is_held);
    }

    /// Calls `write` with the numbers of the images in this slot's report: reports of other slots may be open too.
    fn write(&mut self, work: &mut Scratch, write: impl FnOnce(&mut StallSlot, &mut Scratch)) {
        std::mem::swap(&mut work.buffers.indices, &mut self.indices);
        write(self, work);
        std::mem::swap(&mut work.buffers.indices, &mut self.indices);
    }

    fn write_what_is_held(&mut self, work: &mut Scratch) {
        if crash::is_undecided() {
            return;
        }
        if let Some((info, waiting)) = self.held.take() {
            // An error ends this report alone: the folder may take the next one.
            self.open = self.begin(work, &info, waiting).ok();
        }
        let Some(end) = self.end.take() else {
            return;
        };
        self.write_samples(work, true);
        let mut ended = 0;
        if let Some(mut recording) = self.open.take() {
            let cause = self.cause.line().filter(|_| waits(&end.info));
            let view = StallEndView {
                duration: end.info.lasted,
                at_least: end.info.at_least,
                how: end.outcome,
                class: Some(end.info.class),
                reason: cause.or(never_beat(&end.info)),
            };
            recording.stall_end(&mut work.buffers, &view);
            // If this fails, the next launch closes the file.
            let _ = self.shared.finish(recording, work);
            ended = clock::monotonic();
        }
        self.close(ended);
    }

    /// Begins the report of a stall: the event, the watched thread, and the threads that explain its wait.
    fn begin(
        &mut self,
        work: &mut Scratch,
        info: &StallInfo,
        waiting: Option<Waiting>,
    ) -> Result<Recording, i32> {
        let subject = &self.subject;
        let watched = self.sampler.watched().thread();
        let waiting = waiting.filter(|_| waits(info));
        let line = waiting.as_ref().map(|waiting| waiting.line(watched));
        let line = line.as_ref().map(LineBuffer::as_str);
        let event = EventView {
            kind: EventKind::Stall,
            reason: match &waiting {
                // A lock whose holder is known explains more.
                Some(waiting) if !waiting.unknown() => line,
                _ => never_beat(info).or(line),
            },
            class: Some(info.class),
            thresholds: Some(ThresholdsView {
                timeout: info.timeout,
                strikes: u64::from(info.strikes),
            }),
            thread: subject.name.is_some().then(|| watched.id()),
            watched: subject
                .name
                .as_deref()
                .map(|name| watched_view(name, subject)),
            ..EventView::default()
        };
        let mut recording = self.shared.begin(work, &event)?;
        let mut images = ImageTable::enter();
        let name = ThreadName::of(watched);
        let is_main = subject.name.is_none();
        let thread = ThreadView {
            main: is_main || watched.is_main(),
            state: self.sampler.state,
            syscall: self.sampler.syscall,
            cpu: Some(Duration::from_nanos(self.sampler.watched().gauge().cpu())),
            ..view(watched, &name)
        };
        let mut cost = self.sampler.cost();
        match self.sampler.stack() {
            Some(captured) => recording.thread(&mut work.buffers, &images, &thread, &captured),
            None if cost.cut == Some(CutReason::Quota) => {
                recording.unasked(&mut work.buffers, &thread);
            }
            None => {
                let is_blocked = self.sampler.blocks_signal;
                recording.unanswered(&mut work.buffers, &thread, is_blocked);
            }
        }
        recording.surroundings(&mut work.buffers, &images);
        if self.end.is_none() && (!is_main || waiting.is_some()) {
            // Writes the main thread and the holders of the lock, too. If no holder is known, writes all threads: any
            // of them may be one.
            let (own, installed) = (Thread::current(), self.installed);
            let wanted = |thread: Thread| {
                let beside = !is_main && (thread.is_main() || thread == installed);
                let holds = waiting.as_ref().is_some_and(|waiting| {
                    waiting.unknown() || waiting.holders().any(|holder| holder == thread)
                });
                (beside || holds) && thread != watched && thread != own
            };
            let tally = work.write_threads(&mut recording, &mut images, Renewals::new(), wanted);
            tally.add_to(&mut cost);
        }
        recording.write_cost(&mut work.buffers, &cost);
        recording.samples(&mut work.buffers, &images, &mut self.sampler.samples, false);
        Ok(recording)
    }
}

/// Returns true if the lock that a stall waits for may explain it.
fn waits(info: &StallInfo) -> bool {
    !matches!(info.class, StallClass::Busy | StallClass::Starved)
}

fn never_beat(info: &StallInfo) -> Option<&'static str> {
    info.never_beat.then_some("no heartbeat ever came")
}

/// The watched thread, and its pool at this moment.
fn watched_view<'a>(name: &'a str, subject: &WatchTarget) -> WatchedView<'a> {
    let is_pool = subject.number > 0;
    let of_pool = |count: u64| is_pool.then_some(count);
    let [all, at_rest, stalled] = subject.pool.map(of_pool);
    WatchedView {
        name,
        number: of_pool(subject.number.into()),
        pool: all,
        at_rest,
        stalled,
    }
}

impl Watcher for StallRecorder {
    fn set_target(&mut self, subject: &WatchTarget) {
        self.cases.subject.clone_from(subject);
    }

    fn more_threads(&mut self) {
        self.cases.make_room();
    }

    fn first_miss(&mut self, at: u64) {
        // A library that was loaded since is known by the time the stall is certain.
        Helper::refresh_soon();
        if let Some(case) = self.cases.slot_of_target(false) {
            case.take(&mut self.work, at);
        }
    }

    fn sample(&mut self, at: u64) {
        if crash::in_progress() {
            return;
        }
        if let Some(case) = self.cases.present() {
            case.take(&mut self.work, at);
            if case.is_stalled {
                case.count_lock(at);
            }
            case.write(&mut self.work, |case, work| case.write_samples(work, false));
        }
    }

    fn forget(&mut self) {
        self.cases.close(0);
    }

    fn stalled(&mut self, info: &StallInfo) {
        COUNTERS.begins();
        self.note_essential(1);
        match self.cases.slot_of_target(true) {
            Some(_) => self.record(info),
            None => self.cases.wait(info),
        }
        self.report_event(&StallEvent::Began(info));
    }

    fn ended(&mut self, end: &StallEndInfo) {
        if let Some(case) = self.cases.present() {
            case.end = Some(*end);
            case.write_held(&mut self.work);
        }
        if self.cases.close(0) {
            LOSSES.count(LossReason::Quota);
        }
        COUNTERS.ends(nanos(end.info.lasted));
        self.note_essential(-1);
        self.report_event(&StallEvent::Ended(end));
    }

    fn dropped(&mut self, reason: Reason) {
        self.cases.close(0);
        LOSSES.count(LossReason::NoStall(reason));
    }

    fn observed(&mut self, now: u64) {
        (self.cases.all.iter_mut()).for_each(|case| case.write_held(&mut self.work));
        while !crash::in_progress()
            && let Some(info) = self.cases.next_waiting(now)
        {
            let lasted = Duration::from_nanos(now).saturating_sub(info.start);
            self.record(&StallInfo { lasted, ..info });
        }
        if now.saturating_sub(self.seen) >= SEEN_PERIOD {
            self.seen = now;
            VITALS.sample_cpu();
            launch::record_at_work(&VITALS.memory());
            // Kills are to be counted often again.
            Helper::wake();
        } else {
            // The helper thread may be waiting for the loader.
            launch::write_changes();
        }
    }
}
