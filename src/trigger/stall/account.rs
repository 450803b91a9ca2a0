//! Counts the time of an episode, and classifies it.

use std::time::Duration;

use super::detector::Detector;
use super::episode::{CpuShare, Episode};
use super::observation::{Held, Observation, Reason, StallInfo};
use crate::report::StallClass;
use crate::trigger::heartbeat::Beat;

/// The clocks of an observation are read within so much time, nanoseconds; a sleep is longer.
const MAX_CLOCK_GAP: u64 = 10_000_000;

/// True where a thread runs in order to stop. Apple's kernel suspends it as it is.
const SHOWS_STOPS: bool = cfg!(target_os = "linux");

/// The process was stopped, if for this part of the time by which the watchdog is late, one in so many, both threads neither
/// worked nor waited for a CPU. Below it, something else may have kept the watchdog, as a page that was read.
const STOPPED_PARTS: u64 = 4;

/// The growth of a count between two observations; 0 if one of them has not read it.
fn growth(now: Option<u64>, then: Option<u64>) -> u64 {
    now.zip(then)
        .map_or(0, |(now, then)| now.saturating_sub(then))
}

impl Detector {
    /// Estimates the thread's use of the time between two turns, one of which was seen by the last observation and the
    /// other by this.
    pub(super) fn estimate_use(&self, observation: &Observation, interval: u64) -> CpuShare {
        let delay = growth(observation.delay, self.last.delay);
        let used = observation
            .cpu
            .saturating_sub(self.last.cpu)
            .saturating_add(delay);
        if used < interval / 50 {
            CpuShare::Nothing
        } else if used < interval - interval / 10 {
            CpuShare::Part
        } else {
            CpuShare::All
        }
    }

    /// Returns true if so much passed since this observation was due that it may hide a rest, or a stop of the process.
    pub(super) fn is_late(&self, observation: &Observation, now: u64) -> bool {
        now.saturating_sub(observation.due) > self.timeout / 2
    }

    /// Adds the time since the last observation to the episode, or to the reasons why it is not counted.
    pub(super) fn count(
        &self,
        episode: &mut Episode,
        observation: &Observation,
        now: u64,
        interval: u64,
        same: bool,
    ) {
        let used = observation.cpu.saturating_sub(self.last.cpu);
        let delay = growth(observation.delay, self.last.delay);
        // A stop makes each thread run, if only to stop.
        let stood = SHOWS_STOPS && same && observation.sleeps == Some(true) && used == 0;
        // The two clocks are read one after the other.
        let slept = observation.boot.saturating_sub(self.last.boot);
        let slept = slept.saturating_sub((now - self.last.now).saturating_add(MAX_CLOCK_GAP));
        let stopped = if observation.traced {
            Reason::Debugger
        } else {
            Reason::Background
        };
        let (lost, reason) = if observation.held == Held::Stopped {
            (interval, stopped)
        } else if self.is_late(observation, now) && !stood {
            let late = now.saturating_sub(observation.due).min(interval);
            let waited = observation.lag.min(late);
            if same {
                // Only the watchdog was late: a beat that stood still all the time is a freeze even so. The process was
                // stopped for as long as neither it waited for a CPU nor the thread worked or did.
                let worked = used.saturating_sub(interval - late);
                let active = used.saturating_add(delay).saturating_sub(interval - late);
                let at_rest = late.saturating_sub(waited.max(active));
                let is_stop = at_rest >= self.timeout / 2 && at_rest >= late / STOPPED_PARTS;
                // A stop wakes each thread, which then waits for a CPU in order to stop, and again to continue.
                let lost = if is_stop {
                    late.saturating_sub(worked)
                } else {
                    at_rest
                };
                (lost, stopped)
            } else if waited >= late / 2 {
                // It is unknown for how long the beat stood still.
                (late, Reason::Late)
            } else {
                (late, stopped)
            }
        } else {
            (0, Reason::Late)
        };
        episode.counted = episode.counted.saturating_add(interval - lost);
        if observation.sleeps.or(self.last.sleeps) != Some(false) {
            episode.slept += (interval - lost).saturating_sub(used.saturating_add(delay));
        }
        episode.add(reason, lost);
        // The monotonic clock has left the machine's sleep out already.
        episode.add(Reason::Sleep, slept);
    }

    pub(super) fn info(&self, episode: &Episode, observation: &Observation, now: u64) -> StallInfo {
        let start = episode.begun_by;
        // The monotonic clock leaves the machine's sleep out by itself; and if only the watchdog was
        // late, the thread's time went on.
        let lost: u64 = [Reason::Debugger, Reason::Background]
            .iter()
            .map(|&reason| episode.not_counted[reason as usize])
            .sum();
        let lasted = now.saturating_sub(start).saturating_sub(lost);
        let guessed = [Reason::Background, Reason::Late].map(|at| episode.not_counted[at as usize]);
        // The thread is idle again at the end, and its clocks are not read any more.
        let cpu = observation
            .cpu
            .max(self.last.cpu)
            .saturating_sub(episode.cpu);
        let delay = growth(observation.delay.or(self.last.delay), episode.delay);
        // The kernel counts a wait for a CPU when it is over.
        let waited = lasted
            .saturating_sub(cpu.saturating_add(episode.slept))
            .max(delay);
        let class = if episode.launch {
            StallClass::Launch
        } else if cpu >= lasted / 2 || cpu > waited && cpu >= lasted / 3 {
            StallClass::Busy
        } else if waited >= lasted / 2 || waited > cpu && cpu + waited >= lasted / 2 {
            StallClass::Starved
        } else {
            StallClass::Blocked
        };
        StallInfo {
            // The watchdog knows it.
            thread: 0,
            start: Duration::from_nanos(start),
            lasted: Duration::from_nanos(lasted),
            // A pinged thread may have begun to work before its ping.
            at_least: episode.well_at < start || guessed != [0, 0] || observation.pinged.is_some(),
            class,
            turns: episode.turns,
            never_beat: observation.beat == Beat::NONE,
            cpu: Duration::from_nanos(cpu),
            delay: Duration::from_nanos(delay),
            timeout: Duration::from_nanos(self.timeout),
            strikes: self.strikes,
        }
    }
}
