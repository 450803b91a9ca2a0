//! The report of a stall: begun when the stall is sure, closed when the thread moves again.

use std::sync::Arc;

use super::lock::{Line, Waiting};
use super::sampler::Sampler;
use super::{Facts, Recording, Threads, Workbench};
use crate::capture::{CaptureLimits, ImageTable};
use crate::platform::{Thread, clock, file};
use crate::report::{
    EventKind, EventView, LossView, StallEndView, ThreadView, ThresholdsView, WalkEnd,
};
use crate::store::Name;
use crate::trigger::crash;
use crate::trigger::restraint::{Gate, Restraint};
use crate::trigger::stall::{Class, Reason, StallEndInfo, StallInfo};
use crate::trigger::watchdog::Watcher;

/// What the watchdog's thread writes with.
pub(crate) struct StallDesk {
    facts: Facts,
    folder: Arc<file::Folder>,
    watched: Thread,
    bench: Workbench,
    sampler: Sampler,
    threads: Threads,
    open: Option<Recording>,
    loss: [u64; Reason::ALL.len()],
    gate: Gate,
    /// Asks for a fresh image table, without waiting for it.
    refresh: Box<dyn Fn() + Send>,
    /// Told of each whole report.
    done: Box<dyn FnMut(Name) + Send>,
}

impl StallDesk {
    pub fn new(
        facts: Facts,
        folder: Arc<file::Folder>,
        watched: Thread,
        limits: &CaptureLimits,
        restraint: Restraint,
        refresh: Box<dyn Fn() + Send>,
        done: Box<dyn FnMut(Name) + Send>,
    ) -> std::io::Result<StallDesk> {
        Ok(StallDesk {
            facts,
            folder,
            watched,
            bench: Workbench::new(),
            sampler: Sampler::new(watched, limits)?,
            threads: Threads::new(),
            open: None,
            loss: Default::default(),
            gate: Gate::new(restraint),
            refresh,
            done,
        })
    }

    fn count_loss(&mut self, reason: Reason) {
        let place = Reason::ALL.iter().position(|&known| known == reason);
        if let Some(count) = place.and_then(|place| self.loss.get_mut(place)) {
            *count = count.saturating_add(1);
        }
    }

    /// Writes the samples that the open report lacks.
    fn write_samples(&mut self, all: bool) {
        let Some(recording) = &mut self.open else {
            return;
        };
        let images = ImageTable::enter();
        while let Some(section) = self.sampler.samples.next_section(all) {
            recording.sample(&mut self.bench, &images, &section);
        }
    }

    fn begin(&mut self, info: &StallInfo) -> Result<Recording, i32> {
        let bench = &mut self.bench;
        let waiting = match info.class {
            Class::Busy | Class::Starved => None,
            _ => Waiting::of(self.watched, &self.sampler.gauge),
        };
        let line = waiting.as_ref().map(|waiting| waiting.tell(self.watched));
        let never = info.never_beat.then_some("no heartbeat ever came");
        let mut recording = Recording::begin(&self.folder, &self.facts, EventKind::Stall, bench)?;
        recording.event(
            bench,
            &EventView {
                kind: EventKind::Stall,
                reason: never.or(line.as_ref().map(Line::as_str)),
                class: Some(info.class.as_str()),
                thresholds: Some(ThresholdsView {
                    timeout: info.timeout,
                    strikes: u64::from(info.strikes),
                }),
                ..EventView::default()
            },
        );
        let images = ImageTable::enter();
        let mut name = [0; 32];
        let length = self.watched.name(&mut name);
        let name = name
            .get(..length)
            .and_then(|name| std::str::from_utf8(name).ok());
        let view = ThreadView {
            id: self.watched.id(),
            name: name.filter(|name| !name.is_empty()),
            main: true,
            state: self.sampler.state,
            syscall: self.sampler.syscall,
            cpu: Some(self.sampler.gauge.cpu()),
            ..ThreadView::default()
        };
        match self.sampler.stack() {
            Some(captured) => recording.thread(bench, &images, &view, &captured),
            None => {
                let (state, end) = (Some("unresponsive"), Some(WalkEnd::Unreadable));
                recording.write(bench, |writer| {
                    writer.thread(&ThreadView { state, end, ..view })
                });
            }
        }
        recording.main_image(bench, &images);
        super::vitals_and_context(&mut recording, bench);
        let mut cost = self.sampler.cost();
        if let Some(waiting) = &waiting {
            // Those who hold what it waits for; where that is unknown, all, as any of them may.
            let (watched, own) = (self.watched, Thread::current());
            let wanted = |thread| {
                let holds = waiting.holders().any(|holder| holder == thread);
                (holds || waiting.unknown()) && thread != watched && thread != own
            };
            let capturer = self.sampler.capturer();
            let threads = &mut self.threads;
            let tally = threads.write_some(&mut recording, bench, capturer, &images, wanted);
            let unanswered = tally.unanswered + cost.unanswered.unwrap_or(0);
            cost.unanswered = (unanswered > 0).then_some(unanswered);
        }
        recording.cost(bench, &cost);
        while let Some(section) = self.sampler.samples.next_section(false) {
            recording.sample(bench, &images, &section);
        }
        Ok(recording)
    }
}

impl Watcher for StallDesk {
    fn first_miss(&mut self, at: u64) {
        // A library that was loaded since is known by the time the stall is sure.
        (self.refresh)();
        self.sampler.take(at);
    }

    fn sample(&mut self, at: u64) {
        if crash::in_progress() {
            return;
        }
        self.sampler.take(at);
        self.write_samples(false);
    }

    fn forget(&mut self) {
        self.sampler.clear();
    }

    fn stalled(&mut self, info: &StallInfo) {
        if crash::in_progress() {
            return;
        }
        self.sampler.take(info.lasted);
        if self.sampler.stack().is_none() {
            // On a machine under load it may not have had the CPU to answer.
            self.sampler.take(info.lasted);
        }
        let heaviest = self.sampler.samples.heaviest();
        if !self.gate.passes(clock::monotonic(), heaviest) {
            return;
        }
        // A folder that takes no report now may take the next one: nothing is kept.
        self.open = self.begin(info).ok();
    }

    fn ended(&mut self, end: &StallEndInfo) {
        self.write_samples(true);
        self.sampler.clear();
        let Some(mut recording) = self.open.take() else {
            return;
        };
        let held_back = [("back_off", self.gate.back_off), ("quota", self.gate.quota)];
        let counts = Reason::ALL.map(Reason::as_str).into_iter().zip(self.loss);
        let mut losses = [("", 0); Reason::ALL.len() + 2];
        for (slot, loss) in losses.iter_mut().zip(counts.chain(held_back)) {
            *slot = loss;
        }
        recording.write(&mut self.bench, |writer| {
            writer.stall_end(&StallEndView {
                duration: end.info.lasted,
                how: end.how.as_str(),
            })?;
            if losses.iter().any(|(_, count)| *count > 0) {
                writer.loss(&LossView { counts: &losses })?;
            }
            Ok(())
        });
        if let Ok(name) = recording.finish(&self.folder, &mut self.bench) {
            (self.done)(name);
        }
    }

    fn dropped(&mut self, reason: Reason) {
        self.sampler.clear();
        self.count_loss(reason);
    }
}
