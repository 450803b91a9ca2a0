//! The reports of too much load: the threads that cause it, and samples of the one that does most.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use super::helper::Renewals;
use super::lock::Line;
use super::stall::Shared;
use super::{Facts, Recording, ReportBuffers, ThreadList};
use crate::capture::{CaptureLimits, Capturer, ImageTable};
use crate::platform::{self, Thread, ThreadGauge, clock, file, vitals};
use crate::report::{CaptureView, EventKind, EventView, StallEndView, ThreadView, WalkEnd};
use crate::trigger::crash;
use crate::trigger::load::{Excess, Gauge};
use crate::trigger::load_watch::LoadWatcher;
use crate::trigger::loss::LOSSES;
use crate::trigger::sampling::Samples;
use crate::vitals::{FRAMES, GAUGES};

/// Samples of the thread in question, and how far apart.
const SAMPLES: u64 = 20;
const APART: Duration = Duration::from_millis(50);
/// ThreadList that are looked at.
const THREADS: usize = 256;
/// Of them, so many of the hottest are reported.
const HOTTEST: usize = 5;

/// What the thread that looks for too much load writes with.
pub(crate) struct LoadRecorder {
    facts: Facts,
    folder: Arc<file::Folder>,
    watched: Thread,
    /// The monitor's own thread, whose CPU is not the app's.
    watchdog: Option<i32>,
    limit: u64,
    buffers: ReportBuffers,
    capturer: Capturer,
    threads: ThreadList,
    samples: Samples,
    shared: Shared,
    list: Box<[Thread]>,
}

impl LoadRecorder {
    pub fn new(
        facts: Facts,
        folder: Arc<file::Folder>,
        watched: Thread,
        watchdog: Option<i32>,
        limits: &CaptureLimits,
        shared: Shared,
    ) -> std::io::Result<LoadRecorder> {
        let total = GAUGES.memory().device_total;
        let group = vitals::memory_group();
        Ok(LoadRecorder {
            facts,
            folder,
            watched,
            watchdog,
            limit: [group.and_then(|group| group.limit), total]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(0),
            buffers: ReportBuffers::new(),
            capturer: Capturer::new(limits).map_err(std::io::Error::other)?,
            threads: ThreadList::new(shared.threads),
            samples: Samples::new(),
            shared,
            list: vec![Thread::current(); THREADS].into_boxed_slice(),
        })
    }

    /// The threads by the CPU time that they use over a tenth of a second, most first; ours are not
    /// among them.
    fn hottest(&mut self) -> Vec<Thread> {
        let count = platform::threads::list(&mut self.list).min(THREADS);
        let own = [Some(Thread::current().tid()), self.watchdog];
        let gauges: Vec<(Thread, u64)> = self
            .list
            .iter()
            .take(count)
            .filter(|thread| !own.contains(&Some(thread.tid())))
            .map(|&thread| (thread, clock::thread_cpu(thread.tid())))
            .collect();
        std::thread::sleep(2 * APART);
        let mut used: Vec<(u64, Thread)> = gauges
            .into_iter()
            .map(|(thread, before)| {
                (
                    clock::thread_cpu(thread.tid()).saturating_sub(before),
                    thread,
                )
            })
            .filter(|(used, _)| *used > 0)
            .collect();
        used.sort_unstable_by(|one, other| other.cmp(one));
        used.into_iter()
            .map(|(_, thread)| thread)
            .take(HOTTEST)
            .collect()
    }

    fn report(&mut self, excess: &Excess) -> Result<(), i32> {
        (self.shared.refresh)();
        let (kind, class, line) = describe(excess);
        let (first, others) = match excess {
            Excess::Cpu { .. } => {
                let hottest = self.hottest();
                let first = hottest.first().copied().unwrap_or(self.watched);
                (first, hottest)
            }
            _ => (self.watched, Vec::new()),
        };
        let buffers = &mut self.buffers;
        let mut recording = Recording::begin(&self.folder, &self.facts, kind, buffers)?
            .with_names(self.shared.names);
        recording.event(
            buffers,
            &EventView {
                kind,
                reason: Some(line.as_str()),
                class,
                ..EventView::default()
            },
        );
        let gauge = ThreadGauge::open(first.tid());
        let mut cost = CaptureView::default();
        let mut name = [0; 32];
        let length = first.name(&mut name);
        let name = name
            .get(..length)
            .and_then(|name| std::str::from_utf8(name).ok());
        let view = ThreadView {
            id: first.id(),
            name: name.filter(|name| !name.is_empty()),
            main: first == self.watched,
            state: state(&gauge),
            cpu: Some(Duration::from_nanos(gauge.cpu())),
            ..ThreadView::default()
        };
        {
            let mut images = ImageTable::enter();
            let mut renewals = Renewals::new();
            let renew = || renewals.renew();
            match self.capturer.capture_renewing(first, &mut images, renew) {
                Ok(captured) => {
                    cost.stopped = Some(Duration::from_nanos(captured.stopped));
                    cost.unwind = Some(Duration::from_nanos(captured.unwind));
                    cost.bytes = Some(captured.bytes);
                    cost.cut = captured.cut.then_some("limit");
                    recording.thread(buffers, &images, &view, &captured);
                }
                Err(_) => {
                    let (state, end) = (Some("unresponsive"), Some(WalkEnd::Unreadable));
                    cost.unanswered = Some(1);
                    let view = ThreadView { state, end, ..view };
                    recording.write(buffers, |writer| writer.thread(&view));
                }
            }
            recording.main_image(buffers, &images);
            super::vitals_and_context(&mut recording, buffers);
            let wanted = |thread| others.contains(&thread) && thread != first;
            let capturer = &mut self.capturer;
            self.threads.write_some(
                &mut recording,
                buffers,
                capturer,
                &mut images,
                &mut renewals,
                wanted,
            );
        }
        if kind != EventKind::Memory {
            self.samples.clear();
            for taken in 0..SAMPLES {
                if crash::in_progress() {
                    break;
                }
                let images = ImageTable::enter();
                let at = taken * APART.as_nanos() as u64;
                let state = state(&gauge);
                let quiet = self.capturer.capture_blocked(first, &images);
                if let Some(captured) = quiet {
                    self.samples
                        .add(at, state, captured.frames, captured.omitted, captured.end);
                } else if let Ok(captured) = self.capturer.capture(first, &images) {
                    self.samples
                        .add(at, state, captured.frames, captured.omitted, captured.end);
                }
                while let Some(section) = self.samples.next_section(taken + 1 == SAMPLES) {
                    recording.sample(buffers, &images, &section);
                }
                drop(images);
                std::thread::sleep(APART);
            }
            cost.samples = Some(self.samples.taken());
        }
        recording.cost(buffers, &cost);
        if let Excess::Frames { lasted, .. } = excess {
            recording.write(buffers, |writer| {
                writer.stall_end(&StallEndView {
                    duration: Duration::from_nanos(*lasted),
                    how: "reported",
                    ..StallEndView::default()
                })
            });
        }
        super::loss(&mut recording, buffers);
        let bytes = recording.length();
        let name = recording.finish(&self.folder, buffers)?;
        self.shared.finished(name, bytes);
        Ok(())
    }
}

impl LoadWatcher for LoadRecorder {
    fn gauge(&mut self) -> Gauge {
        let ours = self.watchdog.map_or(0, clock::thread_cpu);
        let own = clock::thread_cpu(Thread::current().tid());
        Gauge {
            now: clock::monotonic(),
            process: clock::process_cpu()
                .saturating_sub(ours)
                .saturating_sub(own),
            watched: clock::thread_cpu(self.watched.tid()),
            frames: FRAMES.count(),
            footprint: GAUGES.footprint(),
            limit: self.limit,
        }
    }

    fn excess(&mut self, excess: &Excess) {
        if crash::in_progress() {
            return;
        }
        let key = match excess {
            Excess::Cpu { .. } => 1,
            Excess::Memory { .. } => 2,
            Excess::Frames { .. } => 3,
        };
        let passes = self.shared.limiter().passes(clock::monotonic(), Some(key));
        match passes {
            // A folder that takes no report now may take the next one.
            Ok(()) => drop(self.report(excess)),
            Err(loss) => LOSSES.count(loss),
        }
    }
}

/// A number with one decimal. How `f64` is written takes some 20 KB of code.
struct Tenths(u64);

impl fmt::Display for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

fn describe(excess: &Excess) -> (EventKind, Option<&'static str>, Line) {
    let mut line = Line::default();
    let percent = |share: f64| (share * 100.0).round() as u64;
    let tenths = |value: f64| Tenths((value * 10.0).round() as u64);
    let seconds = |nanoseconds: u64| tenths(nanoseconds as f64 / 1e9);
    // A line has room for all of these.
    let (kind, class, _) = match *excess {
        Excess::Cpu { share, over } => {
            let (share, over) = (percent(share), seconds(over));
            let written = write!(line, "{share} % of a core over {over} s");
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
            (EventKind::Stall, Some("slow_frames"), written)
        }
    };
    (kind, class, line)
}

fn state(gauge: &ThreadGauge) -> Option<&'static str> {
    gauge.state().map(|letter| match letter {
        b'R' => "running",
        b'D' => "uninterruptible",
        b'T' | b't' => "stopped",
        _ => "blocked",
    })
}
