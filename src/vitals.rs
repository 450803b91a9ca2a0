//! Gauges that stand in every report: CPU, memory, frame rate, launch, power, time since start.

mod told;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use told::{FRAMES, LAUNCHED};

use crate::platform::Power;
use crate::platform::clock;
use crate::platform::vitals::{self, VitalsFiles};
use crate::report::{CpuView, MemoryView, VitalsView};

/// The gauges of the process. One for all, as there is one process.
#[derive(Debug)]
pub(crate) struct Gauges {
    files: VitalsFiles,
    cores: AtomicU64,
    /// The watchdog's thread; 0 before it runs.
    watchdog: AtomicU64,
    last: LastRead,
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

/// Counters read at the last mark; shares are taken over the time since.
#[derive(Debug)]
struct LastRead {
    time: AtomicU64,
    process: AtomicU64,
    watchdog: AtomicU64,
    busy: AtomicU64,
    idle: AtomicU64,
}

pub(crate) static GAUGES: Gauges = Gauges::new();

impl Gauges {
    const fn new() -> Gauges {
        Gauges {
            files: VitalsFiles::new(),
            cores: AtomicU64::new(0),
            watchdog: AtomicU64::new(0),
            last: LastRead {
                time: AtomicU64::new(0),
                process: AtomicU64::new(0),
                watchdog: AtomicU64::new(0),
                busy: AtomicU64::new(0),
                idle: AtomicU64::new(0),
            },
            power: PowerCache {
                at: AtomicU64::new(0),
                packed: AtomicU64::new(0),
            },
        }
    }

    /// Bytes of memory that are the process' own. Signal-safe.
    pub fn footprint(&self) -> u64 {
        self.files.memory().footprint.unwrap_or(0)
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

    /// Opens what is read later, and takes the first mark. Not signal-safe.
    pub fn install(&self) {
        self.files.open();
        self.cores
            .store(vitals::cores().unwrap_or(0), Ordering::Relaxed);
        self.mark();
    }

    /// Sets which thread is the watchdog's, so that its CPU is shown apart. Signal-safe.
    pub fn set_watchdog(&self, thread: u64) {
        self.watchdog.store(thread, Ordering::Relaxed);
    }

    /// CPU shares count from here. Signal-safe.
    pub fn mark(&self) {
        let (busy, idle) = self.files.device_ticks().unwrap_or((0, 0));
        let last = &self.last;
        for (mark, now) in [
            (&last.process, clock::process_cpu()),
            (&last.watchdog, self.watchdog_cpu()),
            (&last.busy, busy),
            (&last.idle, idle),
            (&last.time, clock::monotonic()),
        ] {
            mark.store(now, Ordering::Relaxed);
        }
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
        let since = |now: u64, then: &AtomicU64| now.saturating_sub(then.load(Ordering::Relaxed));
        let elapsed = since(clock::monotonic(), &self.last.time);
        let share = |used: u64| (elapsed > 0).then(|| used as f64 / elapsed as f64);
        let watchdog = since(self.watchdog_cpu(), &self.last.watchdog);
        let process = since(clock::process_cpu(), &self.last.process).saturating_sub(watchdog);
        let cores = Some(self.cores.load(Ordering::Relaxed)).filter(|&cores| cores > 0);
        let device = self.files.device_ticks().and_then(|(busy, idle)| {
            let (busy, idle) = (since(busy, &self.last.busy), since(idle, &self.last.idle));
            let all = busy.saturating_add(idle);
            (all > 0).then(|| busy as f64 / all as f64 * cores.unwrap_or(1) as f64)
        });
        let power = Power::unpack(self.power.packed.load(Ordering::Relaxed));
        let watched = self.watchdog.load(Ordering::Relaxed) != 0;
        let cpu = CpuView {
            process: share(process),
            watchdog: share(watchdog).filter(|_| watched),
            device,
            cores,
        };
        let memory = MemoryView {
            resident: memory.resident,
            footprint: memory.footprint,
            peak: memory.peak,
            device_total: memory.device_total,
            device_free: memory.device_free,
        };
        VitalsView {
            cpu: Some(cpu).filter(|cpu| *cpu != CpuView::default()),
            memory: Some(memory).filter(|memory| *memory != MemoryView::default()),
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
        static OWN: Gauges = Gauges::new();
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
}
