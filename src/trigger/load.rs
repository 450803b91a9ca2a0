//! Too much load: CPU of the process, memory, and the frame rate together with the watched thread's
//! CPU. Pure: its driver hands in one [`LoadObservation`] after another.

use std::collections::VecDeque;
use std::time::Duration;

use crate::report::time::nanos;

settings! {
    /// Reports when the process uses much CPU for long.
    ///
    /// ```
    /// use std::time::Duration;
    /// use wedjat::load::CpuLoad;
    /// let cpu = CpuLoad::default().share(1.5).over(Duration::from_secs(30)); // one core and a half
    /// ```
    pub struct CpuLoad {
        /// Sets the share of one core (0.8 by default); 2.0 is two cores.
        pub(crate) share: f64 = 0.8;
        /// Sets the time over which the average is taken (60 s by default); at least 100 ms.
        pub(crate) over: Duration = Duration::from_secs(60), over: Duration => over.max(Duration::from_millis(100));
    }
}

settings! {
    /// Reports when the process' footprint is large: again only once it has shrunk by a tenth, or has
    /// grown by a quarter.
    ///
    /// ```
    /// use wedjat::load::MemoryLoad;
    /// let memory = MemoryLoad::default().bytes(500 << 20);
    /// let share = MemoryLoad::default().share(0.7); // of what the process may have
    /// ```
    pub struct MemoryLoad {
        /// Sets the footprint above which a report is written, bytes (none by default).
        pub(crate) bytes: Option<u64> = None, bytes: u64 => Some(bytes);
        /// Sets the share of what the process may have above which a report is written (0.8 by default). What it may
        /// have is the limit of its control group, else the machine's memory. Once `bytes` is set, the share does not count.
        pub(crate) share: f64 = 0.8;
    }
}

settings! {
    /// Reports when the frame rate (of `Monitor::frame`) stays low while the watched thread is busy. An
    /// app that draws nothing because nothing happens is not reported.
    ///
    /// ```
    /// use std::time::Duration;
    /// use wedjat::load::SlowFrames;
    /// let frames = SlowFrames::default().below(50.0).lasting(Duration::from_secs(2)).cpu(0.5);
    /// ```
    pub struct SlowFrames {
        /// Sets the frame rate below which frames are slow, frames a second (30 by default).
        pub(crate) below: f64 = 30.0;
        /// Sets how long it must last (5 s by default); at least 200 ms.
        pub(crate) lasting: Duration = Duration::from_secs(5), time: Duration => time.max(Duration::from_millis(200));
        /// Sets the share of a core that the watched thread must use meanwhile (0.6 by default).
        pub(crate) cpu: f64 = 0.6;
    }
}

/// The load triggers that are set.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Loads {
    /// CPU of the process.
    pub cpu: Option<CpuLoad>,
    /// Its memory.
    pub memory: Option<MemoryLoad>,
    /// Frame rate and the watched thread's CPU.
    pub frames: Option<SlowFrames>,
}

impl Loads {
    /// Returns true if any trigger is set.
    pub fn has_trigger(&self) -> bool {
        *self != Loads::default()
    }
}

/// Gauges read at one moment. Times are nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadObservation {
    /// Monotonic clock.
    pub now: u64,
    /// CPU time of the process, without ours.
    pub process: u64,
    /// CPU time of the watched thread.
    pub watched: u64,
    /// Frames since the beginning.
    pub frames: u64,
    /// Bytes of memory that are the process' own.
    pub footprint: u64,
    /// Most bytes of memory that the process may have; 0 if unknown.
    pub limit: u64,
}

/// A load that was too much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Excess {
    /// CPU of the process: share of a core, over so many nanoseconds.
    Cpu {
        /// Share of a core.
        share: f64,
        /// Nanoseconds.
        time: u64,
    },
    /// Memory: bytes, of so many that it may have.
    Memory {
        /// Bytes.
        footprint: u64,
        /// Bytes; 0 where unknown.
        limit: u64,
    },
    /// Frames a second, for so many nanoseconds, with the watched thread at this share of a core.
    Frames {
        /// Frames a second.
        rate: f64,
        /// Nanoseconds.
        lasted: u64,
        /// Share of a core.
        cpu: f64,
    },
}

/// The frame rate is taken so many times in the time that slow frames must last.
const RATES: u64 = 5;

/// Looks for too much load. See the module's text.
#[derive(Debug)]
pub struct LoadDetector {
    loads: Loads,
    period: u64,
    /// Observations within the CPU trigger's time, oldest first.
    past: VecDeque<LoadObservation>,
    /// Observation at which the frame rate was last taken.
    rated: LoadObservation,
    /// Observation at which the frame rate became low; `None` while it is not.
    slow: Option<LoadObservation>,
    /// True once the present slowness was reported.
    reported: bool,
    /// The footprint that was reported last.
    large: Option<u64>,
}

impl LoadDetector {
    /// Begins at `gauge`.
    pub fn new(loads: Loads, gauge: LoadObservation) -> LoadDetector {
        let second = 1_000_000_000;
        let cpu = loads.cpu.map(|cpu| nanos(cpu.over) / 12);
        let frames = loads.frames.map(|frames| nanos(frames.lasting) / RATES);
        let memory = loads.memory.map(|_| second);
        let period = [cpu, frames, memory].into_iter().flatten().min();
        LoadDetector {
            loads,
            period: period.unwrap_or(second).clamp(second / 100, 10 * second),
            past: VecDeque::from([gauge]),
            rated: gauge,
            slow: None,
            reported: false,
            large: None,
        }
    }

    /// Time between observations, nanoseconds.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// Takes one observation, and gives what is too much.
    pub fn observe(&mut self, gauge: &LoadObservation) -> [Option<Excess>; 3] {
        [self.cpu(gauge), self.memory(gauge), self.frames(gauge)]
    }

    fn cpu(&mut self, gauge: &LoadObservation) -> Option<Excess> {
        let wanted = self.loads.cpu?;
        let period = wanted.over.as_nanos() as u64;
        self.past.push_back(*gauge);
        // The oldest that is old enough.
        while self
            .past
            .get(1)
            .is_some_and(|second| gauge.now.saturating_sub(second.now) >= period)
        {
            self.past.pop_front();
        }
        let first = *self.past.front()?;
        let time = gauge.now.saturating_sub(first.now);
        let share = share(gauge.process.saturating_sub(first.process), time);
        if time < period || share <= wanted.share {
            return None;
        }
        // The next one takes a time of its own.
        self.past.clear();
        self.past.push_back(*gauge);
        Some(Excess::Cpu { share, time })
    }

    fn memory(&mut self, gauge: &LoadObservation) -> Option<Excess> {
        let wanted = self.loads.memory?;
        let of_limit = (gauge.limit > 0).then_some((gauge.limit as f64 * wanted.share) as u64);
        let size = [wanted.bytes, of_limit.filter(|_| wanted.bytes.is_none())];
        let size = size.into_iter().flatten().min()?;
        if gauge.footprint < size - size / 10 {
            self.large = None;
        }
        let grown = self
            .large
            .is_none_or(|reported| gauge.footprint >= reported + reported / 4);
        if gauge.footprint <= size || !grown {
            return None;
        }
        self.large = Some(gauge.footprint);
        Some(Excess::Memory {
            footprint: gauge.footprint,
            limit: gauge.limit,
        })
    }

    fn frames(&mut self, gauge: &LoadObservation) -> Option<Excess> {
        let wanted = self.loads.frames?;
        let time = gauge.now.saturating_sub(self.rated.now);
        // Observations may be closer than frames.
        if time < nanos(wanted.lasting) / RATES {
            return None;
        }
        let last = std::mem::replace(&mut self.rated, *gauge);
        let rate = rate(gauge.frames.saturating_sub(last.frames), time);
        let cpu = share(gauge.watched.saturating_sub(last.watched), time);
        // An app that has never drawn a frame does not report them.
        if gauge.frames == 0 || rate >= wanted.below || cpu <= wanted.cpu {
            self.slow = None;
            self.reported = false;
            return None;
        }
        let since = *self.slow.get_or_insert(last);
        let lasted = gauge.now.saturating_sub(since.now);
        if self.reported || lasted < wanted.lasting.as_nanos() as u64 {
            return None;
        }
        self.reported = true;
        Some(Excess::Frames {
            rate: self::rate(gauge.frames.saturating_sub(since.frames), lasted),
            lasted,
            cpu: share(gauge.watched.saturating_sub(since.watched), lasted),
        })
    }
}

fn share(used: u64, time: u64) -> f64 {
    if time == 0 {
        0.0
    } else {
        used as f64 / time as f64
    }
}

fn rate(count: u64, time: u64) -> f64 {
    share(count, time) * 1e9
}

#[cfg(test)]
mod tests;
