//! The reports of too much load: the threads that cause it, and samples of the busiest one.

use std::fmt::{self, Write};
use std::time::Duration;

use super::Shared;
use super::helper::{Helper, Renewals};
use super::lock::LineBuffer;
use super::sampler::state;
use super::scratch::{self, Scratch, view};
use crate::capture::{CaptureLimits, ImageTable};
use crate::platform::{self, Thread, ThreadGauge, ThreadName, clock, vitals};
use crate::report::{CaptureView, EventKind, EventView, StallClass, StallEndView, ThreadView};
use crate::trigger::crash;
use crate::trigger::load::{Excess, LoadObservation};
use crate::trigger::load_watch::LoadWatcher;
use crate::trigger::sampling::Samples;
use crate::vitals::{FRAMES, VITALS};

/// Samples of the thread in question, and how far apart.
const SAMPLES: u64 = 20;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// Hottest threads that are reported.
const MAX_HOTTEST: usize = 5;

/// The recorder of the thread that looks for too much load.
pub(crate) struct LoadRecorder {
    shared: Shared,
    work: Scratch,
    watched: Thread,
    /// The monitor's own thread, whose CPU is not the app's.
    watchdog: Option<i32>,
    limit: u64,
    samples: Samples,
}

impl LoadRecorder {
    pub fn new(
        watched: Thread,
        watchdog: Option<i32>,
        limits: &CaptureLimits,
        shared: Shared,
    ) -> std::io::Result<LoadRecorder> {
        let total = VITALS.memory().device_total;
        let group = vitals::memory_group().and_then(|group| group.limit);
        Ok(LoadRecorder {
            work: Scratch::new(limits, shared.facts.threads)?,
            watched,
            watchdog,
            limit: group.into_iter().chain(total).min().unwrap_or(0),
            samples: Samples::new(),
            shared,
        })
    }

    /// The threads by the CPU time that they use over a tenth of a second, most first; ours are not
    /// among them.
    fn hottest(&self) -> Vec<Thread> {
        let mut list = Vec::new();
        let mut count = 64;
        while count > list.len() {
            list.resize(count.saturating_mul(2), self.watched);
            count = platform::threads::list(&mut list);
        }
        list.truncate(count);
        let own = [Some(Thread::current().tid()), self.watchdog];
        let gauges: Vec<(Thread, u64)> = list
            .into_iter()
            .filter(|thread| !own.contains(&Some(thread.tid())))
            .map(|thread| (thread, clock::thread_cpu(thread.tid())))
            .collect();
        std::thread::sleep(SAMPLE_INTERVAL.saturating_mul(2));
        let now = gauges.iter().zip(0u64..).map(|((thread, before), index)| {
            let now = clock::thread_cpu(thread.tid());
            (now.saturating_sub(*before), index)
        });
        let mut used: Vec<(u64, u64)> = now.filter(|(used, _)| *used > 0).collect();
        used.sort_unstable();
        let hottest = used.into_iter().rev().take(MAX_HOTTEST);
        hottest
            .filter_map(|(_, index)| Some(gauges.get(index as usize)?.0))
            .collect()
    }

    fn report(&mut self, excess: &Excess) -> Result<(), i32> {
        Helper::refresh_soon();
        let (kind, class, line) = describe(excess);
        let (first, others) = match excess {
            Excess::Cpu { .. } => {
                let hottest = self.hottest();
                let first = hottest.first().copied().unwrap_or(self.watched);
                (first, hottest)
            }
            _ => (self.watched, Vec::new()),
        };
        let work = &mut self.work;
        let event = EventView {
            kind,
            reason: Some(line.as_str()),
            class,
            ..EventView::default()
        };
        let mut recording = self.shared.begin(work, &event)?;
        let gauge = ThreadGauge::open(first.tid());
        let name = ThreadName::of(first);
        let thread = ThreadView {
            main: first == self.watched,
            state: state(&gauge),
            cpu: Some(Duration::from_nanos(gauge.cpu())),
            ..view(first, &name)
        };
        let mut cost = CaptureView {
            unanswered: Some(1),
            ..CaptureView::default()
        };
        {
            let mut images = ImageTable::enter();
            let mut renewals = Renewals::new();
            let renew = || renewals.renew();
            match work.capturer.capture_renewing(first, &mut images, renew) {
                Ok(captured) => {
                    cost = scratch::cost(&captured);
                    recording.thread(&mut work.buffers, &images, &thread, &captured);
                }
                Err(_) => recording.unanswered(&mut work.buffers, &thread, false),
            }
            recording.surroundings(&mut work.buffers, &images);
            let wanted = |thread| others.contains(&thread) && thread != first;
            let tally = work.write_threads(&mut recording, &mut images, renewals, wanted);
            tally.add_to(&mut cost);
        }
        if kind != EventKind::Memory {
            self.samples.clear();
            for taken in 0..SAMPLES {
                if crash::in_progress() {
                    break;
                }
                let images = ImageTable::enter();
                let at = (SAMPLE_INTERVAL.as_nanos() as u64).saturating_mul(taken);
                let state = state(&gauge);
                let now = first.progress();
                let captured = match work.capturer.capture_blocked(first, now, &images) {
                    None => work.capturer.capture(first, &images).ok(),
                    blocked => blocked,
                };
                if let Some(captured) = captured {
                    self.samples.add(at, state, &captured);
                }
                let last = taken == SAMPLES - 1;
                recording.samples(&mut work.buffers, &images, &mut self.samples, last);
                drop(images);
                std::thread::sleep(SAMPLE_INTERVAL);
            }
            cost.samples = Some(self.samples.taken());
        }
        recording.write_cost(&mut work.buffers, &cost);
        if let Excess::Frames { lasted, .. } = excess {
            let end = StallEndView {
                duration: Duration::from_nanos(*lasted),
                how: crate::report::StallOutcome::Reported,
                ..StallEndView::default()
            };
            recording.stall_end(&mut work.buffers, &end);
        }
        self.shared.finish(recording, work)
    }
}

impl LoadWatcher for LoadRecorder {
    fn gauge(&mut self) -> LoadObservation {
        let ours = self.watchdog.map_or(0, clock::thread_cpu);
        let own = clock::thread_cpu(Thread::current().tid());
        LoadObservation {
            now: clock::monotonic(),
            process: clock::process_cpu()
                .saturating_sub(ours)
                .saturating_sub(own),
            watched: clock::thread_cpu(self.watched.tid()),
            frames: FRAMES.count(),
            footprint: VITALS.memory().footprint.unwrap_or(0),
            limit: self.limit,
        }
    }

    fn excess(&mut self, excess: &Excess) {
        let key = match excess {
            Excess::Cpu { .. } => 1,
            Excess::Memory { .. } => 2,
            Excess::Frames { .. } => 3,
        };
        if self.shared.passes(Some(key)) {
            // A folder that takes no report now may take the next one.
            let _ = self.report(excess);
        }
    }
}

/// A number with one decimal. Formatting an `f64` would add about 20 KB of code.
struct Tenths(u64);

impl fmt::Display for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

fn describe(excess: &Excess) -> (EventKind, Option<StallClass>, LineBuffer) {
    let mut line = LineBuffer::EMPTY;
    let percent = |share: f64| (share * 100.0).round() as u64;
    let tenths = |value: f64| Tenths((value * 10.0).round() as u64);
    let seconds = |nanoseconds: u64| tenths(nanoseconds as f64 / 1e9);
    // A line has room for all of these.
    let (kind, class, _) = match *excess {
        Excess::Cpu { share, time } => {
            let (share, time) = (percent(share), seconds(time));
            let written = write!(line, "{share} % of a core over {time} s");
            (EventKind::Cpu, None, written)
        }
        Excess::Memory { footprint, limit } => {
            let (footprint, limit) = (footprint >> 20, limit >> 20);
            let written = write!(line, "{footprint} MiB of its own, of {limit} MiB");
            (EventKind::Memory, None, written)
        }
        Excess::Frames { rate, lasted, cpu } => {
            let (rate, lasted, cpu) = (tenths(rate), seconds(lasted), percent(cpu));
            let written = write!(
                line,
                "{rate} frames a second for {lasted} s, with {cpu} % of a core"
            );
            (EventKind::Stall, Some(StallClass::SlowFrames), written)
        }
    };
    (kind, class, line)
}
