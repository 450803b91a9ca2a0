//! Gauges that stand in every report: CPU, memory, frame rate, launch, power, time since start.
// Signal-safe: nothing here can panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod app_gauges;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use app_gauges::{FRAMES, LAUNCHED};

use crate::platform::Power;
use crate::platform::clock;
use crate::platform::vitals::{self, VitalsFiles};
use crate::report::{CpuView, MemoryUseView, VitalsView};

/// The gauges of the process. One for all, as there is one process.
#[derive(Debug)]
pub(crate) struct Vitals {
    files: VitalsFiles,
    cores: AtomicU64,
    /// The watchdog's thread; 0 before it runs.
    watchdog: AtomicU64,
    samples: [CpuSample; 3],
    /// True while a thread takes a sample.
    is_sampling: AtomicBool,
    power: PowerCache,
}

/// Battery, heat and low-power mode, as they were when last read: reading them may take long, and is
/// not for a handler.
#[derive(Debug)]
struct PowerCache {
    /// Time of the last look, on the monotonic clock; 0 before the first one.
    at: AtomicU64,
    packed: AtomicU64,
}

/// They are read at most so often, nanoseconds.
const POWER_PERIOD: u64 = 30_000_000_000;

/// Counters at one moment, since which shares are taken: CPU of process and watchdog, busy and idle ticks, the time.
#[derive(Debug)]
struct CpuSample([AtomicU64; 5]);

impl CpuSample {
    fn time(&self) -> u64 {
        self.0[4].load(Ordering::Acquire)
    }

    fn set(&self, now: [u64; 5]) {
        // The time comes last.
        for (slot, now) in self.0.iter().zip(now) {
            slot.store(now, Ordering::Release);
        }
    }

    fn since(&self, mut now: [u64; 5]) -> [u64; 5] {
        for (now, then) in now.iter_mut().zip(&self.0) {
            *now = now.saturating_sub(then.load(Ordering::Relaxed));
        }
        now
    }
}

/// CPU samples are at least so far apart, and one that is younger than the other says too little, nanoseconds.
const SAMPLE_PERIOD: u64 = 5_000_000_000;
const MIN_AGE: u64 = 100_000_000;

pub(crate) static VITALS: Vitals = Vitals::new();

impl Vitals {
    const fn new() -> Vitals {
        Vitals {
            files: VitalsFiles::new(),
            cores: AtomicU64::new(0),
            watchdog: AtomicU64::new(0),
            samples: [const { CpuSample([const { AtomicU64::new(0) }; 5]) }; 3],
            is_sampling: AtomicBool::new(false),
            power: PowerCache {
                at: AtomicU64::new(0),
                packed: AtomicU64::new(0),
            },
        }
    }

    /// Memory of process and machine. Signal-safe.
    pub fn memory(&self) -> vitals::MemoryUse {
        self.files.memory()
    }

    /// Reads battery, heat and low-power mode, if that was long ago. Not signal-safe.
    pub fn refresh_power(&self) {
        let now = clock::monotonic();
        let at = self.power.at.load(Ordering::Relaxed);
        if at == 0 || now.saturating_sub(at) >= POWER_PERIOD {
            self.power.at.store(now.max(1), Ordering::Relaxed);
            let power = Power::read().pack();
            self.power.packed.store(power, Ordering::Relaxed);
        }
    }

    /// Opens what is read later, and takes the first sample. Not signal-safe.
    pub fn install(&self) {
        self.files.open();
        self.cores
            .store(vitals::cores().unwrap_or(0), Ordering::Relaxed);
        let now = self.counters();
        self.samples.iter().for_each(|sample| sample.set(now));
    }

    /// Sets which thread is the watchdog's, so that its CPU is shown apart. Signal-safe.
    pub fn set_watchdog(&self, thread: u64) {
        self.watchdog.store(thread, Ordering::Relaxed);
    }

    /// Takes a sample if the last one is old enough. The threads that watch call it while the app is at work.
    pub fn sample_cpu(&self) {
        let samples = || self.samples.iter();
        let last = samples().map(CpuSample::time).max().unwrap_or(0);
        let is_due = clock::monotonic().saturating_sub(last) >= SAMPLE_PERIOD;
        if is_due && !self.is_sampling.swap(true, Ordering::AcqRel) {
            // No reader takes the oldest: the one in the middle is old enough.
            if let Some(oldest) = samples().min_by_key(|sample| sample.time()) {
                oldest.set(self.counters());
            }
            self.is_sampling.store(false, Ordering::Release);
        }
    }

    /// As in a [`CpuSample`]. Signal-safe.
    fn counters(&self) -> [u64; 5] {
        let (busy, idle) = self.files.device_ticks().unwrap_or((0, 0));
        let (process, watchdog) = (clock::process_cpu(), self.watchdog_cpu());
        [process, watchdog, busy, idle, clock::monotonic()]
    }

    fn watchdog_cpu(&self) -> u64 {
        match self.watchdog.load(Ordering::Relaxed) {
            0 => 0,
            thread => clock::thread_cpu(thread as i32),
        }
    }

    /// Current gauges. Signal-safe.
    pub fn read(&self) -> VitalsView<'static> {
        let memory = self.files.memory();
        let now = self.counters();
        let is_old = |sample: &&CpuSample| now[4].saturating_sub(sample.time()) >= MIN_AGE;
        let last = (self.samples.iter().filter(is_old)).max_by_key(|sample| sample.time());
        let [process, watchdog, busy, idle, elapsed] = last.unwrap_or(&self.samples[0]).since(now);
        let share = |used: u64| (elapsed > 0).then(|| used as f64 / elapsed as f64);
        let cores = Some(self.cores.load(Ordering::Relaxed)).filter(|&cores| cores > 0);
        let all = busy.saturating_add(idle);
        let device = busy as f64 / all as f64 * cores.unwrap_or(1) as f64;
        let power = Power::unpack(self.power.packed.load(Ordering::Relaxed));
        let watched = self.watchdog.load(Ordering::Relaxed) != 0;
        let cpu = CpuView {
            process: share(process.saturating_sub(watchdog)),
            watchdog: share(watchdog).filter(|_| watched),
            device: (all > 0).then_some(device),
            cores,
        };
        let memory = MemoryUseView {
            resident: memory.resident,
            footprint: memory.footprint,
            peak: memory.peak,
            device_total: memory.device_total,
            device_free: memory.device_free,
        };
        VitalsView {
            cpu: Some(cpu).filter(|cpu| *cpu != CpuView::default()),
            memory: Some(memory).filter(|memory| *memory != MemoryUseView::default()),
            frame_rate: FRAMES.rate(clock::monotonic()),
            uptime: vitals::uptime().map(Duration::from_nanos),
            launch_time: LAUNCHED.time().map(Duration::from_nanos),
            launch_kind: LAUNCHED.kind(),
            battery: power.battery,
            thermal: power.thermal,
            low_power: power.low_power,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_core_counts_as_one() {
        static OWN: Vitals = Vitals::new();
        OWN.install();
        let begin = clock::monotonic();
        let cpu = clock::process_cpu();
        while clock::monotonic() - begin < 100_000_000 {
            std::hint::spin_loop();
        }
        let read = OWN.read();
        // Other tests run beside this one and the machine may be loaded: hold it against the
        // process' own clock.
        let used = clock::process_cpu() - cpu;
        let share = read.cpu.unwrap().process.unwrap();
        assert!(
            share > 0.0 && share <= used as f64 / 100_000_000.0 * 1.05,
            "{share} {used}"
        );
        assert!(read.uptime.is_some() && read.cpu.unwrap().cores.unwrap() >= 1);
    }

    /// The share is of the last seconds, and not of hours in which the app was idle.
    #[test]
    fn an_app_that_was_idle_for_long_is_seen_at_work() {
        static OWN: Vitals = Vitals::new();
        OWN.install();
        std::thread::sleep(Duration::from_nanos(SAMPLE_PERIOD));
        OWN.sample_cpu();
        let (begin, cpu) = (clock::monotonic(), clock::process_cpu());
        while clock::monotonic() - begin < 200_000_000 {
            std::hint::spin_loop();
        }
        let used = clock::process_cpu() - cpu;
        let share = OWN.read().cpu.unwrap().process.unwrap();
        let elapsed = clock::monotonic() - begin;
        assert!(share > used as f64 / elapsed as f64 / 2.0, "{share} {used}");
    }
}
